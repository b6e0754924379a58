"""A job: answers the rows without a result, several at a time, and keeps each result as it comes.

    rows ─ register ─ missing ─┬─ answer ─┐
                               ├─ answer ─┼─ keep (SQLite) ─ events ─ … ─ OUT
                               └─ answer ─┘

`batch` is one start of a `Job`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from streamval.aio.daemon import in_daemon
from streamval.batch.answering import Answering, Answers
from streamval.batch.events import BatchEvent, BatchProgress, BatchResult, Ended, RowEvent
from streamval.batch.fingerprint import fingerprint
from streamval.batch.output import check_output, write
from streamval.batch.rows import InputRow, Source, check_source, read, rereadable
from streamval.batch.table import Kept, Table
from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline

MOST_WAITING = 1000
"""Results that may wait to be written. Then no row begins: the disk is slower than the model."""


async def batch(
    rows: Source,
    out: str | Path,
    pipeline: Pipeline[Any],
    *,
    task_limit: int = 64,
    limit: int | None = None,
    retry_failed: bool = False,
    max_failures: int | None = None,
    token_budget: int | None = None,
    on_event: Callable[[BatchEvent], object] | None = None,
) -> BatchResult:
    """Answer many prompts, in a job that may be killed: the same call resumes it.

    Results are kept in ``OUT.sqlite`` as they come, and written to `out` in the order of the rows when the job ends;
    where it is killed, or an exception ends it, they are written at the end of a later start. There is one result a
    row. A row that was under way when the job was killed is asked again; so is one whose prompt has changed (where only
    other columns have, the result keeps the old ones).

    Args:
        rows: A file of JSON lines (compressed where it ends with ``.gz``) or Parquet (``.parquet``), ``"-"`` for
            standard input, or mappings. A row has a `prompt` or `messages`, perhaps an `id` (else its number, from
            1), and columns that are carried through. They are never all in memory.
        out: The file for the results: JSON lines, or Parquet if it ends with ``.parquet``.
        pipeline: The pipeline that answers and judges.
        task_limit: How many rows are under way at once.
        limit: Rows to answer this time, at most.
        retry_failed: Ask those rows again that failed or had an error.
        max_failures: Start no more rows once this number of rows have failed or had an error.
        token_budget: Start no more rows once the table's results have taken this number of tokens.
        on_event: Called with each result once it is on the disk, and with each slowing down; on the event loop,
            one call after the other.

    Returns:
        How it went. A row that raised is a row with an error.

    Raises:
        UsageError: If an argument or a row is invalid, `out` is of another pipeline, or the disk is full.
            Kept results stay.
        AuthenticationError: If the provider refuses the key: no row can be answered then.
        UnknownModelError: If it knows no such model.
        Exception: What `on_event` raises.

    Example:
        >>> import asyncio, tempfile
        >>> from streamval import Pipeline, ScriptedBackend
        >>> pipeline = Pipeline(ScriptedBackend("All is well."))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = Path(folder, "out.jsonl")
        ...     result = asyncio.run(batch([{"id": "a", "prompt": "How is it?"}], out, pipeline))
        ...     result.ended, result.in_all.valid, out.read_text()[:30]
        ('done', 1, '{"id":"a","success":true,"text')
    """
    if not isinstance(pipeline, Pipeline):
        raise UsageError(
            f"pipeline must be a Pipeline, not {type(pipeline).__name__}; call the function that makes it"
        )
    job = Job(
        rows,
        out,
        fingerprint(pipeline),
        task_limit=task_limit,
        limit=limit,
        retry_failed=retry_failed,
        max_failures=max_failures,
        token_budget=token_budget,
        on_event=on_event,
    )
    return await job.run(Answering(pipeline, job.tell))


class Job:
    """One start of a job, which can be stopped; see `batch` for the arguments.

    Attributes:
        out: The results, as given.
        task_limit: As given.
        tell: Called with each event.
        progress: How far it has come.
    """

    def __init__(
        self,
        rows: Source,
        out: str | Path,
        settings: Mapping[str, str],
        *,
        task_limit: int = 64,
        limit: int | None = None,
        retry_failed: bool = False,
        max_failures: int | None = None,
        token_budget: int | None = None,
        on_event: Callable[[BatchEvent], object] | None = None,
        on_start: Callable[[BatchProgress], object] | None = None,
    ) -> None:
        counted = {
            "task_limit": task_limit,
            "limit": limit,
            "max_failures": max_failures,
            "token_budget": token_budget,
        }
        for name, value in counted.items():
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}")
        if inspect.iscoroutinefunction(on_event):
            raise UsageError("on_event must be a plain function: nothing awaits it")
        self.out = Path(out)
        check_output(self.out, rows)
        check_source(rows)
        self._rows, self._settings = rows, settings
        self.task_limit, self._limit, self._retry_failed = task_limit, limit, retry_failed
        self._max_failures, self._token_budget = max_failures, token_budget
        self.tell = on_event or (lambda _: None)
        self._on_start = on_start or (lambda _: None)
        self._stop = asyncio.Event()
        self._ended: Ended = "done"
        self._began = 0.0
        self._taken = self._wrong = self._tokens = 0
        self.progress = BatchProgress()
        self._answers: Answers | None = None

    def stop(self, ended: Ended = "stopped") -> None:
        """Begin no more rows. Those under way are answered and kept."""
        if not self._stop.is_set():
            self._ended = ended
            self._stop.set()
            if self._answers is not None and ended == "stopped":
                self._answers.stop()

    async def run(self, answers: Answers) -> BatchResult:
        """Run to the end.

        Args:
            answers: Who answers a row.
        """
        self._answers = answers
        table = await self._opened()
        try:
            try:
                known = await self._all_answered(table, answers)
            except BaseExceptionGroup as group:
                raise _first(group) from None
            in_all = await asyncio.to_thread(table.counts)
            if known and in_all.done == in_all.rows and self._ended != "stopped":
                self._ended = "done"  # the limits were not reached
            elif self._ended == "done":
                raise UsageError(
                    f"{in_all.rows - in_all.done} rows are no longer there since they were checked; the results so far "
                    "are kept: run the same command again"
                )
            if known:  # else it was stopped before the rows had been read
                await asyncio.to_thread(write, self.out, table.records, self._rows)
        finally:
            await _to_its_end(table.close)
        return BatchResult(self._ended, self.progress, in_all)

    async def _opened(self) -> Table:
        """Open the table. If this is cancelled meanwhile, the table is closed once it is open."""
        opening = asyncio.ensure_future(asyncio.to_thread(Table, self.out, self._settings))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(Exception):
                (await opening).close()
            raise

    async def _all_answered(self, table: Table, answers: Answers) -> bool:
        """Answer the rows. Return False if the job was stopped while it checked them."""
        known = rereadable(self._rows)
        if not known:
            await asyncio.to_thread(table.begin, gathering=True)
        elif not await self._registered(table):
            return False
        before = await asyncio.to_thread(table.counts)
        accepted = before.valid if self._retry_failed else before.done
        self._tokens = before.tokens
        self._began = time.monotonic()
        total = max(before.rows - accepted, 0) if known else None
        if total is not None and self._limit is not None:
            total = min(total, self._limit)
        self.progress = BatchProgress(total=total, earlier=accepted)
        self._on_start(self.progress)
        self._check_limits()
        results: asyncio.Queue[Kept | None] = asyncio.Queue(MOST_WAITING)
        broken: Exception | None = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_all(table, results))
            try:
                await self._answer_all(self._missing(table, registered=known), answers, results)
            except ExceptionGroup as errors:  # the results of other rows are kept first
                broken = errors
            await results.put(None)
        if broken is not None:
            raise broken
        return True

    async def _answer_all(
        self,
        missing: AsyncGenerator[InputRow],
        answers: Answers,
        results: asyncio.Queue[Kept | None],
    ) -> None:
        started, reading = 1, asyncio.Lock()
        # Rows that wait in another process would be answered behind these limits as well.
        ahead = 0 if self._max_failures or self._token_budget else answers.ahead

        async def work() -> None:
            nonlocal started
            new = True
            while True:
                async with reading:
                    row = await anext(missing, None)
                if row is None:
                    return
                if new and started < self.task_limit + ahead:  # as many as there are rows for
                    started += 1
                    workers.create_task(work())
                new = False
                kept = await answers.answer(row)
                if kept is None:  # it has been put back
                    return
                self._tokens += kept.tokens
                self._wrong += kept.outcome != "valid"
                self._check_limits()
                await results.put(kept)

        # Not aiostream's `map`: to find a finished row, it looks at all running ones.
        async with aclosing(missing), asyncio.TaskGroup() as workers:
            workers.create_task(work())

    async def _registered(self, table: Table) -> bool:
        """Check and register all rows of a new or changed source. Return False if the job was stopped."""
        source = _identity(self._rows)
        if source is not None and table.has_read(source):
            return True

        def check() -> bool:
            table.begin()
            for rows in read(self._rows):
                table.register(rows)
                if self._stop.is_set():
                    return False
            table.finish(source)
            return True

        return await asyncio.to_thread(check)

    async def _missing(self, table: Table, *, registered: bool) -> AsyncGenerator[InputRow]:
        """Yield rows without a result, until there are none left or a limit is reached."""
        batches = read(self._rows)
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while not self._stop.is_set():
                coming = asyncio.ensure_future(in_daemon(lambda: next(batches, None)))
                await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():  # do not wait for a silent pipe
                    coming.cancel()
                    return
                rows = coming.result()
                if rows is None:
                    return
                if not registered:
                    await asyncio.to_thread(table.register, rows)
                for row in await asyncio.to_thread(
                    table.missing, rows, retry_failed=self._retry_failed
                ):
                    if self._stop.is_set():
                        return
                    if self._taken == self._limit:
                        self.stop("limit")
                        return
                    self._taken += 1
                    yield row
        finally:
            stopped.cancel()

    async def _keep_all(self, table: Table, results: asyncio.Queue[Kept | None]) -> None:
        """Keep results as they come: while some are written, the next ones gather."""
        more = True
        while more:
            ready = [await results.get()]
            while not results.empty():
                ready.append(results.get_nowait())
            more = None not in ready
            kept = [one for one in ready if one is not None]
            if kept:
                await asyncio.to_thread(table.keep, kept)
            for one in kept:
                self._report(one)

    def _report(self, kept: Kept) -> None:
        self.progress = self.progress.with_one_more(kept, time.monotonic() - self._began)
        self.tell(RowEvent(kept.record, kept.outcome, self.progress))

    def _check_limits(self) -> None:
        """Stop as soon as a limit is reached, even before the results are on the disk."""
        if self._max_failures is not None and self._wrong >= self._max_failures:
            self.stop("failures")
        if self._token_budget is not None and self._tokens >= self._token_budget:
            self.stop("tokens")


def _identity(rows: Source) -> str | None:
    """Return the identity of a file: path, size, mtime."""
    if not isinstance(rows, (str, Path)):
        return None
    try:
        found = Path(rows).stat()
    except OSError:
        return None
    return f"{Path(rows).resolve()} {found.st_size} {found.st_mtime_ns}"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, which is the one that callers expect."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _to_its_end(fn: Callable[[], None]) -> None:
    """Call a function on a thread. If this is cancelled meanwhile, the function has still ended afterwards."""
    working = asyncio.ensure_future(asyncio.to_thread(fn))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
