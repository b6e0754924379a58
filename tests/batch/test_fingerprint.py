"""Tests of `streamval.batch.fingerprint`."""

import linecache
import os
import subprocess
import sys
from functools import partial

import pytest
from pydantic import BaseModel
from reactivex import operators as ops

import streamval as sv
from streamval.batch.fingerprint import fingerprint
from streamval.requirements.by_name import object_in

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
        "import sys, json; from streamval.requirements.by_name import object_in; "
        "from streamval.batch.fingerprint import fingerprint; "
        "print(json.dumps(fingerprint(object_in(sys.argv[1] + ':pipeline'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_the_same_in_another_process_and_with_another_key(tmp_path):
    first = told(made(tmp_path, "one"))
    assert first == told(made(tmp_path, "two"))
    assert first == told(made(tmp_path, "three", key="sk-22222222"))
    assert "1111" not in first


def deep(schema):
    """A JSON Schema with another in its depth."""
    for _ in range(20):
        schema = {"items": schema}
    return {"type": "array", **schema}


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


def first(source, count):
    return source.pipe(ops.take(count))


def later(source, count):
    return source.pipe(ops.skip(count))


@pytest.mark.parametrize(
    ("one", "other", "part"),
    [
        ({}, {"retry": sv.Repair()}, "the repair"),
        ({"retry": sv.Repair(2)}, {"retry": sv.Repair(3)}, "the repair"),
        ({"chunking": "word"}, {"chunking": "line"}, "the chunking"),
        ({"options": {"seed": 1}}, {"options": {"seed": 2}}, "the options"),
        ({"format": City}, {"format": Town}, "the format"),
        ({"format": deep({"minimum": 1})}, {"format": deep({"minimum": 2})}, "the format"),
        (
            {"format": {"format": "date"}},
            {"format": sv.matches({"format": "date"}, assert_formats=True)},
            "the format",
        ),
        ({"format": City}, {"format": sv.matches(City, text_around=True)}, "the format"),
        ({"requirements": [counting(3)]}, {"requirements": [counting(4)]}, "requirement 1"),
        (
            {"requirements": [sv.forbidden_pattern("a")]},
            {"requirements": [sv.forbidden_pattern("b")]},
            "requirement 1",
        ),
        (
            {"delta_operators": [partial(first, count=1)]},
            {"delta_operators": [partial(later, count=1)]},
            "the operators",
        ),
    ],
)
def test_a_change_is_noticed_and_named(one, other, part):
    assert changed(pipeline(**one), pipeline(**other)) == [part]
    assert changed(pipeline(**one), pipeline(**one)) == []


def test_another_backend_is_noticed_and_what_a_run_changes_is_not():
    one = sv.Pipeline(sv.ScriptedBackend("Hi."), requirements=[sv.requirements.NoRepetition()])
    before = fingerprint(one)
    assert one.run_sync("x").success
    assert fingerprint(one) == before
    other = sv.Pipeline(
        sv.LocalBackend(max_tokens=9), requirements=[sv.requirements.NoRepetition()]
    )
    assert changed(one, other) == ["the backend"]
    more = sv.Pipeline(
        sv.LocalBackend(max_tokens=10), requirements=[sv.requirements.NoRepetition()]
    )
    assert changed(more, other) == ["the backend"]


def test_what_contains_itself_ends():
    class Ring(sv.Requirement):
        def __init__(self):
            super().__init__("ring")
            self.me = self

    assert fingerprint(pipeline(requirements=[Ring()]))["requirement 1"].startswith("'ring' #")


READY = """
import json, os, sys
from pathlib import Path
import streamval as sv
from pydantic import BaseModel
from streamval.batch.fingerprint import fingerprint

class City(BaseModel):
    name: str

class Own(sv.Requirement):
    def __init__(self):
        super().__init__("own")
        self.path = Path("/tmp/words")
        self.words = {"a", "b", "c", "d"}

def closing():
    import re as module
    return sv.stream_check(lambda text: not module.search("x", text), "closing")

def check(text):
    return later(text)

rules = [
    sv.matches(City), sv.valid_json(), sv.word_limit(at_most=9), sv.requirements.NoRepetition(), sv.NoLoop(),
    sv.no_secrets(), sv.no_personal_data(), sv.language("en"), sv.finished(), sv.valid_python(),
    sv.readable_markdown(), sv.forbidden_pattern("x"), sv.forbidden_words(["x", "y"]),
    sv.required_words(["x"]), sv.allowed_hosts(["example.org"]), sv.req("Be polite."),
    sv.classifier(lambda texts: [{"bad": 0.1} for _ in texts], refuse={"bad": 0.5}),
    sv.stream_check(eval("lambda t: t not in {'a', 'b', 'c', 'd', 'e'}"), "typed in"),
    sv.stream_check(eval("lambda t: all(c for c in t)"), "typed in too"),
    sv.LLMaJRequirement("Be polite."), Own(), closing(), sv.stream_check(check, "later"),
]

def later(text):
    return True

for rule in rules:
    made = sv.Pipeline(sv.ScriptedBackend(' {"name": "Rome"} '), requirements=[rule], chunking=None)
    before = fingerprint(made)
    made.validation = None
    str(getattr(rule, "path", "")), hash(getattr(rule, "path", ""))
    try:
        made.run_sync("Hi")
    except Exception:
        pass
    assert fingerprint(made) == before, rule
    print(rule.name, json.dumps(before))
"""


@pytest.mark.slow
def test_each_ready_rule_is_the_same_in_another_process_and_after_a_run(tmp_path):
    script = tmp_path / "ready.py"
    script.write_text(READY)
    told = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
    assert len(told[0]) == 23
    assert told[0] == told[1]


def of_source(tmp_path, name, source):
    path = tmp_path / f"{name}.py"
    path.write_text(
        f"import streamval as sv\nfrom pydantic import BaseModel, field_validator\n{source}"
    )
    return object_in(f"{path}:made")


RULE = """
class Rule(sv.Requirement):
    def stream_validate(self, chunk, *, backend, ctx):
        return sv.PartialValidationResult("{0}")
made = sv.Pipeline(sv.ScriptedBackend("Hi."), requirements=[Rule("rule")])
"""
TYPED = """
class City(BaseModel):
    name: str
    @field_validator("name")
    def known(cls, value):
        return value.{0}()
made = sv.Pipeline(sv.ScriptedBackend("Hi."), format={1})
"""
GLOBAL = """
LIMIT = {0}
WORDS = ["a", "{1}"]
def short(text):
    return len(text) < LIMIT
def rule(text):
    return short(text) and text not in WORDS
made = sv.Pipeline(sv.ScriptedBackend("Hi."), requirements=[sv.stream_check(rule, "rule")])
"""
IN_CLASS = """
LIMIT = {0}
class Rule(sv.ChunkRule):
    def check(self, chunk):
        return len(chunk) < LIMIT
made = sv.Pipeline(sv.ScriptedBackend("Hi."), requirements=[Rule("rule")])
"""


@pytest.mark.parametrize(
    ("one", "other", "part"),
    [
        (GLOBAL.format(10, "b"), GLOBAL.format(20, "b"), "requirement 1"),
        (GLOBAL.format(10, "b"), GLOBAL.format(10, "c"), "requirement 1"),
        (IN_CLASS.format(10), IN_CLASS.format(20), "requirement 1"),
        (RULE.format("pass"), RULE.format("unknown"), "requirement 1"),
        (TYPED.format("upper", "City"), TYPED.format("lower", "City"), "the format"),
        (
            TYPED.format("upper", "list[City]"),
            TYPED.format("upper", "list[City]").replace("name", "title"),
            "the format",
        ),
    ],
)
def test_a_change_in_ones_own_code_is_noticed(tmp_path, one, other, part):
    first, second = (
        of_source(tmp_path, f"made{n}", source) for n, source in enumerate((one, other))
    )
    assert changed(first, second) == [part]


def test_another_pattern_is_noticed():
    def one(pattern):
        return pipeline(requirements=[sv.forbidden_pattern(pattern, "no numbers")])

    assert changed(one("[0-9]"), one("[0-8]")) == ["requirement 1"]


def test_names_that_only_look_like_keys_count():
    def blocking(words):
        rule = sv.Requirement("rule")
        rule.blocklist = words
        return pipeline(requirements=[rule])

    assert changed(blocking("a"), blocking("b")) == ["requirement 1"]
    one, other = (sv.classifier(len, refuse={"blocked": score}) for score in (0.2, 0.8))
    assert changed(pipeline(requirements=[one]), pipeline(requirements=[other])) == [
        "requirement 1"
    ]


def test_a_function_without_source_counts_by_its_instructions(monkeypatch):
    # Python 3.13 keeps the source of `python -c`, by which pytest-xdist starts its processes, like this.
    monkeypatch.setitem(linecache.cache, "<string>", (0, None, ["lambda t: 'c' in t"], "<string>"))

    def of(source):
        return fingerprint(
            sv.Pipeline(sv.ScriptedBackend("x"), requirements=[sv.stream_check(eval(source))])
        )

    assert of("lambda t: 'a' in t") == of("lambda t: 'a' in t") != of("lambda t: 'b' in t")
    assert of("lambda t: [c for c in t if c == 'a']") != of("lambda t: [c for c in t if c == 'b']")
