"""`stream_check`: a requirement from a plain function of a chunk."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from streamval.aio.tasks import in_thread
from streamval.errors import UsageError, ValidatorError
from streamval.requirements.base import Requirement
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from streamval.backends.base import Backend
    from streamval.types.context import Context

Answer: TypeAlias = "bool | tuple[bool, str] | PartialValidationResult | None"

PASS = PartialValidationResult("pass")
FAIL = PartialValidationResult("fail")
UNKNOWN = PartialValidationResult("unknown")


class StreamCheck(Requirement):
    """A requirement that a plain function of each chunk decides. Make one with `stream_check`."""

    def __init__(
        self,
        fn: Callable[[str], Answer | Awaitable[Answer]],
        description: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(description or _description_of(fn), **options)
        self._fn = fn
        self._judged = False

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Ask the function."""
        del backend, ctx
        self._judged = True
        answer = self._fn(chunk)
        return PASS if answer is True else self._verdict_or_wait(answer)

    def _verdict_or_wait(
        self, answer: object
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        if not isinstance(answer, PartialValidationResult) and inspect.isawaitable(answer):
            return self._await(answer)
        return self._verdict(answer)

    async def _await(self, answer: Awaitable[object]) -> PartialValidationResult:
        return self._verdict(await answer)

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """True where every chunk has been judged already, as it had to pass to come this far.

        An output that was not streamed through this requirement is judged as one chunk.
        """
        del format, model_options
        if self._judged:
            return ValidationResult(True)
        output = str(ctx.last_output() or "")
        if not output.strip():
            return ValidationResult(True)  # a function of a chunk has nothing to judge
        result = await self.stream_validate(output, backend=backend, ctx=ctx)
        return ValidationResult(result.success != "fail", reason=result.reason, score=result.score)

    def _verdict(self, answer: object) -> PartialValidationResult:
        if isinstance(answer, PartialValidationResult):
            return answer
        if answer is None:
            return UNKNOWN
        if isinstance(answer, bool):
            return PASS if answer else FAIL
        match answer:
            case (bool(passed), str(reason)):
                # (condition, complaint) is how people write it: a pass has nothing to complain of.
                return PASS if passed else PartialValidationResult("fail", reason=reason)
        message = (
            f"the function of {self.name!r} returned {answer!r}; return a bool, None for unknown, "
            "(bool, reason), or a PartialValidationResult"
        )
        raise ValidatorError(message)


class AsyncStreamCheck(StreamCheck):
    """The same for a coroutine function, or a function that has to run on a thread."""

    def __init__(
        self,
        fn: Callable[[str], Answer | Awaitable[Answer]],
        description: str | None = None,
        *,
        blocking: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(fn, description, **options)
        self._blocking = blocking

    async def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        """Ask the function, and wait for its answer."""
        del backend, ctx
        self._judged = True
        answer: Any = await in_thread(self._fn, chunk) if self._blocking else self._fn(chunk)
        return await self._verdict_or_wait(answer)


def stream_check(
    fn: Callable[[str], Answer | Awaitable[Answer]],
    description: str | None = None,
    *,
    blocking: bool = False,
    **options: Any,
) -> Requirement:
    """Make a requirement of a plain function.

    Args:
        fn: From a chunk's text to a bool, `None` for unknown, a bool and a reason, or a
            `PartialValidationResult`. May be async.
        description: What is required, in words; by default the function's docstring or name.
        blocking: Run `fn` on a thread, as it waits for something without `await`.
        **options: As for `Requirement`: `chunking`, `timeout`, `hold`, and so on.

    Returns:
        The requirement. At the end of a stream it asks nothing again.

    Example:
        >>> short = stream_check(lambda text: (len(text) < 20, "too long"), "short sentences")
        >>> short.stream_validate("Brief.", backend=None, ctx=None).success
        'pass'
    """
    if not callable(fn):
        message = f"stream_check needs a function of a chunk's text, not {type(fn).__name__}"
        raise UsageError(message)
    if blocking or inspect.iscoroutinefunction(fn):
        return AsyncStreamCheck(fn, description, blocking=blocking, **options)
    return StreamCheck(fn, description, **options)


def _description_of(fn: Callable[..., Any]) -> str:
    documented = inspect.getdoc(fn)
    if documented and not isinstance(fn, type):
        return documented.splitlines()[0]
    return getattr(fn, "__name__", type(fn).__name__)


def shortened(text: str, limit: int = 60) -> str:
    """A text as a reason may quote it.

    Example:
        >>> shortened("a long story", 8)
        "'a long …'"
    """
    return repr(text if len(text) <= limit else f"{text[: limit - 1]}…")
