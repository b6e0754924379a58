"""Tests of `streamval.batch.table`."""

import json
import sqlite3
import threading

import pytest

from streamval.batch import table as module
from streamval.batch.rows import row_of
from streamval.batch.table import Counts, Kept, Table, status, table_of
from streamval.errors import UsageError

SETTINGS = {"the backend": "Scripted #1"}


def rows(*ids, prompt="Hi"):
    return [row_of(n, "row", {"id": one, "prompt": prompt}) for n, one in enumerate(ids, 1)]


def kept(row, outcome="valid", tokens=3):
    return Kept(row, outcome, tokens, json.dumps({"id": row.id}).encode())


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def filled(out, *ids, **options):
    table = Table(out, SETTINGS)
    try:
        table.begin()
        table.register(rows(*ids, **options))
    except UsageError:
        table.close()
        raise
    return table


def test_what_is_kept_is_there_after_another_start(out):
    with filled(out, "a", "b", "c") as table:
        table.keep(
            [
                kept(row, outcome)
                for row, outcome in zip(rows("a", "b"), ("valid", "failed"), strict=True)
            ]
        )
    with filled(out, "a", "b", "c") as table:
        assert [row.id for row in table.missing(rows("a", "b", "c"))] == ["c"]
        again = table.missing(rows("a", "b", "c"), retry_failed=True)
        assert [row.id for row in again] == ["b", "c"]
        assert table.counts() == Counts(rows=3, valid=1, failed=1, tokens=6)
        assert status(out) == table.counts()
        table.keep([kept(rows("a", "b")[1])])
        assert table.counts() == Counts(rows=3, valid=2, tokens=6)


def test_a_result_of_another_prompt_is_no_result(out):
    with filled(out, "a", "b") as table:
        table.keep([kept(row) for row in rows("a", "b")])
    changed = [*rows("a"), row_of(2, "row", {"id": "b", "prompt": "Bye"})]
    with Table(out, SETTINGS) as table:
        table.begin()
        table.register(changed)
        assert [row.id for row in table.missing(changed)] == ["b"]
        assert [json.loads(one)["id"] for one in table.records()] == ["a"]
        assert table.counts() == Counts(rows=2, valid=1, tokens=3)


def test_results_come_in_the_order_of_the_rows_and_only_of_those_that_are_there(out):
    with filled(out, "a", "b", "c", "d") as table:
        table.keep([kept(row) for row in rows("d", "a", "c", "b")])
        assert [json.loads(one)["id"] for one in table.records()] == ["a", "b", "c", "d"]
    with filled(out, "c", "new", "a") as table:
        assert [json.loads(one)["id"] for one in table.records()] == ["c", "a"]
        assert table.counts().rows == 3


@pytest.mark.parametrize("ids", [("a", "b", "a"), (1, "1"), ("x",) * 5])
def test_an_id_names_one_row(out, ids):
    with pytest.raises(
        UsageError, match=r"rows 1 and \d have the same id, .*: an id names one row"
    ):
        filled(out, *ids)
    with filled(out, "fine") as table:  # nothing is left of it, and the lock is gone
        assert table.counts().rows == 1


def test_ids_are_told_apart_in_later_batches(out):
    with filled(out, "a", "b") as table:
        with pytest.raises(UsageError, match=r"rows 2 and 7 have the same id, 'b'"):
            table.register([row_of(7, "row", {"id": "b", "prompt": "Hi"})])


def test_another_pipeline_is_refused_and_what_changed_is_said(out):
    filled(out, "a").close()
    now = {"the backend": "Scripted #2", "requirement 1": "'calm' #3"}
    with pytest.raises(UsageError) as refused:
        Table(out, now)
    said = str(refused.value)
    assert "the backend was Scripted #1, and is Scripted #2" in said
    assert "requirement 1 was not there, and is 'calm' #3" in said
    assert "name another file" in said
    filled(out, "a").close()


def test_two_jobs_do_not_write_one_table(out):
    with filled(out, "a"):
        with pytest.raises(UsageError, match="another job is writing"):
            Table(out, SETTINGS)
    filled(out, "a").close()


def test_a_file_of_another_kind_is_left_alone(out):
    path = table_of(out)
    path.write_bytes(b"my diary" * 1000)
    with pytest.raises(UsageError, match="is not the table of a job"):
        Table(out, SETTINGS)
    assert path.read_bytes() == b"my diary" * 1000
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(UsageError, match="is not the table of a job"):
        Table(out, SETTINGS)
    with pytest.raises(UsageError, match="is not the table of a job"):
        status(out)
    with pytest.raises(UsageError, match="there is no job of"):
        status(out.with_name("nothing"))


def test_a_full_disk_loses_nothing(out):
    with filled(out, *range(100)) as table:
        table.keep([kept(row) for row in rows(*range(10))])
        (pages,) = table._connection.execute("PRAGMA page_count").fetchone()
        table._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        big = [Kept(row, "valid", 1, b"x" * 10_000) for row in rows(*range(100))[10:]]
        with pytest.raises(UsageError, match="the disk is full: make room, and run the same"):
            table.keep(big)
        assert table.counts().valid == 10
    with filled(out, *range(100)) as table:
        assert len(table.missing(rows(*range(100)))) == 90
        assert table._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_table_that_another_program_holds_is_said(out, monkeypatch):
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    with filled(out, "a") as table:
        other = sqlite3.connect(table.path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match="another program holds it: close that"):
            table.keep([kept(row) for row in rows("a")])
        other.close()
        table.keep([kept(row) for row in rows("a")])
        assert table.counts().valid == 1


def test_what_a_thread_is_keeping_is_kept_before_the_table_is_closed(out):
    table = filled(out, *range(2000))
    results = [kept(row) for row in rows(*range(2000))]
    began = threading.Event()

    def keep():
        began.set()
        table.keep(results)

    thread = threading.Thread(target=keep)
    thread.start()
    began.wait()
    while not table._alone.locked() and thread.is_alive():
        pass
    table.close()
    thread.join()
    assert status(out).valid == 2000
