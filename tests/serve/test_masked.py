"""Rules of the gateway that mask: in every protocol, streamed and not, in text, reasoning, JSON and calls."""

import json
import logging

import httpx
import pytest

from tests.serve.test_observed import FILE, PATHS, body_of
from tests.support.faults import faulty
from tests.support.gateway import gateway
from tests.support.upstream import upstream

SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
ANSWERS = {
    "text": [("say", f"The key is {SECRET}. Ask bob@example.org, or Acme.")],
    "reasoning": [("think", f"The key is {SECRET}. Acme has it."), ("say", "I cannot say it.")],
    "tools": [
        ("say", "I ask Acme. "),
        ("call", "weather", json.dumps({"to": SECRET, "n": "Acme"})),
    ],
    "JSON": [("say", json.dumps({"key": SECRET, "who": ["Acme", "bob@example.org"], "n": 1}))],
}
RULES = """
    {{no_secrets: {{action: mask}}}}, {{no_personal_data: {{action: mask}}}},
    {{forbidden_words: {{words: [acme], action: mask, replacement: "***"}}}}
"""
HIDDEN = [SECRET, SECRET[:12], "bob@", "Acme"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("protocol", PATHS)
async def test_nothing_masked_reaches_a_client_the_log_or_the_page(protocol, kind, stream, caplog):
    caplog.set_level(logging.DEBUG)
    model = "anthropic/m" if protocol == "messages" else "openai/m"
    file = FILE % {"model": model, "protocol": protocol, "rules": RULES}
    async with (
        faulty(protocol, ANSWERS[kind]) as server,
        gateway(server.url, file=file, server=", recent: 5") as serving,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        answer = await client.post(
            f"{serving.url}/v1/{PATHS[protocol]}",
            json=body_of(protocol, kind, stream=stream),
            headers={"x-streamval-events": "1"},
        )
        shown = json.dumps(
            [one.view.view.snapshot() for one in serving._service.recent._shown.values()]
        )
        metrics = (await client.get(f"{serving.url}/metrics")).text
    assert answer.status_code == 200
    everywhere = answer.text + shown + metrics + caplog.text
    assert not [one for one in HIDDEN if one in everywhere]
    assert "***" in answer.text
    if kind != "tools":
        assert "secret" in answer.text
    if protocol == "chat" and not stream:
        message = answer.json()["choices"][0]["message"]
        if kind == "JSON":
            assert json.loads(message["content"]) == {
                "key": "[secret]",
                "who": ["***", "[e-mail address]"],
                "n": 1,
            }
        if kind == "tools":
            arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
            assert arguments == {"to": "[secret]", "n": "***"}


async def test_the_message_of_an_upstream_that_would_be_masked_is_left_out():
    said = json.dumps({"error": {"message": "Acme says no"}}).encode()
    file = FILE % {"model": "openai/m", "protocol": "chat", "rules": RULES}
    async with (
        upstream(lambda *_: (400, "Content-Type: application/json", said)) as server,
        gateway(server.url, file=file) as serving,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        answer = await client.post(
            f"{serving.url}/v1/chat/completions", json=body_of("chat", "text", stream=False)
        )
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the upstream refused the request"
