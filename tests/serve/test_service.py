"""Tests of `streamval.serve.service`: who may ask, and for what."""

import json

import httpx
import pytest

from tests.support.gateway import ASK, chat, client_of, gateway
from tests.support.upstream import upstream, words

BAD = "One is fine. Two is forbidden here. Three is fine."


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
            assert len(answer.json()["data"]) == 5
            page = await client.get("/metrics", auth=("me", "key-of-bob"))
            assert 'streamval_runs_total{model="plain",outcome="valid"} 2.0' in page.text


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
            "tools[0]",
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


async def test_without_keys_no_page_of_another_site_gets_through():
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
