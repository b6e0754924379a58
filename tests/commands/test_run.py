"""Tests of `streamval.commands.run`."""

import pytest

from streamval.backends import read_events
from tests.support.command_line import streamval


def test_a_valid_answer_goes_to_standard_output_and_is_recorded(serving, tmp_path):
    path = tmp_path / "run.jsonl"
    done = streamval("run", "Say it.", "-m", "openai/fine", "--record", str(path), **serving)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "One is here. Two is here! Three is here. Four is here."
    assert "valid after 1 attempt" in done.stderr
    events = list(read_events(path))
    assert (events[0].type, events[-1].type) == ("started", "completed")
    assert any(event.type == "token" for event in events)

    strict = ("--check", "It is in French.", "--retry", "1")
    done = streamval("run", "Say it.", "-m", "openai/fine", *strict, **serving)
    assert done.returncode == 1  # this model answers everything with the same words: never yes
    assert "It is in French." in done.stderr


def test_rules_system_and_max_tokens_reach_their_place(serving):
    done = streamval(
        *("run", "Say it.", "-m", "openai/fine", "--system", "Be brief.", "--max-tokens", "99"),
        *("--rule", 'word_limit={"at_most": 5}', "--retry", "0"),
        **serving,
    )
    assert done.returncode == 1
    assert done.stdout.strip() == "One is here."
    assert "where 5 are allowed" in done.stderr
    body = serving.server.requests[-1].body
    assert [turn["content"] for turn in body["messages"]] == ["Be brief.", "Say it."]
    assert body["max_tokens"] == 99


@pytest.mark.parametrize("rule", ["no_repetition", 'no_repetition={"min_words": 2}'])
def test_the_rule_that_always_holds_is_shown_once(serving, rule):
    done = streamval("run", "Say it.", "-m", "openai/fine", "--rule", rule, **serving)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("never say the same thing") == 1


def test_an_address_needs_no_provider(serving):
    address = serving.pop("OPENAI_API_BASE")
    done = streamval("run", "Say it.", "-m", "fine", "--api-base", address, **serving)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("One is here.")


def test_a_format_from_a_file(serving, tmp_path):
    file = tmp_path / "city.py"
    file.write_text("from pydantic import BaseModel\nclass City(BaseModel):\n    name: str\n")
    arguments = ("run", "x", "-m", "openai/fine", "--retry", "0", "--format")
    done = streamval(*arguments, f"{file}:City", **serving)
    assert done.returncode == 1
    assert "City" in done.stderr
    file.write_text("1 / 0")
    done = streamval(*arguments, f"{file}:City", **serving)
    assert done.returncode == 2
    assert "cannot be imported: ZeroDivisionError" in " ".join(done.stderr.split())


def test_a_json_schema_from_a_file(serving, tmp_path):
    file = tmp_path / "city.json"
    arguments = ("run", "x", "-m", "openai/fine", "--retry", "0", "--format", str(file))
    for schema, status, said in (
        ('{"type": "object"}', 1, "there is text before it"),
        ("[1]", 2, "is not a JSON Schema, which is an object"),
        ("{", 2, "is not JSON:"),
        ('{"type": "objekt"}', 2, "this is not a JSON Schema:"),
    ):
        file.write_text(schema)
        done = streamval(*arguments, **serving)
        assert (done.returncode, said in " ".join(done.stderr.split())) == (status, True), done


def test_one_message_for_a_missing_key():
    for model, variable in (
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-3-5-haiku-latest", "ANTHROPIC_API_KEY"),
        ("text-completion-openai/gpt-3.5-turbo-instruct", "OPENAI_API_KEY"),
    ):
        done = streamval("run", "x", "-m", model, **{variable: ""})
        assert done.returncode == 2
        said = " ".join(done.stderr.split())
        assert f"there is no key for {model}: set {variable}" in said
        assert said.count("there is no key") == 1


@pytest.mark.parametrize("option", ["-r", "-c"])
def test_the_embedded_model_is_not_asked_to_judge(option):
    done = streamval("run", "Hi.", option, "Be polite.", STREAMVAL_MODEL="")
    assert done.returncode == 2
    assert f"gemma-3-270m cannot judge what {option} requires" in " ".join(done.stderr.split())
    assert done.stdout == ""


@pytest.mark.local_model
def test_another_model_judges_what_the_embedded_one_wrote(serving):
    arguments = ("-c", "Be polite.", "--judge", "openai/fine", "--retry", "0")
    done = streamval("run", "Hi.", *arguments, **serving, STREAMVAL_MODEL="")
    assert done.returncode == 1
    assert "the judge answered neither yes nor no: 'One is here" in " ".join(done.stderr.split())
    assert "cannot judge" not in done.stderr
