"""Requirements for sound: each judges a segment when it arrives."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.requirements.limits import bounds
from streamval.types.audio import PCM
from streamval.types.results import PASS, PartialValidationResult

CLIPPED = 0.999
"""Part of full scale from which a sample counts as clipped."""


class Sound(ChunkRule):
    """Judges segments of sound. Every verdict is pass or fail, so `hold` has no effect."""

    judges = bytes

    def __init__(self, description: str, pcm: PCM, **options: Any) -> None:
        super().__init__(description, **options)
        self.pcm = pcm

    @abstractmethod
    def complaint(self, sound: bytes) -> str | None:
        """Return what is wrong with the next segment; `None` if nothing is."""

    def check(self, chunk: str | bytes) -> PartialValidationResult:
        """Judge the segment."""
        if not isinstance(chunk, bytes):
            raise UsageError(f"{self.name!r} judges sound, and the pipeline is one of text")
        complaint = self.complaint(chunk)
        return PASS if complaint is None else failed(complaint)


class _NoClipping(Sound):
    def __init__(self, pcm: PCM, run: int, **options: Any) -> None:
        super().__init__("the sound is not clipped", pcm, **options)
        self._longest = run
        self._run = 0

    def complaint(self, sound: bytes) -> str | None:
        limit = CLIPPED * self.pcm.full_scale
        run = self._run
        for sample in self.pcm.samples(sound):
            run = run + 1 if abs(sample) >= limit else 0
            if run >= self._longest:
                return f"{run} samples in a row are at full scale"
        self._run = run
        return None


class _NoSilence(Sound):
    def __init__(self, pcm: PCM, seconds: float, below: float, **options: Any) -> None:
        super().__init__(f"no silence of {seconds:g} seconds", pcm, **options)
        self._longest = seconds
        self._below = below
        self._silent = 0.0

    def complaint(self, sound: bytes) -> str | None:
        step = self.pcm.size(0.02)
        for start in range(0, len(sound), step):
            piece = sound[start : start + step]
            quiet = self.pcm.level(piece) < self._below
            self._silent = self._silent + self.pcm.seconds(len(piece)) if quiet else 0.0
            # A little less, because floats of 0.02 do not add up to a whole number.
            if self._silent >= self._longest - 1e-6:
                return f"{self._silent:.2f} seconds of silence"
        return None


class _Level(Sound):
    def __init__(
        self, pcm: PCM, at_least: float | None, at_most: float | None, **options: Any
    ) -> None:
        super().__init__(f"a level of {bounds(at_least, at_most)} dBFS", pcm, **options)
        self._at_least = float("-inf") if at_least is None else at_least
        self._at_most = 0.0 if at_most is None else at_most

    def complaint(self, sound: bytes) -> str | None:
        level = self.pcm.level(sound)
        if level < self._at_least:
            return f"its level is {level:.1f} dBFS, where at least {self._at_least:g} is wanted"
        if level > self._at_most:
            return f"its level is {level:.1f} dBFS, where at most {self._at_most:g} is wanted"
        return None


def no_clipping(pcm: PCM | None = None, *, run: int = 4, **options: Any) -> Requirement:
    """Forbid runs of samples at full scale, a sign of distortion.

    Args:
        pcm: The sample format; by default 16 kHz, 16 bits, mono.
        run: The shortest run that fails, across segments as well. All channels count as one.

    Raises:
        UsageError: If `run` is below 1.

    Example:
        >>> no_clipping().description
        'the sound is not clipped'
    """
    if run < 1:
        raise UsageError(f"run must be at least 1 sample, not {run}")
    return _NoClipping(pcm or PCM(), run, **options)


def no_silence(
    seconds: float = 2.0, pcm: PCM | None = None, *, below: float = -50.0, **options: Any
) -> Requirement:
    """Forbid long silence, across segments as well.

    Args:
        seconds: The shortest silence that fails.
        pcm: The sample format; by default 16 kHz, 16 bits, mono.
        below: Level under which sound counts as silent, in dBFS.

    Raises:
        UsageError: If `seconds` is not above 0.

    Example:
        >>> no_silence(1.5).description
        'no silence of 1.5 seconds'
    """
    if seconds <= 0:
        raise UsageError(f"seconds must be above 0, not {seconds!r}")
    return _NoSilence(pcm or PCM(), seconds, below, **options)


def level(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    pcm: PCM | None = None,
    **options: Any,
) -> Requirement:
    """Limit the level of each segment (root mean square).

    Args:
        at_least: In dBFS: 0 is the loudest, silence is minus infinity.
        at_most: In dBFS.
        pcm: The sample format; by default 16 kHz, 16 bits, mono.

    Raises:
        UsageError: If no limit is given, or no sound could be within both.

    Example:
        >>> level(at_least=-40).description
        'a level of at least -40 dBFS'
    """
    if at_least is None and at_most is None:
        raise UsageError("give at_least=, at_most= or both, in dBFS (0 is full scale)")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise UsageError(f"no sound is at least {at_least} and at most {at_most} dBFS loud")
    return _Level(pcm or PCM(), at_least, at_most, **options)
