"""The results as a file: JSON lines or Parquet, written beside it first and then put in its place."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json, to_json

from streamval.batch.rows import AT_ONCE, RESULT, pyarrow_parquet
from streamval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamval.batch.rows import Source

Records: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes a new iterator over the results, each a line of JSON."""


def check_output(out: Path, rows: Source) -> None:
    """Refuse a place where no results can go.

    Raises:
        UsageError: If it cannot.
    """
    if out.is_dir() or not out.parent.is_dir():
        there = f"{out} is a folder" if out.is_dir() else f"there is no folder {out.parent}"
        message = f"{there}: name a file for the results"
        raise UsageError(message)
    if isinstance(rows, (str, Path)) and out.resolve() == Path(rows).resolve():
        message = f"the results cannot go over the rows in {out}: name another file"
        raise UsageError(message)
    if out.suffix == ".parquet":
        pyarrow_parquet()


def write(out: Path, records: Records, rows: Source) -> None:
    """Write the results, all or nothing: what was there stays until they are whole.

    Args:
        out: Where to.
        records: The results.
        rows: Where the rows came from: the columns of a Parquet file keep their types.

    Raises:
        UsageError: If there is no room.
    """
    try:
        with tempfile.NamedTemporaryFile(
            dir=out.parent, prefix=f".{out.name}.", delete=False
        ) as file:
            try:
                if out.suffix == ".parquet":
                    _write_parquet(Path(file.name), records, rows)
                else:
                    file.writelines(record + b"\n" for record in records())
                    file.flush()
                    os.fsync(file.fileno())
                umask = os.umask(0)
                os.umask(umask)
                Path(file.name).chmod(0o666 & ~umask)
                Path(file.name).replace(out)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        message = (
            f"{out} cannot be written: {error.strerror or error}; the results are kept in its table: "
            "mend that, and give the same command again"
        )
        raise UsageError(message) from None


def _write_parquet(path: Path, records: Records, rows: Source) -> None:
    parquet = pyarrow_parquet()
    carried = _types_of(rows) or _types_seen(records)
    its_id = carried.pop("id", None)
    with parquet.ParquetWriter(path, _schema(its_id, carried)) as writer:
        for batch in _batched(records()):
            writer.write_table(columns_of_results(batch, its_id, carried))


def _schema(its_id: Any, carried: Mapping[str, Any]) -> Any:
    import pyarrow as pa  # an optional extra

    names = ("prompt", "completion", "discarded", "reused")
    ours = {
        "success": pa.bool_(),
        "text": pa.string(),
        "parsed": pa.string(),  # JSON: what it is depends on the row
        "failures": pa.list_(pa.struct([("requirement", pa.string()), ("reason", pa.string())])),
        "attempts": pa.int64(),
        "usage": pa.struct([(f"{name}_tokens", pa.int64()) for name in names]),
        "finish_reason": pa.string(),
        "error": pa.string(),
    }
    return pa.schema({"id": its_id or pa.string(), **carried, **ours})


def columns_of_results(
    records: Sequence[dict[str, Any]], its_id: Any, carried: Mapping[str, Any]
) -> Any:
    """Results as a table of pyarrow.

    Args:
        records: Results, read from JSON.
        its_id: The type of the ids; `None` for text.
        carried: The types of the rows' own columns.
    """
    import pyarrow as pa  # an optional extra

    schema = _schema(its_id, carried)
    columns = [
        _column([_cell(record, field.name) for record in records], field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cell(record: Mapping[str, Any], name: str) -> Any:
    value = record.get(name)
    return to_json(value).decode() if name == "parsed" and value is not None else value


def in_columns(batch: Any) -> Any:
    """A batch, as Ray or another library has it, as a table of pyarrow."""
    import pyarrow as pa  # an optional extra

    if isinstance(batch, pa.Table):
        return batch
    if hasattr(batch, "to_dict") and not isinstance(batch, Mapping):  # of pandas
        return pa.Table.from_pandas(batch, preserve_index=False)
    return pa.table({name: list(values) for name, values in batch.items()})


def _batched(records: Iterable[bytes]) -> Iterator[list[dict[str, Any]]]:
    coming = iter(records)
    while batch := [from_json(record) for record in islice(coming, AT_ONCE)]:
        yield batch


def _types_of(rows: Source) -> dict[str, Any]:
    """The types of a Parquet file's columns, under the names that they are carried by."""
    if not isinstance(rows, (str, Path)) or Path(rows).suffix != ".parquet":
        return {}
    return {
        f"input_{field.name}" if field.name in RESULT and field.name != "id" else field.name: (
            field.type
        )
        for field in pyarrow_parquet().read_schema(rows)
        if field.name not in ("prompt", "messages")
    }


def _types_seen(records: Records) -> dict[str, Any]:
    """Types that fit all values of a column; a column of values that do not go together is JSON."""
    import pyarrow as pa

    types: dict[str, Any] = {}
    for batch in _batched(records()):
        for name in {name for record in batch for name in record} - (set(RESULT) - {"id"}):
            values = [record.get(name) for record in batch]
            try:
                seen = pa.array(values).type
                known = types.get(name, seen)
                pair = [pa.schema({"a": known}), pa.schema({"a": seen})]
                types[name] = pa.unify_schemas(pair, promote_options="permissive").field("a").type
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                types[name] = pa.string()
    return {name: pa.string() if pa.types.is_null(kind) else kind for name, kind in types.items()}


def _column(values: list[Any], kind: Any) -> Any:
    """Values that have been JSON as a column of a type."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        values = [
            value if value is None or isinstance(value, str) else to_json(value).decode()
            for value in values
        ]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if value is None else base64.urlsafe_b64decode(value) for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array(values, pa.string()).cast(
            kind
        )  # dates, decimals: written as JSON writes them
