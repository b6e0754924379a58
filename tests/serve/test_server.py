"""Tests of `streamval.serve.server`, as a person starts it."""

import asyncio
import contextlib
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from streamval.serve.server import listen
from tests.support.gateway import FILE
from tests.support.upstream import upstream, words

STREAMVAL = [sys.executable, "-m", "streamval.cli", "serve"]
ASK = [{"role": "user", "content": "Say it."}]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextlib.contextmanager
def started(*arguments, port):
    going = subprocess.Popen(
        [*STREAMVAL, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 90
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200:
                    break
            assert going.poll() is None, going.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield going
    finally:
        if going.poll() is None:
            going.send_signal(signal.SIGTERM)
        going.communicate(timeout=60)


def a_file(tmp_path, url, port, more=""):
    path = tmp_path / "gateway.yaml"
    path.write_text(FILE.format(url=url, server=more).replace("port: 0", f"port: {port}"))
    return path


@contextlib.asynccontextmanager
async def served_apart(tmp_path, url, workers, more=""):
    """A process of its own, and a client of it."""
    port = free_port()
    path = a_file(tmp_path, url, port, more)
    start = started(str(path), f"--workers={workers}", port=port)
    going = await asyncio.to_thread(start.__enter__)
    address = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(trust_env=False, base_url=address, timeout=60) as client:
            yield going, client
    finally:
        await asyncio.to_thread(start.__exit__, None, None, None)


async def gauge(client, name):
    """What a gauge shows, or nan while no process answers."""
    with contextlib.suppress(httpx.HTTPError):
        text = (await client.get("/metrics")).text
        return float(re.search(rf"^streamval_{name} (.*)$", text, re.MULTILINE)[1])
    return math.nan


BODY = {"model": "plain", "messages": ASK}


@pytest.mark.parametrize("workers", [1, 2])
async def test_it_serves_drains_and_ends(tmp_path, workers):
    script = [*words("One is fine. Two is too. "), 0.5, "Three."]
    async with upstream(script) as behind:
        async with served_apart(tmp_path, behind.url, workers) as (going, client):
            answers = await asyncio.gather(
                *(client.post("/v1/chat/completions", json=BODY) for _ in range(8))
            )
            assert {answer.status_code for answer in answers} == {200}
            # Whichever process answers, it shows the figures of all.
            text = (await client.get("/metrics")).text
            assert 'streamval_runs_total{model="plain",outcome="valid"} 8.0' in text
            last = asyncio.ensure_future(client.post("/v1/chat/completions", json=BODY))
            while len(behind.requests) < 9 or not behind.requests[8].sent:
                await asyncio.sleep(0.01)
            going.send_signal(signal.SIGTERM)
            assert (await last).json()["choices"][0]["message"]["content"].endswith("Three.")
        assert going.returncode in (0, -signal.SIGTERM)


@pytest.mark.parametrize("workers", [1, 2])
async def test_who_waits_is_refused_at_once_when_it_is_told_to_stop(tmp_path, workers):
    """Several processes went on to answer whoever waited."""
    limits = ", max_runs: 1, max_waiting: 20"
    gate = asyncio.Event()
    async with (
        upstream([*words("One is fine. "), gate, "Two."]) as behind,
        served_apart(tmp_path, behind.url, workers, limits) as (going, client),
    ):
        asked = [
            asyncio.ensure_future(client.post("/v1/chat/completions", json=BODY)) for _ in range(8)
        ]
        while await gauge(client, "running") + await gauge(client, "waiting") != 8:
            await asyncio.sleep(0.05)
        going.send_signal(signal.SIGTERM)
        while sum(answer.done() for answer in asked) < 8 - workers:
            await asyncio.sleep(0.01)
        gate.set()
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert set(statuses) == {200, 503}
        assert statuses.count(200) <= workers
        assert len(behind.requests) <= workers


async def test_what_ran_in_a_process_that_died_does_not_run_any_more(tmp_path):
    async with (
        upstream([*words("One is fine. "), "STALL"]) as behind,
        served_apart(tmp_path, behind.url, 2) as (going, client),
    ):
        asked = asyncio.ensure_future(client.post("/v1/chat/completions", json=BODY))
        while not behind.requests:
            await asyncio.sleep(0.01)
        while await gauge(client, "running") != 1.0:
            await asyncio.sleep(0.05)
        for child in psutil.Process(going.pid).children(recursive=True):
            if "spawn_main" in " ".join(child.cmdline()):
                child.kill()
        with pytest.raises(httpx.HTTPError):
            await asked
        while await gauge(client, "running") != 0.0:
            await asyncio.sleep(0.05)


@pytest.mark.local_model
def test_a_stranger_starts_it_without_a_file_and_watches_a_sentence_being_refused_and_repaired():
    port = free_port()
    with started(f"--port={port}", port=port):
        body = {"model": "careful", "prompt": "Facts about water:\n\nWater is", "stream": True}
        text = reason = ""
        with httpx.stream(
            "POST",
            f"http://127.0.0.1:{port}/v1/completions",
            json=body,
            timeout=300,
            trust_env=False,
        ) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    choice = json.loads(line[6:])["choices"][0]
                    text += choice["text"]
                    reason = choice["finish_reason"] or reason
        sentences = [sentence.strip() for sentence in text.split(".") if sentence.strip()]
        assert len(sentences) >= 3
        assert len(set(sentences)) == len(sentences)
        chat = {
            "model": "careful",
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
        }
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        answered = httpx.post(url, json=chat, timeout=300, trust_env=False).json()
        assert "Paris" in answered["choices"][0]["message"]["content"]
        page = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert 'streamval_cuts_total{model="careful"}' in page
        assert 'streamval_retries_total{mode="continue",model="careful"}' in page
        runs = httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).text
        assert "careful" in runs


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
def test_a_network_that_vanishes_is_noticed_within_the_time_of_the_file():
    with listen("127.0.0.1", 0, 6.0) as listening:
        with socket.create_connection(listening.getsockname()) as client:
            served, _ = listening.accept()
            with served:
                assert served.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 6000
                idle = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                every = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
                count = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
                assert idle + every * count <= 6
            assert client
    assert os.name == "posix"


def test_a_client_whose_network_vanishes_costs_nothing_more():
    alone = shutil.which("unshare") and shutil.which("ip")
    if not alone or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("needs Linux, and the right to make a network namespace")
    command = ["unshare", "-n", sys.executable, "-m", "tests.support.vanishing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # A client that is silent, and one that text is sent to: each is noticed, and its upstream closed.
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
async def test_sighup_reads_the_file_again_and_a_wrong_one_changes_nothing(tmp_path):
    port = free_port()
    async with upstream(["Hi."]) as behind:
        path = a_file(tmp_path, behind.url, port)
        good = path.read_text()
        with started(str(path), port=port) as going:

            def models():
                answer = httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False)
                return {model["id"] for model in answer.json()["data"]}

            async def reads(text):
                path.write_text(text)
                going.send_signal(signal.SIGHUP)
                for line in iter(going.stderr.readline, ""):
                    if "read again" in line or "reloaded" in line:
                        return line
                raise AssertionError("it has ended")

            assert "plain" in models()
            assert "temprature" in await reads(good.replace("stall_timeout", "temprature"))
            assert "plain" in models()
            assert "reloaded" in await reads(good.replace("  plain:", "  renamed:"))
            assert "renamed" in models()
            assert "plain" not in models()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
async def test_sighup_loses_no_stream_of_any_worker(tmp_path):
    gate, port = asyncio.Event(), free_port()
    script = [*words("One is fine. "), gate, "Two."]
    async with upstream(lambda *_: script) as behind:
        path = a_file(tmp_path, behind.url, port, ", drain_seconds: 1")
        start = started(str(path), "--workers=2", port=port)
        going = await asyncio.to_thread(start.__enter__)
        try:
            address = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(trust_env=False, base_url=address, timeout=60) as client:
                asked = [
                    asyncio.ensure_future(client.post("/v1/chat/completions", json=BODY))
                    for _ in range(6)
                ]
                while len(behind.requests) < 6:
                    await asyncio.sleep(0.01)
                path.write_text(path.read_text().replace("  plain:", "  renamed:"))
                going.send_signal(signal.SIGHUP)
                told = 0
                while told < 2:  # each worker says so
                    told += "reloaded" in await asyncio.to_thread(going.stderr.readline)
                for _ in range(6):
                    async with httpx.AsyncClient(trust_env=False, base_url=address) as another:
                        names = (await another.get("/v1/models")).text
                    assert '"renamed"' in names
                    assert '"plain"' not in names
                gate.set()
                answers = await asyncio.gather(*asked)
        finally:
            await asyncio.to_thread(start.__exit__, None, None, None)
    assert {answer.status_code for answer in answers} == {200}
    assert all("Two." in answer.text for answer in answers)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_what_is_served_is_printed_once_a_request_would_be_answered(tmp_path, workers):
    port = free_port()
    async with upstream(words("One is fine.")) as behind:
        file = a_file(tmp_path, behind.url, port, ", recent: 2")
        command = [*STREAMVAL, str(file), f"--workers={workers}"]
        going = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            said = json.loads(await going.stderr.readline())
            async with httpx.AsyncClient(trust_env=False) as client:
                ready = await client.get(f"http://127.0.0.1:{port}/readyz")
                page = await client.get(said["page"])
        finally:
            going.send_signal(signal.SIGTERM)
            await going.communicate()
    assert ready.status_code == page.status_code == 200
    assert said["serving"] == f"http://127.0.0.1:{port}/v1"
    assert "judged" in said["models"]


async def test_each_worker_serves_as_many_connections_as_one_process(tmp_path):
    """Workers kept to the number before it is known how many there can be: all others were reset."""
    async with (
        upstream(lambda *_: [*words("One is fine. "), 1.0, "Two."]) as behind,
        served_apart(tmp_path, behind.url, 2) as (_, known),
        httpx.AsyncClient(
            trust_env=False,
            base_url=known.base_url,
            timeout=60,
            limits=httpx.Limits(max_connections=None),
        ) as client,
    ):
        asked = (client.post("/v1/chat/completions", json=BODY) for _ in range(300))
        answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {200}
    assert len(behind.requests) == 300
