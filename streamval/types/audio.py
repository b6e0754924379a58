"""Sound as bytes: the sample format of PCM, and chunks of sound."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from math import log10, sqrt
from operator import mul

from streamval.errors import UsageError
from streamval.types.chunks import Chunk

_CODES = {1: "B", 2: "h", 4: "i"}


@dataclass(frozen=True, slots=True)
class PCM:
    """A sample format: samples in little-endian order, channels interleaved.

    Attributes:
        sample_rate: Samples a second and channel.
        width: Bytes a sample: 1 (unsigned, as in WAV files), 2 or 4 (signed).
        channels: How many.

    Raises:
        UsageError: If an argument cannot work.

    Example:
        >>> PCM(sample_rate=8000).seconds(16000)
        1.0
    """

    sample_rate: int = 16000
    width: int = 2
    channels: int = 1

    def __post_init__(self) -> None:
        if self.width not in _CODES:
            raise UsageError(f"width must be 1, 2 or 4 bytes a sample, not {self.width!r}")
        if self.sample_rate < 1 or self.channels < 1:
            raise UsageError(
                f"sample_rate and channels must be at least 1, not {self.sample_rate!r} and "
                f"{self.channels!r}"
            )

    @property
    def frame(self) -> int:
        """Bytes of one sample of every channel."""
        return self.width * self.channels

    def seconds(self, size: int) -> float:
        """Return the duration of a number of bytes, in seconds."""
        return size / (self.sample_rate * self.frame)

    def size(self, seconds: float) -> int:
        """Return the number of bytes of a duration: a whole number of frames, at least one."""
        return max(round(seconds * self.sample_rate), 1) * self.frame

    def samples(self, sound: bytes) -> array[int]:
        """Return the samples, all channels interleaved, around 0. A sample cut short is left out.

        Example:
            >>> PCM().samples(b"\\x01\\x00\\xff\\xff\\x07")
            array('h', [1, -1])
        """
        samples = array(_CODES[self.width], sound[: len(sound) // self.width * self.width])
        if sys.byteorder == "big":
            samples.byteswap()
        if self.width == 1:
            return array("h", (sample - 128 for sample in samples))
        return samples

    @property
    def full_scale(self) -> int:
        """The largest value of a sample."""
        return int(2 ** (8 * self.width - 1)) - 1

    def level(self, sound: bytes) -> float:
        """Return the level (root mean square) in decibels below full scale (dBFS).

        The level of silence, and of no sound, is minus infinity.

        Example:
            >>> round(PCM().level(b"\\xff\\x3f" * 100))
            -6
        """
        samples = self.samples(sound)
        squares = sum(map(mul, samples, samples))
        if not squares:
            return float("-inf")
        return 20 * log10(sqrt(squares / len(samples)) / self.full_scale)


@dataclass(frozen=True)
class AudioChunk(Chunk):
    """A chunk of sound. `start` and `end` are offsets in bytes.

    Attributes:
        text: The bytes.
        separator: Always empty, as chunks of sound leave nothing out.
    """

    text: bytes  # type: ignore[assignment]
    separator: bytes = b""  # type: ignore[assignment]
