"""Requirements of sound: each judges a segment when it comes."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.function import PASS
from streamval.types.audio import PCM
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamval.backends.base import Backend
    from streamval.types.context import Context

CLIPPED = 0.999
"""Part of full scale from which a sample counts as clipped."""


class Sound(Requirement):
    """Judges segments of sound by a rule. All verdicts are certain, so `hold` changes nothing.

    The whole is not judged again at its end, where all its segments have been.
    """

    judges = bytes

    def __init__(self, description: str, pcm: PCM, **options: Any) -> None:
        super().__init__(description, **options)
        self.pcm = pcm
        self._judged = False

    @abstractmethod
    def complaint(self, sound: bytes) -> str | None:
        """What is wrong with the next segment; `None` if nothing is."""

    def stream_validate(
        self,
        chunk: str | bytes,
        *,
        backend: Backend | None,
        ctx: Context | None,
    ) -> PartialValidationResult:
        """Listen to the segment."""
        del backend, ctx
        self._judged = True
        if not isinstance(chunk, bytes):
            message = f"{self.name!r} judges sound, and the pipeline is one of text"
            raise UsageError(message)
        complaint = self.complaint(chunk)
        return PASS if complaint is None else PartialValidationResult("fail", reason=complaint)

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """True where the segments have been judged; otherwise judges all of it as one."""
        del backend, format, model_options
        output = ctx.last_output()
        sound: Any = output.value if output is not None else b""
        if self._judged or not sound:
            return ValidationResult(True)
        complaint = copy(self).complaint(sound)
        return ValidationResult(complaint is None, reason=complaint)


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
            # A hair less, as many a twenty milliseconds do not add up to a whole number.
            if self._silent >= self._longest - 1e-6:
                return f"{self._silent:.2f} seconds of silence"
        return None


class _Level(Sound):
    def __init__(
        self, pcm: PCM, at_least: float | None, at_most: float | None, **options: Any
    ) -> None:
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", at_least), ("at most", at_most))
            if bound is not None
        ]
        super().__init__(f"a level of {' and '.join(bounds)} dBFS", pcm, **options)
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
    """Not so many samples in a row at full scale, which is how distorted sound looks.

    Args:
        pcm: How the sound is written; by default 16 kHz, 16 bits, mono.
        run: So many in a row fail, across segments as well. All channels are counted as one.
        **options: As for `Requirement`.

    Raises:
        UsageError: If `run` is below 1.

    Example:
        >>> no_clipping().description
        'the sound is not clipped'
    """
    if run < 1:
        message = f"run must be at least 1 sample, not {run}"
        raise UsageError(message)
    return _NoClipping(pcm or PCM(), run, **options)


def no_silence(
    seconds: float = 2.0, pcm: PCM | None = None, *, below: float = -50.0, **options: Any
) -> Requirement:
    """No silence of so many seconds, across segments as well.

    Args:
        seconds: So much fails.
        pcm: How the sound is written; by default 16 kHz, 16 bits, mono.
        below: Level under which it is silent, in dBFS.
        **options: As for `Requirement`.

    Raises:
        UsageError: If `seconds` is not above 0.

    Example:
        >>> no_silence(1.5).description
        'no silence of 1.5 seconds'
    """
    if seconds <= 0:
        message = f"seconds must be above 0, not {seconds!r}"
        raise UsageError(message)
    return _NoSilence(pcm or PCM(), seconds, below, **options)


def level(
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    pcm: PCM | None = None,
    **options: Any,
) -> Requirement:
    """The level of each segment (root mean square) is at least, and at most, so many dBFS.

    Args:
        at_least: In dBFS: 0 is the loudest, silence is minus infinity.
        at_most: Likewise.
        pcm: How the bytes are to be read; by default 16 bits, 16,000 samples a second, one channel.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Raises:
        UsageError: If no bound is given, or none can be met.

    Example:
        >>> level(at_least=-40).description
        'a level of at least -40 dBFS'
    """
    if at_least is None and at_most is None:
        message = "say how loud: at_least=, at_most= or both, in dBFS (0 is full scale)"
        raise UsageError(message)
    if at_least is not None and at_most is not None and at_least > at_most:
        message = f"no sound is at least {at_least} and at most {at_most} dBFS loud"
        raise UsageError(message)
    return _Level(pcm or PCM(), at_least, at_most, **options)
