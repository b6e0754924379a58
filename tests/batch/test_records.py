"""Tests of `streamval.batch.records`."""

import json

from pydantic import BaseModel

import streamval as sv
from streamval.batch.records import SHOWN, kept, refused, token_count
from streamval.batch.rows import RESULT, row_of

ROW = row_of(1, "row", {"id": 7, "prompt": "Hi", "topic": "sea", "text": "mine"})


class City(BaseModel):
    name: str


def test_the_result_of_a_run():
    pipeline = sv.Pipeline(sv.ScriptedBackend('{"name": "Rome"}'), format=City)
    answered = pipeline.run_sync("Hi")
    made = kept(ROW, answered, token_count(answered.usage))
    record = json.loads(made.record)
    assert set(record) == {*RESULT, "topic", "input_text"}
    assert (record["id"], record["topic"], record["input_text"]) == (7, "sea", "mine")
    assert record["success"] is True
    assert record["parsed"] == {"name": "Rome"}
    assert record["attempts"] == 1
    assert made.outcome == "valid"
    assert made.tokens == record["usage"]["completion_tokens"] > 0


def test_a_result_that_is_not_valid_says_why():
    pipeline = sv.Pipeline(
        sv.ScriptedBackend("One. Bad. Two."), requirements=[sv.forbidden_words(["bad"])]
    )
    made = kept(ROW, pipeline.run_sync("Hi"))
    record = json.loads(made.record)
    assert (made.outcome, record["success"], record["text"]) == ("failed", False, "One.")
    (failure,) = record["failures"]
    assert failure["requirement"] == 'never say "bad"'
    assert failure["reason"]


def test_what_a_row_raised_is_its_error():
    made = kept(ROW, ValueError("x" * 10_000))
    record = json.loads(made.record)
    assert set(record) == {*RESULT, "topic", "input_text"}
    assert (made.outcome, record["success"], made.tokens) == ("error", False, 0)
    assert record["error"] == "ValueError: " + "x" * SHOWN
    assert json.loads(refused({"id": "a", "n": 1}, ValueError("no row")))["n"] == 1


def test_no_key_in_an_exception_is_kept():
    said = "GET https://u:pw123456@h/?api_key=sk-live-abcdef1234567890XYZ: Bearer abcdefgh12345"
    made = kept(ROW, ValueError(said)).record.decode()
    assert not any(key in made for key in ("sk-live", "pw123456", "abcdefgh"))


def test_an_exception_that_cannot_be_shown_is_an_error_all_the_same():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert json.loads(kept(ROW, Silent()).record)["error"] == "Silent: it cannot be shown"


def test_whatever_a_row_carries_is_a_line_of_json():
    worst = {
        "prompt": "Hi",
        "half": "\ud83d",
        "nan": float("inf"),
        "bytes": b"\xff",
        "new\nline": "a\nb",
        5: {1},
    }
    made = kept(row_of(1, "row", worst), ValueError("\udcff"))
    assert b"\n" not in made.record
    record = json.loads(made.record)
    assert (record["half"], record["nan"], record["new\nline"]) == ("?", "Infinity", "a\nb")
    assert record["error"] == "ValueError: ?"
