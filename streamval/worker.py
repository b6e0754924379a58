"""A worker: a task whose work can take its first step before the task is woken.

Waking a task costs a turn of the event loop, more than most judgements do. So whoever has work for
an idle worker runs its first step on the spot, *as* the worker: in its context, and with it as the
current task, which is what `asyncio.timeout`, task groups and anyio look at. Work that ends in
that step costs no task switch at all; work that has to wait is handed over, and the worker goes on
from there. Python 3.12 does the same for a task that starts eagerly; a worker does it for every
piece of work, and on 3.11 as well.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamval.scope import leave_scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from streamval.scope import Scope

T = TypeVar("T")


WAITING: Any = object()
"""What `Worker.first_step` returns for work that has to wait."""


class Worker(Generic[T]):
    """A task that idles in `handed_over` until work needs it.

    Args:
        main: What the task runs; it is given the worker.
        scope: Owns the task.

    Attributes:
        task: The task.
        job: For whoever gives it work: what that is about, `None` while it idles.
    """

    def __init__(
        self, main: Callable[[Worker[T]], Coroutine[Any, Any, None]], scope: Scope
    ) -> None:
        self._context = copy_context()
        # What the work subscribes to is its own business, not part of this subscription.
        self._context.run(leave_scope)
        self._loop = asyncio.get_running_loop()
        self._parked: asyncio.Future[None] | None = None
        self._handed: _Resumed[T] | None = None
        self.job: Any = None
        self.task = scope.spawn(self._run(main), context=self._context)

    async def _run(self, main: Callable[[Worker[T]], Coroutine[Any, Any, None]]) -> None:
        me = asyncio.current_task()
        assert me is not None
        self.task = me  # with an eager task factory this comes before `__init__` has it
        await main(self)

    def first_step(self, work: Coroutine[Any, Any, T], caller: asyncio.Task[Any] | None) -> T | Any:
        """Run work until it ends or has to wait. Only for a worker that idles.

        Args:
            work: A coroutine that has not been started.
            caller: The current task, if there is one.

        Returns:
            Its result, or `WAITING`: the worker has it now.

        Raises:
            Exception: What the work raises in its first step.
        """
        loop = self._loop
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, self.task)
        try:
            awaited = self._context.run(work.send, None)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            _leave_task(loop, self.task)
            if caller is not None:
                _enter_task(loop, caller)
        assert self._parked is not None
        if asyncio.isfuture(awaited):
            # The mark of a future that its task is about to see. Until the worker yields it to
            # its own task nobody may see it, as somebody else may be waiting for it as well.
            awaited._asyncio_future_blocking = False  # noqa: SLF001  the protocol of Task
        self._handed = _Resumed(work, awaited)
        if not self._parked.done():
            self._parked.set_result(None)
        return WAITING

    async def handed_over(self) -> Awaitable[T]:
        """Idle until there is work; returns it, to be awaited at once."""
        self._parked = self._loop.create_future()
        try:
            await self._parked
        except asyncio.CancelledError as cancelled:
            if self._handed is None:
                raise
            self._handed.cancel(cancelled)
        assert self._handed is not None
        work, self._handed = self._handed, None
        return work


class _Resumed(Generic[T]):
    """Awaits a coroutine that has taken its first step already.

    Args:
        work: The coroutine.
        awaited: What it waits for: the future that its first step yielded.
    """

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited
        self._thrown: BaseException | None = None

    def cancel(self, cancelled: asyncio.CancelledError) -> None:
        """Cancel what the work waits for, as a task would, or else the work itself."""
        if not asyncio.isfuture(self._awaited) or not self._awaited.cancel():
            self._thrown = cancelled

    def __await__(self) -> Generator[Any, None, T]:
        if asyncio.isfuture(self._awaited):
            self._awaited._asyncio_future_blocking = True  # noqa: SLF001  see first_step
        try:
            while True:
                try:
                    if self._thrown is not None:
                        raise self._thrown
                    yield self._awaited
                except BaseException as error:  # noqa: BLE001  all of it belongs to the work
                    self._thrown = None
                    self._awaited = self._work.throw(error)
                else:
                    self._awaited = self._work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
