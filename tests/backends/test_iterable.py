"""Tests of `streamval.backends.iterable`."""

import asyncio
import threading

import pytest

import streamval as sv
from streamval.errors import BackendError, UsageError


async def said(backend, prompt="go", **fields):
    from dataclasses import replace

    return [delta async for delta in backend.stream(replace(backend.request(prompt), **fields))]


async def agen(prompt):
    for word in prompt.split():
        yield word


def gen(prompt):
    yield from prompt.split()


async def later(prompt):
    await asyncio.sleep(0)
    return prompt.split()


@pytest.mark.parametrize("fn", [agen, gen, later, str.split, lambda p: tuple(p.split())])
async def test_any_function_from_a_prompt_to_an_iterable(fn):
    assert await said(sv.IterableBackend(fn), "one two") == ["one", "two"]


async def test_a_generator_that_blocks_does_not_block_the_loop_and_is_closed():
    closed = []
    gate = threading.Event()

    def blocking(_):
        try:
            yield "One. "
            yield "Two. "
            gate.wait(5)
            yield "Three. "
        finally:
            closed.append(threading.current_thread())

    async with sv.Pipeline(sv.IterableBackend(blocking)).start("go") as run:
        async for event in run:
            if event.type == "chunk":
                gate.set()
                break
    while not closed:
        await asyncio.sleep(0.001)
    assert closed[0] is not threading.main_thread()


async def test_iterable_refuses_what_is_no_iterable_of_strings():
    with pytest.raises(BackendError, match="returned str"):
        await said(sv.IterableBackend(lambda prompt: prompt))
    with pytest.raises(BackendError, match="returned int"):
        await said(sv.IterableBackend(lambda prompt: 7))
    with pytest.raises(UsageError, match="function"):
        sv.IterableBackend("text")
