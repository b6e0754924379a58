"""`LLMaJRequirement`: a model judges, at the end of the stream or chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.function import PASS, UNKNOWN
from streamval.requirements.judge import ask_judge
from streamval.types.context import Context
from streamval.types.results import PartialValidationResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from streamval.backends.base import Backend


class LLMaJRequirement(Requirement):
    """A requirement that a model judges ("LLM as a judge").

    A plain string, or a `Requirement` without a function, is judged so as well, at the end of
    the stream. Opt in to `streaming` to have each chunk judged as it arrives, by itself and
    without the chunks around it: that costs a call to the model for each, unless `when` says
    that a chunk cannot matter.

    Args:
        description: What is required, in words.
        streaming: Judge each chunk; the whole output is judged at its end as well.
        when: With `streaming`, a cheap check of a chunk's text: False lets the chunk pass
            without asking the model.
        max_concurrency: With `streaming`, how many chunks may be with the judge at once.
        **options: As for `Requirement`.

    Raises:
        UsageError: If there is no description, or `when` without `streaming`.

    Example:
        >>> polite = LLMaJRequirement("It is polite.", streaming=True, when=lambda text: "you" in text)
        >>> polite.max_concurrency
        4
    """

    judges = str
    judge_whole = True

    def __init__(
        self,
        description: str,
        *,
        streaming: bool = False,
        when: Callable[[str], bool] | None = None,
        max_concurrency: int = 4,
        **options: Any,
    ) -> None:
        if not description or not description.strip():
            message = "a judge needs a description of what is required"
            raise UsageError(message)
        if when is not None and not streaming:
            message = "when= picks the chunks to be judged: write streaming=True with it"
            raise UsageError(message)
        if options.get("validation_fn") is not None:
            message = "a model judges an LLMaJRequirement; a validation_fn belongs to Requirement"
            raise UsageError(message)
        super().__init__(description, max_concurrency=max_concurrency, **options)
        self._streaming = streaming
        self._when = when

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Ask about the chunk, where streaming and worth it. Otherwise no model is asked."""
        if not self._streaming:
            return UNKNOWN
        if self._when is not None and not self._when(chunk):
            return PASS
        return self._ask(chunk, backend, ctx)

    async def _ask(
        self, chunk: str, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        result = await ask_judge(self, backend, (ctx or Context()).with_output(chunk))
        reason = f"{result.reason} ({result.error})" if result.error else result.reason
        return PartialValidationResult(
            "pass" if result else "fail",
            reason=reason,
            thunk=result.thunk,
            context=result.context,
        )
