"""Tests of `streamval.serve.config_file`: every mistake of a file is named, at its line."""

import subprocess
import sys

import pytest

import streamval as sv
from streamval.errors import ConfigurationError
from streamval.requirements.by_name import requirement_of
from streamval.serve.config_file import parse_configuration, read_configuration

GOOD = """
upstreams:
  main: {model: openai/gpt-4o-mini, api_base: "https://example.com/v1", api_key: "${A_KEY}"}
  local: {model: local}
models:
  careful:
    upstream: main
    chunking: sentence
    requirements:
      - no_secrets
      - forbidden_words: {words: [acme]}
      - judge: "Be polite."
      - python: tests.serve.test_config_file:NoCompetitors
      - python: tests.serve.test_config_file:short
    repair: {loop_budget: 3}
    release: all
    on_failure: refusal
server: {host: 127.0.0.1, port: 8080, keys: ["${A_KEY}"], max_runs: 256}
"""


class NoCompetitors(sv.Requirement):
    """A user's own."""

    description = "no competitors"


def short(text):
    return len(text) < 100


def parsed(text, **environment):
    return parse_configuration(text, "a.yaml", environment)


def mistakes(text, **environment):
    with pytest.raises(ConfigurationError) as raised:
        parsed(text, **environment)
    first, *lines = str(raised.value).split("\n")
    assert first == "a.yaml cannot be served:"
    return [line.strip() for line in lines]


def test_a_whole_file():
    made = parsed(GOOD, A_KEY="sk-12345678")
    assert made.upstreams["main"].api_key == "sk-12345678"
    assert made.models["careful"].repair.repair() == sv.Repair(3)
    assert "sk-12345678" not in repr(made)
    rules = [requirement_of(written) for written in made.models["careful"].requirements]
    assert [type(rule).__name__ for rule in rules[2:4]] == ["LLMaJRequirement", "NoCompetitors"]
    assert rules[4].name == "short"


def test_without_a_file_the_embedded_model_is_served_on_loopback():
    made = read_configuration()
    assert made.upstreams["local"].model == "local"
    assert made.server.host == "127.0.0.1"


def test_every_mistake_is_named_at_its_line():
    text = GOOD.replace("sentence", "sentences").replace("loop_budget: 3", "loop_budget: 0")
    text = text.replace("no_secrets", "no_secretz").replace("upstream: main", "upstream: mian")
    assert mistakes(text, A_KEY="sk-12345678") == [
        "line 8: models.careful.chunking: Input should be 'sentence', 'word', 'line', 'paragraph' or 'markdown'",
        "line 15: models.careful.repair.loop_budget: Input should be greater than or equal to 1",
    ]
    text = GOOD.replace("no_secrets", "no_secretz").replace("upstream: main", "upstream: mian")
    said = mistakes(text, A_KEY="sk-12345678")
    assert (
        said[0] == "line 7: models.careful.upstream: 'mian' is no upstream; there are main, local"
    )
    assert said[1].startswith(
        "line 10: models.careful.requirements.0: no ready requirement is called"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("${A_KEY}", "${NO_KEY}"),
            "line 3: upstreams.main.api_key: the variable NO_KEY is not set",
        ),
        (("local: {model: local}", "local: {model: local, api_key: x}"), "line 4: upstreams.local"),
        (
            ("  local: {model: local}", "  main: {model: local}"),
            "line 4: upstreams.main: is there twice",
        ),
        (("{words: [acme]}", "{wordz: [acme]}"), "line 11: models.careful.requirements.1"),
        (
            ('judge: "Be polite."', "judge: 7"),
            "line 12: models.careful.requirements.2: judge: needs",
        ),
        ((":NoCompetitors", ":Nobody"), "line 13: models.careful.requirements.3"),
        (
            (":NoCompetitors", ""),
            "line 13: models.careful.requirements.3: python: needs MODULE:NAME",
        ),
        (
            ("release: all", "release: chunk"),
            "line 16: models.careful.release: its upstream cannot",
        ),
        (("host: 127.0.0.1", "host: 0.0.0.0, x: 1"), "line 18: server.x: is not known here"),
        (("port: 8080", "port: 80800"), "line 18: server.port"),
        (('keys: ["${A_KEY}"]', 'keys: ["short"]'), "line 18: server.keys.0"),
        (
            ('host: 127.0.0.1, port: 8080, keys: ["${A_KEY}"]', "host: 0.0.0.0"),
            "line 18: server: without keys",
        ),
        (('${A_KEY}"], max_runs', 'ключ-ключ"], max_runs'), "line 18: server.keys.0"),
        (("https://example.com/v1", "not a url"), "line 3: upstreams.main.api_base"),
        (("openai/gpt-4o-mini", "openai/"), "line 3: upstreams.main.model"),
        (
            ("{model: local}", "{model: local, options: {nope: 1}}"),
            "line 4: upstreams.local: there is no",
        ),
        (("max_runs: 256", "ping_seconds: 1.0e+300"), "line 18: server.ping_seconds"),
        (("max_runs: 256", "run_seconds: true"), "line 18: server.run_seconds"),
        (('"https://example.com/v1"', '"https://x/v1", options: {n: 3}'), "options.n: is not sent"),
        (
            (
                '"https://example.com/v1"',
                '"https://x/v1", options: {response_format: {type: text}}',
            ),
            "options.response_format: is not sent",
        ),
        (
            ('"https://example.com/v1"', '"https://x/v1", options: {tools: 5}'),
            "options.tools: tools must be a list",
        ),
        (
            ('"https://example.com/v1"', '"https://x/v1", options: {user: 2026-11-22}'),
            "options.user: cannot be sent as JSON",
        ),
        (("https://example.com/v1", "https://example.com"), "api_base has no path"),
        (("https://example.com/v1", "https://example.com/v1/chat/completions"), "leave out"),
        (("openai/gpt-4o-mini", "gpt-4o-mini"), "is written `openai/gpt-4o-mini`"),
        (('judge: "Be polite."', "judge_whole: 7"), "judge_whole: needs a text"),
        (('judge: "Be polite."', "schema: 7"), "schema: needs a JSON Schema"),
        (('judge: "Be polite."', "schema: nowhere.json"), "schema: cannot read 'nowhere.json'"),
        (('judge: "Be polite."', "schema: {type: strin}"), "line 12"),
        (("models:", "modles:"), "models: is missing"),
        (("chunking: sentence", "chunking: [sentence"), "is no YAML"),
        (("  main:", "\tmain:"), "line 3: is no YAML"),
    ],
)
def test_what_cannot_be_served_is_said(change, says):
    assert change[0] in GOOD
    assert any(
        line.startswith(says) or says in line
        for line in mistakes(GOOD.replace(*change), A_KEY="sk-12345678")
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "7",
            "[1]",
            "a: &a [*a]",
            "upstreams: {}\nmodels: {}",
            "!foo x",
            "!!python/object:os.x {}",
        ),
        *("? [a, b]\n: 1", "a: {? [b] : 1}", "a: !!int xx", "a: 2020-99-99", "a: {<<: 5}"),
        *("a: !!binary x", f"a: {'9' * 5000}", "a: \x00"),
    ],
)
def test_a_file_that_is_none(text):
    assert mistakes(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_configuration(tmp_path / "nothing.yaml")


def test_rules_are_found_where_python_finds_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)  # as the command line does with the folder of the file
    (tmp_path / "own_rules_of_a_test.py").write_text(
        "def polite(text):\n    return '!' not in text\n"
    )
    path = tmp_path / "gateway.yaml"
    path.write_text(
        "upstreams: {a: {model: openai/m}}\n"
        "models: {b: {upstream: a, requirements: [{python: 'own_rules_of_a_test:polite'}]}}\n"
    )
    made = read_configuration(path)
    assert requirement_of(made.models["b"].requirements[0]).name == "polite"


def test_a_file_of_aliases_that_stand_for_more_and_more_is_refused():
    """271 bytes of it took 25 seconds and 3.2 GB."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    with pytest.raises(ConfigurationError, match="it has more than 20,000 entries"):
        parse_configuration(bomb, "bomb.yaml", {})


def test_a_module_beside_the_file_replaces_none_of_the_programs_own(tmp_path):
    """It was executed without any `python:`, by an import of another module."""
    (tmp_path / "py3langid.py").write_text("raise SystemExit('executed')")
    (tmp_path / "json.py").write_text("raise SystemExit('executed')")
    (tmp_path / "mine.py").write_text("def polite(text):\n    return True\n")
    (tmp_path / "gateway.yaml").write_text(
        "upstreams: {main: {model: openai/x, api_base: 'http://127.0.0.1:9/v1', api_key: x}}\n"
        "models: {m: {upstream: main, requirements: [{language: en}, {python: 'mine:polite'}]}}\n"
    )
    program = (
        "from streamval.requirements.by_name import search_here\n"
        "search_here('.')\n"
        "from streamval.serve.config_file import read_configuration\n"
        "print(list(read_configuration('gateway.yaml').models))\n"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert (said.stdout, said.stderr) == ("['m']\n", "")


def test_a_misspelt_option_of_an_upstream_is_found():
    text = GOOD.replace(
        "upstreams:", "upstreams:\n  typo: {model: openai/m, options: {temprature: 1}}", 1
    )
    with pytest.raises(
        ConfigurationError, match=r"line 3: .*'temprature'; did you mean 'temperature'"
    ):
        parse_configuration(text, "a.yaml", {"A_KEY": "x" * 9})
