"""`judge`: what a requirement says about a text, chunk by chunk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

from streamval import bridge
from streamval.aio.blocking import wait_for
from streamval.backends.base import Backend
from streamval.chunkers.chunking import Chunking
from streamval.operators.chunk import chunk
from streamval.operators.validate import validate
from streamval.requirements.base import Requirement
from streamval.types.results import Failure, TriState, ValidationResult
from streamval.validation.release import ReleaseOrder


class Judged(NamedTuple):
    """What a requirement said about a text.

    Attributes:
        verdicts: Each chunk's text with the verdict on it, up to the first failure.
        whole: The verdict on the whole text; `None` after a failed chunk.
        delivered: The text that a consumer would have got.
        failures: What failed, and why.
    """

    verdicts: list[tuple[str, TriState]]
    whole: ValidationResult | None
    delivered: str
    failures: tuple[Failure, ...]

    @property
    def success(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def judge(
    requirement: Requirement | str,
    text: str,
    *,
    chunking: Chunking = "sentence",
    size: int = 4,
    backend: Backend | None = None,
) -> Judged:
    """Judge a text as a pipeline would while a model writes it.

    Args:
        requirement: A copy of it judges.
        text: What the model writes.
        chunking: How the text is cut.
        size: Characters of each delta.
        backend: The model that the requirement may ask.

    Returns:
        Its verdicts. It may be called inside a running loop, which then waits.

    Raises:
        Exception: What the requirement raises.

    Example:
        >>> from streamval import stream_check
        >>> calm = stream_check(lambda chunk: not chunk.endswith("!"), "stay calm")
        >>> judge(calm, "It rains. Help! It pours.").verdicts
        [('It rains.', 'pass'), ('Help!', 'fail')]
    """

    async def deltas() -> AsyncGenerator[str]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    async def judged() -> Judged:
        order, verdicts, delivered = ReleaseOrder(), [], []
        whole: ValidationResult | None = None
        failures: tuple[Failure, ...] = ()
        checks = bridge.from_async_iterable(deltas).pipe(
            chunk(chunking), validate([requirement], backend=backend, chunking=chunking)
        )
        async for check in bridge.iterate(checks):
            failures = check.failures
            delivered += [found.separator + found.text for found in order.check(check)]
            if check.chunk is not None:
                verdicts.append((check.chunk.text, check.success))
            elif isinstance(check.results[0], ValidationResult):
                whole = check.results[0]
        return Judged(verdicts, whole, "".join(delivered), failures)

    return wait_for(judged)
