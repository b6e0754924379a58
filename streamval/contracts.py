"""Design by Contract over a typed output: conditions before and after, and a model in between.

A contracted class says what must hold of its input (`pre`), what to make of it (`act`), what must
hold of the model's output (`post`), and what to do with that, or without it (`forward`).
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_type_hints

from pydantic import BaseModel
from reactivex.disposable import Disposable

from streamval.blocking import call, wait_for
from streamval.contract_call import Call, Stages, Typed
from streamval.errors import UsageError
from streamval.perf import PerfStats
from streamval.pipeline import as_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reactivex.abc import DisposableBase

    from streamval.backends.base import Backend
    from streamval.subscribers import Sink

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


class LLMDataModel(BaseModel):
    """A pydantic model for the input or output of a contract.

    Describe each field with ``Field(description=…)``: the model is told.

    Example:
        >>> from pydantic import Field
        >>> class City(LLMDataModel):
        ...     name: str = Field(description="Its name, in English.")
        >>> print(City(name="Rome"))
        {"name":"Rome"}
    """

    def __str__(self) -> str:
        return self.model_dump_json()


class Expression:
    """What a contracted class inherits from: something that can be called, and awaited.

    Args:
        backend: Who speaks; otherwise the one that `contract` was given, else the default.

    Attributes:
        backend: Likewise.
        sinks: Who has subscribed.

    Example:
        >>> class Doubled(Expression):
        ...     def forward(self, n: int) -> int:
        ...         return 2 * n
        >>> Doubled()(21)
        42
    """

    backend: Backend | str | None = None
    _contract: Contract | None = None
    _last: Call | None = None
    _stats: PerfStats | None = None
    sinks: tuple[Sink, ...] = ()

    def __init__(self, *, backend: Backend | str | None = None) -> None:
        if backend is not None:
            self.backend = backend

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call does, once its contract has been seen to. Override it."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`acall`, waited for: from a script, a notebook, or another contract."""
        return wait_for(lambda: self.acall(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Call it from async code. Any number of calls may run at the same time.

        Args:
            *args: The input, as the first.
            **kwargs: The input under the name of `forward`'s first parameter, or as `input`;
                the others are handed to `act` and `forward` as they are.

        Returns:
            What `forward` returns.

        Raises:
            UsageError: If there is no input, or an unknown argument.
            InputTypeError: If the input is of another type.
            OutputTypeError: If `forward` returns another type than it says (unless graceful).
            Exception: What `forward` raises.
        """
        if self._contract is None:
            return await call(self.forward, *args, **kwargs)
        begun = self._contract.begin(self, args, kwargs)
        token = _call.set(begun)
        try:
            return await begun.run()
        finally:
            _call.reset(token)
            self._last = begun

    def subscribe(self, sink: Sink) -> DisposableBase:
        """Call `sink`, a function of an event, sync or async, with each event of each call.

        They are the events of a pipeline, and `StageEvent`s; each says its `stage`.

        Returns:
            Dispose of it to unsubscribe.
        """
        if not callable(sink):
            message = f"a subscriber is a function of an event, not {type(sink).__name__}"
            raise UsageError(message)
        self.sinks = (*self.sinks, sink)

        def remove() -> None:
            self.sinks = tuple(known for known in self.sinks if known is not sink)

        return Disposable(remove)

    # Of the call around, for `pre`, `act`, `post` and `forward`; else of the last one that ended.

    @property
    def contract_successful(self) -> bool:
        """Whether everything held, remedies included."""
        current = self._current_call
        return current is not None and current.successful

    @property
    def contract_result(self) -> Any:
        """The output that passed, or `None`."""
        current = self._current_call
        return None if current is None else current.result

    @property
    def contract_exception(self) -> Exception | None:
        """Why the contract failed; `None` if it did not, or is graceful."""
        current = self._current_call
        return None if current is None else current.exception

    @property
    def _current_input(self) -> Any:
        """What the output is made of: the input, as `pre_remedy` and `act` have left it."""
        current = self._current_call
        return None if current is None else current.current_input

    @property
    def _current_call(self) -> Call | None:
        current = _call.get()
        return current if current is not None and current.owner is self else self._last

    def contract_perf_stats(self, *, show: bool = True) -> dict[str, dict[str, float]]:
        """How long the stages of all calls took, in seconds.

        Args:
            show: Print it as a table.

        Returns:
            For each stage `count`, `total`, `mean`, `std`, `min`, `max` and `percentage` (of all
            the time; those of all stages together are 100).
        """
        stats = self.perf_stats
        if show:
            stats.show()
        return stats.as_dict()

    @property
    def perf_stats(self) -> PerfStats:
        """The running figures behind `contract_perf_stats`."""
        if self._stats is None:
            self._stats = PerfStats()
        return self._stats


_call: ContextVar[Call | None] = ContextVar("streamval_contract_call", default=None)


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
        self.pre_remedy = pre_remedy
        self.post_remedy = post_remedy
        self.accumulate_errors = accumulate_errors
        self.verbose = verbose
        self.params = params
        self._backend = backend
        self._made_backend: Backend | None = None
        self.forward = cls.forward
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

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The input, wherever it was given, and the other arguments."""
        if len(args) > 1:
            message = f"a contract takes one input, and other arguments by name, not {len(args)}"
            raise UsageError(message)
        if args:
            if self.parameter in kwargs:
                message = f"the input was given twice, by position and as {self.parameter!r}"
                raise UsageError(message)
            return args[0], kwargs
        for name in (self.parameter, "input"):
            if name in kwargs:
                return kwargs.pop(name), kwargs
        message = f"there is no input: give it first, or as {self.parameter}= or input="
        raise UsageError(message)


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
    hints = get_type_hints(method, include_extras=True)
    name = parameters[0].name
    for missing in {name, "return"} - set(hints):
        what = "a return type" if missing == "return" else f"a type for {missing!r}"
        message = f"{where} needs {what}: it says what the model is asked for"
        raise UsageError(message)
    return name, hints[name], hints["return"]
