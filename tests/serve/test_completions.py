"""Tests of `streamval.serve.completions`: what fails, who goes, and who waits."""

import asyncio
import json
import logging
import socket
from itertools import cycle

import httpx
import openai
import pytest

from streamval.serve.completions import SMALL_BODY, Body
from tests.support.gateway import ASK, FILE, chat, client_of, gateway
from tests.support.upstream import frame, upstream, words

BAD = "One is fine. Two is forbidden here. Three is fine."


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
        ((500, "Content-Type: text/html", b"<html>oops"), 500),
        (
            (
                401,
                "Content-Type: application/json",
                b'{"error": {"message": "sk-of-the-upstream"}}',
            ),
            401,
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


async def test_an_early_error_is_the_upstreams_own_but_for_words_that_break_a_rule():
    said = {"error": {"message": "slow", "type": "tokens", "code": "busy", "param": "seed"}}
    headers = "Retry-After: 7\r\nx-ratelimit-limit-tokens: 9\r\nSet-Cookie: a=b"
    answers = [(429, headers, json.dumps(said).encode())]
    said["error"]["message"] = "a forbidden word"
    answers.append((400, headers, json.dumps(said).encode()))
    async with (
        upstream(lambda body, number: answers[number]) as behind,
        gateway(behind.url) as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False) as client,
    ):
        body = {"model": "strict", "messages": ASK}
        busy = await client.post("/v1/chat/completions", json=body)
        refused = await client.post("/v1/chat/completions", json=body)
    assert busy.json() == {"error": {**said["error"], "message": "slow"}}
    assert (busy.headers["retry-after"], busy.headers["x-ratelimit-limit-tokens"]) == ("7", "9")
    assert "set-cookie" not in busy.headers
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "busy")
    assert "forbidden" not in refused.text


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
                json={"model": "judged", "messages": ASK, "stream": True},
            )
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
        assert answer.status_code == 200
        assert frames[0]["choices"][0]["delta"]["content"] == "One is fine."
        assert "error" in frames[-1]
        assert "[DONE]" not in answer.text
        async with client_of(serving) as openai_client:
            with pytest.raises(openai.APIError):
                await chat(openai_client, "judged")


async def test_a_client_that_goes_closes_the_upstream():
    endless = [piece for _ in range(2000) for piece in (*words("One is fine. "), 0.002)]
    async with upstream(endless) as behind, gateway(behind.url) as serving:
        async with client_of(serving) as client:
            stream = await client.chat.completions.create(model="plain", messages=ASK, stream=True)
            await anext(aiter(stream))
            await stream.close()
            await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
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
        await asyncio.wait_for(behind.requests[1].gone.wait(), 60)
        assert serving.limiter.running == 0


async def test_a_broken_rule_closes_the_upstream():
    script = [*words(BAD), "STALL"]
    async with (
        upstream(script) as behind,
        gateway(behind.url) as serving,
        client_of(serving) as client,
    ):
        with pytest.raises(openai.APIError):
            await chat(client, "strict")
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)


async def test_more_than_may_wait_are_refused_and_nobody_is_forgotten():
    gate = asyncio.Event()
    script = [*words("One is fine. Two "), gate, "is too."]
    settings = ", max_runs: 2, max_waiting: 3"
    async with upstream(script) as behind, gateway(behind.url, server=settings) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client:

            async def one():
                asked = {"model": "plain", "messages": ASK}
                return await client.post("/v1/chat/completions", json=asked)

            asking = [asyncio.ensure_future(one()) for _ in range(9)]
            while sum(answer.done() for answer in asking) < 4:
                await asyncio.sleep(0.005)
            gate.set()
            answers = await asyncio.gather(*asking)
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * 5 + [429] * 4
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert len(behind.requests) == 5
        assert (serving.limiter.running, serving.limiter.waiting) == (0, 0)


async def test_a_body_that_never_comes_is_given_up(monkeypatch):
    monkeypatch.setattr("streamval.serve.completions.BODY_SECONDS", 0.2)
    async with upstream([]) as behind, gateway(behind.url) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        assert behind.requests == []


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


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_says_nothing_for_ever_is_ended_by_the_limit_of_a_run(stream):
    nothing = cycle([frame({"content": ""}), 0.01])
    async with (
        upstream(lambda *_: nothing) as behind,
        gateway(behind.url, server=", run_seconds: 0.3") as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        answer = await client.post(
            f"{serving.url}/v1/chat/completions",
            json={"model": "plain", "messages": ASK, "stream": stream},
        )
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
    assert answer.status_code == 504
    assert answer.json()["error"]["message"] == "the answer takes too long"


async def test_a_run_that_takes_too_long_in_the_midst_of_its_text_ends_with_an_error_frame():
    script = [*words("One is fine. Two is too"), *[frame({"content": ""}), 0.01] * 3000]
    async with (
        upstream(script) as behind,
        gateway(behind.url, server=", run_seconds: 3") as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        answer = await client.post(
            f"{serving.url}/v1/chat/completions",
            json={"model": "judged", "messages": ASK, "stream": True},
        )
    assert "One is fine." in answer.text
    assert "Two" not in answer.text
    assert "takes too long" in answer.text.strip().split("\n\n")[-1]
    assert "[DONE]" not in answer.text


LINUX = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")


@pytest.mark.parametrize(
    "setting", ["run_seconds: 0.5", pytest.param("ping_seconds: 1", marks=LINUX)]
)
async def test_a_client_that_reads_nothing_keeps_neither_its_place_nor_its_upstream(setting):
    endless = cycle(["One is fine, and goes on until all that lies between is full. " * 100])
    async with (
        upstream(lambda *_: endless) as behind,
        gateway(behind.url, server=f", {setting}") as serving,
    ):
        host, port = serving.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            body = json.dumps({"model": "plain", "messages": ASK, "stream": True}).encode()
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            while not behind.requests:
                await asyncio.sleep(0.01)
            await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
            while serving.limiter.running:
                await asyncio.sleep(0.01)


async def test_who_reads_nothing_is_not_waited_for_with_the_news_of_a_failure(monkeypatch):
    monkeypatch.setattr("streamval.serve.completions.FAREWELL_SECONDS", 0.2)
    script = ["One is " + "very " * 2_000_000 + "fine. Two", "RESET"]
    settings = ", ping_seconds: 3600, run_seconds: 3600"
    async with upstream(script) as behind, gateway(behind.url, server=settings) as serving:
        host, port = serving.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            body = json.dumps({"model": "plain", "messages": ASK, "stream": True}).encode()
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            while not behind.requests:
                await asyncio.sleep(0.01)
            while serving.limiter.running:
                await asyncio.sleep(0.01)


async def test_requests_that_wait_are_refused_when_the_server_is_told_to_stop():
    gate = asyncio.Event()
    script = [*words("One is fine. Two is"), gate, " too."]
    async with (
        upstream(script) as behind,
        gateway(behind.url, server=", max_runs: 1") as serving,
        httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client,
    ):
        body = {"model": "plain", "messages": ASK}
        asking = [
            asyncio.ensure_future(client.post("/v1/chat/completions", json=body)) for _ in range(4)
        ]
        while not behind.requests or serving.limiter.waiting < 3:
            await asyncio.sleep(0.01)
        serving.drain()
        gate.set()
        answers = await asyncio.gather(*asking)
    assert sorted(answer.status_code for answer in answers) == [200, 503, 503, 503]
    refused = [answer.json()["error"]["code"] for answer in answers if answer.status_code == 503]
    assert refused == ["draining"] * 3
    assert len(behind.requests) == 1


async def test_who_still_runs_when_the_time_to_drain_is_over_is_told_in_json():
    stalls = ["STALL"]
    async with (
        upstream(stalls) as behind,
        gateway(behind.url, server=", drain_seconds: 0.6") as serving,
        httpx.AsyncClient(trust_env=False, base_url=serving.url, timeout=60) as client,
    ):
        body = {"model": "plain", "messages": ASK}
        asking = asyncio.ensure_future(client.post("/v1/chat/completions", json=body))
        while not behind.requests:
            await asyncio.sleep(0.01)
        serving.server.handle_exit(15, None)
        answer = await asking
        await asyncio.wait_for(behind.requests[0].gone.wait(), 60)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "draining"


async def test_the_log_has_no_text_of_what_was_judged(caplog):
    file = FILE.replace(
        "[{{forbidden_words: [forbidden]}}]", "[{{python: 'tests.serve.test_completions:quotes'}}]"
    )
    caplog.set_level(logging.INFO, "streamval.serve")
    async with (
        upstream(words("A SECRET here. And more.")) as behind,
        gateway(behind.url, file=file) as serving,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        body = {"model": "careful", "messages": ASK}
        answer = await client.post(f"{serving.url}/v1/chat/completions", json=body)
    assert "SECRET" not in answer.text
    assert "SECRET" not in caplog.text
    assert caplog.records


def quotes(text):
    """A user's rule that raises with the text."""
    raise ValueError(f"cannot judge {text}")


async def test_no_more_of_a_long_body_is_read_than_is_kept_while_it_waits_for_its_slot():
    """80 clients added 320 MiB where two runs were allowed."""
    asked = 0

    async def receive():
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 16_384, "more_body": asked < 100}

    body = Body(receive, {}, 4 * 1024 * 1024)
    assert not await body.read(SMALL_BODY)
    assert len(body.content) == SMALL_BODY
    assert await body.read()
    assert (asked, len(body.content)) == (100, 1_638_400)


async def test_a_long_body_is_answered_once_it_has_its_slot():
    long = [{"role": "user", "content": "so " * 100_000}]
    async with (
        upstream(words("One is fine.")) as behind,
        gateway(behind.url, server=", max_runs: 1, max_waiting: 1") as serving,
        client_of(serving) as client,
    ):
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="plain", messages=long) for _ in range(2))
        )
        assert [one.choices[0].message.content for one in answers] == ["One is fine."] * 2
        assert serving.limiter.running == 0
        unfinished = client.chat.completions.create(model="plain", messages=[*long, {"role": 5}])
        with pytest.raises(openai.BadRequestError):
            await unfinished
        assert serving.limiter.running == 0
