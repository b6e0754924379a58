"""The terms of a contract: its stages, their types, and how remedies are tried."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import to_json

from streamval.backends.base import Backend
from streamval.backends.default import as_backend
from streamval.contracts.perf import PerfStats
from streamval.errors import UsageError
from streamval.pipeline.subscribers import Sink
from streamval.structured.allowed import first_error, name_of
from streamval.structured.schema import Schema

T = TypeVar("T")


class Owner(Protocol):
    """The part of `Expression` that `Contract` and `Call` use."""

    backend: Backend | str | None
    sinks: tuple[Sink, ...]

    @property
    def perf_stats(self) -> PerfStats:
        """The running figures of its calls."""


class Stages(NamedTuple):
    """The methods of a contracted class, where it has them."""

    pre: Callable[..., Any] | None
    act: Callable[..., Any] | None
    post: Callable[..., Any] | None


def as_json(value: Any) -> str:
    """Return a value as JSON, with `repr` for values that JSON cannot represent.

    Example:
        >>> as_json({"n": 1, "what": 1j})
        '{"n":1,"what":"1j"}'
        >>> round_ = []
        >>> round_.append(round_)
        >>> as_json(round_)
        '[[...]]'
    """
    for show in (lambda it: to_json(it, fallback=repr).decode(), repr, object.__repr__):
        try:
            return show(value)
        except Exception:  # noqa: S112  a cycle, odd bytes, a repr that raises: the next one may do
            continue
    return type(value).__name__


class Typed(Generic[T]):
    """A type of a contract: a model, or a native type in a model with one field, `value`.

    Raises:
        UsageError: If pydantic does not know it.
    """

    def __init__(self, annotation: Any) -> None:
        self.name = name_of(annotation)
        self._native = not (isinstance(annotation, type) and issubclass(annotation, BaseModel))
        self._checks: TypeAdapter[T] = Schema(annotation).adapter
        model = create_model(self.name, value=(annotation, ...)) if self._native else annotation
        self.schema: Schema[BaseModel] = Schema(model, text_around=True)

    def complaint(self, value: Any) -> str | None:
        """Return why a value is not of the type; `None` if it is."""
        if not self._native and not isinstance(value, self.schema.type):
            return f"it is of type {name_of(type(value))}"
        try:
            self._checks.validate_python(value, strict=True)
        except ValidationError as error:
            return first_error(error, "$")
        except Exception as error:  # a validator of the type's own
            return f"{type(error).__name__}: {error}"
        return None

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the type itself, with its descriptions; empty where pydantic has none."""
        try:
            return self._checks.json_schema()
        except PydanticInvalidForJsonSchema:
            return {}

    def value_of(self, instance: BaseModel) -> T:
        """Return the user's value from an instance of the model."""
        value: T = instance.value if self._native else instance  # type: ignore[attr-defined, assignment]
        return value


class RetryParams(TypedDict, total=False):
    """How remedies are tried; missing values are those of `DEFAULT_RETRY_PARAMS`.

    Attributes:
        tries: Remedies at most, after the first answer.
        delay: Seconds before the first one.
        max_delay: Seconds at most.
        jitter: A random part of `delay`, up to this factor, is added to each pause.
        backoff: The factor by which each pause is longer than the previous pause.
        graceful: Do not store the exception of a failed contract, and do not check the type that `forward`
            returns.
    """

    tries: int
    delay: float
    max_delay: float
    jitter: float
    backoff: float
    graceful: bool


DEFAULT_RETRY_PARAMS: RetryParams = {
    "tries": 5,
    "delay": 0.5,
    "max_delay": 15.0,
    "jitter": 0.1,
    "backoff": 2.0,
    "graceful": False,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """The arguments of `contract`; see there."""

    pre_remedy: bool
    post_remedy: bool
    accumulate_errors: bool
    verbose: bool
    params: RetryParams
    backend: Backend | str | None


class Contract:
    """The contract of a class: its stages, their types, and its terms."""

    def __init__(self, cls: type[Any], terms: Terms) -> None:
        if not hasattr(cls, "prompt"):
            raise UsageError(
                f"{cls.__name__} needs a prompt: a property that says what the model is to do"
            )
        self._cls = cls
        self.terms = terms
        self._made_backend: Backend | None = None
        self.forward = cls.forward
        for name in ("pre", "act", "post", "forward"):
            if isinstance(inspect.getattr_static(cls, name, None), (staticmethod, classmethod)):
                raise UsageError(f"{cls.__name__}.{name} must be a plain method, with self")
        self.stages = Stages(
            pre=getattr(cls, "pre", None),
            act=getattr(cls, "act", None),
            post=getattr(cls, "post", None),
        )
        methods = [method for method in (self.stages.pre, self.stages.act) if method is not None]
        forward = _types_of(cls.forward, cls)
        # `forward` may name what `act` makes of the input, so the two before it are asked first.
        known = [_types_of(method, cls) for method in methods] + [forward]
        self.parameter = forward.parameter
        self.input: Typed[Any] = Typed(_input_type(known, cls))
        self.output: Typed[Any] = Typed(_returned(cls.forward, forward, cls))
        self.act_output: Typed[Any] | None = None
        if (act := self.stages.act) is not None:
            self.act_output = Typed(_returned(act, _types_of(act, cls), cls))

    def of(self, cls: type[Any]) -> Contract:
        """Return the contract of a class that inherits from the contracted one: the same terms."""
        if cls is self._cls:
            return self
        if "_contract" not in vars(cls):
            cls._contract = Contract(cls, self.terms)
        inherited: Contract = cls._contract
        return inherited

    def backend_for(self, owner: Owner) -> Backend:
        """Return the backend of an instance."""
        if owner.backend is not None:
            return as_backend(owner.backend)
        if self._made_backend is None:
            self._made_backend = as_backend(self.terms.backend)
        return self._made_backend

    def options(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the engine: the arguments that neither `act` nor `forward` names.

        Where one of them takes any argument (``**kwargs``), it gets them as well.
        """
        takers = [self.forward] + ([self.stages.act] if self.stages.act else [])
        named = {name for method in takers for name in inspect.signature(method).parameters}
        return {name: value for name, value in others.items() if name not in named}

    @property
    def _takes_input(self) -> bool:
        """Whether `act` or `forward` has another argument of the name `input`."""
        methods = [self.forward] + ([self.stages.act] if self.stages.act else [])
        return any(
            list(inspect.signature(m).parameters)[1] != "input" and _takes(m, "input")
            for m in methods
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the input, positional or by keyword, and the other arguments."""
        if len(args) > 1:
            raise UsageError(
                f"a contract takes one input, and other arguments by name, not {len(args)}"
            )
        given = [name for name in dict.fromkeys((self.parameter, "input")) if name in kwargs]
        given = [name for name in given if name == self.parameter or not self._takes_input]
        if len(args) + len(given) > 1:
            by = " and ".join([*(["by position"] if args else []), *(f"as {n!r}" for n in given)])
            raise UsageError(f"the input was given twice, {by}")
        if "prompt" in self.options(kwargs):
            raise UsageError(
                "a contract has a prompt of its own: put everything that changes into the input"
            )
        if args:
            return args[0], kwargs
        for name in (self.parameter, "input"):
            if name in kwargs:
                return kwargs.pop(name), kwargs
        raise UsageError(f"there is no input: give it first, or as {self.parameter}= or input=")


def _takes(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(
        known.kind is inspect.Parameter.VAR_KEYWORD for known in parameters.values()
    )


class _Types(NamedTuple):
    """The types in the signature of a method.

    Attributes:
        parameter: The name of its first parameter.
        hints: Its annotations.
    """

    parameter: str
    hints: Mapping[str, Any]


def _types_of(method: Callable[..., Any], cls: type) -> _Types:
    where = f"{cls.__name__}.{method.__name__}"
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise UsageError(f"{where} needs a parameter for the input, after self")
    try:
        hints = get_type_hints(method, include_extras=True)
    except NameError as error:
        raise UsageError(f"{where} has a type that is not known here: {error}") from None
    return _Types(parameters[0].name, hints)


def _input_type(methods: list[_Types], cls: type) -> Any:
    """Return the type of the input, from the first method that annotates it."""
    for parameter, hints in methods:
        if parameter in hints:
            return hints[parameter]
    raise UsageError(
        f"{cls.__name__} needs a type for its input: annotate the first parameter of pre, act or "
        "forward"
    )


def _returned(method: Callable[..., Any], types: _Types, cls: type) -> Any:
    if "return" not in types.hints:
        raise UsageError(
            f"{cls.__name__}.{method.__name__} needs a return type: it says what is asked for"
        )
    return types.hints["return"]
