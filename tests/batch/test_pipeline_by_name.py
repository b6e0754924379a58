"""Tests of `streamval.batch.pipeline_by_name`."""

import pytest

import streamval as sv
from streamval.batch.pipeline_by_name import pipeline_named
from streamval.errors import UsageError


def test_a_pipeline_and_a_function_that_makes_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "my_batch_rules.py"
    file.write_text(
        "import streamval as sv\n"
        "made = sv.Pipeline(sv.ScriptedBackend('Hi.'))\n"
        "def make():\n    return made\n"
        "def broken():\n    raise OSError('no disk')\n"
        "other = 7\n"
    )
    for place in ("my_batch_rules:made", "my_batch_rules:make", f"{file}:make"):
        assert isinstance(pipeline_named(place), sv.Pipeline)
    for place, says in (
        ("my_batch_rules:other", "is neither a Pipeline nor a function that makes one, but int"),
        ("my_batch_rules:broken", r"broken\(\) raised OSError: no disk"),
        ("my_batch_rules:nothing", "there is no 'nothing' in my_batch_rules"),
        ("no_such_module:x", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("my_batch_rules", "names nothing: write MODULE:NAME"),
    ):
        with pytest.raises(UsageError, match=says):
            pipeline_named(place)
