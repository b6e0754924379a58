"""Rules of the gateway that only observe: the bytes to the client are the same as without them."""

import json
import logging
import re

import httpx
import pytest

from tests.support.faults import ANSWERS, faulty
from tests.support.gateway import gateway

FILE = """
upstreams:
  main: {{model: %(model)s, api_base: "{url}", completion: %(protocol)s}}
models:
  m:
    upstream: main
    reasoning: deliver
    requirements: [%(rules)s]
server: {{port: 0{server}}}
"""
OBSERVERS = """
    {{forbidden_words: [two, think, Ann, Rome], enforce: false}},
    {{forbidden_pattern: {{pattern: "fine|ends|Bonn", enforce: false}}}},
    {{no_secrets: {{enforce: false}}}},
    {{word_limit: {{at_most: 1}}, enforce: false}}
"""
DECIDES = "{{forbidden_words: [elsewhere]}}"
TOOL = {"name": "weather", "parameters": {"type": "object"}}
PATHS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}


def body_of(protocol, kind, *, stream):
    turns = [{"role": "user", "content": "Say it."}]
    body = {"model": "m", "stream": stream}
    body |= {"input": turns} if protocol == "responses" else {"messages": turns}
    if protocol == "messages":
        body["max_tokens"] = 99
    if kind == "tools":
        body["tools"] = {
            "chat": [{"type": "function", "function": TOOL}],
            "responses": [{"type": "function", **TOOL}],
            "messages": [{"name": "weather", "input_schema": TOOL["parameters"]}],
        }[protocol]
    if kind == "JSON" and protocol == "chat":
        body["response_format"] = {"type": "json_object"}
    return body


async def bytes_of(server, rules, protocol, kind, *, stream, log=None):
    model = "anthropic/m" if protocol == "messages" else "openai/m"
    file = FILE % {"model": model, "protocol": protocol, "rules": rules}
    async with (
        gateway(server.url, file=file) as serving,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        answer = await client.post(
            f"{serving.url}/v1/{PATHS[protocol]}",
            json=body_of(protocol, kind, stream=stream),
            headers={"x-request-id": "r1"},
        )
        metrics = (await client.get(f"{serving.url}/metrics")).text
    # Ids and times are new for each answer.
    content = re.sub(
        rb'"((?:call_)?id|item_id)": ?"[^"]*"|"(created|completed)(_at)?": ?\d+',
        b"",
        answer.content,
    )
    return answer.status_code, content, metrics


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize("decides", ["", DECIDES])
async def test_an_observed_rule_changes_no_byte(protocol, kind, stream, decides, caplog):
    caplog.set_level(logging.INFO, "streamval.serve")
    async with faulty(protocol, ANSWERS[kind]) as server:
        plain = await bytes_of(server, decides, protocol, kind, stream=stream)
        both = ", ".join(one for one in (decides, OBSERVERS) if one)
        observed = await bytes_of(server, both, protocol, kind, stream=stream)
    assert plain[0] == 200
    assert observed[:2] == plain[:2]
    line = json.loads(caplog.records[-1].getMessage())
    assert line["observed"]
    assert line["rules"] == []
    assert 'verdict="fail"' in observed[2]
    assert 'verdict="fail"' not in plain[2]
