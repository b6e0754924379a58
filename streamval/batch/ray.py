"""Answers rows on many machines with Ray: the same rows and results, in other processes.

`ValidateRows` is a class for ``ray.data.Dataset.map_batches``. `on_cluster` answers the rows of a job by
actors of its subclass `RowsOfJob`; the ledger table stays on the machine where the job was started.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

from pydantic_core import from_json

from streamval.batch.answering import Answering, Answers
from streamval.batch.output import columns_of_results, in_columns, portable
from streamval.batch.pipeline_by_name import pipeline_named
from streamval.batch.records import kept, refused
from streamval.batch.rows import RESULT, InputRow, row_of
from streamval.batch.table import Kept
from streamval.errors import RunError, UsageError
from streamval.pipeline.pipeline import Pipeline

PipelineSource: TypeAlias = (
    "str | Callable[[], Pipeline[Any] | AbstractAsyncContextManager[Pipeline[Any]]]"
)
"""How a worker gets its pipeline: ``MODULE:NAME``, or a function that makes one or opens one."""


PAUSE = 0.1
"""Seconds before a worker that has died is asked again."""

GATHERING = 0.002
"""Seconds in which results gather before they are sent: 10,000 rows of 50 ms take 1.18 times the ideal without it, 1.16 with it."""

AHEAD = 0.25
"""Rows that wait in the workers, as a part of those under way: such rows take 1.27 times the ideal without, 1.10 to 1.17 with them."""


class ValidateRows:
    """Answers and judges batches of rows: give it to ``ray.data.Dataset.map_batches``.

    It never raises: a row that cannot be answered is a row with an `error`. A batch that was under way on a worker
    which died is answered again by another one. Each worker makes its own pipeline, and slows down by itself where its
    provider asks for that.

    Args:
        pipeline: ``MODULE:NAME``, or a function that makes the pipeline (or an async context manager of it). A
            pipeline itself may hold what cannot be pickled.
        task_limit: Rows under way at once in a worker.

    Example:
        Not run here, as Ray is an extra (``streamval-llm[ray]``)::

            dataset = ray.data.read_json("rows.jsonl", lines=True)
            answers = dataset.map_batches(
                ValidateRows,
                fn_constructor_args=["my_rules:pipeline"],
                concurrency=8,          # workers
                batch_size=128,
                max_concurrency=2,      # a batch ends with its slowest row, while the next one goes on
            )
            answers.write_parquet("answers")
    """

    def __init__(self, pipeline: PipelineSource, task_limit: int = 64) -> None:
        self._source = pipeline
        self._slots = asyncio.Semaphore(task_limit)
        self._answering: asyncio.Task[Answering] | None = None
        self._open = AsyncExitStack()

    async def __call__(self, batch: Any) -> Any:
        """Answer a batch.

        Args:
            batch: A table of pyarrow, or a mapping of columns to arrays.

        Returns:
            A pyarrow table in the order of the batch: `id` (by default the position in the batch), the other
            columns, and those of a result (`parsed` as JSON).
        """
        columns = in_columns(batch)
        rows = columns.to_pylist()
        done = await asyncio.gather(*(self._record(n, row) for n, row in enumerate(rows, 1)))
        records = [from_json(record) for record in done]
        carried = {
            f"input_{field.name}" if field.name in RESULT else field.name: portable(field.type)
            for field in columns.schema
            if field.name not in ("id", "prompt", "messages")
        }
        its_id = columns.schema.field("id").type if "id" in columns.schema.names else None
        return columns_of_results(records, its_id, carried)

    async def _record(self, number: int, given: Mapping[str, Any]) -> bytes:
        try:
            row = row_of(number, "the row", given)
        except UsageError as error:
            return refused(given, error)
        try:
            answered = await self.answer(row)
        except Exception as error:  # a key that is refused, a pipeline that cannot be made
            answered = kept(row, error)
        return (answered or kept(row, RunError("the worker has been stopped"))).record

    async def stop(self) -> None:
        """Put back the rows that wait for their provider."""
        if self._answering is not None:
            (await asyncio.shield(self._answering)).stop()

    async def answer(self, row: InputRow) -> Kept | None:
        """Answer one row, once it has a slot.

        Raises:
            Exception: If no row can be answered: the pipeline cannot be made, the key is refused.
        """
        if self._answering is None:
            self._answering = asyncio.ensure_future(self._begin())
        answering = await asyncio.shield(self._answering)
        async with self._slots:
            return await answering.answer(row)

    async def _begin(self) -> Answering:
        """Make the worker's own pipeline, once, on its event loop. It is open until the process ends."""
        made = self._source() if callable(self._source) else pipeline_named(self._source)
        if not isinstance(made, Pipeline):
            made = await self._open.enter_async_context(made)
        gc.collect()
        gc.freeze()  # Ray and all that is loaded: this process does nothing else
        return Answering(made)


class RowsOfJob(ValidateRows):
    """Answers the rows of a job: takes them in groups, and hands over their results in groups.

    Args:
        pipeline: As for `ValidateRows`.
        task_limit: Rows under way at once. Others that were taken wait for them.
    """

    def __init__(self, pipeline: PipelineSource, task_limit: int) -> None:
        super().__init__(pipeline, task_limit)
        self._taken: dict[int, asyncio.Task[Kept | None]] = {}
        self._is_at_work = asyncio.Event()

    async def take(self, rows: Sequence[tuple[int, InputRow]]) -> None:
        """Begin with numbered rows of a job. Those that are under way already go on."""
        for number, row in rows:
            if number not in self._taken:
                self._taken[number] = asyncio.ensure_future(self.answer(row))
        self._is_at_work.set()

    async def done(self) -> list[tuple[int, Kept | None]]:
        """Wait for rows that were taken; return those that are done, with their numbers.

        Raises:
            Exception: If no row can be answered.
        """
        await self._is_at_work.wait()
        await asyncio.wait(self._taken.values(), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(GATHERING)
        ready = {number: task for number, task in self._taken.items() if task.done()}
        answered = {number: task for number, task in ready.items() if task.exception() is None}
        for number in answered or ready:
            del self._taken[number]
        if not self._taken:
            self._is_at_work.clear()
        # What was answered goes first, as an error ends the job.
        return [(number, task.result()) for number, task in (answered or ready).items()]


@asynccontextmanager
async def on_cluster(
    pipeline: PipelineSource, *, address: str | None = None, task_limit: int = 64
) -> AsyncIterator[Answers]:
    """Open workers on a cluster, one for each of its processors, for the time of a job.

    A worker that dies is started again, and its rows are answered again.

    Args:
        pipeline: How a worker gets its pipeline; see `ValidateRows`.
        address: Of the cluster; `None` for one on this machine, which ends with the job.
        task_limit: Rows under way at once, on all workers together.

    Yields:
        The workers, which answer rows.

    Raises:
        UsageError: If Ray is not installed, or there is no cluster.
    """
    try:
        import ray  # an optional extra, of 600 MB
    except ImportError:
        raise UsageError("--ray needs an extra: pip install 'streamval-llm[ray]'") from None

    def begin() -> list[Any]:
        try:
            _check(address)
            ray.init(address=address, include_dashboard=None if address else False)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"there is no Ray cluster at {address}: {error}") from None
        actor = ray.remote(RowsOfJob).options(max_restarts=-1, max_concurrency=1000)
        count = min(max(int(ray.cluster_resources().get("CPU", 1)), 1), task_limit)
        limits = [(task_limit + n) // count for n in range(count)]  # which are task_limit together
        return [actor.remote(pipeline, limit) for limit in limits]

    workers = [
        _Worker(actor, ray.exceptions.RayActorError) for actor in await asyncio.to_thread(begin)
    ]
    work = asyncio.gather(*(worker.run() for worker in workers))
    try:
        yield _Workers(workers, round(task_limit * AHEAD))
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await asyncio.to_thread(ray.shutdown)


def _check(address: str | None) -> None:
    """Check that the cluster can be reached. Ray itself would wait for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and "://" not in host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


class _Workers:
    """Gives each row to the worker that has fewest."""

    def __init__(self, workers: Sequence[_Worker], ahead: int) -> None:
        self._workers, self.ahead = workers, ahead

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    async def answer(self, row: InputRow) -> Kept | None:
        return await min(self._workers, key=len).answer(row)


class _Worker:
    """Sends rows to an actor and takes their results: all that wait at once, as a message a row costs more than the row.

    Args:
        actor: A `RowsOfJob`, which Ray starts again if it dies.
        has_died: The exception of Ray for that. All its rows are sent again then.
    """

    def __init__(self, actor: Any, has_died: type[Exception]) -> None:
        self._actor, self._has_died = actor, has_died
        self._numbers = itertools.count()
        self._rows: dict[int, tuple[InputRow, asyncio.Future[Kept | None]]] = {}
        self._unsent: asyncio.Queue[int] = asyncio.Queue()
        self._is_at_work = asyncio.Event()

    def __len__(self) -> int:
        return len(self._rows)

    def stop(self) -> None:
        self._actor.stop.remote()

    async def answer(self, row: InputRow) -> Kept | None:
        number = next(self._numbers)
        answered: asyncio.Future[Kept | None] = asyncio.get_running_loop().create_future()
        self._rows[number] = row, answered
        self._unsent.put_nowait(number)
        try:
            return await answered
        finally:
            del self._rows[number]

    async def run(self) -> None:
        """Work until this is cancelled."""
        await asyncio.gather(self._send(), self._read())

    async def _send(self) -> None:
        while True:
            numbers = [await self._unsent.get()]
            while not self._unsent.empty():
                numbers.append(self._unsent.get_nowait())
            rows = [(number, self._rows[number][0]) for number in numbers if number in self._rows]
            await self._call(self._actor.take, rows)
            self._is_at_work.set()

    async def _read(self) -> None:
        while True:
            await self._is_at_work.wait()
            for number, record in await self._call(self._actor.done) or ():
                if number in self._rows and not self._rows[number][1].done():
                    self._rows[number][1].set_result(record)
            if not self._rows:
                self._is_at_work.clear()

    async def _call(self, method: Any, *given: Any) -> Any:
        try:
            return await method.remote(*given)
        except self._has_died:
            await asyncio.sleep(PAUSE)
            for number in self._rows:
                self._unsent.put_nowait(number)
        except Exception as error:  # no row can be answered
            for _, answered in self._rows.values():
                if not answered.done():
                    answered.set_exception(error)
        return None
