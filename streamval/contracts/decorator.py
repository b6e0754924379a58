"""`contract`: what a class promises, checked when it is defined, and seen to at each call."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_type_hints

from streamval.contracts.call import Call, Stages, Typed
from streamval.contracts.expression import Expression
from streamval.errors import UsageError
from streamval.pipeline import as_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamval.backends.base import Backend

E = TypeVar("E", bound="type[Expression]")


class RetryParams(TypedDict, total=False):
    """How remedies are tried; what is left out is as in `DEFAULT_RETRY_PARAMS`.

    Attributes:
        tries: Remedies at most, after the first answer.
        delay: Seconds before the first one.
        max_delay: Seconds at most.
        jitter: Part of `delay` by which a pause is longer at most, drawn at random.
        backoff: By how much each pause is longer than the one before.
        graceful: Keep the exception of a contract that failed to yourself, and let `forward`
            return what it likes.
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


class Contract:
    """What `contract` makes of a class: its stages, their types, and how remedies are tried."""

    def __init__(
        self,
        cls: type[Expression],
        *,
        pre_remedy: bool,
        post_remedy: bool,
        accumulate_errors: bool,
        verbose: bool,
        params: RetryParams,
        backend: Backend | str | None,
    ) -> None:
        if not hasattr(cls, "prompt"):
            message = f"{cls.__name__} needs a prompt: a property that says what the model is to do"
            raise UsageError(message)
        self._cls = cls
        self._terms: dict[str, Any] = {
            "pre_remedy": pre_remedy,
            "post_remedy": post_remedy,
            "accumulate_errors": accumulate_errors,
            "verbose": verbose,
            "params": params,
            "backend": backend,
        }
        self.pre_remedy = pre_remedy
        self.post_remedy = post_remedy
        self.accumulate_errors = accumulate_errors
        self.verbose = verbose
        self.params = params
        self._backend = backend
        self._made_backend: Backend | None = None
        self.forward = cls.forward
        for name in ("pre", "act", "post", "forward"):
            if isinstance(inspect.getattr_static(cls, name, None), (staticmethod, classmethod)):
                message = f"{cls.__name__}.{name} must be a plain method, with self"
                raise UsageError(message)
        self.parameter, input_type, output_type = _types_of(cls.forward, cls)
        self.input: Typed[Any] = Typed(input_type)
        self.output: Typed[Any] = Typed(output_type)
        self.stages = Stages(
            pre=getattr(cls, "pre", None),
            act=getattr(cls, "act", None),
            post=getattr(cls, "post", None),
        )
        self.act_output: Typed[Any] | None = None
        if self.stages.act is not None:
            self.act_output = Typed(_types_of(self.stages.act, cls)[2])

    def of(self, cls: type[Expression]) -> Contract:
        """The contract of a class that inherits from the contracted one: the same terms."""
        if cls is self._cls:
            return self
        if "_contract" not in vars(cls):
            cls._contract = Contract(cls, **self._terms)
        inherited = cls._contract
        assert inherited is not None
        return inherited

    def begin(self, owner: Expression, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """A call of an instance, with its input bound."""
        given, others = self._bind(args, dict(kwargs))
        return Call(self, owner, given, others)

    def backend_for(self, owner: Expression) -> Backend:
        """Who speaks for an instance."""
        if owner.backend is not None:
            return as_backend(owner.backend)
        if self._made_backend is None:
            self._made_backend = as_backend(self._backend)
        return self._made_backend

    def _known(self, others: dict[str, Any]) -> dict[str, Any]:
        """The other arguments, if somebody takes each of them."""
        takers = [self.forward] + ([self.stages.act] if self.stages.act else [])
        for name in others:
            if not any(_takes(method, name) for method in takers):
                message = f"neither act nor forward takes an argument {name!r}"
                raise UsageError(message)
        return others

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The input, wherever it was given, and the other arguments."""
        if len(args) > 1:
            message = f"a contract takes one input, and other arguments by name, not {len(args)}"
            raise UsageError(message)
        if args:
            if self.parameter in kwargs:
                message = f"the input was given twice, by position and as {self.parameter!r}"
                raise UsageError(message)
            return args[0], self._known(kwargs)
        for name in (self.parameter, "input"):
            if name in kwargs:
                return kwargs.pop(name), self._known(kwargs)
        message = f"there is no input: give it first, or as {self.parameter}= or input="
        raise UsageError(message)


def _takes(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(
        known.kind is inspect.Parameter.VAR_KEYWORD for known in parameters.values()
    )


def contract(
    *,
    pre_remedy: bool = False,
    post_remedy: bool = True,
    accumulate_errors: bool = False,
    verbose: bool = False,
    remedy_retry_params: RetryParams | None = None,
    backend: Backend | str | None = None,
) -> Callable[[E], E]:
    """Put a class of `Expression` under contract.

    A call then goes through these stages:

    1. The input is bound and its type checked. `pre` judges it: an exception (or False) is a
       violation. With `pre_remedy` a model is asked for an input that holds, which `pre` judges
       again; otherwise the contract has failed.
    2. `act`, if there is one, makes something else of the input.
    3. The model is asked, with `prompt` and that input, for an output of the type that `forward`
       returns. It is judged while it is written: the first wrong value stops it. `post` judges the
       whole. With `post_remedy` it is asked again, and told what was wrong.
    4. `forward` is called, whatever came of it: with what `act` made of the input and
       `self.contract_result` where the contract held, else with the original input, so that it can
       fall back, or raise `self.contract_exception`.

    `pre`, `act`, `post` and `forward` may be async. Their types are pydantic models
    (`LLMDataModel`), or any that pydantic knows.

    Args:
        pre_remedy: Let a model mend an input that `pre` refuses.
        post_remedy: Let the model mend an output of the wrong type, or that `post` refuses.
        accumulate_errors: Tell it what was wrong with all of its answers, not only the last.
        verbose: Log prompts and stages, at the level of info, to the logger
            ``streamval.contracts``.
        remedy_retry_params: How often, and after which pauses.
        backend: Who speaks, where an instance has no `backend` of its own.

    Returns:
        A class decorator.

    Raises:
        UsageError: If the class has no `prompt`, or its methods lack the types; or if a parameter
            cannot work.

    Example:
        >>> from streamval import ScriptedBackend
        >>> @contract(backend=ScriptedBackend('{"value": ["red", "green"]}'))
        ... class Colours(Expression):
        ...     prompt = "Name as many colours as the input says."
        ...     def post(self, output: list[str]) -> bool:
        ...         if len(output) != self._current_input:
        ...             raise ValueError(f"{len(output)} are not {self._current_input}")
        ...         return True
        ...     def forward(self, n: int) -> list[str]:
        ...         return self.contract_result or []
        >>> Colours()(2)
        ['red', 'green']
    """
    params = _checked(remedy_retry_params or {})

    def decorate(cls: E) -> E:
        if not (isinstance(cls, type) and issubclass(cls, Expression)):
            message = f"contract() decorates a class of Expression, not {cls!r}"
            raise UsageError(message)
        cls._contract = Contract(
            cls,
            pre_remedy=pre_remedy,
            post_remedy=post_remedy,
            accumulate_errors=accumulate_errors,
            verbose=verbose,
            params=params,
            backend=backend,
        )
        return cls

    return decorate


def _checked(given: RetryParams) -> RetryParams:
    unknown = set(given) - set(DEFAULT_RETRY_PARAMS)
    if unknown:
        known = ", ".join(DEFAULT_RETRY_PARAMS)
        message = f"remedy_retry_params has no {min(unknown)!r}; there are {known}"
        raise UsageError(message)
    params: RetryParams = {**DEFAULT_RETRY_PARAMS, **given}
    if not isinstance(params["tries"], int):
        message = f"tries in remedy_retry_params is a whole number, not {params['tries']!r}"
        raise UsageError(message)
    negative = [
        name for name, value in params.items() if isinstance(value, (int, float)) and value < 0
    ]
    if negative:
        message = f"{negative[0]} in remedy_retry_params cannot be negative"
        raise UsageError(message)
    return params


def _types_of(method: Callable[..., Any], cls: type) -> tuple[str, Any, Any]:
    """The name of a method's first parameter, its type, and the type that it returns."""
    where = f"{cls.__name__}.{method.__name__}"
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        message = f"{where} needs a parameter for the input, after self"
        raise UsageError(message)
    try:
        hints = get_type_hints(method, include_extras=True)
    except NameError as error:
        message = f"{where} has a type that is not known here: {error}"
        raise UsageError(message) from None
    name = parameters[0].name
    for missing in {name, "return"} - set(hints):
        what = "a return type" if missing == "return" else f"a type for {missing!r}"
        message = f"{where} needs {what}: it says what the model is asked for"
        raise UsageError(message)
    return name, hints[name], hints["return"]
