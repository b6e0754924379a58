"""The table of clients in `docs/clients.md`: each with its real library, before one gateway and a scripted upstream."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.clients import CLIENTS
from tests.support.gateway import gateway
from tests.support.node_clients import NoNode, installed
from tests.support.upstream import frame, upstream, words

ROOT = Path(__file__).parents[2]
NODE = (
    *("openai-node", "openai-node, Responses", "anthropic-node"),
    *("AI SDK, openai()", "AI SDK, openai.chat()", "AI SDK, anthropic()"),
)
APART = ("LlamaIndex", "llm", "Haystack", "DSPy", "mellea", "instructor", "instructor, Responses")
"""Clients that `make test-clients` installs in an environment of their own."""

GOOD = "One is fine. Two is good. Three is \U0001f600 fine."
BAD = "One is fine. Two is forbidden here. Three is fine."


def script(body, _):
    """What the upstream says depends on the last words of the user, and on whether it goes on."""
    asked = [turn["content"] for turn in body["messages"] if turn["role"] == "user"][-1]
    asked = asked if isinstance(asked, str) else asked[0]["text"]
    goes_on = body["messages"][-1]["role"] == "assistant"
    if body.get("tools"):
        return called(body, asked)
    return {
        "valid": words(GOOD),
        "repaired": words(" Two is good. Three is \U0001f600 fine.") if goes_on else words(BAD),
        "refused": words(" Two is forbidden again.") if goes_on else words(BAD),
        "breaks": [*words("One is fine. Two is too. And so on."), "RESET"],
    }[asked]


def called(body, asked):
    """The same as a call of the only tool, as instructor asks for one."""
    name = body["tools"][0]["function"]["name"]
    city = "forbidden" if asked == "refused" else GOOD
    arguments = json.dumps({"name": city})
    pieces = [arguments[at : at + 6] for at in range(0, len(arguments), 6)]
    first = {"index": 0, "id": "c", "function": {"name": name, "arguments": ""}}
    calls = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    frames = [frame({"tool_calls": [call]}) for call in calls]
    return [*frames[:4], "RESET"] if asked == "breaks" else [*frames, frame({}, "tool_calls")]


async def answers_of(*command, folder=None):
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    return json.loads(out.decode().splitlines()[-1])


def command_for(client):
    """The command that runs a client. Skipped where it is not installed, but not in CI."""
    insists = pytest.fail if os.environ.get("STREAMVAL_INSIST") else pytest.skip
    if client in NODE:
        try:
            folder = installed(ROOT / "build/node")
        except NoNode as problem:
            insists(str(problem))
        return folder, ("node", "table.mjs", client)
    python = sys.executable
    if client in APART:
        python = os.environ.get("STREAMVAL_CLIENTS", "")
        if not python:
            pytest.skip("`make test-clients` installs it in an environment of its own")
        python = str(Path(python).absolute())
    return None, (python, str(ROOT / "tests/support/clients.py"), client)


ALL = [
    pytest.param(name, marks=[pytest.mark.apart] if name in APART else [])
    for name in (*CLIENTS, *NODE)
]


@pytest.mark.parametrize("client", ALL)
async def test_a_client_shows_what_passed_and_nothing_else(client):
    folder, command = command_for(client)
    prompts = ("valid", "repaired", "refused", "breaks")
    async with upstream(script) as behind, gateway(behind.url) as serving:
        said = await answers_of(*command, serving.url, "careful", *prompts, folder=folder)
    assert said["valid"]["text"] == GOOD
    assert said["repaired"]["text"] == GOOD
    assert "forbidden" not in json.dumps(said)
    refused = said["refused"]
    assert "error" in refused or refused["text"].startswith("One is fine.")
    assert refused.get("text") != GOOD
    assert "error" in said["breaks"] or said["breaks"]["text"] != GOOD


def test_the_page_has_a_row_for_each():
    page = (ROOT / "docs/clients.md").read_text()
    rows = [
        line[2:].split(" | ")[0].split(":")[0] for line in page.splitlines() if line[:2] == "| "
    ]
    names = {row.replace(" (Python)", "") for row in rows}
    assert names >= {*CLIENTS, *NODE}
