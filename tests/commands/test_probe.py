"""Tests of `streamval.commands.probe`, as a person types it."""

import asyncio
import json

import pytest

from tests.commands.test_probing import goes_on_with_a_flag
from tests.support.command_line import streamval
from tests.support.upstream import upstream


async def test_findings_are_printed_and_then_the_configuration():
    async with upstream(goes_on_with_a_flag) as server:
        done = await asyncio.to_thread(streamval, "probe", "--base-url", server.url, "--model", "m")
    assert done.returncode == 0
    assert "chat, with a flag" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("upstreams: {main: {model: openai/m")


async def test_json_is_for_programs():
    async with upstream(goes_on_with_a_flag) as server:
        done = await asyncio.to_thread(
            streamval, "probe", "--base-url", server.url, "--model", "m", "--json"
        )
    said = json.loads(done.stdout)
    assert said["way"] == "chat, with a flag"
    assert {one["name"] for one in said["findings"]} >= {"tools", "schema", "stops"}


async def test_a_server_that_does_not_answer_is_status_3():
    done = await asyncio.to_thread(
        streamval, "probe", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"
    )
    assert done.returncode == 3
    assert "it does not answer" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["local", "--base-url", "http://127.0.0.1:9/v1"], ["--model", "m"]]
)
async def test_half_of_an_address_is_wrong_use(arguments):
    done = await asyncio.to_thread(streamval, "probe", *arguments)
    assert done.returncode == 2
    assert "give a MODEL, or --base-url and --model" in done.stderr
