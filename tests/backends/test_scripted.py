"""Tests of `streamval.backends.scripted`."""

import pytest

import streamval as sv
from streamval.errors import BackendError, UsageError
from streamval.testing import run_virtually


async def said(backend, prompt="go", **fields):
    from dataclasses import replace

    return [delta async for delta in backend.stream(replace(backend.request(prompt), **fields))]


def test_scripted_keeps_its_schedule():
    async def main():
        return await said(sv.ScriptedBackend("abcdef", token_size=2, delay=3))

    assert run_virtually(main()) == (["ab", "cd", "ef"], 9)


async def test_scripted_has_a_response_an_attempt():
    backend = sv.ScriptedBackend(["one", "two"], token_size=9)
    assert await said(backend, attempt=2) == ["two"]
    with pytest.raises(BackendError, match="attempt 3, but the script has 2"):
        await said(backend, attempt=3)
    assert await said(sv.ScriptedBackend("same"), attempt=9) == ["same"]


@pytest.mark.parametrize(
    "wrong", [{"response": []}, {"response": [1]}, {"response": "x", "token_size": 0}]
)
def test_scripted_refuses(wrong):
    with pytest.raises(UsageError):
        sv.ScriptedBackend(**wrong)
