"""Tests of `streamval.aio.daemon`."""

import asyncio
import subprocess
import sys
import threading

import pytest

from streamval.aio.daemon import in_daemon


async def test_it_returns_and_raises_what_the_call_does():
    assert await in_daemon(threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await in_daemon(lambda: 1 / 0)


async def test_a_call_that_blocks_does_not_hold_whoever_is_cancelled():
    blocked, held = threading.Event(), threading.Event()

    def block():
        blocked.set()
        held.wait(30)

    task = asyncio.ensure_future(in_daemon(block))
    while not blocked.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.set()


def test_a_call_that_never_returns_does_not_keep_the_process():
    code = (
        "import asyncio, threading\n"
        "from streamval.aio.daemon import in_daemon\n"
        "async def main():\n"
        "    task = asyncio.ensure_future(in_daemon(threading.Event().wait))\n"
        "    await asyncio.sleep(0.05)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "print('over')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("over\n", 0), done.stderr
