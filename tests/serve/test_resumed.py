"""Upstreams that break off behind the gateway: the client notices a pause, and nothing else (SPEC rule 19)."""

import json
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.support.faults import ANSWERS, STATUSES, faulty, text_of
from tests.support.gateway import gateway

FILE = """
upstreams:
  main: {{model: %(model)s, api_base: "%(url)s", completion: %(protocol)s%(continues)s}}
  spare: {{model: %(model)s, api_base: "%(spare)s", completion: %(protocol)s%(continues)s}}
models:
  m:
    upstream: %(upstream)s
    reasoning: deliver
    chunking: %(chunking)s
    release: %(release)s
    requirements: %(rules)s
    repair: {{loop_budget: 1, resume: 2}}
server: {{port: 0{server}}}
"""
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
RULES = "[{{forbidden_words: [forbidden]}}]"


@asynccontextmanager
async def before(protocol, *servers, continues=False, chunking="sentence", rules=RULES, **more):
    """A gateway before servers that break."""
    file = FILE % {
        "model": "anthropic/m" if protocol == "messages" else "openai/m",
        "protocol": protocol,
        "continues": ", continues: message" if continues else "",
        "url": servers[0].url,
        "spare": servers[-1].url,
        "upstream": "[main, spare]" if len(servers) > 1 else "main",
        "chunking": chunking,
        "rules": rules,
        "release": "chunk",
        **more,
    }
    async with gateway(servers[0].url, file=file) as serving:
        yield serving


async def ask(url, kind="text", *, stream=True):
    """All that a client gets of an answer."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Say it."}], "stream": stream}
    if kind == "tools":
        body["tools"] = [TOOL]
    if kind == "JSON":
        body["response_format"] = {"type": "json_object"}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{url}/v1/chat/completions", json=body)
    lines = answer.text.splitlines()
    frames = [json.loads(one[6:]) for one in lines if one.startswith("data: {")]
    frames = frames if stream and answer.status_code == 200 else [answer.json()]
    got = {"status": answer.status_code, "text": "", "thought": "", "calls": {}, "end": None}
    for frame in frames:
        got["error"] = frame.get("error")
        for choice in frame.get("choices", ()):
            said = choice.get("delta") or choice.get("message") or {}
            got["text"] += said.get("content") or ""
            got["thought"] += said.get("reasoning_content") or ""
            got["end"] = choice.get("finish_reason") or got["end"]
            for at, call in enumerate(said.get("tool_calls") or ()):
                known = got["calls"].setdefault(call.get("index", at), ["", ""])
                known[0] += call["function"].get("name") or ""
                known[1] += call["function"].get("arguments") or ""
    return got


NOT_SENT = {("text", "reasoning"), ("text", "tools"), ("messages", "JSON"), ("messages", "tools")}
WAYS = [
    ("chat", True),
    ("chat", False),
    ("text", False),
    ("responses", False),
    ("messages", True),
    ("messages", False),
]


@pytest.mark.parametrize("rules", [RULES, "[]"])
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize(("protocol", "continues"), WAYS)
async def test_a_socket_killed_at_any_frame_costs_a_pause(protocol, continues, kind, rules):
    if (protocol, kind) in NOT_SENT:
        pytest.skip("this upstream is not asked for it")
    chunking = "sentence" if rules == RULES else "null"
    async with (
        faulty(protocol, ANSWERS[kind], size=9) as server,
        before(protocol, server, continues=continues, chunking=chunking, rules=rules) as serving,
    ):
        whole = await ask(serving.url, kind)
        assert (whole["status"], whole["text"]) == (200, text_of(ANSWERS[kind]))
        ends = 2 if protocol in ("chat", "text") else 1  # behind these the answer is whole
        for fault in ("cut", "reset", "half", "error"):
            for at in range(len(server.whole) - ends):
                server.break_next((fault, at))
                assert await ask(serving.url, kind) == whole, (fault, at)


async def ask_natively(url, protocol, kind):
    """All that a client of Responses or Messages gets."""
    turns = [{"role": "user", "content": "Say it."}]
    body = {"model": "m", "stream": True}
    function = TOOL["function"]
    if protocol == "responses":
        body |= {"input": turns, "tools": [{"type": "function", **function}]}
    else:
        tool = {"name": function["name"], "input_schema": function["parameters"]}
        body |= {"messages": turns, "max_tokens": 99, "tools": [tool]}
    if kind != "tools":
        del body["tools"]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{url}/v1/{protocol}", json=body)
    events = [json.loads(one[6:]) for one in answer.text.splitlines() if one.startswith("data: {")]
    got = {"text": "", "thought": "", "calls": {}, "last": events[-1]["type"]}
    for event in events:
        at = event.get("output_index", event.get("index"))
        delta = event.get("delta")
        match event["type"]:
            case "response.output_text.delta":
                got["text"] += delta
            case "response.reasoning_summary_text.delta":
                got["thought"] += delta
            case "response.function_call_arguments.delta":
                got["calls"][at] = got["calls"].get(at, "") + delta
            case "content_block_delta":
                got["text"] += delta.get("text", "")
                got["thought"] += delta.get("thinking", "")
                if "partial_json" in delta:
                    got["calls"][at] = got["calls"].get(at, "") + delta["partial_json"]
    return got


@pytest.mark.parametrize("kind", ["text", "reasoning", "tools"])
@pytest.mark.parametrize("protocol", ["responses", "messages"])
async def test_the_same_in_the_upstreams_own_protocol(protocol, kind):
    async with (
        faulty(protocol, ANSWERS[kind], size=9) as server,
        before(protocol, server) as serving,
    ):
        whole = await ask_natively(serving.url, protocol, kind)
        assert whole["text"] == text_of(ANSWERS[kind])
        assert list(whole["calls"].values()) == [
            part[2] for part in ANSWERS[kind] if part[0] == "call"
        ]
        for at in range(len(server.whole) - 1):
            server.break_next(("cut", at))
            assert await ask_natively(serving.url, protocol, kind) == whole, at


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("release", ["chunk", "all"])
async def test_an_answer_that_is_not_streamed_is_whole_too(kind, release):
    async with (
        faulty("chat", ANSWERS[kind]) as server,
        before("chat", server, release=release) as serving,
    ):
        whole = await ask(serving.url, kind, stream=False)
        for at in range(len(server.whole) - 2):
            server.break_next(("cut", at), ("reset", at + 1))
            assert await ask(serving.url, kind, stream=False) == whole, at


@pytest.mark.parametrize("status", STATUSES)
async def test_a_busy_server_is_asked_again_when_it_says(status):
    async with faulty("chat", ANSWERS["text"]) as server, before("chat", server) as serving:
        whole = await ask(serving.url)
        server.break_next((status, 0), (status, 0))
        assert await ask(serving.url) == whole
        server.break_next(("cut", 5), (status, 0))
        assert await ask(serving.url) == whole
        server.break_next(*[(status, 0)] * 3)
        assert (await ask(serving.url))["status"] == status


async def test_the_next_upstream_goes_on_and_is_asked_first_while_the_other_is_down():
    async with (
        faulty("chat", ANSWERS["text"]) as main,
        faulty("chat", ANSWERS["text"]) as spare,
        before("chat", main, spare, server=", recent: 0") as serving,
    ):
        whole = await ask(serving.url)
        main.break_next((503, 60))
        assert await ask(serving.url) == whole
        assert (len(main.requests), len(spare.requests)) == (2, 1)
        assert await ask(serving.url) == whole  # the breaker is open
        assert (len(main.requests), len(spare.requests)) == (2, 2)
        async with httpx.AsyncClient(trust_env=False) as client:
            metrics = (await client.get(f"{serving.url}/metrics")).text
        assert 'streamval_retries_total{mode="resume",model="m"} 1.0' in metrics


async def test_a_cut_in_the_middle_is_mended_by_the_same_upstream():
    async with (
        faulty("chat", ANSWERS["text"]) as main,
        faulty("chat", ANSWERS["text"]) as spare,
        before("chat", main, spare, continues=True) as serving,
    ):
        whole = await ask(serving.url)
        main.break_next(("reset", 8))
        assert await ask(serving.url) == whole
        assert (len(main.requests), len(spare.requests)) == (3, 0)
        assert main.requests[2]["messages"][-1]["role"] == "assistant"


async def test_what_is_left_when_all_break_ends_with_an_error():
    async with faulty("chat", ANSWERS["text"]) as main, before("chat", main) as serving:
        main.break_next(("cut", 8), ("cut", 0), ("cut", 0))
        got = await ask(serving.url)
        assert got["status"] == 200
        assert got["error"]["message"] == "the upstream broke off"
        assert got["end"] is None
        assert text_of(ANSWERS["text"]).startswith(got["text"])
        assert got["text"]
    async with faulty("chat", ANSWERS["text"]) as main, before("chat", main) as serving:
        main.break_next(("cut", 0), ("cut", 0), ("cut", 0))
        assert (await ask(serving.url))["status"] == 502
