"""A scope: the tasks of one subscription, and the gate that they share.

reactivex disposes without waiting, and asyncio needs to wait: a source is closed only when its task
has ended. So each subscription has a scope, which owns every task that starts because of it, and
`aclose` waits for them all. Operators do not pass it on. They find it in a context variable: a
subscriber enters the scope, a task that starts inside inherits it, and `leave_scope` ends that where
a user's code begins.

What to watch for when you change this file:

- **A task is cancelled once.** A second `task.cancel()` would interrupt the clean-up that the first one
  started, and a backend would stay open. `_cancelled` holds the cancelled tasks, and also tasks that must
  not be cancelled (`spare`), because they already clean up.
- **A cancellation is ours or it is not.** A task that gets a `CancelledError` asks `has_cancelled`. If
  the scope did it, the task ends quietly: a task that ends by an exception keeps its traceback, and
  with it the whole subscription, until the garbage collector runs. If not, the code inside was
  cancelled, and that is an error to report.
- **`aclose` may be cancelled itself**, while it waits. It waits on to the end, then raises. It gives up
  after `CLOSING_GRACE` seconds on tasks that ignore their cancellation, so that closing never hangs.
- **`SystemExit` and `KeyboardInterrupt`** must not leave a task, as they would stop the event loop. They
  go to `crashed`, and the subscriber raises them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

from streamval.aio.gate import Gate
from streamval.aio.tasks import CLOSING_GRACE, report, running_loop
from streamval.errors import RunError

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Scope")


class Scope:
    """Owns the tasks of one subscription.

    A task that starts inside the scope inherits it, so a later subscription of an operator
    belongs to the same scope.

    Args:
        gate: The gate that the sources of this subscription obey.
        on_crash: Called with an exception that ended a task. Without it, the exception goes to
            the loop's exception handler.
    """

    def __init__(
        self, gate: Gate | None = None, on_crash: Callable[[BaseException], None] | None = None
    ) -> None:
        self.gate = gate or Gate()
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._closed = False

    def spawn(
        self, work: Coroutine[Any, Any, None], *, context: Context | None = None
    ) -> asyncio.Task[None]:
        """Run `work` in a task of this scope, in a new context unless one is given.

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
            raise RunError("the subscription has ended; nothing new can be started in it")
        task = loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def adopt(self, task: asyncio.Task[None]) -> None:
        """Own a task that was started elsewhere. It must not raise, and must call `disown` at its end."""
        self._tasks.add(task)

    def disown(self, task: asyncio.Task[None]) -> None:
        """Forget a task that ends. Do nothing if the scope does not own it."""
        self._tasks.discard(task)
        self._cancelled.discard(task)

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task of this scope, once: a second time would interrupt its clean-up."""
        if task not in self._cancelled and not task.done():
            self._cancelled.add(task)
            task.cancel()

    def has_cancelled(self, task: asyncio.Task[None]) -> bool:
        """Return whether this scope has cancelled a task, or spared it."""
        return task in self._cancelled

    def spare(self, task: asyncio.Task[None]) -> None:
        """Never cancel a task: it has begun its clean-up, which nothing may interrupt."""
        self._cancelled.add(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.disown(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashed(error)

    def crashed(self, error: BaseException) -> None:
        """Report an exception that ended a task.

        For `SystemExit` and `KeyboardInterrupt`, which would stop the event loop if they left it.
        """
        if self._on_crash is not None:
            self._on_crash(error)
        else:
            report("A task of an observable ended with an exception that is not handled", error)

    def current(self) -> current[Scope]:
        """Make this the current scope inside the block."""
        return current(self)

    def inside(self, fn: Callable[P, T]) -> Callable[P, T]:
        """Return a function that runs with this as the current scope."""

        def entered(*args: P.args, **kwargs: P.kwargs) -> T:
            if _scope.get() is self:  # the common case
                return fn(*args, **kwargs)
            token = _scope.set(self)
            try:
                return fn(*args, **kwargs)
            finally:
                _scope.reset(token)

        return entered

    async def aclose(self) -> None:
        """Cancel the tasks that still run, and wait until they have ended.

        If this is cancelled meanwhile, the clean-up still completes, and the cancellation is
        raised then: neither is lost.
        """
        self._closed = True
        me = asyncio.current_task()
        for task in self._tasks - {me}:
            self.cancel(task)
        interrupted: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLOSING_GRACE
        while pending := {task for task in self._tasks if task is not me and not task.done()}:
            left = deadline - loop.time()
            if left <= 0:
                for task in pending:
                    report(f"{task!r} ignores its cancellation and was left behind", None)
                break
            try:
                await asyncio.wait(pending, timeout=left)
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        self._on_crash = None  # a task left behind must not keep its subscription alive
        if interrupted is not None:
            raise interrupted


_scope: ContextVar[Scope | None] = ContextVar("streamval_scope", default=None)


def scope() -> current[Scope]:
    """Enter the current scope, or a new one if there is none. Operators that start tasks use it."""
    return current(_scope.get() or Scope())


def leave_scope() -> None:
    """Leave the current scope for the rest of this context, which runs a user's code."""
    _scope.set(None)


enter_scope, exit_scope = _scope.set, _scope.reset
"""Do the same as `current`, without an object: for code that runs for every chunk."""


class current(Generic[S]):  # noqa: N801  reads as a word in a with statement
    """Makes a scope the current one inside the block.

    This is a class because a generator would cost more than the code inside, which runs for every
    chunk.
    """

    __slots__ = ("_entered", "_token")

    def __init__(self, entered: S) -> None:
        self._entered = entered

    def __enter__(self) -> S:
        self._token = _scope.set(self._entered)
        return self._entered

    def __exit__(self, *_: object) -> None:
        _scope.reset(self._token)
