"""Tests of `streamval.pipeline.pipeline`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.operators import rewrite
from streamval.testing import run_virtually
from tests.support.sources import Spoken


async def test_a_pipeline_judges_by_the_requirements_of_its_repair():
    never = sv.req("never", lambda ctx: False)
    for strategy in (
        sv.session.RejectionSamplingStrategy(requirements=[never]),
        sv.Repair(requirements=[never]),
    ):
        assert not (await sv.Pipeline(Spoken("x"), retry=strategy).run("go")).success


def test_map_keeps_order_and_the_task_limit():
    running = most = 0

    async def slow(prompt):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(int(prompt))
        running -= 1
        return [prompt]

    async def main(**options):
        pipeline = sv.Pipeline(sv.IterableBackend(slow))
        return [(p, r.text) async for p, r in pipeline.map(["3", "1", "2"], **options)]

    results, _ = run_virtually(main(task_limit=2))
    assert results == [("3", "3"), ("1", "1"), ("2", "2")]
    assert most == 2
    results, _ = run_virtually(main(ordered=False))
    assert [prompt for prompt, _ in results] == ["1", "2", "3"]


async def test_map_takes_an_async_iterable_and_raises_what_a_run_raises():
    async def prompts():
        yield "a"

    backend = Spoken("One.")
    assert [r.text async for _, r in sv.Pipeline(backend).map(prompts())] == ["One."]
    with pytest.raises(OSError, match="gone"):
        async for _ in sv.Pipeline(Spoken(OSError("gone"))).map(["a", "b"]):
            pass


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_cancelling_a_map_cancels_its_runs(turns):
    backend = Spoken("One. ", 1000)

    async def drive():
        async for _ in sv.Pipeline(backend).map(["a", "b", "c"], task_limit=2):
            pass

    task = asyncio.create_task(drive())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.opened == backend.closed


async def test_prompts_and_options_reach_the_backend():
    backend = Spoken("One.")
    backend.options = {"temperature": 0.1, "seed": 1}
    pipeline = sv.Pipeline(backend, options={"seed": 2, "top_p": 0.5})
    await pipeline.run([{"role": "system", "content": "S"}, sv.types.Message("user", "U")], seed=3)
    request = backend.requests[0]
    assert request.messages == (sv.types.Message("system", "S"), sv.types.Message("user", "U"))
    assert request.options == {"temperature": 0.1, "seed": 3, "top_p": 0.5}


@pytest.mark.parametrize(
    "prompt",
    ["", "  ", [], None, 7, [{"role": "robot", "content": "x"}], [{"content": "x"}], b"bytes"],
)
async def test_what_is_no_prompt_is_refused(prompt):
    with pytest.raises(UsageError):
        sv.Pipeline(Spoken("One.")).start(prompt)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"chunking": "sentense"}, "no chunking is called"),
        ({"requirements": [lambda text: True]}, "stream_check"),
        ({"requirements": "be kind"}, "must be a list"),
        ({"requirements": [sv.Requirement]}, "make an instance"),
        ({"requirements": [""]}, "empty string"),
        ({"retry": 3}, "Repair"),
        ({"max_pending_chunks": 0}, "max_pending_chunks"),
        ({"stall_timeout": 0}, "stall_timeout"),
        ({"chunk_operators": rewrite(str)}, "must be a list of operators"),
        ({"delta_operators": ["x"]}, "must be a list of operators"),
        ({"validation_backend": 7}, "backend cannot be of type int"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(options, says):
    backend = Spoken("One.")
    with pytest.raises(UsageError, match=says):
        sv.Pipeline(backend, **options)
    assert backend.opened == 0


async def test_map_may_return_exceptions_and_tells_how_far_it_is():
    def speak(prompt):
        if prompt == "bad":
            raise LookupError("no words")
        return [prompt]

    calm = sv.stream_check(lambda text: "!" not in text, "stay calm")
    pipeline = sv.Pipeline(sv.IterableBackend(speak), requirements=[calm])
    seen = []
    results = [
        (prompt, result)
        async for prompt, result in pipeline.map(
            ["One.", "bad", "Two!"], task_limit=1, return_exceptions=True, on_progress=seen.append
        )
    ]
    assert [prompt for prompt, _ in results] == ["One.", "bad", "Two!"]
    assert isinstance(results[1][1], LookupError)
    assert [(p.done, p.total, p.valid, p.invalid, p.raised) for p in seen] == [
        *((1, 3, 1, 0, 0), (2, 3, 1, 0, 1), (3, 3, 1, 1, 1))
    ]
    with pytest.raises(LookupError):
        [pair async for pair in pipeline.map(["bad"])]


async def test_map_does_not_take_a_text_for_prompts():
    with pytest.raises(sv.errors.UsageError, match="map takes several prompts"):
        [pair async for pair in sv.Pipeline(sv.ScriptedBackend("x")).map("One.")]


async def test_run_sync_inside_a_running_loop():
    assert sv.Pipeline(sv.ScriptedBackend("All is well.")).run_sync("go").text == "All is well."
