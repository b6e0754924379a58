"""Tests of `streamval.serve.connections`: silent clients do not keep others out."""

import asyncio
import resource
import socket
import subprocess
import sys
import textwrap
from contextlib import suppress

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamval.serve import connections
from streamval.serve.connections import Connection
from tests.support.gateway import gateway


async def opened(serving, sent=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(serving.url.rsplit(":", 1)[1]))
    writer.write(sent)
    return reader, writer


async def models(serving):
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{serving.url}/healthz")).status_code


HALF = [b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"]


@pytest.mark.parametrize("sent", HALF)
async def test_a_head_that_does_not_come_in_time_closes_the_connection(sent, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    async with gateway("http://127.0.0.1:9/v1") as serving:
        reader, writer = await opened(serving, sent)
        assert await reader.read() == b""
        writer.close()
        # The same behind an answer, on a connection that is kept.
        whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        reader, writer = await opened(serving, whole)
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        if sent:  # without a word, the connection may be used again for half a minute
            await reader.read()
        writer.close()


@pytest.mark.parametrize("more", [b"a", b"a: b\r\n"], ids=["one header", "many headers"])
async def test_a_head_without_end_is_not_kept(more):
    async with gateway("http://127.0.0.1:9/v1") as serving:
        reader, writer = await opened(serving, b"GET /healthz HTTP/1.1\r\nx: ")
        sent = 0
        with suppress(OSError):
            while sent < 2**24:
                writer.write(more * 4096)
                sent += len(more) * 4096
                await writer.drain()
                await asyncio.sleep(0)
        assert sent < 2**24
        with suppress(OSError):  # it may be closed before the answer is read
            assert (await reader.read())[:12] in (b"HTTP/1.1 400", b"")
        writer.close()


def test_heads_are_read_by_h11_whatever_is_installed():
    # httptools keeps a head of any length, and uvicorn chooses it where it is installed.
    assert issubclass(Connection, H11Protocol)


@pytest.mark.parametrize("sent", HALF)
async def test_silent_connections_give_way_to_new_ones(sent, monkeypatch):
    monkeypatch.setattr(Connection, "most", 4)
    async with gateway("http://127.0.0.1:9/v1") as serving:
        silent = [await opened(serving, sent) for _ in range(12)]
        assert await models(serving) == 200
        for _, writer in silent:
            writer.close()


SERVER = """
    import resource, sys
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
    from streamval.serve.server import serve
    serve(sys.argv[1], port=int(sys.argv[2]))
"""


async def test_more_connections_than_descriptors_end_nothing(tmp_path):
    """256 of them ended the service, without a key, with a traceback a second."""
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "upstreams: {main: {model: openai/x, api_base: 'http://127.0.0.1:9/v1', api_key: x}}\n"
        "models: {m: {upstream: main}}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), str(config), str(port)],
        stderr=subprocess.PIPE,
    )
    silent = []
    try:
        async with httpx.AsyncClient() as client:
            while True:
                try:
                    await client.get(f"http://127.0.0.1:{port}/healthz")
                    break
                except httpx.ConnectError:
                    assert server.poll() is None
                    await asyncio.sleep(0.05)
        for _ in range(300):
            silent.append(socket.create_connection(("127.0.0.1", port)))
            await asyncio.sleep(0.005)  # no more than the server accepts at a time
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
    finally:
        for one in silent:
            one.close()
        server.terminate()
        said = server.communicate()[1].decode()
    assert "Traceback" not in said


def test_the_limit_of_open_files_is_raised():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert connections.most_connections() == (before[1] - connections.RESERVE) // 2
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
