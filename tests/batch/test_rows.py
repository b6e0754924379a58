"""Tests of `streamval.batch.rows`."""

import gzip
import io
import json
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.batch import rows as module
from streamval.batch.rows import read, row_of
from streamval.errors import UsageError
from streamval.types.messages import Message


def all_of(source):
    return [row for batch in read(source) for row in batch]


def test_rows_of_json_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"prompt": "Hi", "topic": "sea"}\n\n'
        '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "id": "b"}\n'
        '{"id": 3, "prompt": "Hi", "text": "mine", "error": null}'
    )
    first, second, third = all_of(path)
    assert (first.number, first.id, first.carried) == (1, 1, {"topic": "sea"})
    assert (second.number, second.key) == (2, "b")
    assert second.prompt == (Message("system", "Be brief."), Message("user", "Hi"))
    assert third.carried == {"input_text": "mine", "input_error": None}
    assert first.digest == third.digest != second.digest


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"prompt": "Hi"', "line 2 is not JSON"),
        ("[1]", "line 2 is not a row"),
        ("7", "line 2 is not a row"),
        ('{"text": "Hi", "id": 1}', r"line 2: .* it has neither of them \('text', 'id'\)"),
        ('{"prompt": "Hi", "messages": []}', "both `prompt` and `messages`"),
        ('{"prompt": ""}', "line 2: the prompt is empty"),
        ('{"prompt": 7}', "line 2: a prompt is a string or a list of messages"),
        ('{"messages": [{"role": "robot", "content": "x"}]}', "line 2: a message needs a role"),
        ('{"prompt": "Hi", "id": true}', "line 2: an `id` is a string or a whole number"),
        ('{"prompt": "Hi", "id": [1]}', "line 2: an `id` is a string or a whole number"),
        ("[" * 10_000, "line 2 is not JSON"),
        ('{"prompt": "\\ud83d"}', "line 2 is not JSON"),
        (b'{"prompt": "\xff"}', "line 2 is not JSON"),
    ],
)
def test_what_is_no_row_is_named_at_its_line(tmp_path, line, says):
    path = tmp_path / "rows.jsonl"
    line = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b'{"prompt": "Hi"}\n' + line + b"\n")
    with pytest.raises(UsageError, match=says):
        all_of(path)


def test_rows_that_are_compressed(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    packed = gzip.compress(b'{"prompt": "one"}\n{"prompt": "two"}\n' * 2000)
    path.write_bytes(packed)
    assert sum(len(rows) for rows in read(path)) == 4000
    for damaged, says in (
        (packed[: len(packed) // 2], "is cut or damaged"),
        (packed[:20] + b"\xff" * 40, "is cut or damaged|cannot be read"),
        (b'{"prompt": "one"}', "cannot be read: Not a gzipped file"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=says):
            list(read(path))


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE", 2**20)
    path = tmp_path / "rows.jsonl"
    with path.open("wb") as file:
        file.truncate(2**32)  # four GiB of nothing
    with pytest.raises(UsageError, match="is longer than 1 MiB: is it a file of JSON lines"):
        all_of(path)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("missing.jsonl", "missing.jsonl cannot be read: No such file"),
        ("missing.parquet", "missing.parquet cannot be read"),
        (".", "cannot be read: Is a directory"),
        ({"prompt": "Hi"}, "rows are a file's name or a list of mappings, not dict"),
        (7, "rows are a file's name or a list of mappings, not int"),
        ([7], "row 1 is not a row"),
    ],
)
def test_what_is_no_source_is_refused(source, says):
    with pytest.raises(UsageError, match=says):
        all_of(source)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)),
    st.integers(1, 7),
)
def test_lines_are_the_same_however_they_come(prompts, size):
    said = b"".join(json.dumps({"prompt": one}).encode() + b"\n" for one in prompts)

    class Slow(io.BytesIO):
        def read1(self, _):
            return super().read1(size)

    found = [pair for batch in module._lines(Slow(said), "x") for pair in batch]
    assert [row["prompt"] for _, row in found] == prompts
    assert [place for place, _ in found] == [f"x, line {n}" for n in range(1, len(prompts) + 1)]


def test_standard_input_gives_what_has_come(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as file, os.fdopen(writing, "wb", buffering=0) as out:
        monkeypatch.setattr(sys, "stdin", file)
        coming = read("-")
        out.write(b'{"prompt": "one"}\n{"prompt": "tw')
        assert [row.prompt[0].content for row in next(coming)] == ["one"]
        threading.Timer(0.05, lambda: (out.write(b'o"}\n'), out.close())).start()
        assert [row.prompt[0].content for row in next(coming)] == ["two"]
        assert list(coming) == []


def test_rows_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    table = pa.table({"prompt": [f"Say {n}" for n in range(2500)], "n": list(range(2500))})
    parquet.write_table(table, path)
    batches = list(read(path))
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert [row.carried["n"] for batch in batches for row in batch] == list(range(2500))
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match="is not a Parquet file"):
        all_of(path)
    parquet.write_table(pa.table({"text": ["Hi"]}), path)
    with pytest.raises(UsageError, match=r"rows.parquet, row 1: a row has a `prompt`"):
        all_of(path)


def test_a_row_tells_whether_its_prompt_has_changed():
    plain, again = (row_of(n, "row", {"prompt": "Hi", "topic": n}) for n in (1, 2))
    other = row_of(1, "row", {"messages": [{"role": "system", "content": "Hi"}]})
    assert plain.digest == again.digest != other.digest


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "\ud83d", "prompt": "Hi"}, "cannot be stored"),
        ({"prompt": "a\ud83d"}, "cannot be stored"),
        ({"id": 10**5000, "prompt": "Hi"}, "cannot be stored"),
        ({"prompt": "Hi", "text": 1, "input_text": 2}, "two columns would have one name"),
        ({"prompt": "Hi", 1: 1, "1": 2}, "two columns would have one name"),
    ],
)
def test_a_row_that_cannot_be_kept_is_named(row, says):
    with pytest.raises(UsageError, match=f"row 1: .*{says}"):
        all_of([row])


def test_what_editors_put_before_the_first_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "Hi"}\r\n{"prompt": "Ho"}\r\n')
    assert [row.prompt[0].content for row in all_of(path)] == ["Hi", "Ho"]


def test_without_a_standard_input_it_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="there is no standard input"):
        all_of("-")


def test_rows_that_can_be_gone_through_once_are_known():
    once = iter([])

    class Once:
        def __iter__(self):
            return once

    assert [module.rereadable(one) for one in ([], Once(), once, range(3))] == [
        True,
        False,
        False,
        True,
    ]


def test_rows_that_come_slowly_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "GATHERING", -1)
    coming = read({"prompt": f"Say {n}"} for n in range(3))
    assert [len(batch) for batch in coming] == [1, 1, 1]
