"""Tests of `streamval.commands.named_pipeline`."""

import pytest

from streamval.commands.named_pipeline import open_pipeline
from streamval.errors import UsageError
from tests.support.gateway import FILE
from tests.support.upstream import upstream, words


async def test_a_model_of_a_gateways_file(tmp_path):
    path = tmp_path / "gateway.yaml"
    async with upstream(words("One is fine. Two is forbidden. Three. ")) as behind:
        path.write_text(FILE.format(url=behind.url, server=""))
        async with open_pipeline(str(path), "plain") as found:
            assert (await found.run("Say it.")).success
    for model, says in (
        (None, "--model says which model"),
        ("none", "there is no model 'none' in the file"),
    ):
        with pytest.raises(UsageError, match=says):
            async with open_pipeline(str(path), model):
                pass
