"""Requirements that a model judges: `LLMaJRequirement` with a prompt, `ALoraRequirement` with an adapter."""

from __future__ import annotations

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from inspect import signature
from typing import Any

from streamval.backends.base import Backend
from streamval.backends.default import as_backend
from streamval.errors import UsageError, ValidatorError
from streamval.requirements.base import Requirement
from streamval.requirements.judge import ask_judge
from streamval.types.context import Context
from streamval.types.messages import Message
from streamval.types.results import PASS, UNKNOWN, PartialValidationResult, ValidationResult

THRESHOLD = 0.5
"""A likelihood above this passes."""


class LLMaJRequirement(Requirement):
    """A requirement that a model judges ("LLM as a judge").

    A plain string, or a `Requirement` without a function, is judged in the same way at the end of
    the stream. With `streaming` each chunk is judged as it arrives, by itself: one call of the model
    for each chunk, unless `when` is false for it.

    Args:
        description: What is required, in words.
        streaming: Judge each chunk; the whole output is judged at its end as well.
        when: With `streaming`, a cheap check of a chunk's text: where it is false, the chunk passes
            without asking the model.
        max_concurrency: With `streaming`, how many chunks the model may judge at once.
        backend: The judge: a backend, or a LiteLLM model name. By default the pipeline's `validation_backend`, else
            its backend. A reasoning model may judge: its thinking is not its verdict.
        **options: The options of `Requirement`. All others are for each question to the judge: `max_tokens`,
            `temperature`, `reasoning_effort`, … By default the temperature is 0, and nothing else is sent.

    Raises:
        UsageError: If there is no description, or `when` without `streaming`.

    Example:
        >>> polite = LLMaJRequirement("It is polite.", streaming=True, when=lambda text: "you" in text)
        >>> polite.max_concurrency
        4
    """

    judges = str
    judge_whole = True
    use_aloras = False
    """Whether it asks an adapter, as mellea calls it."""

    def __init__(
        self,
        description: str,
        *,
        streaming: bool = False,
        when: Callable[[str], bool] | None = None,
        max_concurrency: int = 4,
        backend: Backend | str | None = None,
        **options: Any,
    ) -> None:
        if not description or not description.strip():
            raise UsageError("a judge needs a description of what is required")
        if when is not None and not streaming:
            raise UsageError("when= picks the chunks to be judged: write streaming=True with it")
        if options.get("validation_fn") is not None:
            raise UsageError(
                "a model judges an LLMaJRequirement; a validation_fn belongs to Requirement"
            )
        own = {name: options.pop(name) for name in list(options) if name in _REQUIREMENT}
        super().__init__(description, max_concurrency=max_concurrency, **own)
        self._judge = None if backend is None else as_backend(backend)
        self._options = options
        if self._judge is not None:
            self._judge.check_options(options)
        self._streaming = streaming
        self._when = when

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Ask about the chunk, with `streaming` and where `when` is true."""
        if not self._streaming:
            return UNKNOWN
        if self._when is not None and not self._when(chunk):
            return PASS
        return self._ask(chunk, backend, ctx)

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Ask the judge about the whole output."""
        options = {**self._options, **(model_options or {})}
        return await ask_judge(
            self, self._judge or backend, ctx, format=format, model_options=options
        )

    async def _ask(
        self, chunk: str, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult:
        result = await self.validate(backend, (ctx or Context()).with_output(chunk))
        reason = f"{result.reason} ({result.error})" if result.error else result.reason
        return PartialValidationResult(
            "pass" if result else "fail", reason=reason, thunk=result.thunk, context=result.context
        )


_REQUIREMENT = frozenset(signature(Requirement.__init__).parameters)
"""The options of `Requirement`."""


class ALoraRequirement(Requirement):
    """A requirement judged by a low-rank adapter of the model ("activated LoRA").

    The adapter is asked after the conversation and the output, and answers with the likelihood
    that the requirement is met, as JSON: ``{"requirement_likelihood": 0.9}``, or ``{"score":
    0.9}`` at any depth. Above 0.5 passes. A backend without the adapter (see its `adapters`) is
    asked as a judge instead, with a warning.

    Args:
        description: What is required, in words.
        adapter: The adapter's name among the backend's `adapters`.

    Raises:
        UsageError: If there is no description.

    Example:
        >>> ALoraRequirement("It is polite.").adapter
        'requirement_check'
    """

    judges = str
    use_aloras = True
    """Whether it asks an adapter, as mellea calls it."""

    def __init__(
        self, description: str, *, adapter: str = "requirement_check", **options: Any
    ) -> None:
        if not description or not description.strip():
            raise UsageError("an adapter needs a description of what is required")
        super().__init__(description, **options)
        self.adapter = adapter

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Ask the adapter; the result's score is the likelihood.

        Raises:
            ValidatorError: If the adapter's answer is malformed.
        """
        how = None if backend is None else backend.adapters.get(self.adapter)
        if backend is None or how is None:
            warnings.warn(
                f"{backend!r} has no adapter {self.adapter!r}; asking the model as a judge instead",
                stacklevel=2,
            )
            return await super().validate(backend, ctx, format=format, model_options=model_options)
        thunk, judged = await backend.generate_from_context(
            (
                *ctx.messages,
                Message("assistant", str(ctx.last_output() or "")),
                Message("user", f"Requirement: {self.description}"),
            ),
            Context(),
            format=format,
            model_options={"temperature": 0.0, **how, **(model_options or {})},
        )
        likelihood = self._likelihood(await thunk.avalue())
        passed = likelihood > THRESHOLD
        of = "a requirement" if self.check_only else self.description
        reason = None if passed else f"judged not to meet: {of}"
        return ValidationResult(
            passed, reason=reason, score=likelihood, thunk=thunk, context=judged
        )

    def _likelihood(self, answer: str) -> float:
        try:
            found = _number(json.loads(answer))
        except ValueError:
            found = None
        if found is None or not 0 <= found <= 1:
            raise ValidatorError(
                f"the adapter {self.adapter!r} answered {answer.strip()[:80]!r}; expected JSON "
                'with a likelihood from 0 to 1, such as {"requirement_likelihood": 0.9}'
            )
        return found


def _number(answer: Any) -> float | None:
    """Return the likelihood in an adapter's answer, at any depth."""
    if isinstance(answer, dict):
        for name in ("requirement_likelihood", "score"):
            found = answer.get(name)
            if isinstance(found, (int, float)) and not isinstance(found, bool):
                return float(found)
        for value in answer.values():
            if (found := _number(value)) is not None:
                return found
    return None
