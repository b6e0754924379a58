"""Tests of `streamval.backends.iterable`."""

import asyncio
import threading

import aiostream
import openai
import pytest
import reactivex
from reactivex import operators as ops

import streamval as sv
from streamval.errors import BackendError, StreamBrokenError, UsageError
from tests.support.openai_server import openai_server


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


def from_thread(*items):
    """An observable whose items come from a thread of its own."""

    def subscribe(observer, scheduler=None):
        def push():
            for item in items:
                observer.on_next(item)
            observer.on_completed()

        threading.Thread(target=push).start()

    return reactivex.create(subscribe)


@pytest.mark.parametrize(
    "fn",
    [
        lambda _: aiostream.stream.iterate(["one", "two"]),
        lambda _: reactivex.of("one", "two"),
        lambda _: reactivex.interval(0.01).pipe(ops.take(2), ops.map(["one", "two"].__getitem__)),
        lambda _: from_thread("one", "two"),
    ],
    ids=["aiostream", "observable", "interval", "thread"],
)
@pytest.mark.filterwarnings("error")
async def test_streams_and_observables(fn):
    assert await said(sv.IterableBackend(fn)) == ["one", "two"]


async def test_an_observable_is_disposed_of_when_the_run_ends_early():
    disposed = []
    endless = reactivex.interval(0.001).pipe(
        ops.map(lambda n: f"{n}. "), ops.finally_action(lambda: disposed.append(1))
    )
    calm = sv.stream_check(lambda text: "3" not in text, "no three")
    result = await sv.Pipeline(sv.IterableBackend(lambda _: endless), requirements=[calm]).run("go")
    assert (result.text, disposed) == ("0. 1. 2.", [1])


async def test_what_an_observable_fails_with_ends_the_run():
    backend = sv.IterableBackend(lambda _: reactivex.throw(OSError("gone")))
    with pytest.raises(OSError, match="gone"):
        await sv.Pipeline(backend).run("go")


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


async def test_a_generator_that_waits_as_the_run_is_left_is_closed_on_its_own_thread():
    closed, kept = [], []
    waiting, gate = threading.Event(), threading.Event()

    def blocking(_):
        try:
            yield "One. "
            waiting.set()
            gate.wait(30)
            yield "Two. "
        finally:
            closed.append(threading.current_thread())

    def speak(prompt):
        kept.append(blocking(prompt))  # nobody closes it by dropping it
        return kept[0]

    stream = sv.IterableBackend(speak).stream(sv.ScriptedBackend("").request("go"))
    assert await anext(stream) == "One. "
    following = asyncio.ensure_future(anext(stream))
    while not waiting.is_set():
        await asyncio.sleep(0.001)
    following.cancel()
    await asyncio.wait([following])
    assert not closed
    gate.set()
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


async def test_the_whole_request_where_it_is_asked_for():
    seen = []

    def speak(request):
        seen.append(request)
        return ["Hi."]

    pipeline = sv.Pipeline(sv.IterableBackend(speak))
    await pipeline.run(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], seed=3
    )
    assert [message.role for message in seen[0].messages] == ["system", "user"]
    assert seen[0].options == {"seed": 3}


def clients(server):
    """Functions as people have them, over a client of their own: async, sync, LiteLLM's."""
    shared = {"base_url": server.url, "api_key": "k", "max_retries": 0}

    def messages(prompt):
        return [{"role": "user", "content": prompt}]

    def of_async(model):
        client = openai.AsyncOpenAI(**shared)
        options = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
        return lambda prompt: client.chat.completions.create(messages=messages(prompt), **options)

    def of_sync(model):
        client = openai.OpenAI(**shared)

        def speak(prompt):
            with client.chat.completions.create(
                messages=messages(prompt), model=model, stream=True
            ) as stream:
                yield from stream

        return speak

    def of_litellm(model):
        import litellm

        return lambda prompt: litellm.acompletion(
            model=f"openai/{model}",
            messages=messages(prompt),
            stream=True,
            api_base=server.url,
            api_key="k",
        )

    return {"async": of_async, "sync": of_sync, "litellm": of_litellm}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.filterwarnings("ignore:Item .* on TypedDict class")
@pytest.mark.parametrize("kind", ["async", "sync", "litellm"])
async def test_the_stream_of_a_client_that_one_has_is_understood(kind):
    async with openai_server() as server:
        speak = clients(server)[kind]
        result = await sv.Pipeline(sv.IterableBackend(speak("fine"))).run("Say it.")
        assert result.text == "One is here. Two is here! Three is here. Four is here."
        assert result.finish_reason == "stop"
        if kind == "async":
            assert result.usage == sv.types.Usage(7, 13, source="backend")

        calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
        pipeline = sv.Pipeline(sv.IterableBackend(speak("endless")), requirements=[calm])
        cut = await pipeline.run("Go.")
        assert cut.text == "One is here."
        await asyncio.wait_for(server.requests[-1].disconnected.wait(), 60)

        if kind != "litellm":  # which makes one up
            with pytest.raises(StreamBrokenError, match="without a finish reason"):
                await sv.Pipeline(sv.IterableBackend(speak("no-finish"))).run("Go.")
