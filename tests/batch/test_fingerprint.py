"""Tests of `streamval.batch.fingerprint`."""

import subprocess
import sys
from functools import partial

import pytest
from pydantic import BaseModel

import streamval as sv
from streamval.batch.fingerprint import fingerprint

MADE = """
import re
from pydantic import BaseModel
import streamval as sv
class City(BaseModel):
    name: str
def short(text):
    return len(text) < {n}, "too long"
pipeline = sv.Pipeline(
    sv.OpenAIBackend("m", base_url="http://127.0.0.1:1", api_key="{key}", temperature={temperature}),
    requirements=[sv.stream_check(short, "short"), sv.no_secrets(), sv.forbidden_words(["b", "a"]), "Be polite."],
    chunking=sv.chunkers.RegexChunker(r"\\n"), retry=sv.Repair(loop_budget=3), format=City,
)
"""


def made(tmp_path, name, key="sk-11111111", n=10, temperature=0.5):
    path = tmp_path / f"{name}.py"
    path.write_text(MADE.format(key=key, n=n, temperature=temperature))
    return path


def told(path):
    code = (
        "import sys, json; from streamval.structured.imported import object_in; "
        "from streamval.batch.fingerprint import fingerprint; "
        "print(json.dumps(fingerprint(object_in(sys.argv[1] + ':pipeline'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_the_same_in_another_process_and_with_another_key(tmp_path):
    first = told(made(tmp_path, "one"))
    assert first == told(made(tmp_path, "two"))
    assert first == told(made(tmp_path, "three", key="sk-22222222"))
    assert "1111" not in first


def changed(one, other):
    one, other = fingerprint(one), fingerprint(other)
    return [name for name in one if one[name] != other[name]]


class City(BaseModel):
    name: str


class Town(BaseModel):
    name: str
    people: int


def pipeline(**options):
    return sv.Pipeline(sv.ScriptedBackend("Hi."), **options)


def counting(limit):
    return sv.stream_check(lambda text: len(text) < limit, "short")


@pytest.mark.parametrize(
    ("one", "other", "part"),
    [
        ({}, {"retry": sv.Repair()}, "the repair"),
        ({"retry": sv.Repair(2)}, {"retry": sv.Repair(3)}, "the repair"),
        ({"chunking": "word"}, {"chunking": "line"}, "the chunking"),
        ({"options": {"seed": 1}}, {"options": {"seed": 2}}, "the options"),
        ({"format": City}, {"format": Town}, "the format"),
        ({"requirements": [counting(3)]}, {"requirements": [counting(4)]}, "requirement 1"),
        (
            {"requirements": [sv.forbidden_pattern("a")]},
            {"requirements": [sv.forbidden_pattern("b")]},
            "requirement 1",
        ),
        (
            {"delta_operators": [partial(map, len)]},
            {"delta_operators": [partial(filter, len)]},
            "the operators",
        ),
    ],
)
def test_a_change_is_noticed_and_named(one, other, part):
    assert changed(pipeline(**one), pipeline(**other)) == [part]
    assert changed(pipeline(**one), pipeline(**one)) == []


def test_another_backend_is_noticed_and_what_a_run_changes_is_not():
    one = sv.Pipeline(sv.ScriptedBackend("Hi."), requirements=[sv.NoRepetition()])
    before = fingerprint(one)
    assert one.run_sync("x").success
    assert fingerprint(one) == before
    other = sv.Pipeline(sv.LocalBackend(max_tokens=9), requirements=[sv.NoRepetition()])
    assert changed(one, other) == ["the backend"]
    more = sv.Pipeline(sv.LocalBackend(max_tokens=10), requirements=[sv.NoRepetition()])
    assert changed(more, other) == ["the backend"]


def test_what_contains_itself_ends():
    class Ring(sv.Requirement):
        def __init__(self):
            super().__init__("ring")
            self.me = self

    assert fingerprint(pipeline(requirements=[Ring()]))["requirement 1"].startswith("'ring' #")
