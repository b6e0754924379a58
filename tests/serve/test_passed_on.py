"""The gateway passes on what is not its own: fields of requests and of answers, and what a text ends with."""

import json

import httpx
import pytest

from tests.support.gateway import ASK, client_of, gateway
from tests.support.upstream import frame, upstream, words

NOW = {"name": "now", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}


def calling(arguments):
    first = {"function_call": {"name": "now", "arguments": ""}}
    pieces = [arguments[at : at + 3] for at in range(0, len(arguments), 3)]
    more = [{"function_call": {"arguments": piece}} for piece in pieces]
    return [frame(one) for one in (first, *more)] + [frame({}, "function_call")]


@pytest.mark.parametrize("model", ["plain", "judged"])
async def test_functions_are_called_in_the_form_before_there_were_tools(model):
    asked = {"model": model, "messages": ASK, "functions": [NOW], "function_call": "auto"}
    async with (
        upstream(lambda *_: calling('{"zone": "CET"}')) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(**asked)
        frames = [one async for one in await client.chat.completions.create(**asked, stream=True)]
    sent = behind.requests[0].body
    assert (sent["functions"], sent["function_call"]) == ([NOW], "auto")
    (choice,) = whole.choices
    assert choice.finish_reason == "function_call"
    assert choice.message.function_call.arguments == '{"zone": "CET"}'
    assert choice.message.tool_calls is None
    calls = [one.choices[0].delta.function_call for one in frames if one.choices]
    assert [(call.name, call.arguments) for call in calls if call] == [("now", '{"zone": "CET"}')]
    wrong = lambda *_: calling('{"zone": 5}')
    async with upstream(wrong) as behind, gateway(behind.url) as serving:
        async with client_of(serving) as client:
            refused = await client.chat.completions.create(**asked)
    assert refused.choices[0].finish_reason == "content_filter"
    assert refused.choices[0].message.function_call is None


TEXT = """
upstreams:
  main: {{model: openai/m, api_base: "{url}", completion: text}}
models:
  plain: {{upstream: main}}
  judged: {{upstream: main, requirements: [{{forbidden_words: [forbidden]}}]}}
server: {{port: 0{server}}}
"""


@pytest.mark.parametrize("stream", [True, False])
async def test_an_echo_begins_the_answer_and_a_suffix_goes_to_the_upstream(stream):
    said = [frame_of_text("world", "stop")]
    asked = {"model": "judged", "prompt": "Hello ", "echo": True, "suffix": "!", "best_of": 1}
    async with (
        upstream(lambda *_: said) as behind,
        gateway(behind.url, file=TEXT) as serving,
        client_of(serving) as client,
    ):
        answer = await client.completions.create(**asked, stream=stream)
        if stream:
            text = "".join([one.choices[0].text async for one in answer if one.choices])
        else:
            text = answer.choices[0].text
    assert text == "Hello world"
    sent = behind.requests[0].body
    assert (sent["suffix"], "echo" in sent) == ("!", False)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("said", ["One is fine.", "Two is forbidden."])
async def test_the_best_of_several_is_asked_for_whole_and_judged(stream, said):
    usage = {"prompt_tokens": 2, "completion_tokens": 9}
    body = json.dumps({"id": "cmpl-1", **frame_of_text(said, "stop"), "usage": usage}).encode()
    answer = (200, "Content-Type: application/json", body)
    async with (
        upstream(lambda *_: answer) as behind,
        gateway(behind.url, file=TEXT) as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        asked = {"model": "judged", "prompt": "Hi", "best_of": 3, "stream": stream}
        given = await client.post(f"{serving.url}/v1/completions", json=asked)
    assert (behind.requests[0].body["stream"], behind.requests[0].body["best_of"]) == (False, 3)
    assert ("One is fine." in given.text) is (said == "One is fine.")
    assert "forbidden" not in given.text


def frame_of_text(text, reason=None):
    return {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("more", "param"), [({"n": 2}, "n"), ({"echo": True, "logprobs": 2}, "echo")]
)
async def test_what_cannot_be_judged_is_refused_by_name(more, param):
    async with upstream([]) as behind, gateway(behind.url, file=TEXT) as serving:
        async with httpx.AsyncClient(trust_env=False) as client:
            asked = {"model": "plain", "prompt": "Hi", **more}
            answer = await client.post(f"{serving.url}/v1/completions", json=asked)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert behind.requests == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["plain", "judged"])
async def test_alternatives_and_annotations_go_on_where_nothing_judges_them(model, stream):
    other = {"token": "Two", "logprob": -2.0, "bytes": [84, 119, 111]}
    known = {"token": "One.", "logprob": -1.0, "bytes": None, "top_logprobs": [other]}
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    script = [
        frame({"content": "One."}, logprobs={"content": [known]}),
        frame({"annotations": [cited]}),
        frame({}, "stop"),
    ]
    asked = {"model": model, "messages": ASK, "logprobs": True, "top_logprobs": 1}
    async with (
        upstream(lambda *_: script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        answer = await client.chat.completions.create(**asked, stream=stream)
        if stream:
            choices = [one.choices[0] async for one in answer if one.choices]
            (logprobs,) = [one.logprobs for one in choices if one.logprobs]
            (found,) = [
                one.delta.annotations for one in choices if "annotations" in one.delta.model_extra
            ]
        else:
            (choice,) = answer.choices
            logprobs, found = (
                choice.logprobs,
                [one.model_dump() for one in choice.message.annotations],
            )
    (token,) = logprobs.content
    assert (token.token, token.logprob, token.bytes) == ("One.", -1.0, list(b"One."))
    assert len(token.top_logprobs) == (model == "plain")
    assert found[0]["url_citation"]["url"] == "https://a.example"


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_alternatives_and_annotations_that_are_none_are_left_out(path):
    others = [5, None, {"token": 7, "logprob": 1}, {"token": "x"}, {"token": "Two", "logprob": -2}]
    known = {"token": "One.", "logprob": -1.0, "top_logprobs": others}
    script = [
        frame({"content": "One.", "annotations": [5, "x"]}, logprobs={"content": [known]}),
        frame({"annotations": {"a": 1}}, "stop"),
    ]
    asked = {"model": "plain", "messages": ASK, "prompt": "Hi", "logprobs": 3}
    async with (
        upstream(lambda *_: script) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        for stream in (True, False):
            answer = await client.post(f"{serving.url}/v1/{path}", json={**asked, "stream": stream})
            assert answer.status_code == 200
            assert "Two" in answer.text
            assert '"x"' not in answer.text


@pytest.mark.parametrize("modalities", [5, "audio", ["text", "audio"], {"audio": 1}])
async def test_sound_is_refused(modalities):
    async with upstream([]) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False) as client:
            asked = {"model": "plain", "messages": ASK, "modalities": modalities}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=asked)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "modalities")


async def test_an_annotation_that_breaks_a_rule_is_left_out():
    cited = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example", "title": "forbidden"},
    }
    script = [frame({"content": "One.", "annotations": [cited]}), frame({}, "stop")]
    async with (
        upstream(lambda *_: script) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        for stream in (True, False):
            asked = {"model": "judged", "messages": ASK, "stream": stream}
            answer = await client.post(f"{serving.url}/v1/chat/completions", json=asked)
            assert "One." in answer.text
            assert "forbidden" not in answer.text


@pytest.mark.parametrize("model", ["plain", "judged", "whole"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("end", ["", "\n", " \n\n", "\t"])
async def test_an_answer_keeps_the_whitespace_at_its_end(model, stream, end):
    pieces = ["a,b\n", "1,", "2", *end]
    async with (
        upstream(lambda *_: [*pieces, frame({}, "stop")]) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        answer = await client.chat.completions.create(model=model, messages=ASK, stream=stream)
        if stream:
            said = [one.choices[0].delta.content or "" async for one in answer if one.choices]
            text = "".join(said)
        else:
            text = answer.choices[0].message.content
    assert text == "".join(pieces)


async def test_without_rules_each_delta_is_sent_at_once():
    arrived = []

    class Script(list):
        def __iter__(self):
            for piece in ("One", " is", " not", " over"):
                yield piece
                while not any(piece in one for one in arrived):  # before the next is written
                    yield 0.01
            yield frame({}, "stop")

    async with (
        upstream(lambda *_: Script()) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        async for one in await client.chat.completions.create(
            model="plain", messages=ASK, stream=True
        ):
            arrived += [choice.delta.content or "" for choice in one.choices]
    assert "".join(arrived) == "One is not over"


async def test_the_usage_counts_the_prompts_of_attempts_that_were_cut():
    def script(_, before):
        if not before:
            return [*words("One is fine. Two is forbidden."), *words("More.") * 50]
        return words(" Two is good.")  # with a usage of 5 tokens for the prompt

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(model="careful", messages=ASK)
    assert len(behind.requests) == 2
    assert whole.usage.prompt_tokens == 2 * 5


async def test_a_wrong_key_is_told_from_none():
    async with (
        upstream([]) as behind,
        gateway(behind.url, server=", keys: [key-of-ann]") as serving,
    ):
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{serving.url}/v1/models"
            none = await client.get(url)
            wrong = await client.get(url, headers={"authorization": "Bearer other"})
    assert (none.status_code, wrong.status_code) == (401, 401)
    assert "a key is needed" in none.text
    assert "not known" in wrong.text
