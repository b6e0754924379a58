"""Tests of `streamval.serve.gateway`: real sockets on both sides, and OpenAI's own client in front."""

import asyncio
import json
import logging
import random
import time

import httpx
import openai
import pytest

from streamval.serve.wire import REFUSAL
from tests.support.gateway import gateway
from tests.support.upstream import frame, upstream, words

ASK = [{"role": "user", "content": "Say it."}]
BAD = "One is fine. Two is forbidden here. Three is fine."


def client_of(serving, key="x"):
    return openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key=key, max_retries=0)


async def chat(client, model, **options):
    """Text, finish reason, refusal and usage of a streamed chat."""
    text, reason, refusal, usage = "", None, None, None
    stream = await client.chat.completions.create(
        model=model, messages=ASK, stream=True, stream_options={"include_usage": True}, **options
    )
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            refusal = choice.delta.refusal or refusal
            reason = choice.finish_reason or reason
        usage = chunk.usage or usage
    return text, reason, refusal, usage


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


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (
            (
                429,
                "Retry-After: 7\r\nContent-Type: application/json",
                b'{"error": {"message": "slow"}}',
            ),
            429,
        ),
        ((500, "Content-Type: text/html", b"<html>oops"), 502),
        (
            (
                401,
                "Content-Type: application/json",
                b'{"error": {"message": "sk-of-the-upstream"}}',
            ),
            502,
        ),
        ((400, "Content-Type: application/json", b'{"error": {"message": "bad seed"}}'), 400),
        ((200, "Content-Type: text/html", b"<html>log in"), 502),
        (["RESET"], 502),
        (["END"], 502),
        ([{"error": {"message": "out of memory"}}], 502),
        ([b"data: {half a fr", "END"], 502),
        ([b"data: [1, 2]\n\n"], 502),
        ([b'data: {"choices": [{"delta": {"content": 7}}]}\n\n', "END"], 502),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_fails_early_is_a_real_status(script, status, stream):
    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{serving.url}/v1/chat/completions",
                json={"model": "plain", "messages": ASK, "stream": stream},
            )
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert "sk-of-the-upstream" not in answer.text
    if status == 429:
        assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    "end", ["RESET", "END", {"error": {"message": "out of memory"}}, b"data: {x}\n\n"]
)
async def test_an_upstream_that_breaks_off_later_is_an_error_frame_and_no_done(end):
    async with (
        upstream([*words("One is fine. Two is"), end]) as behind,
        gateway(behind.url) as serving,
    ):
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{serving.url}/v1/chat/completions",
                json={"model": "plain", "messages": ASK, "stream": True},
            )
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
        assert answer.status_code == 200
        assert frames[0]["choices"][0]["delta"]["content"] == "One is fine."
        assert "error" in frames[-1]
        assert "[DONE]" not in answer.text
        async with client_of(serving) as openai_client:
            with pytest.raises(openai.APIError):
                await chat(openai_client, "plain")


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


async def test_a_client_that_goes_closes_the_upstream():
    endless = [piece for _ in range(2000) for piece in (*words("One is fine. "), 0.002)]
    async with upstream(endless) as behind, gateway(behind.url) as serving:
        async with client_of(serving) as client:
            stream = await client.chat.completions.create(model="plain", messages=ASK, stream=True)
            await anext(aiter(stream))
            await stream.close()
            await asyncio.wait_for(behind.requests[0].gone.wait(), 10)
        # Before its first chunk as well, and where it wants no stream.
        async with httpx.AsyncClient(trust_env=False) as waiting:
            asking = asyncio.ensure_future(
                waiting.post(
                    f"{serving.url}/v1/chat/completions", json={"model": "plain", "messages": ASK}
                )
            )
            while len(behind.requests) < 2 or behind.requests[1].sent < 5:
                await asyncio.sleep(0.005)
            asking.cancel()
            await asyncio.wait([asking])
        await asyncio.wait_for(behind.requests[1].gone.wait(), 10)
        assert serving.places.running == 0


async def test_a_broken_rule_closes_the_upstream():
    script = [*words(BAD), "STALL"]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        with pytest.raises(openai.APIError):
            await chat(client, "strict")
        await asyncio.wait_for(behind.requests[0].gone.wait(), 10)


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
        await asyncio.wait_for(behind.requests[0].gone.wait(), 10)


async def test_keys_ids_health_and_limits():
    settings = ", keys: [key-of-ann, key-of-bob], max_body_bytes: 2000"
    async with (
        upstream(words("All is well.")) as behind,
        gateway(behind.url, server=settings) as serving,
    ):
        for key in ("key-of-ann", "key-of-bob"):
            async with client_of(serving, key) as client:
                assert (await chat(client, "plain"))[1] == "stop"
        for wrong in ("key-of-eve", "key-of-an", ""):
            async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
                headers = {"authorization": f"Bearer {wrong}"} if wrong else {}
                for path in ("/v1/models", "/metrics", "/", "/runs/x/events"):
                    assert (await client.get(path, headers=headers)).status_code == 401
                asked = {"model": "plain", "messages": ASK}
                answer = await client.post("/v1/chat/completions", json=asked, headers=headers)
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
        assert len(behind.requests) == 2
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
            assert (await client.get("/healthz")).text == "ok"
            assert (await client.get("/readyz")).status_code == 200
            headers = {"authorization": "Bearer key-of-ann", "x-request-id": "mine-1"}
            asked = {"model": "plain", "messages": [{"role": "user", "content": "x" * 3000}]}
            answer = await client.post("/v1/chat/completions", json=asked, headers=headers)
            assert (answer.status_code, answer.headers["x-request-id"]) == (413, "mine-1")
            headers["x-request-id"] = "a b\x7f"
            answer = await client.get("/v1/models", headers={"authorization": "Bearer key-of-bob"})
            assert len(answer.json()["data"]) == 4
            page = await client.get("/metrics", auth=("me", "key-of-bob"))
            assert 'streamval_runs_total{model="plain",outcome="valid"} 2.0' in page.text


async def test_more_than_may_wait_are_refused_and_nobody_is_forgotten():
    script = [*words("One is fine. Two "), 0.3, "is too."]
    settings = ", max_runs: 2, max_waiting: 3"
    async with upstream(script) as behind, gateway(behind.url, server=settings) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client:

            async def one():
                asked = {"model": "plain", "messages": ASK}
                return await client.post("/v1/chat/completions", json=asked)

            answers = await asyncio.gather(*(one() for _ in range(9)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * 5 + [429] * 4
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert len(behind.requests) == 5
        assert (serving.places.running, serving.places.waiting) == (0, 0)


async def test_a_client_that_reads_slowly_holds_its_upstream_back_and_nobody_else():
    long = ["One is fine. Two is " + "very " * 2000 + "fine. "] * 4000
    async with upstream(long) as behind, gateway(behind.url) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        body = json.dumps({"model": "plain", "messages": ASK, "stream": True})
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
            stream = await client.chat.completions.create(model="plain", messages=ASK, stream=True)
            first = await anext(aiter(stream))
            assert first.choices[0].delta.content == "One is fine."
            await stream.close()
        writer.close()
        await asyncio.wait_for(behind.requests[0].gone.wait(), 10)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"no json", None),
        (b"[" * 100_000, None),
        (b"[1]", None),
        (b'{"messages": []}', "model"),
        (b'{"model": "plain"}', "messages"),
        (b'{"model": "plain", "messages": []}', "messages"),
        (b'{"model": "plain", "messages": [7]}', "messages[0]"),
        (b'{"model": "plain", "messages": [{"role": "user", "content": 7}]}', "messages[0]"),
        (b'{"model": "plain", "messages": [{"role": "user", "content": [7]}]}', "messages[0]"),
        (b'{"model": "plain", "messages": [{"role": "user", "content": "x"}], "n": 2}', "n"),
        (
            b'{"model": "plain", "messages": [{"role": "user", "content": "x"}], "functions": [1]}',
            "functions",
        ),
        (
            b'{"model": "plain", "messages": [{"role": "user", "content": "x"}], "stream": 1}',
            "stream",
        ),
        (
            b'{"model": "plain", "messages": [{"role": "user", "content": "x"}], "tools": 1}',
            "tools",
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_before_anything_is_asked(body, param):
    async with upstream([]) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{serving.url}/v1/chat/completions",
                content=body,
                headers={"content-type": "application/json; charset=utf-8"},
            )
            unknown = await client.post(
                f"{serving.url}/v1/chat/completions", json={"model": "x", "messages": ASK}
            )
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert unknown.status_code == 404
        assert behind.requests == []


async def test_one_line_a_request_without_text_or_key(caplog):
    caplog.set_level(logging.INFO, "streamval.serve")
    logging.getLogger("streamval.serve").propagate = True
    settings = ", keys: [key-of-ann]"
    async with (
        upstream(words("Secret answer.")) as behind,
        gateway(behind.url, server=settings) as serving,
    ):
        async with client_of(serving, "key-of-ann") as client:
            await chat(client, "plain")
        async with client_of(serving, "key-of-eve") as client:
            with pytest.raises(openai.AuthenticationError):
                await chat(client, "plain")
    lines = [json.loads(record.message) for record in caplog.records]
    assert [(line["status"], line["outcome"]) for line in lines] == [
        (200, "valid"),
        (401, "refused"),
    ]
    assert lines[0]["tokens_out"] == 2
    for secret in ("Secret", "Say it", "key-of", "sk-of"):
        assert secret not in caplog.text


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
        stream = await client.chat.completions.create(model="plain", messages=ASK, stream=True)
        first = await anext(aiter(stream))
        assert first.choices[0].delta.content == "One is fine."
        before = time.perf_counter()
        await stream.close()
        await asyncio.wait_for(behind.requests[0].gone.wait(), 10)
        assert behind.requests[0].gone_at >= before


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


async def test_a_body_that_never_comes_is_given_up(monkeypatch):
    monkeypatch.setattr("streamval.serve.gateway.BODY_SECONDS", 0.2)
    async with upstream([]) as behind, gateway(behind.url) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        assert behind.requests == []


async def test_without_keys_no_page_of_somebody_else_gets_through():
    async with (
        upstream(words("All is well.")) as behind,
        gateway(behind.url, server=", recent: 2") as serving,
    ):
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
            assert (await client.get("/", headers={"host": "evil.example"})).status_code == 400
            body = json.dumps({"model": "plain", "messages": ASK})
            simple = {"content-type": "text/plain", "origin": "https://evil.example"}
            answer = await client.post("/v1/chat/completions", content=body, headers=simple)
            assert answer.status_code == 415
    settings = ", keys: [key-of-ann]"
    async with upstream([]) as behind, gateway(behind.url, server=settings) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
            answer = await client.post(
                "/v1/chat/completions", content=body, auth=("me", "key-of-ann"), headers=simple
            )
            assert answer.status_code == 401  # a browser sends that for any page
        assert behind.requests == []


async def test_requests_that_are_refused_do_not_push_out_what_the_page_shows():
    settings = ", recent: 2, max_runs: 1, max_waiting: 0"
    script = [*words("One is fine. Two "), 0.5, "too."]
    async with upstream(script) as behind, gateway(behind.url, server=settings) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client:
            body = {"model": "plain", "messages": ASK}
            answers = await asyncio.gather(
                *(client.post("/v1/chat/completions", json=body) for _ in range(6))
            )
            assert sorted(answer.status_code for answer in answers) == [200] + [429] * 5
            page = (await client.get("/")).text
        assert page.count("<tr>") == 2
        assert "One is fine." in page


async def test_a_client_that_goes_in_its_own_body_is_no_error(caplog):
    async with upstream([]) as behind, gateway(behind.url) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(
            f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode()
        )
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        await asyncio.sleep(0.1)
        assert behind.requests == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
