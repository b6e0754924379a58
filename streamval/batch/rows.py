"""The rows of a job: read from JSON lines, Parquet, standard input or Python, and checked, a batch at a time."""

from __future__ import annotations

import gzip
import hashlib
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_core import from_json, to_json

from streamval.backends.base import as_messages
from streamval.errors import UsageError

if TYPE_CHECKING:
    from streamval.backends.base import Prompt
    from streamval.types.context import Message

Source: TypeAlias = "str | Path | Iterable[Mapping[str, Any]]"
"""Where rows come from: a file's name, ``"-"`` for standard input, or rows as mappings."""

MAX_LINE = 64 * 2**20
"""Bytes of a line. A longer one is no row, but a file of another kind."""

AT_ONCE = 1000
"""Rows that are read in one batch."""

BOM = b"\xef\xbb\xbf"
"""What some editors put before the first line."""

GATHERING = 0.05
"""Seconds in which rows that come one after the other are gathered into a batch."""

RESULT = (
    "id",
    "success",
    "text",
    "parsed",
    "failures",
    "attempts",
    "usage",
    "finish_reason",
    "error",
)
"""What a result has. A row's column of such a name is carried as ``input_…``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        number: Its place among the rows, from 1: its line in a file of lines without empty ones.
        id: What it is known by: its `id`, else its number.
        prompt: The conversation that is to be answered.
        carried: Its other columns.
        digest: Eight bytes of its prompt: what tells that a row has changed.
    """

    number: int
    id: str | int
    prompt: tuple[Message, ...]
    carried: Mapping[str, Any]
    digest: bytes

    @property
    def key(self) -> str:
        """The id as text: ``1`` and ``"1"`` are the same row."""
        return str(self.id)


def rereadable(source: Source) -> bool:
    """Whether it can be read twice, so that all of it can be checked before the first row is asked.

    Example:
        >>> rereadable("rows.jsonl"), rereadable("-"), rereadable([{"prompt": "Hi"}])
        (True, False, True)
    """
    if isinstance(source, (str, Path)):
        return str(source) != "-" and not _is_pipe(Path(source))
    # What gives the same iterator each time can be gone through once.
    return not isinstance(source, Iterable) or iter(source) is not iter(source)


def check_source(source: Source) -> None:
    """Refuse a file that is not there, before anything is written.

    Raises:
        UsageError: If it is not.
    """
    if isinstance(source, (str, Path)) and str(source) != "-" and not Path(source).exists():
        message = f"{source} cannot be read: No such file or directory"
        raise UsageError(message)


def name_of(source: Source) -> str:
    """What messages call it."""
    if isinstance(source, (str, Path)):
        return "standard input" if str(source) == "-" else str(source)
    return "the rows"


def read(source: Source) -> Iterator[list[Row]]:
    """Read rows, several at a time, as many as have come. Blocks while it waits for more.

    Args:
        source: See `Source`. ``.parquet`` is read by pyarrow; anything else is JSON, a line a row, ``.gz`` of it
            compressed.

    Yields:
        Rows in order, none of them twice. Not all are in memory.

    Raises:
        UsageError: If the source cannot be read, or a row is none; the message says where.
    """
    number = 0
    for found in _found(source):
        rows = []
        for place, given in found:
            number += 1
            rows.append(row_of(number, place, given))
        if rows:
            yield rows


def _found(source: Source) -> Iterator[Iterable[tuple[str, Any]]]:
    """What the rows are made of, and where each was found."""
    if not isinstance(source, (str, Path)):
        if isinstance(source, Mapping) or not isinstance(source, Iterable):
            message = f"rows are a file's name or a list of mappings, not {type(source).__name__}"
            raise UsageError(message)
        return _numbered(source)
    if str(source) == "-":
        if sys.stdin is None:
            message = "there is no standard input to read rows from"
            raise UsageError(message)
        # Not the buffer: a thread that waits in it would hold its lock when the process ends.
        return _lines(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), "standard input")
    path = Path(source)
    return _parquet(path) if path.suffix == ".parquet" else _file(path)


def _numbered(rows: Iterable[Any]) -> Iterator[list[tuple[str, Any]]]:
    batch, began = [], time.monotonic()
    for number, row in enumerate(rows, 1):
        batch.append((f"row {number}", row))
        if len(batch) == AT_ONCE or time.monotonic() - began > GATHERING:
            yield batch
            batch, began = [], time.monotonic()
    yield batch


def _file(path: Path) -> Iterator[Iterator[tuple[str, Any]]]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield from _lines(file, str(path))
    except (EOFError, zlib.error) as error:
        message = f"{path} is cut or damaged: {error}"
        raise UsageError(message) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _lines(file: Any, name: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Lines as they come: a pipe's without waiting for a whole block of them."""
    rest, number = b"", 0

    def parsed(lines: list[bytes]) -> Iterator[tuple[str, Any]]:
        nonlocal number
        for line in lines:
            number += 1
            if line.strip():
                place = f"{name}, line {number}"
                try:
                    yield place, from_json(line)
                except ValueError as error:
                    message = f"{place} is no JSON: {error}; rows are JSON lines, or Parquet"
                    raise UsageError(message) from None

    read_some = getattr(file, "read1", file.read)
    first = True
    while block := read_some(2**18):
        block, first = block.removeprefix(BOM) if first else block, False
        *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        if len(rest) > MAX_LINE:
            message = f"{name}, line {number + 1} is longer than {MAX_LINE // 2**20} MiB: is it a file of JSON lines?"
            raise UsageError(message)
        if lines:
            yield parsed(lines)
    yield parsed([rest])


def _parquet(path: Path) -> Iterator[Iterator[tuple[str, Any]]]:
    parquet = pyarrow_parquet()
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(AT_ONCE):
                rows = _in_microseconds(batch).to_pylist()
                yield iter([(f"{path}, row {at}", row) for at, row in enumerate(rows, number + 1)])
                number += len(rows)
    except OSError as error:
        raise _unreadable(path, error) from None
    except Exception as error:
        if isinstance(error, UsageError):
            raise
        message = f"{path} is no Parquet file: {error}"
        raise UsageError(message) from None


def _in_microseconds(batch: Any) -> Any:
    """Python's own times have no nanoseconds."""
    import pyarrow as pa  # an optional extra

    def coarser(field: Any) -> Any:
        kind = field.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            return field.with_type(pa.timestamp("us", kind.tz))
        if pa.types.is_time64(kind):
            return field.with_type(pa.time64("us"))
        if pa.types.is_duration(kind) and kind.unit == "ns":
            return field.with_type(pa.duration("us"))
        return field

    schema = pa.schema([coarser(field) for field in batch.schema])
    if schema == batch.schema:
        return batch
    return pa.Table.from_batches([batch]).cast(schema, safe=False)


def pyarrow_parquet() -> Any:
    """The module that reads and writes Parquet.

    Raises:
        UsageError: If it is not installed.
    """
    try:
        from pyarrow import parquet  # an optional extra
    except ImportError:
        message = "Parquet needs an extra: pip install 'streamval-llm[parquet]'"
        raise UsageError(message) from None
    return parquet


def row_of(number: int, place: str, given: Any) -> Row:
    """A row, checked.

    Args:
        number: Its place among the rows.
        place: What a message calls it.
        given: What it is made of.

    Raises:
        UsageError: If it is none.
    """
    if not isinstance(given, Mapping):
        message = f"{place} is no row: it has to be an object with a `prompt` or `messages`"
        raise UsageError(message)
    prompt, messages, its_id = map(given.get, ("prompt", "messages", "id"))
    if (prompt is None) == (messages is None):
        there = "both `prompt` and `messages`" if prompt is not None else "neither of them"
        columns = ", ".join(map(repr, list(given)[:20])) or "nothing"
        message = f"{place}: a row has a `prompt`, a string, or `messages`, a list; it has {there} ({columns})"
        raise UsageError(message)
    if its_id is not None and (isinstance(its_id, bool) or not isinstance(its_id, (str, int))):
        message = f"{place}: an `id` is a string or a whole number, not {its_id!r}"
        raise UsageError(message)
    try:
        asked = as_messages(cast("Prompt", prompt if messages is None else messages))
    except UsageError as error:
        message = f"{place}: {error}"
        raise UsageError(message) from None
    carried = carried_in(given)
    if len(carried) < len(given.keys() - {"id", "prompt", "messages"}):
        message = f"{place}: two columns would have one name in the result ({', '.join(map(str, carried))}): rename one"
        raise UsageError(message)
    its_id = number if its_id is None else its_id
    try:
        said = to_json([(turn.role, turn.content) for turn in asked])
        str(its_id).encode()
    except ValueError as error:  # half a surrogate pair, a number of thousands of digits
        message = f"{place}: the prompt or the id cannot be written down: {str(error)[:200]}"
        raise UsageError(message) from None
    digest = hashlib.blake2b(said, digest_size=8).digest()
    return Row(number, its_id, asked, carried, digest)


def carried_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that are carried through.

    Example:
        >>> carried_in({"id": 7, "prompt": "Hi", "topic": "sea", "text": "mine"})
        {'topic': 'sea', 'input_text': 'mine'}
    """
    return {
        f"input_{name}" if name in RESULT else str(name): value
        for name, value in given.items()
        if name not in ("id", "prompt", "messages")
    }


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be read: {error.strerror or error}")


def _is_pipe(path: Path) -> bool:
    return path.exists() and not path.is_file()
