"""Tests of `streamval.aio.blocking`."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import streamval as sv
from streamval.aio.blocking import wait_for
from tests.support.contracts import Inner
from tests.support.sources import Spoken


@sv.contract(backend=sv.ScriptedBackend('{"value": 1}'))
class Outer(sv.Expression):
    prompt = "x"

    def forward(self, n: int) -> int:
        return Outer()(n - 1) + 1 if n else Inner()(n)


def test_nested_sync_calls_from_many_threads_end():
    with ThreadPoolExecutor(12) as executor:
        assert list(executor.map(Outer(), [2] * 12)) == [3] * 12
    assert Outer()(12) == 13


async def test_no_event_loop_is_held_up_by_a_call_in_a_thread():
    """A sync forward that waits for another call runs beside the shared loop, not on it."""
    results = await asyncio.gather(*(asyncio.to_thread(Outer(), 1) for _ in range(4)))
    assert results == [2] * 4


def test_sync_calls_from_many_threads_share_one_loop():
    loops, together = [], threading.Barrier(4)

    async def loop():
        return asyncio.get_running_loop()

    def call():
        together.wait()
        loops.append(wait_for(loop))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, loops))) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_makes_sync_calls():
    wait_for(lambda: asyncio.sleep(0))
    child = os.fork()
    if child == 0:
        os._exit(0 if wait_for(lambda: asyncio.sleep(0, "done")) == "done" else 1)
    deadline = time.monotonic() + 30
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert ended[1] == 0


def test_calling_a_function_starts_no_loop_of_its_own():
    code = (
        "import asyncio, threading; from streamval.aio.blocking import call; "
        "assert asyncio.run(call(lambda: 1)) == 1; assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("what", [SystemExit, KeyboardInterrupt])
def test_what_would_stop_a_loop_is_raised_to_the_caller_and_the_loop_goes_on(what):
    async def leaves():
        raise what

    def panics(_):
        raise what

    with pytest.raises(what):
        wait_for(leaves)
    pipeline = sv.Pipeline(Spoken("One. "), requirements=[sv.stream_check(panics)])
    with pytest.raises(what):
        wait_for(lambda: pipeline.run("x"))
    assert wait_for(lambda: asyncio.sleep(0, "well")) == "well"
