"""What one subscription owns: its tasks, its demand, and the buffers between push and pull.

asyncio alone; where observables meet it is `streamval.bridge`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from streamval.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Scope | None")

CLOSING_GRACE = 5.0
"""Seconds a cancelled task may take to end. One that ignores its cancellation for longer is
reported to the loop's exception handler and left behind, so that closing never hangs."""

BUFFER = 64
"""Items that wait for a slow consumer before it holds the source back."""


class Demand:
    """A gate between what reads a source and what cannot keep up with it.

    Open while nobody holds it. Each `hold` needs its own `release`.

    Attributes:
        busy: True while a reader has to wait: a plain attribute, as it is read for every delta.
    """

    __slots__ = ("_holds", "_waiters", "busy")

    def __init__(self) -> None:
        self.busy = False
        self._holds = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def held(self) -> bool:
        """Whether somebody holds the gate, which `busy` may outlast by a turn."""
        return self._holds > 0

    def hold(self) -> None:
        """Stop readers before their next item."""
        self._holds += 1
        self.busy = True

    def release(self) -> None:
        """Take back one `hold`; the last one lets the readers go on."""
        self._holds -= 1
        if not self._holds:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def yield_turn(self) -> None:
        """Let every task that is ready run once before the next item is read.

        A source that never has to wait would otherwise run far ahead of verdicts that are
        already there for the taking.
        """
        self.busy = True

    async def ready(self) -> None:
        """Wait until nobody holds the gate, and at least for one turn of the loop."""
        await asyncio.sleep(0)
        while self._holds:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self.busy = False


class Scope:
    """The tasks of one subscription, and the demand they share.

    A task started inside the scope inherits it, so that what an operator subscribes to later
    belongs to it as well.
    """

    def __init__(
        self, demand: Demand | None = None, on_crash: Callable[[Exception], None] | None = None
    ) -> None:
        self.demand = demand or Demand()
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._closed = False

    def spawn(
        self, work: Coroutine[Any, Any, None], *, context: Context | None = None
    ) -> asyncio.Task[None]:
        """Run `work` in a task of this scope, in a context of its own unless given one.

        Raises:
            RunError: If there is no running event loop, or the scope has been closed.
        """
        try:
            loop = running_loop()
        except RunError:
            work.close()
            raise
        if self._closed:
            work.close()
            message = "the subscription has ended; nothing new can be started in it"
            raise RunError(message)
        task = loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task of this scope, once: a second time would interrupt its clean-up."""
        if task not in self._cancelled and not task.done():
            self._cancelled.add(task)
            task.cancel()

    def has_cancelled(self, task: asyncio.Task[None]) -> bool:
        """Whether it was here that a task was cancelled, or spared."""
        return task in self._cancelled

    def spare(self, task: asyncio.Task[None]) -> None:
        """Let a task end by itself: it has begun its clean-up, which nothing may interrupt."""
        self._cancelled.add(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._cancelled.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_crash is not None and isinstance(error, Exception):
            self._on_crash(error)
        else:
            report("A task of an observable ended with an exception nobody handles", error)

    def current(self) -> current[Scope]:
        """Make this the scope of whatever is subscribed to inside the block."""
        return current(self)

    def inside(self, fn: Callable[P, T]) -> Callable[P, T]:
        """A function that runs with this as the scope around."""

        def entered(*args: P.args, **kwargs: P.kwargs) -> T:
            with self.current():
                return fn(*args, **kwargs)

        return entered

    async def aclose(self) -> None:
        """Cancel what still runs and wait until all of it has ended.

        A cancellation that arrives meanwhile is kept until then, so that neither the clean-up nor
        the cancellation is lost.
        """
        self._closed = True
        me = asyncio.current_task()
        for task in self._tasks - {me}:
            self.cancel(task)
        interrupted: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLOSING_GRACE
        while pending := {task for task in self._tasks if task is not me}:
            left = deadline - loop.time()
            if left <= 0:
                for task in pending:
                    report(f"{task!r} ignores its cancellation and was left behind", None)
                break
            try:
                await asyncio.wait(pending, timeout=left)
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        self._on_crash = None  # whoever it belongs to is not kept by those left behind
        if interrupted is not None:
            raise interrupted


_scope: ContextVar[Scope | None] = ContextVar("streamval_scope", default=None)


def scope() -> current[Scope]:
    """The scope around, or a new one, current inside the block: for operators that hold tasks."""
    return current(_scope.get() or Scope())


def leave_scope() -> None:
    """Leave the scope around for good: what follows in this context is somebody else's code."""
    _scope.set(None)


class current(Generic[S]):  # noqa: N801  reads as a word in a with statement
    """A scope, or none, for the subscriptions inside the block.

    A class, as a generator would cost more than what it is around, which is every event.
    """

    __slots__ = ("_entered", "_token")

    def __init__(self, entered: S) -> None:
        self._entered = entered

    def __enter__(self) -> S:
        self._token = _scope.set(self._entered)
        return self._entered

    def __exit__(self, *_: object) -> None:
        _scope.reset(self._token)


def outside() -> current[None]:
    """No scope inside the block: for calling somebody else's code."""
    return current(None)


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop.

    Raises:
        RunError: If there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        message = "there is no running event loop; subscribe inside one, as in asyncio.run(main())"
        raise RunError(message) from None


def report(message: str, error: BaseException | None) -> None:
    """Hand something that nobody awaits to the loop's exception handler, which logs it."""
    context: dict[str, Any] = {"message": message}
    if error is not None:
        context["exception"] = error
    asyncio.get_running_loop().call_exception_handler(context)


class Inbox(Generic[T]):
    """A bounded buffer between a push and a pull: an async iterator of what is put into it.

    Args:
        demand: Held while the buffer is full.
        size: Items that may wait.
        drop: Drop the oldest item instead, and hold nothing back.
    """

    def __init__(self, demand: Demand, size: int = BUFFER, *, drop: bool = False) -> None:
        self._demand = demand
        self._size = size
        self._items: deque[T] = deque(maxlen=size if drop else None)
        self._drop = drop
        self._holding = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item."""
        self._items.append(item)
        if not self._drop and not self._holding and len(self._items) >= self._size:
            self._holding = True
            self._demand.hold()
        self._wake()

    def close(self) -> None:
        """No more will be put in: iteration ends with what is there."""
        self._closed = True
        self._wake()

    def clear(self) -> None:
        """Drop what waits."""
        self._items.clear()
        self.let_go()

    def open(self) -> None:
        """Take in whatever comes, and hold nothing back any more."""
        self._size = sys.maxsize
        self.let_go()

    def let_go(self) -> None:
        """Hold nothing back any more."""
        if self._holding:
            self._holding = False
            self._demand.release()

    def __aiter__(self) -> Inbox[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._items.popleft()
        if len(self._items) < self._size:
            self.let_go()
        return item

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def side_by_side(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines beside each other and wait for all their results.

    Args:
        *work: What to run.

    Returns:
        The results, in the order given.

    Raises:
        Exception: The first that one of them raises; the others are cancelled and have ended.
    """
    if len(work) < 2:  # noqa: PLR2004  nobody to run beside
        return [await one for one in work]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        _, ignoring = await asyncio.wait(tasks, timeout=CLOSING_GRACE)
        for task in ignoring:
            report(f"{task!r} ignores its cancellation and was left behind", None)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # seen: the first one is raised, the others follow from it
