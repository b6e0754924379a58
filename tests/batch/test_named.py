"""Tests of `streamval.batch.named`."""

import pytest

import streamval as sv
from streamval.batch.named import pipeline_named
from streamval.errors import UsageError
from tests.support.gateway import FILE
from tests.support.upstream import upstream, words


async def test_a_pipeline_and_a_function_that_makes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_batch_rules.py").write_text(
        "import streamval as sv\n"
        "made = sv.Pipeline(sv.ScriptedBackend('Hi.'))\n"
        "def make():\n    return made\n"
        "other = 7\n"
    )
    for place in ("my_batch_rules:made", "my_batch_rules:make", "my_batch_rules.py:make"):
        async with pipeline_named(place, None) as found:
            assert isinstance(found, sv.Pipeline)
    for place, says in (
        ("my_batch_rules:other", "is no Pipeline, nor a function that makes one, but int"),
        ("my_batch_rules:nothing", "there is no 'nothing' in my_batch_rules"),
        ("no_such_module:x", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("my_batch_rules", "names nothing: write MODULE:NAME"),
    ):
        with pytest.raises(UsageError, match=says):
            async with pipeline_named(place, None):
                pass


async def test_a_model_of_a_gateways_file(tmp_path):
    path = tmp_path / "gateway.yaml"
    async with upstream(words("One is fine. Two is forbidden. Three. ")) as behind:
        path.write_text(FILE.format(url=behind.url, server=""))
        async with pipeline_named(str(path), "plain") as found:
            assert (await found.run("Say it.")).success
    for model, says in (
        (None, "--model says which model"),
        ("none", "there is no model 'none' in the file"),
    ):
        with pytest.raises(UsageError, match=says):
            async with pipeline_named(str(path), model):
                pass
