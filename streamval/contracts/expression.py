"""`Expression` and `LLMDataModel`: what contracted classes and their data inherit from."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel
from reactivex.abc import DisposableBase
from reactivex.disposable import Disposable

from streamval.aio.blocking import call, wait_for
from streamval.backends.base import Backend
from streamval.contracts.call import Call
from streamval.contracts.perf import PerfStats
from streamval.contracts.terms import Contract, as_json
from streamval.errors import UsageError
from streamval.pipeline.subscribers import Sink

_call: ContextVar[Call | None] = ContextVar("streamval_contract_call", default=None)


class LLMDataModel(BaseModel):
    """A pydantic model for the input or output of a contract.

    Describe each field with ``Field(description=…)``: the prompt has it.

    Example:
        >>> from pydantic import Field
        >>> class City(LLMDataModel):
        ...     name: str = Field(description="Its name, in English.")
        >>> print(City(name="Rome"))
        {"name":"Rome"}
    """

    def __str__(self) -> str:
        return as_json(self)


class Expression:
    """The base class of contracted classes. Call an instance, or await its `acall`.

    Args:
        backend: The backend; otherwise the one that `contract` was given, else the default.

    Attributes:
        backend: The backend of this instance; `None` for the default.
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
        """Do the work of a call, after its contract was enforced. Override it.

        Raises:
            UsageError: If the class does not override it.
        """
        raise UsageError(f"{type(self).__name__} needs a method forward(self, input)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `acall` and wait for its result, in a script, a notebook, or another contract."""
        return wait_for(lambda: self.acall(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Call it from async code. Any number of calls may run at the same time.

        Args:
            *args: The input, as the first.
            **kwargs: The input under the name of `forward`'s first parameter, or as `input`;
                `act` and `forward` get those of the others that they accept. The model gets the
                rest: `temperature`, `seed`, `max_tokens`, …

        Returns:
            What `forward` returns.

        Raises:
            UsageError: If the input is missing.
            InputTypeError: If the input is of another type.
            OutputTypeError: If `forward` returns another type than it says (unless graceful).
            Exception: What `forward` raises.
        """
        if self._contract is None:
            return await call(self.forward, *args, **kwargs)
        terms = self._contract.of(type(self))
        given, others = terms.bind(args, kwargs)
        begun = Call(terms, self, given, others)
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
            raise UsageError(f"a subscriber is a function of an event, not {type(sink).__name__}")
        self.sinks = (*self.sinks, sink)

        def remove() -> None:
            sinks = list(self.sinks)
            if sink in sinks:
                sinks.remove(sink)  # one of them, if it has subscribed twice
            self.sinks = tuple(sinks)

        return Disposable(remove)

    # State of the current call, inside `pre`, `act`, `post` and `forward`; else of the last ended call. It may be
    # set there: by a `forward` that mends a result, say.

    @property
    def contract_successful(self) -> bool:
        """Whether everything held, remedies included."""
        current = self._current_call
        return current is not None and current.successful

    @contract_successful.setter
    def contract_successful(self, value: bool) -> None:
        if (current := self._current_call) is not None:
            current.successful = value

    @property
    def contract_result(self) -> Any:
        """The output that passed, or `None`."""
        current = self._current_call
        return None if current is None else current.result

    @contract_result.setter
    def contract_result(self, value: Any) -> None:
        if (current := self._current_call) is not None:
            current.result = value

    @property
    def contract_exception(self) -> Exception | None:
        """Why the contract failed; `None` if it did not, or is graceful."""
        current = self._current_call
        return None if current is None else current.exception

    @contract_exception.setter
    def contract_exception(self, value: Exception | None) -> None:
        if (current := self._current_call) is not None:
            current.exception = value

    @property
    def _current_input(self) -> Any:
        """The input for the model: the caller's input, changed by `pre_remedy` and `act`."""
        current = self._current_call
        return None if current is None else current.current_input

    @property
    def _current_call(self) -> Call | None:
        current = _call.get()
        return current if current is not None and current.owner is self else self._last

    def contract_perf_stats(self, *, show: bool = True) -> dict[str, dict[str, float]]:
        """Return the seconds that the stages of all calls took.

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
