"""Writes results as JSON lines or Parquet: to a temporary file, which then replaces the output file."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from streamval.batch.rows import AT_ONCE, RESULT, Source, pyarrow_parquet
from streamval.errors import UsageError

Records: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes a new iterator over the results, each a line of JSON."""


def check_output(out: Path, rows: Source) -> None:
    """Refuse a path to which results cannot be written.

    Raises:
        UsageError: If results cannot be written to `out`.
    """
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}: name a file for the results")
    if out.suffix == ".gz":
        raise UsageError(f"results are not compressed: name a file without .gz, such as {out.stem}")
    if str(out) == "-" or (out.exists() and not out.is_file()):
        kind = "a folder" if out.is_dir() else "no file"
        raise UsageError(f"{out} is {kind}: name a file for the results")
    if isinstance(rows, (str, Path)) and out.resolve() == Path(rows).resolve():
        raise UsageError(f"the results cannot go over the rows in {out}: name another file")
    if out.suffix == ".parquet":
        pyarrow_parquet()


def write(out: Path, records: Records, rows: Source) -> None:
    """Write the results in one step: an older file stays until they are complete.

    Args:
        out: Where to.
        records: The results.
        rows: Where the rows came from: the columns of a Parquet file keep their types.

    Raises:
        UsageError: If they cannot be written.
    """
    try:
        out = out.resolve()  # replace the target of a symbolic link, not the link
        # Always the same name: the job alone writes it, and what a kill leaves behind is written over.
        new = out.with_name(f".{out.name}.unfinished")
        try:
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                if out.suffix != ".parquet":
                    file.writelines(record + b"\n" for record in records())
                    file.flush()
                    os.fsync(file.fileno())
            if out.suffix == ".parquet":
                _write_parquet(new, records, rows)
            new.replace(out)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except (OSError, ValueError, TypeError, OverflowError) as error:  # pyarrow's are among them
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{out} cannot be written: {why}; the results are kept in its table: "
            "fix that, and run the same command again"
        ) from None


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
        "parsed": pa.string(),  # JSON: its type depends on the row
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
    """Return results as a pyarrow table.

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
    """Return a batch of Ray or another library as a table of pyarrow."""
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
    """Return the types of a Parquet file's columns, by the names in the results."""
    if not isinstance(rows, (str, Path)) or Path(rows).suffix != ".parquet":
        return {}
    import pyarrow as pa  # an optional extra

    found = {
        f"input_{field.name}" if field.name in RESULT and field.name != "id" else field.name: (
            portable(field.type) if field.name != "id" else _of_ids(field.type)
        )
        for field in pyarrow_parquet().read_schema(rows)
        if field.name not in ("prompt", "messages")
    }
    return {"id": pa.int64(), **found}


def _types_seen(records: Records) -> dict[str, Any]:
    """Return types that fit all values of each column; a column of incompatible values becomes text."""
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
            except (pa.ArrowException, OverflowError):
                types[name] = pa.string()
    return {name: portable(kind) for name, kind in types.items()}


def _of_ids(kind: Any) -> Any:
    """Return the type of the ids: int64 for signed integers, else text."""
    import pyarrow as pa

    return pa.int64() if pa.types.is_signed_integer(kind) else pa.string()


def portable(kind: Any, *, nested: bool = False) -> Any:
    """Return the type itself if its values survive JSON, else text."""
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_dictionary(kind):
        return portable(kind.value_type, nested=nested)
    plain = (
        is_a.is_boolean,
        is_a.is_integer,
        is_a.is_floating,
        is_a.is_string,
        is_a.is_large_string,
    )
    times = (is_a.is_date, is_a.is_timestamp, is_a.is_decimal, is_a.is_binary, is_a.is_large_binary)
    if any(test(kind) for test in plain) or (not nested and any(test(kind) for test in times)):
        return kind
    inside = []
    if is_a.is_list(kind):
        inside = [kind.value_type]
    elif is_a.is_struct(kind):
        inside = [kind.field(at).type for at in range(kind.num_fields)]
    whole = inside and all(portable(each, nested=True) == each for each in inside)
    return kind if whole else pa.string()


def _column(values: list[Any], kind: Any) -> Any:
    """Return values that were read from JSON as a column of a type."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        values = _as_text(values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if value is None else base64.urlsafe_b64decode(value) for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        # Dates, decimals: as JSON writes them.
        return pa.array(_as_text(values), pa.string()).cast(kind)


def _as_text(values: list[Any]) -> list[str | None]:
    return [
        value if value is None or isinstance(value, str) else to_json(value).decode()
        for value in values
    ]
