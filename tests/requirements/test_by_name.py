"""Tests of `streamval.requirements.by_name`."""

import json
import sys

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.requirements.by_name import (
    object_in,
    ready_requirements,
    requirement_named,
    requirement_of,
    requirement_written,
    search_here,
)
from streamval.testing import judge

ARGUMENTS = {
    "word_limit": {"at_most": 3},
    "sentence_limit": {"at_most": 3},
    "char_limit": {"at_most": 3},
    "reasoning_limit": {"at_most_words": 3},
    "forbidden_words": ["acme"],
    "forbidden_pattern": "acme",
    "required_words": ["acme"],
    "required_pattern": "acme",
    "language": "en",
    "allowed_hosts": ["example.org"],
}


@pytest.mark.parametrize("name", ready_requirements())
def test_each_can_be_made_by_its_name_and_says_what_it_does(name):
    ready = ready_requirements()[name]
    assert isinstance(requirement_named(name, ARGUMENTS.get(name)), sv.Requirement)
    assert ready.summary.endswith(".")
    assert ready.fails


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("acme", None, "no ready requirement is called 'acme'; there are word_limit"),
        ("word_limit", 3, "it takes at_least"),
        ("no_repetition", {"at_least": 3}, "it takes min_words"),
        ("language", "klingon", "klingon"),
        ("forbidden_pattern", "(", "not a regular expression"),
    ],
)
def test_what_cannot_be_made_is_said(name, given, says):
    with pytest.raises(UsageError, match=says):
        requirement_named(name, given)


def test_options_of_every_requirement_go_through():
    assert requirement_named("no_repetition", {"timeout": 3}).timeout == 3
    assert not requirement_named("no_secrets", {"hold": False}).hold


def test_as_a_command_line_writes_them():
    assert requirement_written(" no_secrets ").hold
    assert requirement_written('word_limit={"at_most": 80}').description == "at most 80 words"
    assert requirement_written('forbidden_words=["a=b"]').description == 'never say "a=b"'
    with pytest.raises(UsageError, match="must be JSON"):
        requirement_written("language=en")


def test_a_type_of_a_file_whose_annotations_find_their_names(tmp_path):
    file = tmp_path / "city.py"
    file.write_text(
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class Place(BaseModel):\n    name: str\nclass City(Place):\n    near: list[Place]\n"
    )
    made = object_in(f"{file}:City").model_validate({"name": "Rome", "near": [{"name": "Ostia"}]})
    assert made.near[0].name == "Ostia"


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("x = 1", "City", "there is no 'City'"),
        ("1 / 0", "City", "cannot be imported: ZeroDivisionError"),
        ("", "", "names nothing: write MODULE:NAME"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, name, says):
    file = tmp_path / "city.py"
    file.write_text(content)
    with pytest.raises(UsageError, match=says):
        object_in(f"{file}:{name}")


def test_only_search_here_changes_the_path_of_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "module_of_a_test.py").write_text("x = 7\n")
    before = [*sys.path]
    with pytest.raises(UsageError, match="module_of_a_test cannot be imported"):
        object_in("module_of_a_test:x")
    assert sys.path == before
    search_here(tmp_path)
    search_here(tmp_path)
    assert sys.path == [*before, str(tmp_path)]
    assert object_in("module_of_a_test:x") == 7


def test_the_channels_may_be_given_by_name():
    assert requirement_named("no_loop", {"on": ["reasoning", "text"], "times": 4}).listens == (
        "text",
        "reasoning",
    )
    assert requirement_written('no_loop={"on": "reasoning"}').listens == ("reasoning",)
    with pytest.raises(UsageError, match="channels are 'text', 'reasoning' and 'tool'"):
        requirement_named("no_loop", {"on": "speech"})


def test_a_schema_is_written_out_or_in_a_file(tmp_path):
    schema = {"type": "object", "required": ["city"]}
    file = tmp_path / "city.json"
    file.write_text(json.dumps(schema))
    for written in (schema, str(file)):
        rule = requirement_of({"schema": written})
        assert judge(rule, '{"city": "Rome"}', chunking=None).failures == ()
        assert "city" in str(judge(rule, "{}", chunking=None).failures[0].reason)


@pytest.mark.parametrize(("name", "chunk"), [("judge_whole", None), ("judge", 0)])
def test_a_judge_of_the_whole_is_asked_at_the_end(name, chunk):
    class Asked(sv.Backend):
        async def stream(self, request):
            yield "no, it is rude"

    rule = requirement_of({name: "Be polite."})
    (failure,) = judge(rule, "One. Two. Three.", backend=Asked()).failures
    assert (failure.chunk_index, rule.description) == (chunk, "Be polite.")
