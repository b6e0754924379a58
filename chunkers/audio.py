"""`FrameChunker` and `SilenceChunker`: sound in bytes, cut at a fixed duration or at pauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import inf
from typing import Any, Self

from streamval.chunkers.base import not_sound
from streamval.errors import UsageError
from streamval.types.audio import PCM, AudioChunk

_VAD_RATES = (8000, 16000, 32000, 48000)
_VAD_FRAME = 0.03


class AudioChunker(ABC):
    """The base class of the chunkers of sound: it keeps the pending bytes.

    The chunks do not depend on how the bytes are sliced, even inside a sample. Each chunk
    is verbatim, and all chunks joined are the sound.
    """

    audio = True

    def __init__(self, pcm: PCM) -> None:
        self.pcm = pcm
        self._pending = bytearray()
        self._start = 0
        self._index = 0

    @abstractmethod
    def cuts(self) -> Iterator[int]:
        """Yield the size of each complete chunk at the start of the pending bytes. Called for each delta."""

    def feed(self, delta: bytes) -> list[AudioChunk]:
        """Take the next bytes; return the chunks that they complete.

        Raises:
            DeltaTypeError: If `delta` is not bytes.
        """
        if not isinstance(delta, (bytes, bytearray, memoryview)):
            raise not_sound(delta)
        self._pending += delta
        return [self._cut(size) for size in self.cuts()]

    def flush(self) -> list[AudioChunk]:
        """Return the rest. More may be fed afterwards."""
        return [self._cut(len(self._pending))] if self._pending else []

    def _cut(self, size: int) -> AudioChunk:
        sound = bytes(self._pending[:size])
        chunk = AudioChunk(sound, self._index, self._start, self._start + size)
        del self._pending[:size]
        self._start += size
        self._index += 1
        return chunk

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._pending = bytearray(self._pending)
        return twin


class FrameChunker(AudioChunker):
    """Cuts sound at a fixed duration.

    Args:
        seconds: How long a chunk is; the last one may be shorter.
        sample_rate: Samples a second and channel.
        width: Bytes a sample.
        channels: How many.

    Raises:
        UsageError: If an argument cannot work.

    Example:
        >>> chunker = FrameChunker(0.5, sample_rate=8000)
        >>> [len(chunk.text) for chunk in chunker.feed(bytes(20_001)) + chunker.flush()]
        [8000, 8000, 4001]
    """

    def __init__(
        self, seconds: float = 0.5, *, sample_rate: int = 16000, width: int = 2, channels: int = 1
    ) -> None:
        if not 0 < seconds < inf:
            raise UsageError(f"a chunk must be longer than 0 seconds and finite, not {seconds!r}")
        super().__init__(PCM(sample_rate, width, channels))
        self._size = self.pcm.size(seconds)

    def cuts(self) -> Iterator[int]:
        """Yield the fixed size while enough bytes are pending."""
        while len(self._pending) >= self._size:
            yield self._size


class SilenceChunker(AudioChunker):
    """Cuts sound at pauses in speech.

    A chunk ends where speech is followed by `pause` seconds of silence. Silence before speech
    belongs to the chunk that follows. WebRTC's voice activity detection tells speech from
    silence, in steps of 30 ms. Needs the extra ``streamval-llm[audio]``.

    Args:
        pause: Seconds of silence that end a chunk.
        aggressiveness: From 0 (classifies most sound as speech) to 3 (least).
        max_seconds: The longest chunk; a longer one is cut. `None` for no limit.
        sample_rate: 8,000, 16,000, 32,000 or 48,000.
        width: 2, the only width that the detector supports.
        channels: How many; speech is detected in the first.

    Raises:
        UsageError: If an argument cannot work, or the extra is not installed.
    """

    def __init__(
        self,
        pause: float = 0.3,
        *,
        aggressiveness: int = 2,
        max_seconds: float | None = None,
        sample_rate: int = 16000,
        width: int = 2,
        channels: int = 1,
    ) -> None:
        if sample_rate not in _VAD_RATES or width != 2:
            raise UsageError(
                f"voice detection needs {', '.join(map(str, _VAD_RATES))} samples per second of 2 "
                f"bytes, not {sample_rate} of {width}; resample, or use a FrameChunker"
            )
        if not 0 < pause < inf or not (max_seconds is None or 0 < max_seconds < inf):
            raise UsageError(
                f"pause and max_seconds must be above 0, not {pause!r} and {max_seconds!r}"
            )
        super().__init__(PCM(sample_rate, width, channels))
        self._aggressiveness = aggressiveness
        self._detector = _detector(aggressiveness)
        self._step = self.pcm.size(_VAD_FRAME)
        self._pause = max(round(pause / _VAD_FRAME), 1)
        self._max = None if max_seconds is None else self.pcm.size(max_seconds)
        self._heard = 0
        self._spoken = False
        self._silent = 0

    def cuts(self) -> Iterator[int]:
        """Yield the size of each chunk that ends with a pause after speech, or at `max_seconds`."""
        while len(self._pending) >= self._heard + self._step:
            step = bytes(self._pending[self._heard : self._heard + self._step])
            self._heard += self._step
            if self._detector.is_speech(self._first_channel(step), self.pcm.sample_rate):
                self._spoken, self._silent = True, 0
            else:
                self._silent += 1
            paused = self._spoken and self._silent >= self._pause
            if paused or (self._max is not None and self._heard + self._step > self._max):
                size, self._heard, self._silent, self._spoken = self._heard, 0, 0, False
                yield size

    def flush(self) -> list[AudioChunk]:
        """Return the rest. More may be fed afterwards."""
        self._heard, self._silent, self._spoken = 0, 0, False
        # The detector keeps state, which does not apply to the next sound.
        self._detector = _detector(self._aggressiveness)
        return super().flush()

    def __copy__(self) -> SilenceChunker:
        if self._start or self._pending:
            raise UsageError("cannot copy a SilenceChunker in use: its detector cannot be copied")
        twin: SilenceChunker = super().__copy__()
        twin._detector = _detector(self._aggressiveness)
        return twin

    def __deepcopy__(self, _: Any) -> AudioChunker:
        return self.__copy__()

    def _first_channel(self, sound: bytes) -> bytes:
        if self.pcm.channels == 1:
            return sound
        return self.pcm.samples(sound)[:: self.pcm.channels].tobytes()


def _detector(aggressiveness: int) -> Any:
    try:
        import webrtcvad  # an optional extra
    except ImportError:
        raise UsageError(
            "SilenceChunker needs an extra: pip install 'streamval-llm[audio]'"
        ) from None
    if aggressiveness not in range(4):
        raise UsageError(f"aggressiveness must be from 0 to 3, not {aggressiveness!r}")
    return webrtcvad.Vad(aggressiveness)
