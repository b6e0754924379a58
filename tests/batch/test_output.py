"""Tests of `streamval.batch.output`."""

import datetime as dt
import decimal
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamval as sv
from streamval.batch.output import check_output, write
from streamval.errors import UsageError

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


def records_of(*records):
    return lambda: (json.dumps(record).encode() for record in records)


def test_all_of_it_or_nothing(tmp_path):
    out = tmp_path / "out.jsonl"
    write(out, records_of({"id": 1}, {"id": 2}), [])
    assert out.read_text() == '{"id": 1}\n{"id": 2}\n'

    def broken():
        yield b"{}"
        raise OSError(28, "No space left on device")

    with pytest.raises(
        UsageError, match="No space left on device; the results are kept in its table"
    ):
        write(out, broken, [])
    assert out.read_text() == '{"id": 1}\n{"id": 2}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (".", "is a folder"),
        ("no/where.jsonl", "there is no folder no"),
        ("rows.jsonl", "over the rows"),
        ("-", "is no file"),
        ("/dev/null", "is no file"),
    ],
)
def test_a_place_where_nothing_can_go_is_refused(tmp_path, monkeypatch, out, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        check_output(Path(out), "rows.jsonl")


async def test_parquet_in_and_out_keeps_the_types_of_columns(tmp_path):
    rows, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    day = dt.datetime(2026, 11, 22, 8, 30, tzinfo=dt.UTC)
    columns = {
        "id": pa.array([3, 1], pa.int32()),
        "prompt": ["Hi", "Ho"],
        "day": pa.array([day, None], pa.timestamp("us", "UTC")),
        "born": pa.array([dt.date(2000, 1, 2), None]),
        "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(8, 2)),
        "raw": pa.array([b"\xff\x00", None]),
        "tags": pa.array([["a", "b"], None]),
        "deep": pa.array([{"n": 1}, None]),
        "text": ["mine", None],
    }
    parquet.write_table(pa.table(columns), rows)
    pipeline = sv.Pipeline(sv.ScriptedBackend("All is well."))
    result = await sv.batch(rows, out, pipeline)
    assert result.success
    table = parquet.read_table(out)
    for name in columns:
        if name != "prompt":
            there = table["input_text" if name == "text" else name]
            assert there.to_pylist() == pa.table(columns)[name].to_pylist(), name
            kind = pa.int64() if name == "id" else pa.table(columns)[name].type
            assert there.type == kind
    assert table["text"].to_pylist() == ["All is well."] * 2
    assert table["usage"].to_pylist()[0]["completion_tokens"] > 0


async def test_json_lines_to_parquet_finds_types_that_fit_all_rows(tmp_path):
    out = tmp_path / "out.parquet"
    rows = [
        {"prompt": "Hi", "n": n if n < 1500 else n / 2, "mixed": n if n % 2 else "x", "never": None}
        for n in range(1600)
    ]
    backend = sv.ScriptedBackend('{"a": 1}')
    await sv.batch(rows, out, sv.Pipeline(backend, format=dict[str, int]), task_limit=100)
    table = parquet.read_table(out)
    assert table["n"].to_pylist()[1598:] == [799.0, 799.5]
    assert table["mixed"].to_pylist()[:2] == ["x", "1"]
    assert table["never"].null_count == 1600
    assert table["parsed"].to_pylist()[0] == '{"a":1}'
    assert table["id"].to_pylist()[:2] == [1, 2]


HARD = {
    "time": pa.array([1, None], pa.time32("s")),
    "nanos": pa.array([1_000_000_001, None], pa.timestamp("ns")),
    "took": pa.array([1, None], pa.duration("ms")),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "times": pa.array([[1], None], pa.list_(pa.timestamp("us"))),
    "raws": pa.array([[b"\xff"], None], pa.list_(pa.binary())),
    "inside": pa.array([{"d": b"\xff"}, None], pa.struct([("d", pa.binary())])),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
    "word": pa.array(["a", None]).dictionary_encode(),
    "id": pa.array([1, None], pa.int8()),
}


@pytest.mark.parametrize("name", HARD)
async def test_a_column_of_any_type_is_written(tmp_path, name):
    rows, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    parquet.write_table(pa.table({"prompt": ["Hi", "Ho"], name: HARD[name]}), rows)
    assert (await sv.batch(rows, out, sv.Pipeline(sv.ScriptedBackend("Well.")))).success
    values = parquet.read_table(out)[name].to_pylist()
    assert values[0] is not None
    assert values[1] == (2 if name == "id" else None)


@pytest.mark.parametrize(
    "column",
    [
        [{}, {}],
        [[{}], None],
        [2**70, 1],
        [2**60 + 1] * 1000 + [1.5],
        [{"a": 1}, "text"],
        [[1, "two"], None],
    ],
)
async def test_whatever_json_holds_is_written(tmp_path, column):
    out = tmp_path / "out.parquet"
    rows = [{"prompt": "Hi", "c": value} for value in column]
    assert (await sv.batch(rows, out, sv.Pipeline(sv.ScriptedBackend("Well.")))).success
    assert parquet.read_table(out)["c"].to_pylist()[0] is not None


async def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there.jsonl").write_text("old")
    (tmp_path / "out.jsonl").symlink_to("there.jsonl")
    write(tmp_path / "out.jsonl", records_of({"id": 1}), [])
    assert (tmp_path / "out.jsonl").is_symlink()
    assert (tmp_path / "there.jsonl").read_text() == '{"id": 1}\n'


def test_what_a_kill_left_behind_is_written_over_and_gone(tmp_path):
    out = tmp_path / "out.jsonl"
    program = (
        "import os, pathlib, sys\n"
        "from streamval.batch.output import write\n"
        "def records():\n"
        "    yield b'half'\n"
        "    os.kill(os.getpid(), 9)\n"
        "write(pathlib.Path(sys.argv[1]), records, [])\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, out], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    write(out, records_of({"id": 1}), [])
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


async def test_results_and_their_table_are_for_their_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask is of all threads"))
    out = tmp_path / "out.jsonl"
    await sv.batch([{"prompt": "Hi"}], out, sv.Pipeline(sv.ScriptedBackend("Hello.")))
    files = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert files.pop("out.jsonl") == "0o600"
    assert set(files.values()) == {"0o600"}
