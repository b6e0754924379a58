"""Tests of `streamval.serve.kept`."""

import json

import openai
import pytest

from streamval.errors import RequestError
from streamval.serve.kept import Kept
from tests.support.gateway import gateway
from tests.support.upstream import frame, upstream, words

SAID = ({"role": "user", "content": "Hi"},)


def test_the_oldest_go_and_each_has_its_time_and_its_owner():
    now = [0.0]
    kept = Kept(2, 10.0, lambda: now[0])
    for number in range(3):
        kept.keep("ann", f"r{number}", SAID)
    assert kept.find("ann", "r1") == SAID
    for owner, name in (("ann", "r0"), ("bob", "r1"), ("ann", None), ("ann", {"a": 1})):
        with pytest.raises(RequestError) as raised:
            kept.find(owner, name)
        assert raised.value.status == 404
    now[0] = 10.0
    with pytest.raises(RequestError, match="any more"):
        kept.find("ann", "r1")


NOW = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}
KEYS = ", keys: [key-of-ann, key-of-bob], responses: 9"


def script(body, before):
    if before == 0:
        call = {"index": 0, "id": "c", "function": {"name": "now", "arguments": "{}"}}
        return [frame({"tool_calls": [call]}), frame({}, "tool_calls")]
    return words(f"It is {before} o'clock.")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_goes_on_from_an_answer_that_was_kept(stream):
    async def ask(client, **asked):
        made = await client.responses.create(model="judged", stream=stream, **asked)
        if stream:
            async for event in made:
                last = event
            made = last.response
        return made

    async with upstream(script) as behind, gateway(behind.url, server=KEYS) as serving:
        address = {"base_url": f"{serving.url}/v1", "max_retries": 0}
        async with (
            openai.AsyncOpenAI(api_key="key-of-ann", **address) as ann,
            openai.AsyncOpenAI(api_key="key-of-bob", **address) as bob,
        ):
            first = await ask(ann, input="What time is it?", instructions="Be brief.", tools=[NOW])
            call = first.output[0]
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "1"}
            second = await ask(ann, input=[result], previous_response_id=first.id)
            third = await ask(ann, input="And now?", previous_response_id=second.id, store=False)
            for client, name in ((bob, second.id), (ann, third.id), (ann, "resp_of_nobody")):
                with pytest.raises(openai.NotFoundError):
                    await ask(client, input="And now?", previous_response_id=name)
    assert (first.store, third.store) == (True, False)
    assert third.output_text == "It is 2 o'clock."
    turns = behind.requests[2].body["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "assistant", "user"]
    assert turns[1]["tool_calls"][0]["id"] == turns[2]["tool_call_id"] == call.call_id
    assert "Be brief." not in json.dumps(turns)  # an earlier response hands no instructions on


async def test_where_nothing_is_kept_it_is_refused_and_an_answer_that_failed_is_not_kept():
    async with upstream(words("One is fine. Two is forbidden.")) as behind:
        async with gateway(behind.url) as serving:
            async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
                with pytest.raises(openai.BadRequestError, match="no responses are kept"):
                    await client.responses.create(
                        model="judged", input="Hi", previous_response_id="resp_1"
                    )
        async with gateway(behind.url, server=", responses: 3") as serving:
            async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
                failed = await client.responses.create(model="judged", input="Hi")
                with pytest.raises(openai.NotFoundError):
                    await client.responses.create(
                        model="judged", input="Hi", previous_response_id=failed.id
                    )
