"""`@generative`: a function without a body, written by a model each time it is called."""

from __future__ import annotations

import functools
import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic_core import to_json

from streamval.aio.blocking import wait_for
from streamval.backends.base import Backend
from streamval.errors import OutputTypeError, PreconditionException, UsageError
from streamval.pipeline.repair import Repair
from streamval.requirements.base import Requirement, as_requirements
from streamval.requirements.final import validate_output, validate_outputs
from streamval.session.sampling import RepairTemplateStrategy
from streamval.session.session import Session
from streamval.structured.schema import Schema
from streamval.types.context import Context, SimpleContext
from streamval.types.results import ValidationResult

R = TypeVar("R")

_STRATEGY = RepairTemplateStrategy(loop_budget=2)

_PROMPT = """\
What does this Python function return, for these arguments?

{signature}
{doc}
{arguments}

Answer with {answer}.
"""

_ANSWER = 'a JSON object that has one field, "result"'


def generative(function: Callable[..., R]) -> Generative[R]:
    '''Make a typed function of a signature and a docstring.

    Call it with a session and the function's own arguments by name. It returns an
    instance of the annotated type (a `Literal`, a pydantic model, a list, a primitive), asked for
    by schema and checked. An ``async def`` gives a function to be awaited.

    Args:
        function: Its signature, return type and docstring describe the task. Its body is not
            run.

    Raises:
        UsageError: If it has no return type.

    Example:
        >>> from typing import Literal
        >>> from streamval import ScriptedBackend, start_session
        >>> @generative
        ... def sentiment(text: str) -> Literal["positive", "negative"]:
        ...     """Classify the sentiment of the text."""
        >>> m = start_session(ScriptedBackend('{"result": "positive"}'))
        >>> sentiment(m, text="I love this!")
        'positive'
    '''
    return Generative(function)


class Generative(Generic[R]):
    """A generative function. Made by `generative`."""

    def __init__(self, function: Callable[..., R]) -> None:
        self.__name__ = getattr(function, "__name__", "a generative function")
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        returns = self._return_type()
        if returns is None:
            raise UsageError(
                f"{self.__name__} needs a return type: it says what the model must produce"
            )
        taken = {"requirements", "precondition_requirements", "strategy", "model_options"}
        if clash := taken & set(self._signature.parameters):
            raise UsageError(f"{self.__name__} cannot have a parameter called {min(clash)!r}")
        self._returns = inspect.formatannotation(returns)
        self._schema: Schema[BaseModel] = Schema(
            create_model("Response", result=(returns, ...)), text_around=True
        )

    def _return_type(self) -> Any:
        """Return the annotation. `Any`, with a warning, if it is known to type checkers alone."""
        annotation = self._signature.return_annotation
        if annotation is inspect.Signature.empty:
            return None
        known = getattr(inspect.unwrap(self._function), "__globals__", {})
        try:
            return get_type_hints(_Annotated(annotation), known, include_extras=True)["return"]
        except NameError as error:
            warnings.warn(
                f"the return type of {self.__name__} is not known when the program runs ({error}), so "
                "any JSON value is accepted",
                stacklevel=4,
            )
            return Any

    def __call__(
        self,
        m: Session | None = None,
        /,
        *,
        requirements: Sequence[Requirement | str] | None = None,
        precondition_requirements: Sequence[Requirement | str] | None = None,
        strategy: Repair | None = _STRATEGY,
        model_options: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        """Call the function.

        Args:
            m: The session: the first argument, or the keyword `m` if the function has no
                parameter of that name. Or give `context` and `backend` in its place.
            requirements: They judge the result: its text, or its JSON if it is not a string. They
                judge it at its end.
            precondition_requirements: They judge the arguments, before anything is generated: the
                only argument's text, or all arguments as a JSON object. They hold whether or not
                there is a strategy.
            strategy: What follows a failure; `None` for one attempt.
            model_options: For the generation.
            **arguments: The function's own.

        Returns:
            The result, or for an ``async def`` a coroutine of it; with `context` and `backend`, the result and
            the context after it. Where `requirements` were not
            met within the budget, it is the best there was, with a warning.

        Raises:
            UsageError: If an argument is missing or unknown.
            PreconditionException: If a precondition fails; its `validation` has the reasons.
            OutputTypeError: If the model's output has no value of the return type.
        """
        if m is None and "m" not in self._signature.parameters:
            m = arguments.pop("m", None)
        both = {"context", "backend"} - set(self._signature.parameters)
        alone = m is None and len(both) == 2 and both <= arguments.keys()
        if alone:
            m = Session(arguments.pop("backend"), arguments.pop("context"))
        if not isinstance(m, Session):
            raise UsageError(
                f"call it with a session first: {self.__name__}(start_session(), …); or with context= and "
                "backend="
            )
        try:
            bound = self._signature.bind(**arguments)
        except TypeError as error:
            raise UsageError(
                f"{self.__name__}{self._signature} cannot be called like this: {error}"
            ) from None
        bound.apply_defaults()

        async def call() -> R | tuple[R, Context]:
            judge = m.backend.for_judges(model_options or {})
            await _check_preconditions(judge, precondition_requirements, bound.arguments)
            result = await self._generate(m, bound.arguments, requirements, strategy, model_options)
            return (result, m.ctx) if alone else result

        return call() if inspect.iscoroutinefunction(self._function) else wait_for(call)

    async def _generate(
        self,
        m: Session,
        arguments: Mapping[str, Any],
        requirements: Sequence[Requirement | str] | None,
        strategy: Repair | None,
        model_options: Mapping[str, Any] | None,
    ) -> R:
        if strategy is not None and strategy.requirements is not None:
            requirements, strategy = strategy.requirements, replace(strategy, requirements=None)
        judges = [_OfResult(r, self._read) for r in as_requirements(requirements)]
        samples = await m.ainstruct(
            _PROMPT.format(
                signature=f"def {self.__name__}{self._signature}:",
                doc=f"    {json.dumps(inspect.getdoc(self._function) or self.__name__)}",
                answer=_ANSWER,
                arguments="\n".join(f"{n} = {_as_text(v)!r}" for n, v in arguments.items()),
            ),
            requirements=judges,
            strategy=strategy,
            format=self._schema,
            model_options=model_options,
            return_sampling_results=True,
        )
        try:
            result = self._read(str(samples.result))
        except ValidationError as error:
            raise OutputTypeError(
                f"{self.__name__} got no {self._returns} from the model: {error}"
            ) from None
        if not samples.success:
            why = "; ".join(str(failure) for failure in samples.stream.failures)
            warnings.warn(f"the result of {self.__name__} does not meet: {why}", stacklevel=2)
        return result

    def _read(self, text: str) -> R:
        """Return the result in the model's output.

        Raises:
            ValidationError: If there is no value of the right type.
        """
        response = self._schema.parse(text)
        result: R = response.result  # type: ignore[attr-defined]
        return result


class _Annotated:
    """Has a return annotation alone, as others may not be known when the program runs."""

    def __init__(self, annotation: Any) -> None:
        self.__annotations__ = {"return": annotation}


class _OfResult(Requirement):
    """A requirement that judges the result without the JSON around it."""

    def __init__(self, inner: Requirement, read: Callable[[str], Any]) -> None:
        super().__init__(inner.description, check_only=inner.check_only)
        self._inner = inner
        self._read = read

    def __copy__(self) -> _OfResult:
        return _OfResult(copy(self._inner), self._read)

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Judge the result; fail if there is no result."""
        try:
            result = self._read(str(ctx.last_output() or ""))
        except ValidationError:
            return ValidationResult(False, reason="there is no result to judge")
        return await validate_output(
            self._inner, backend, ctx.with_output(_as_text(result)), model_options=model_options
        )


async def _check_preconditions(
    backend: Backend, requirements: Sequence[Requirement | str] | None, arguments: Mapping[str, Any]
) -> None:
    judges = as_requirements(requirements)
    values = list(arguments.values())
    ctx = SimpleContext().with_output(_as_text(values[0] if len(values) == 1 else dict(arguments)))
    results = await validate_outputs(judges, backend, ctx)
    failed = [(j, result) for j, result in zip(judges, results, strict=True) if not result]
    if failed:
        raise PreconditionException(
            "; ".join(
                f"{judge.name}: {result.reason or result.error}"
                if result.reason or result.error
                else judge.name
                for judge, result in failed
            ),
            [result for _, result in failed],
        )


def _as_text(value: Any) -> str:
    """Return a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value, fallback=repr).decode()
