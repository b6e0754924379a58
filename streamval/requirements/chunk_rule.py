"""Requirements that judge each chunk by a function of its text: `ChunkRule`, `stream_check`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, TypeAlias

from streamval.aio.tasks import in_thread
from streamval.backends.base import Backend
from streamval.chunkers.chunking import Chunking, start_chunker
from streamval.errors import UsageError, ValidatorError
from streamval.requirements.base import NEVER_PASSED, Requirement, whole_result
from streamval.types.context import Context
from streamval.types.results import FAIL, PASS, UNKNOWN, PartialValidationResult, ValidationResult

ChunkAnswer: TypeAlias = "bool | tuple[bool, str] | PartialValidationResult | None"
"""The result of a check of a chunk. `None` means unknown."""


class ChunkRule(Requirement, ABC):
    """A requirement whose verdict on an output is that of its chunks.

    Override `check`. An output is valid when no chunk failed. Override
    `check_whole` as well to judge the whole text; it is then called at the end of each stream. An
    output that was not streamed is cut into chunks, and each is checked.

    Example:
        >>> class NoQuestions(ChunkRule):
        ...     def check(self, chunk):
        ...         return not chunk.endswith("?"), "it asks a question"
        >>> NoQuestions().stream_validate("Why?", backend=None, ctx=None).reason
        'it asks a question'
    """

    _judged = False  # whether this copy has judged a chunk

    whole_chunking: Chunking = None
    """How an output that was not streamed is cut, where the requirement has no `chunking`. By default
    it is one chunk."""

    @abstractmethod
    def check(self, chunk: Any) -> ChunkAnswer | Awaitable[ChunkAnswer]:
        """Judge one chunk. Called in order, on the copy that judges this attempt.

        Args:
            chunk: Its text; bytes, for a requirement of sound.

        Returns:
            A bool, `None` for unknown, a bool and the reason of a failure, or a
            `PartialValidationResult`. `check` may be a coroutine function.
        """

    def check_whole(self, text: str) -> ChunkAnswer:
        """Judge the whole text, as a plain function. By default the chunks decide."""

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Judge one chunk, by `check`."""
        self._judged = True
        answer = self.check(chunk)
        if answer is True:  # the most common answer
            return PASS
        if type(answer) is PartialValidationResult:
            return answer
        if answer is not None and inspect.isawaitable(answer):
            return self._awaited(answer)
        return self._verdict(answer)

    async def _awaited(self, answer: Awaitable[object]) -> PartialValidationResult:
        return self._verdict(await answer)

    @property
    def chunks_decide(self) -> bool:
        """Whether an output is valid because none of its chunks failed. Not if there were none."""
        kind = type(self)
        return (
            self._judged
            and kind.check_whole is ChunkRule.check_whole
            and kind.validate is ChunkRule.validate
            and self.validation_fn is None
            and not self.judge_whole
        )

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Judge the whole output: by `check_whole`, else by its chunks.

        A `validation_fn` or `judge_whole=True` replaces both; see `Requirement.validate`.
        """
        if self.validation_fn is not None or self.judge_whole:
            return await super().validate(backend, ctx, format=format, model_options=model_options)
        output = ctx.last_output()
        if output is None:
            return ValidationResult(False, reason="there is no output")
        text: Any = output.value or ""
        if type(self).check_whole is not ChunkRule.check_whole:
            return whole_result(self._verdict(self.check_whole(text), "check_whole"))
        rule = copy(self)  # a copy, so that the state of the original does not change
        verdict = PASS
        for chunk in rule.pieces(text):
            verdict = await rule.stream_validate(chunk, backend=backend, ctx=ctx)
            if verdict.success == "fail":
                return whole_result(verdict)
        held = self.hold and verdict.success == "unknown"
        return NEVER_PASSED if held else ValidationResult(True)

    def pieces(self, text: str | bytes) -> list[Any]:
        """Return the chunks of an output that was not streamed."""
        chunking = self.chunking or self.whole_chunking
        if chunking is None:
            return [text] if text.strip() else []
        chunker = start_chunker(chunking)
        chunks = [*chunker.feed(text), *chunker.flush()]  # type: ignore[arg-type]
        if not chunks and text.strip():  # a chunker that drops its tail
            return [text]
        return [c.separator + c.text if self.verbatim else c.text for c in chunks]

    def _verdict(self, answer: object, method: str = "check") -> PartialValidationResult:
        if isinstance(answer, PartialValidationResult):
            return answer
        if answer is None:
            return UNKNOWN
        if isinstance(answer, bool):
            return PASS if answer else FAIL
        match answer:
            case (bool(passed), str(reason)):
                # People write (condition, complaint): for a pass, ignore the complaint.
                return PASS if passed else failed(reason)
        raise ValidatorError(
            f"the {method} of {self.name!r} returned {answer!r}; return a bool, None for unknown, "
            "(bool, reason), or a PartialValidationResult"
        )


def failed(reason: str, score: float | None = None) -> PartialValidationResult:
    """Return a failure with its reason.

    Example:
        >>> failed("too long").success
        'fail'
    """
    return PartialValidationResult("fail", reason=reason, score=score)


def quoted(text: str, limit: int = 60) -> str:
    """Return a text in quotation marks and truncated, for a reason.

    Example:
        >>> quoted("a long story", 8)
        "'a long …'"
    """
    return repr(text if len(text) <= limit else f"{text[: limit - 1]}…")


class StreamCheck(ChunkRule):
    """A requirement that checks each chunk with a function. Made by `stream_check`."""

    def __init__(
        self,
        fn: Callable[[str], ChunkAnswer | Awaitable[ChunkAnswer]],
        description: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(description or _description_of(fn), **options)
        self._fn = fn

    def check(self, chunk: str) -> ChunkAnswer | Awaitable[ChunkAnswer]:
        """Call the function."""
        return self._fn(chunk)


def stream_check(
    fn: Callable[[str], ChunkAnswer | Awaitable[ChunkAnswer]],
    description: str | None = None,
    *,
    blocking: bool = False,
    **options: Any,
) -> Requirement:
    """Make a requirement of a plain function.

    Args:
        fn: Takes the text of a chunk, returns a bool, `None` for unknown, a bool and a reason, or a
            `PartialValidationResult`. It may be a coroutine function.
        description: What is required, in words; by default the function's docstring or name.
        blocking: Call `fn` on a thread, because it waits for something without `await`.
        **options: `chunking`, `timeout`, `hold` and the other options of `Requirement`.

    Returns:
        A requirement that is valid when no chunk failed.

    Example:
        >>> short = stream_check(lambda text: (len(text) < 20, "too long"), "short sentences")
        >>> short.stream_validate("Brief.", backend=None, ctx=None).success
        'pass'
    """
    if not callable(fn):
        raise UsageError(
            f"stream_check needs a function of a chunk's text, not {type(fn).__name__}"
        )
    check: Callable[[str], Any] = fn
    if blocking:
        check = partial(in_thread, fn)
    return StreamCheck(check, description or _description_of(fn), **options)


def _description_of(fn: Callable[..., Any]) -> str:
    documented = inspect.getdoc(fn)
    if documented and not isinstance(fn, type):
        return documented.splitlines()[0]
    return getattr(fn, "__name__", type(fn).__name__)
