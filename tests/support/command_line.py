"""The command, run as a person would, and a server for it."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading

import httpx

from streamval.view.patch import patched
from tests.support.openai_server import openai_server

PYTHON = [sys.executable, "-X", "dev", "-m", "streamval.cli"]


def streamval(*arguments, **environment):
    """Run the command, as a person would; returns how it ended."""
    return subprocess.run(
        [*PYTHON, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
        timeout=500,  # for a hang only
    )


class Serving(dict):
    """The environment in which the server is OpenAI, and the server."""

    def __init__(self, server, **environment):
        super().__init__(environment)
        self.server = server


@contextlib.contextmanager
def serving():
    """The OpenAI-shaped server in a thread of its own, and the arguments that point at it."""
    started, stop = threading.Event(), None
    address = {}

    async def serve():
        nonlocal stop
        stop = asyncio.Event()
        address["loop"] = asyncio.get_running_loop()
        async with openai_server() as server:
            address["url"], address["server"] = server.url, server
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    yield Serving(address["server"], OPENAI_API_BASE=address["url"], OPENAI_API_KEY="sk-x")
    address["loop"].call_soon_threadsafe(stop.set)
    thread.join(10)


@contextlib.contextmanager
def watching(*arguments, **environment):
    """A command with --watch; yields the process and the page's address."""
    hidden = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    going = subprocess.Popen(
        [*PYTHON, *arguments, "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **environment},
    )
    try:
        for line in going.stderr:
            if line.startswith("watch it at "):
                yield going, line.split()[-1]
                break
    finally:
        going.kill()
        going.communicate()


def over(url):
    """Wait for the end of the run on its page; returns the last snapshot."""
    shown = {}
    with httpx.stream("GET", f"{url}events", timeout=60, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                shown = patched(shown, json.loads(line.removeprefix("data: ")))
                if shown["state"] not in ("waiting", "running"):
                    return shown
    return None
