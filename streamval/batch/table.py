"""The ledger table of a job in SQLite: its rows and their results.

    job       the settings of the pipeline, and how often the rows have been read
    row       key, id, place among the rows, digest of the prompt
    result    key, digest of the prompt it answers, outcome, tokens, the result as JSON

Results are on the disk before they are reported. After a kill the table is as it was after the last batch that
was kept (write-ahead log, https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from filelock import FileLock, Timeout

from streamval.batch.rows import InputRow
from streamval.errors import UsageError

Outcome = Literal["valid", "failed", "error"]

APPLICATION = 0x53564C42
"""The application id of our SQLite files: "SVLB"."""

BUSY_SECONDS = 30.0
"""How long another program may hold the table."""

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
CREATE TABLE job (version INTEGER NOT NULL, settings TEXT NOT NULL, reading INTEGER NOT NULL, read TEXT);
CREATE TABLE row (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, number INTEGER NOT NULL, reading INTEGER NOT NULL, digest BLOB NOT NULL
);
CREATE INDEX in_order ON row (reading, number);
CREATE TABLE result (
    key INTEGER PRIMARY KEY, digest BLOB NOT NULL, outcome TEXT NOT NULL, tokens INTEGER NOT NULL, record BLOB NOT NULL
);
"""
VERSION = 1

GATHERED = "-"
"""The identity of a source whose rows all count, because it can be read only once."""

OF_NOW = "(row.reading = (SELECT reading FROM job) OR (SELECT read FROM job) = '-')"
"""The rows of a job, in SQL: those of the last reading, or all rows that were ever read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of a row, to be kept.

    Attributes:
        row: The row.
        outcome: ``"valid"``, ``"failed"`` (it never was valid) or ``"error"`` (it raised).
        tokens: Generated for it.
        record: The result, as JSON.
    """

    row: InputRow
    outcome: Outcome
    tokens: int
    record: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a job has come, all of its starts together.

    Attributes:
        rows: Read so far.
        valid: Rows whose result is valid.
        failed: Rows that were never valid.
        errors: Rows that raised.
        tokens: Tokens of the kept results.
    """

    rows: int = 0
    valid: int = 0
    failed: int = 0
    errors: int = 0
    tokens: int = 0

    @property
    def done(self) -> int:
        """Rows with a result."""
        return self.valid + self.failed + self.errors


class Table:
    """The table beside `out`, open and locked against another job.

    Args:
        out: Where the results go; the table is ``OUT.sqlite``.
        settings: Of the pipeline; see `fingerprint`.

    Raises:
        UsageError: If it is of another pipeline, another job uses it, or it is not a table of a job.
    """

    def __init__(self, out: Path, settings: Mapping[str, str]) -> None:
        self.path, self._out = table_of(out), out
        self._alone = threading.Lock()
        self._lock = FileLock(f"{self.path}.lock", timeout=0, mode=0o600, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            raise UsageError(
                f"another job is writing {out}: wait for it, or name another file"
            ) from None
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror or error}") from None
        try:
            with sqlite_errors(self.path):
                self._connection = self._opened(settings)
        except BaseException:
            self._lock.release()
            raise

    def _opened(self, settings: Mapping[str, str]) -> sqlite3.Connection:
        new = not self.path.exists() or not self.path.stat().st_size
        if new and self._out.exists() and self._out.stat().st_size:
            raise UsageError(
                f"{self._out} exists, and no job wrote it: name another file, or delete it"
            )
        if (
            new
        ):  # what a model wrote is for its owner; SQLite's other files get the same permissions
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if not new:
                _check_kind(connection, self.path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            if new or not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                wanted = json.dumps(dict(settings))
                connection.execute("INSERT INTO job VALUES (?, ?, 0, NULL)", (VERSION, wanted))
            before, self._reading, self._read = connection.execute(
                "SELECT settings, reading, read FROM job"
            ).fetchone()
            connection.execute("COMMIT")
            _check_same(json.loads(before), settings, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def has_read(self, source: str) -> bool:
        """Return whether the rows of `source` have been registered completely."""
        return bool(self._read == source)

    def begin(self, *, gathering: bool = False) -> None:
        """Begin to read the rows anew.

        Args:
            gathering: The source can be read only once, so earlier rows stay.
        """
        with self._used() as connection:
            self._reading += 1
            self._read = GATHERED if gathering else None
            statement = "UPDATE job SET reading = ?, read = ?"
            connection.execute(statement, (self._reading, self._read))

    def finish(self, source: str | None) -> None:
        """Note that the rows have been read to their end."""
        with self._used() as connection:
            connection.execute("UPDATE job SET read = ?", (source,))

    def register(self, rows: Sequence[InputRow]) -> None:
        """Add rows, or update those of an earlier reading.

        Raises:
            UsageError: If two rows of this reading have the same id.
        """
        statement = (
            "INSERT INTO row (id, number, reading, digest) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET number = excluded.number, reading = excluded.reading, "
            "digest = excluded.digest WHERE reading <> excluded.reading"
        )
        values = [(row.key, row.number, self._reading, row.digest) for row in rows]
        with self._transaction() as connection:
            if connection.executemany(statement, values).rowcount < len(rows):
                raise self._twice(connection, rows)

    def _twice(self, connection: sqlite3.Connection, rows: Sequence[InputRow]) -> UsageError:
        for row in rows:
            (number,) = connection.execute(
                "SELECT number FROM row WHERE id = ?", (row.key,)
            ).fetchone()
            if number != row.number:
                first, second = sorted((number, row.number))
                break
        message = (
            f"rows {first} and {second} have the same id, {row.id!r}: an id names one row; "
            "leave ids out to number the rows"
        )
        return UsageError(message)

    def missing(self, rows: Sequence[InputRow], *, retry_failed: bool = False) -> list[InputRow]:
        """Return the rows without a result, or with the result of another prompt.

        Args:
            rows: Registered ones.
            retry_failed: Also return rows whose result is not valid.

        Raises:
            UsageError: If one is not as it was registered.
        """
        statement = (
            "SELECT id, row.digest, coalesce(row.digest = result.digest, FALSE), outcome "
            f"FROM row LEFT JOIN result USING (key) WHERE id IN ({','.join('?' * len(rows))})"
        )
        with self._used() as connection:
            found = connection.execute(statement, [row.key for row in rows])
            there = {key: known for key, *known in found}
        missing = []
        for row in rows:
            digest, answered, outcome = there.get(row.key, (None, False, None))
            if digest != row.digest:
                raise UsageError(
                    f"row {row.number} ({row.id!r}) has changed since the rows were checked; the results so far are kept: "
                    "run the same command again"
                )
            if not answered or (retry_failed and outcome != "valid"):
                missing.append(row)
        return missing

    def keep(self, results: Sequence[Kept]) -> None:
        """Keep results of registered rows in one transaction."""
        statement = "INSERT OR REPLACE INTO result SELECT key, ?, ?, ?, ? FROM row WHERE row.id = ?"
        values = [
            (one.row.digest, one.outcome, one.tokens, one.record, one.row.key) for one in results
        ]
        with self._transaction() as connection:
            connection.executemany(statement, values)

    def counts(self) -> Counts:
        """Return the counts of the job."""
        with self._used() as connection:
            return _counts(connection)

    def records(self) -> Iterator[bytes]:
        """Yield the results of the job's rows, in their order. Other calls wait until the end."""
        # One condition, so that SQLite can use the index.
        wanted = "TRUE" if self._read == GATHERED else f"reading = {self._reading:d}"
        with self._used() as connection:
            found = connection.execute(
                "SELECT record FROM row CROSS JOIN result USING (key) "
                f"WHERE {wanted} AND row.digest = result.digest ORDER BY number"
            )
            for (record,) in found:
                yield record

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to one thread at a time. Closing it while it is used crashes the process."""
        with self._alone, sqlite_errors(self.path):
            yield self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._used() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the table and release its lock, once no thread uses it."""
        with self._alone:
            self._connection.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def table_of(out: Path) -> Path:
    """Return the path of a job's table.

    Example:
        >>> table_of(Path("answers.jsonl")).name
        'answers.jsonl.sqlite'
    """
    return out.with_name(f"{out.name}.sqlite")


def status(out: str | Path) -> Counts:
    """Return the counts of the job that writes `out`, while it runs or afterwards.

    Raises:
        UsageError: If there is no such table.
    """
    path = table_of(Path(out))
    if not path.is_file():
        raise UsageError(f"there is no job of {out}: {path} is missing")
    with sqlite_errors(path):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=5)
        try:
            _check_kind(connection, path)
            return _counts(connection)
        finally:
            connection.close()


def _counts(connection: sqlite3.Connection) -> Counts:
    (rows,) = connection.execute(f"SELECT count(*) FROM row WHERE {OF_NOW}").fetchone()
    found = {
        outcome: (count, tokens)
        for outcome, count, tokens in connection.execute(
            "SELECT outcome, count(*), CAST(total(tokens) AS INTEGER) FROM row JOIN result USING (key) "
            f"WHERE {OF_NOW} AND row.digest = result.digest GROUP BY outcome"
        )
    }
    return Counts(
        rows=rows,
        valid=found.get("valid", (0, 0))[0],
        failed=found.get("failed", (0, 0))[0],
        errors=found.get("error", (0, 0))[0],
        tokens=sum(tokens for _, tokens in found.values()),
    )


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (kind,) = connection.execute("PRAGMA application_id").fetchone()
    if kind != APPLICATION and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise UsageError(
            f"{path} exists and is not the table of a job: name another file for the results"
        )


def _check_same(before: Mapping[str, str], now: Mapping[str, str], path: Path) -> None:
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed:
        changes = "; ".join(
            f"{name} was {before.get(name, 'not there')}, and is {now.get(name, 'not there')}"
            for name in changed
        )
        raise UsageError(
            f"the pipeline has changed since {path} was begun ({changes}): name another file for its "
            f"results, or delete both to begin anew"
        )


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into errors with advice. Kept results stay."""
    try:
        yield
    except sqlite3.Error as error:
        raise _with_advice(path, error) from error


def _with_advice(path: Path, error: sqlite3.Error) -> UsageError:
    code: Any = getattr(error, "sqlite_errorcode", None)
    match (code or 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            why = "the disk is full: make room"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = "another program holds it: close that"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            why = f"it cannot be written ({error}): fix that"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return UsageError(f"{path} is not the table of a job ({error}): name another file")
        case _:
            why = f"{error}: fix that"
    return UsageError(f"{path}: {why}, and run the same command again; the results so far are kept")
