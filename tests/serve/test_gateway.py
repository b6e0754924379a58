"""Tests of `streamval.serve.gateway`: real sockets on both sides, and OpenAI's own client in front."""

import asyncio
import gzip
import json
import random
import time

import anthropic
import httpx
import openai
import pytest

from streamval.serve.config_file import parse_configuration
from streamval.serve.exchange import REFUSAL
from tests.support.gateway import ASK, FILE, chat, client_of, gateway
from tests.support.upstream import frame, upstream, words

BAD = "One is fine. Two is forbidden here. Three is fine."


async def test_what_passes_is_sent_as_it_was_written():
    async with (
        upstream(words("One is\n\nfine.  Two too. \U0001f600")) as behind,
        gateway(behind.url) as serving,
    ):
        async with client_of(serving) as client:
            text, reason, refusal, usage = await chat(client, "plain", seed=7, user="Ann")
            assert (text, reason, refusal) == ("One is\n\nfine.  Two too. \U0001f600", "stop", None)
            assert (usage.prompt_tokens, usage.completion_tokens) == (5, 6)
            whole = await client.chat.completions.create(model="plain", messages=ASK)
            assert whole.choices[0].message.content == text
            assert [model.id async for model in client.models.list()] == [
                "plain",
                "judged",
                "careful",
                "whole",
                "strict",
            ]
        sent = behind.requests[0]
        assert (sent.body["seed"], sent.body["user"], sent.body["model"]) == (7, "Ann", "m")
        assert sent.headers["authorization"] == "bearer sk-of-the-upstream"


async def test_a_repair_that_continues_is_nothing_but_a_pause():
    def script(body, before):
        return words(BAD) if not before else words(" Two is good. Three is fine.")

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        text, reason, refusal, _ = await chat(client, "careful")
        assert (text, reason, refusal) == ("One is fine. Two is good. Three is fine.", "stop", None)
        again = behind.requests[1].body["messages"]
        assert again[-1] == {"role": "assistant", "content": "One is fine."}
        assert "forbidden" in again[0]["content"]  # why it was rejected, for the model


async def test_failed_for_good_what_was_good_stands():
    def script(body, _):
        goes_on = body["messages"][-1]["role"] == "assistant"
        return words(" Two is forbidden again. Three.") if goes_on else words(BAD)

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        text, reason, refusal, usage = await chat(client, "careful")
        assert (text, reason, refusal) == ("One is fine.", "content_filter", REFUSAL)
        assert usage.completion_tokens > 10  # of all attempts
        whole = await client.chat.completions.create(model="careful", messages=ASK)
        assert whole.choices[0].message.content == "One is fine."
        assert whole.choices[0].message.refusal == REFUSAL
        text, reason, _, _ = await chat(client, "whole")
        assert (text, reason) == ("", "content_filter")
        with pytest.raises(openai.APIError, match="withheld"):
            await chat(client, "strict")


async def test_nothing_before_all_of_it_is_valid_and_a_restart_is_not_seen():
    def script(body, before):
        return words(BAD) if not before else words("All is good. All of it.")

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        assert (await chat(client, "whole"))[:2] == ("All is good. All of it.", "stop")
        assert len(behind.requests) == 2


async def test_an_upstream_that_says_no_done_has_still_ended():
    script = [*words("All is well."), frame({}, "stop"), "END"]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        assert (await chat(client, "plain"))[:2] == ("All is well.", "stop")


async def test_the_length_is_told():
    script = [*words("One is fine. Two"), frame({}, "length")]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        assert (await chat(client, "plain"))[:2] == ("One is fine. Two", "length")


async def test_a_server_that_is_told_to_stop_lets_runs_end_and_then_closes_them():
    slow = [piece for _ in range(40) for piece in (*words("One is fine. "), 0.02)]
    async with (
        upstream(slow) as behind,
        gateway(behind.url, server=", drain_seconds: 30") as serving,
        client_of(serving) as client,
    ):
        going = asyncio.ensure_future(chat(client, "plain"))
        while not behind.requests or behind.requests[0].sent < 5:
            await asyncio.sleep(0.005)
        serving.server.handle_exit(15, None)
        assert serving.draining
        assert (await going)[1] == "stop"
    script = [*words("One is fine. Two "), "STALL"]
    async with upstream(script) as behind:
        async with gateway(behind.url, server=", drain_seconds: 1") as serving:
            async with client_of(serving) as client:
                going = asyncio.ensure_future(chat(client, "plain"))
                while not behind.requests or behind.requests[0].sent < 5:
                    await asyncio.sleep(0.005)
                serving.server.handle_exit(15, None)
                with pytest.raises((openai.APIError, httpx.HTTPError)):
                    await going
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)


async def test_while_it_drains_others_hear_so_and_who_still_runs_gets_an_error_event():
    script = [*words("One is fine. Two "), "STALL"]
    async with upstream(script) as behind:
        async with gateway(behind.url, server=", drain_seconds: 2") as serving:
            async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
                asked = {"model": "judged", "messages": ASK, "stream": True}
                async with client.stream("POST", "/v1/chat/completions", json=asked) as answer:
                    lines = answer.aiter_lines()
                    while "One is fine." not in await anext(lines):
                        pass
                    serving.server.handle_exit(15, None)
                    async with httpx.AsyncClient(trust_env=False) as another:
                        ready = await another.get(f"{serving.url}/readyz")
                        refused = await another.post(
                            f"{serving.url}/v1/chat/completions", json={**asked, "stream": False}
                        )
                    rest = [line async for line in lines if line.startswith("data: ")]
    assert (ready.status_code, ready.text) == (503, "draining")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert json.loads(rest[-1][6:])["error"]["code"] == "draining"


async def test_a_client_that_reads_slowly_holds_its_upstream_back_and_nobody_else():
    long = ["One is fine. Two is " + "very " * 2000 + "fine. "] * 4000
    async with upstream(long) as behind, gateway(behind.url) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        body = json.dumps({"model": "judged", "messages": ASK, "stream": True})
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await writer.drain()
        await reader.readexactly(1)  # and then no more
        stands = -1
        while not behind.requests or stands != behind.requests[0].sent:
            stands = behind.requests[0].sent if behind.requests else -1
            await asyncio.sleep(0.3)
        assert behind.requests[0].sent < len(long)
        async with client_of(serving) as client:
            stream = await client.chat.completions.create(model="judged", messages=ASK, stream=True)
            first = await anext(aiter(stream))
            assert first.choices[0].delta.content == "One is fine."
            await stream.close()
        writer.close()
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)


async def test_events_for_those_who_ask_and_none_of_them_says_what_was_withheld():
    def script(body, before):
        return words(BAD) if not before else words(" Two is good.")

    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        stream = await client.chat.completions.create(
            model="careful", messages=ASK, stream=True, extra_headers={"x-streamval-events": "1"}
        )
        told, text = [], ""
        async for chunk in stream:
            if extra := (chunk.model_extra or {}).get("x_streamval"):
                told.append(extra["type"])
                assert "forbidden" not in json.dumps(extra)
                assert chunk.choices == []
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
        assert text == "One is fine. Two is good."
        assert told[0] == "started"
        assert "retry" in told
        assert told[-1] == "completed"


async def test_text_completions():
    async with (
        upstream(words("One is fine. Two is too.")) as behind,
        gateway(behind.url) as serving,
    ):
        async with client_of(serving) as client:
            stream = await client.completions.create(model="plain", prompt="Count:", stream=True)
            chunks = [chunk async for chunk in stream]
            assert "".join(chunk.choices[0].text for chunk in chunks) == "One is fine. Two is too."
            assert chunks[-1].choices[0].finish_reason == "stop"
            whole = await client.completions.create(model="plain", prompt="Count:")
            assert whole.choices[0].text == "One is fine. Two is too."
        assert behind.requests[0].body["messages"] == [{"role": "user", "content": "Count:"}]


async def test_the_page_shows_the_last_runs_and_only_where_it_is_wanted():
    async with upstream(words("All is <b>well</b>.")) as behind:
        async with gateway(behind.url) as serving, httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(serving.url)).status_code == 404
        async with gateway(behind.url, server=", recent: 2") as serving:
            async with client_of(serving) as asking:
                for _ in range(3):
                    await chat(asking, "plain")
            async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
                page = (await client.get("/")).text
                assert page.count("<tr>") == 3
                assert "All is &lt;b&gt;well&lt;/b&gt;." in page
                path = page.split('href="/runs/')[2].split('"')[0]
                assert "A run, while it is judged" in (await client.get(f"/runs/{path}")).text
                assert "<svg" in (await client.get(f"/runs/{path}marbles.svg")).text
                assert (await client.get("/runs/unknown/")).status_code == 404


async def test_the_first_chunk_does_not_wait_for_the_second():
    script = [*words("One is fine. Two is too"), "STALL"]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        stream = await client.chat.completions.create(model="judged", messages=ASK, stream=True)
        first = await anext(aiter(stream))
        assert first.choices[0].delta.content == "One is fine."
        before = time.perf_counter()
        await stream.close()
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
        assert behind.requests[0].gone_at >= before


@pytest.mark.slow
async def test_no_fault_at_any_byte_loses_repeats_or_leaks_a_character():
    """The upstream's bytes come in pieces of any size, and end anywhere, in any way."""
    good = "One is fine. Two is \U0001f600 fine.  Three\n\nis too. Four is fine. Five is here."
    bad = good.replace("Four is fine", "Four is forbidden")
    ends = [
        "RESET",
        "END",
        b'\n\ndata: {"error": {"message": "x"}}\n\n',
        b"\n\ndata: {broken\n\n",
        "[DONE]",
    ]
    for seed in range(60):
        dice = random.Random(seed)
        text = dice.choice([good, bad])
        raw = b"".join(
            b"data: " + json.dumps(frame({"content": piece})).encode() + b"\n\n"
            for piece in words(text)
        )
        end = dice.choice(ends)
        if end == "[DONE]":
            raw += b"data: " + json.dumps(frame({}, "stop")).encode() + b"\n\ndata: [DONE]\n\n"
        else:
            raw = raw[: dice.randrange(len(raw))]
        cuts = sorted(dice.sample(range(len(raw) + 1), min(dice.randrange(1, 12), len(raw) + 1)))
        pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        script = [*pieces, "END" if end == "[DONE]" else end]
        model = dice.choice(["plain", "strict", "whole"])
        async with upstream(script) as behind, gateway(behind.url) as serving:
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(
                    f"{serving.url}/v1/chat/completions",
                    json={"model": model, "messages": ASK, "stream": True},
                )
        if answer.status_code != 200:
            assert "error" in answer.json(), seed
            continue
        frames = [
            json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")
        ]
        got = "".join(
            choice["delta"].get("content") or ""
            for one in frames
            for choice in one.get("choices", ())
        )
        assert text.startswith(got), seed
        if model != "plain":
            assert "forbidden" not in got, seed
        reasons = [c["finish_reason"] for one in frames for c in one.get("choices", ())]
        if answer.text.endswith("data: [DONE]\n\n"):
            assert reasons[-1] in ("stop", "content_filter"), seed
            assert reasons[-1] == "content_filter" or got == text, seed
        else:
            assert "error" in frames[-1], seed
            assert end != "[DONE]" or (model, text) == ("strict", bad), seed


async def test_requests_that_are_refused_do_not_push_out_what_the_page_shows():
    settings = ", recent: 2, max_runs: 1, max_waiting: 0"
    gate = asyncio.Event()
    script = [*words("One is fine. Two "), gate, "too."]
    async with upstream(script) as behind, gateway(behind.url, server=settings) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client:
            body = {"model": "plain", "messages": ASK}
            asking = [
                asyncio.ensure_future(client.post("/v1/chat/completions", json=body))
                for _ in range(6)
            ]
            while sum(answer.done() for answer in asking) < 5:
                await asyncio.sleep(0.005)
            gate.set()
            answers = await asyncio.gather(*asking)
            assert sorted(answer.status_code for answer in answers) == [200] + [429] * 5
            page = (await client.get("/")).text
        assert page.count("<tr>") == 2
        assert "One is fine." in page


# What is not ours goes through


def written_by(frames, **marks):
    return [{**frame({"content": text}), "created": 7, **marks} for text in frames]


async def test_the_upstreams_marks_and_the_clients_headers_go_through():
    marks = {"id": "chatcmpl-up", "system_fingerprint": "fp_1", "service_tier": "flex"}
    file = FILE.replace("stall_timeout: 30", "headers: {{x-team: red}}")
    async with (
        upstream(written_by(["One. ", "Two."], **marks)) as behind,
        gateway(behind.url, file=file) as serving,
        client_of(serving) as client,
    ):
        sent = {"traceparent": "00-a", "OpenAI-Organization": "org", "Cookie": "a=b"}
        asked = {"model": "plain", "messages": ASK, "extra_headers": sent}
        whole = await client.chat.completions.create(**asked)
        pieces = [one async for one in await client.chat.completions.create(**asked, stream=True)]
        for one in (whole, *pieces):
            assert (one.id, one.system_fingerprint, one.service_tier) == tuple(marks.values())
        seen = behind.requests[0].headers
        assert (seen["traceparent"], seen["openai-organization"], seen["x-team"]) == (
            "00-a",
            "org",
            "red",
        )
        assert seen["x-request-id"]
        assert "cookie" not in seen


async def test_a_mark_cannot_say_what_is_forbidden():
    marks = {"id": "a forbidden word", "system_fingerprint": "say it"}
    async with (
        upstream(written_by(["One."], **marks)) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        whole = await client.chat.completions.create(model="strict", messages=ASK)
    assert "forbidden" not in whole.model_dump_json()
    assert "say it" not in whole.model_dump_json()


async def test_embeddings_are_passed_through_where_the_file_says_so():
    said = {"object": "list", "data": [{"embedding": [0.5], "index": 0, "object": "embedding"}]}
    answer = (200, "Content-Type: application/json", json.dumps(said).encode())
    file = FILE.replace("server: ", "pass_through: {{embeddings: main}}\nserver: ")
    async with (
        upstream(lambda *_: answer) as behind,
        gateway(behind.url, file=file) as serving,
        client_of(serving) as client,
    ):
        found = await client.embeddings.create(model="e", input="Hi", encoding_format="float")
        assert found.data[0].embedding == [0.5]
        with pytest.raises(openai.NotFoundError, match="are not served here"):
            await client.moderations.create(input="Hi")
    assert behind.requests[0].body["input"] == "Hi"


async def test_tokens_are_counted_in_anthropics_manner():
    async with (
        upstream([]) as behind,
        gateway(behind.url) as serving,
        anthropic.AsyncAnthropic(base_url=serving.url, api_key="x") as client,
    ):
        few = await client.messages.count_tokens(model="plain", messages=ASK)
        more = await client.messages.count_tokens(
            model="plain", messages=[{"role": "user", "content": "Say it. " * 100}]
        )
        assert 0 < few.input_tokens < 50 < more.input_tokens
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.count_tokens(model="none", messages=ASK)


async def test_a_page_of_a_named_origin_may_ask():
    origin = "https://app.example.org"
    async with (
        upstream(["Hi."]) as behind,
        gateway(behind.url, server=f", cors_origins: ['{origin}']") as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        for who, allowed in ((origin, origin), ("https://evil.example", None)):
            headers = {"origin": who, "access-control-request-method": "POST"}
            asked = await client.options("/v1/chat/completions", headers=headers)
            assert asked.headers.get("access-control-allow-origin") == allowed


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(json.dumps({"model": "plain", "messages": ASK}).encode()), 200),
        (gzip.compress(b"[" * 200_000_000, 9), 413),  # 194 kB
        (gzip.compress(b"{}")[:-6], 400),
        (b"no gzip", 400),
    ],
    ids=["whole", "too long", "cut off", "no gzip"],
)
async def test_a_body_may_be_compressed(body, status):
    async with (
        upstream(["Hi."]) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        answer = await client.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == status, answer.text


async def test_reasoning_is_sent_once_it_was_judged():
    thoughts = [frame({"reasoning_content": "Let me see. "}), frame({"content": "One is fine."})]
    file = FILE.replace(
        "  plain: {{upstream: main}}", "  plain: {{upstream: main, reasoning: deliver}}"
    )
    async with (
        upstream(thoughts) as behind,
        gateway(behind.url, file=file) as serving,
        client_of(serving) as client,
    ):
        asked = {"model": "plain", "messages": ASK}
        whole = await client.chat.completions.create(**asked)
        pieces = [one async for one in await client.chat.completions.create(**asked, stream=True)]
        hidden = await client.chat.completions.create(**{**asked, "model": "careful"})
    assert whole.choices[0].message.reasoning_content == "Let me see. "
    deltas = [one.choices[0].delta for one in pieces if one.choices]
    assert "".join(getattr(one, "reasoning_content", "") for one in deltas) == "Let me see. "
    assert "Let me see" not in hidden.model_dump_json()


async def test_a_failure_may_have_words_of_the_file(caplog):
    file = FILE.replace("on_failure: error", "on_failure: {{text: 'I cannot say that.'}}")
    async with (
        upstream(words("One is fine. Two is forbidden here.")) as behind,
        gateway(behind.url, file=file) as serving,
        client_of(serving) as client,
    ):
        with caplog.at_level("INFO", "streamval.serve"):
            text, reason, refusal, _ = await chat(client, "strict")
            whole = await client.chat.completions.create(model="strict", messages=ASK)
    assert whole.choices[0].message.content == text
    assert (text, reason, refusal) == ("One is fine.I cannot say that.", "content_filter", None)
    line = json.loads(caplog.messages[-1])
    assert (line["outcome"], line["rules"]) == ("rejected", ['never say "forbidden"'])


async def test_another_configuration_is_served_and_no_stream_is_lost():
    goes_on = asyncio.Event()
    script = [*words("One is fine. Two is"), goes_on, *words(" too. Three.")]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        asked = {"model": "plain", "messages": ASK}
        stream = await client.chat.completions.create(**asked, stream=True)
        said = (await anext(aiter(stream))).choices[0].delta.content
        changed = FILE.replace("  plain:", "  renamed:").format(url=behind.url, server="")
        serving.reload(parse_configuration(changed, "test.yaml", {}))
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(**asked)
        goes_on.set()
        async for piece in stream:
            said += piece.choices[0].delta.content or "" if piece.choices else ""
        whole = await client.chat.completions.create(**{**asked, "model": "renamed"})
    assert said == "One is fine. Two is too. Three."
    assert whole.choices[0].message.content == said


@pytest.mark.parametrize(("words", "shown"), [("I would rather not.", True), ("forbidden", False)])
async def test_a_models_own_refusal_is_passed_on_and_it_is_not_asked_again(words, shown):
    script = [frame({"refusal": piece}) for piece in (words[:4], words[4:])]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
        anthropic.AsyncAnthropic(base_url=serving.url, api_key="x") as other,
    ):
        _, reason, refusal, _ = await chat(client, "careful")
        whole = await client.chat.completions.create(model="careful", messages=ASK)
        response = await client.responses.create(model="careful", input="Say it.")
        message = await other.messages.create(model="careful", max_tokens=9, messages=ASK)
    said = words if shown else REFUSAL
    assert (reason, refusal) == ("stop" if shown else "content_filter", said)
    assert whole.choices[0].message.refusal == said
    assert response.output[0].content[-1].refusal == said
    assert response.status == ("completed" if shown else "incomplete")
    assert (message.content[0].text, message.stop_reason) == (said, "refusal")
    assert len(behind.requests) == 4
