"""Planted violations and forty harmless answers, in all four protocols, streamed and not, byte for byte."""

import json
import random
import re

import httpx
import pytest

from streamval.commands.exposure import OURS as MEASURED
from streamval.exposure.planted import HARMLESS as NO_VIOLATION
from streamval.exposure.planted import SCHEMA, all_cases, prose
from tests.support.gateway import client_of, gateway
from tests.support.upstream import frame, upstream

ALL = all_cases()
PLANTED = [
    number
    for number, case in enumerate(ALL)
    if case.kind != NO_VIOLATION and case.place in ("text", "json")
]
HARMLESS = [
    " ".join(prose(seed, 10)) + random.Random(seed).choice(["", "\n", " \n"])
    for seed in range(50, 90)
]
_BRACES = MEASURED.replace("{", "{{").replace("}", "}}")
OURS = _BRACES.replace(
    "{{main: {{}}}}", '{{main: {{model: openai/m, api_base: "{url}", continues: message}}}}'
).replace("{{max_runs: 100}}", "{{port: 0{server}}}")

PATHS = {
    "chat": "/v1/chat/completions",
    "text": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


def body_of(protocol, model, said, *, stream):
    asked = {"model": model, "stream": stream}
    if model == "typed":
        schema = {"name": "a", "schema": SCHEMA}
        asked |= {
            "chat": {"response_format": {"type": "json_schema", "json_schema": schema}},
            "text": {},
            "responses": {"text": {"format": {"type": "json_schema", **schema}}},
            "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        }[protocol]
    if protocol == "text":
        return asked | {"prompt": said}
    if protocol == "responses":
        return asked | {"input": said}
    more = {"max_tokens": 999} if protocol == "messages" else {}
    return asked | more | {"messages": [{"role": "user", "content": said}]}


def texts_of(answer, *, stream):
    """Every string in an answer, and the text that a client puts together."""
    if stream:
        lines = [line[6:] for line in answer.splitlines() if line.startswith("data: {")]
        frames = [json.loads(line) for line in lines]
    else:
        frames = [json.loads(answer)]
    strings, joined = [], []

    def walk(value, name=""):
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, key)
        elif isinstance(value, list):
            for one in value:
                walk(one, name)
        elif isinstance(value, str):
            strings.append(value)

    for one in frames:
        walk(one)
        for choice in one.get("choices", ()):
            said = choice.get("delta", choice.get("message", choice))
            joined.append(said.get("content") or said.get("text") or "")
        delta = one.get("delta")
        if isinstance(delta, str):
            joined.append(delta if one["type"] == "response.output_text.delta" else "")
        elif isinstance(delta, dict):
            joined.append(delta.get("text", ""))
        if not stream:
            parts = [
                *one.get("content", ()),
                *(p for i in one.get("output", ()) for p in i["content"]),
            ]
            joined += [part.get("text", "") for part in parts]
    return strings, "".join(joined)


def planted(body, _):
    """The case that is asked for; where it is to go on, it plants the same again."""
    number = int(re.search(r"case (\d+)", json.dumps(body["messages"]))[1])
    case = ALL[number]
    goes_on = body["messages"][-1]["role"] == "assistant"
    pieces = (*case.violation, *case.after) if goes_on else case.pieces
    return [*pieces, frame({}, "stop")]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("protocol", PATHS)
async def test_nothing_planted_is_in_any_field(protocol, stream):
    async with (
        upstream(planted) as behind,
        gateway(behind.url, file=OURS) as serving,
        httpx.AsyncClient(trust_env=False, timeout=300, base_url=serving.url) as client,
    ):
        seen = 0
        for number in PLANTED:
            case = ALL[number]
            typed = case.kind == "a wrong first field"
            if typed and protocol == "text":
                continue  # it has no schema
            asked = body_of(
                protocol, "typed" if typed else "careful", f"case {number}", stream=stream
            )
            answer = (await client.post(PATHS[protocol], json=asked)).text
            strings, joined = texts_of(answer, stream=stream)
            told = [*strings, joined]
            if typed:
                assert not any('"name"' in one for one in told), (case, answer)
            elif case.kind == "a repetition":
                assert joined.count(case.bad) == 1, (case, answer)
                assert all(one.count(case.bad) <= 1 for one in told)
            else:
                assert case.bad not in answer, (case, answer)
                assert not any(case.bad in one for one in told), (case, answer)
            seen += 1
    assert seen == len(PLANTED) - (4 if protocol == "text" else 0)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("protocol", PATHS)
async def test_harmless_answers_are_what_the_upstream_wrote(protocol, stream):
    def script(body, _):
        number = int(re.search(r"text (\d+)", json.dumps(body["messages"]))[1])
        text, dice, pieces = HARMLESS[number], random.Random(number), []
        while text:
            size = dice.randint(1, 9)
            pieces, text = [*pieces, text[:size]], text[size:]
        return [*pieces, frame({}, "stop")]

    async with (
        upstream(script) as behind,
        gateway(behind.url, file=OURS) as serving,
        httpx.AsyncClient(trust_env=False, timeout=300, base_url=serving.url) as client,
    ):
        for number, text in enumerate(HARMLESS):
            asked = body_of(protocol, "careful", f"text {number}", stream=stream)
            answer = (await client.post(PATHS[protocol], json=asked)).text
            assert texts_of(answer, stream=stream)[1] == text
    assert len(behind.requests) == len(HARMLESS)


async def test_without_rules_a_client_gets_the_frames_of_the_upstream():
    """The same as straight from there, but for the name of the model and our own counts in the usage."""

    def script(*_):
        marks = {
            "id": "chatcmpl-7",
            "created": 7,
            "system_fingerprint": "fp_7",
            "service_tier": "flex",
        }
        said = [
            frame({"role": "assistant", "content": "One"}),
            frame({"content": " is\n"}),
            frame({}, "stop"),
        ]
        used = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        frames = [{**one, **marks} for one in (*said, {"choices": [], "usage": used})]
        return [*frames, b"data: [DONE]\n\n", "END"]

    def seen(chunks):
        kept = [one.model_dump(exclude_none=True) for one in chunks]
        for one in kept:
            one.pop("model", None)
            one.pop("object", None)
            if usage := one.get("usage"):
                one["usage"] = {
                    name: usage[name]
                    for name in ("prompt_tokens", "completion_tokens", "total_tokens")
                }
        return kept

    asked = {"messages": [{"role": "user", "content": "x"}], "stream": True, "model": "plain"}
    asked["stream_options"] = {"include_usage": True}
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        judged = [one async for one in await client.chat.completions.create(**asked)]
        bare = client.with_options(base_url=behind.url)
        straight = [one async for one in await bare.chat.completions.create(**asked)]
    assert seen(judged) == seen(straight)
