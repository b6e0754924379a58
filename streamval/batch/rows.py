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
from typing import Any, TypeAlias, cast

from pydantic_core import from_json, to_json

from streamval.backends.base import Prompt, as_messages
from streamval.errors import UsageError
from streamval.types.messages import Message

Source: TypeAlias = "str | Path | Iterable[Mapping[str, Any]]"
"""Where rows come from: a file's name, ``"-"`` for standard input, or rows as mappings."""

MAX_LINE = 64 * 2**20
"""Bytes of the longest line. A longer one means a file of another kind."""

AT_ONCE = 1000
"""Rows that are read in one batch."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark that some editors write before the first line."""

GATHERING = 0.05
"""Seconds in which rows are gathered into a batch."""

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
class InputRow:
    """One row.

    Attributes:
        number: Its position among the rows, from 1; empty lines do not count.
        id: Its `id`, else its number.
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
    """Return whether the source can be read twice. If so, all rows are checked before the first is answered.

    Example:
        >>> rereadable("rows.jsonl"), rereadable("-"), rereadable([{"prompt": "Hi"}])
        (True, False, True)
    """
    if isinstance(source, (str, Path)):
        return str(source) != "-" and not _is_pipe(Path(source))
    # Iterators can be read only once.
    return not isinstance(source, Iterable) or iter(source) is not iter(source)


def check_source(source: Source) -> None:
    """Refuse a file that is not there, before anything is written.

    Raises:
        UsageError: If the file does not exist.
    """
    if isinstance(source, (str, Path)) and str(source) != "-" and not Path(source).exists():
        raise UsageError(f"{source} cannot be read: No such file or directory")


def name_of(source: Source) -> str:
    """Return its name for messages."""
    if isinstance(source, (str, Path)):
        return "standard input" if str(source) == "-" else str(source)
    return "the rows"


def read(source: Source) -> Iterator[list[InputRow]]:
    """Read rows, several at a time, as many as have come. Blocks while it waits for more.

    Args:
        source: See `Source`. ``.parquet`` is read by pyarrow; anything else is JSON, a line a row, ``.gz`` of it
            compressed.

    Yields:
        Batches of rows, in order. They are never all in memory.

    Raises:
        UsageError: If the source cannot be read, or a row is invalid; the message has its line.
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
    """Yield the fields of the rows, and where each was found."""
    if not isinstance(source, (str, Path)):
        if isinstance(source, Mapping) or not isinstance(source, Iterable):
            raise UsageError(
                f"rows are a file's name or a list of mappings, not {type(source).__name__}"
            )
        return _numbered(source)
    if str(source) == "-":
        if sys.stdin is None:
            raise UsageError("there is no standard input to read rows from")
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
        raise UsageError(f"{path} is cut or damaged: {error}") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _lines(file: Any, name: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Yield lines as they come, without waiting for a whole block of a pipe."""
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
                    raise UsageError(
                        f"{place} is not JSON: {error}; rows are JSON lines, or Parquet"
                    ) from None

    read_some = getattr(file, "read1", file.read)
    first = True
    while block := read_some(2**18):
        block, first = block.removeprefix(BOM) if first else block, False
        *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        if len(rest) > MAX_LINE:
            raise UsageError(
                f"{name}, line {number + 1} is longer than {MAX_LINE // 2**20} MiB: is it a file of JSON lines?"
            )
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
        raise UsageError(f"{path} is not a Parquet file: {error}") from None


def _in_microseconds(batch: Any) -> Any:
    """Cast nanoseconds to microseconds, because Python's time types have no nanoseconds."""
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
    """Return the module that reads and writes Parquet.

    Raises:
        UsageError: If it is not installed.
    """
    try:
        from pyarrow import parquet  # an optional extra
    except ImportError:
        raise UsageError("Parquet needs an extra: pip install 'streamval-llm[parquet]'") from None
    return parquet


def row_of(number: int, place: str, given: Any) -> InputRow:
    """Return a row, checked.

    Args:
        number: Its place among the rows.
        place: What a message calls it.
        given: The fields of the row.

    Raises:
        UsageError: If it is not a row.
    """
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{place} is not a row: it has to be an object with a `prompt` or `messages`"
        )
    prompt, messages, its_id = map(given.get, ("prompt", "messages", "id"))
    if (prompt is None) == (messages is None):
        there = "both `prompt` and `messages`" if prompt is not None else "neither of them"
        columns = ", ".join(map(repr, list(given)[:20])) or "nothing"
        raise UsageError(
            f"{place}: a row has a `prompt`, a string, or `messages`, a list; it has {there} ({columns})"
        )
    if its_id is not None and (isinstance(its_id, bool) or not isinstance(its_id, (str, int))):
        raise UsageError(f"{place}: an `id` is a string or a whole number, not {its_id!r}")
    try:
        asked = as_messages(cast("Prompt", prompt if messages is None else messages))
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    carried = carried_in(given)
    if len(carried) < len(given.keys() - {"id", "prompt", "messages"}):
        raise UsageError(
            f"{place}: two columns would have one name in the result ({', '.join(map(str, carried))}): rename one"
        )
    its_id = number if its_id is None else its_id
    try:
        said = to_json([(turn.role, turn.content) for turn in asked])
        str(its_id).encode()
    except ValueError as error:  # half a surrogate pair, a number of thousands of digits
        raise UsageError(
            f"{place}: the prompt or the id cannot be stored: {str(error)[:200]}"
        ) from None
    digest = hashlib.blake2b(said, digest_size=8).digest()
    return InputRow(number, its_id, asked, carried, digest)


def carried_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that its result repeats.

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
