"""Streams that break off and are resumed: nothing is lost, delivered twice, or unjudged (SPEC rule 19)."""

import pytest

import streamval as sv
from streamval import Delta
from streamval.errors import (
    AuthenticationError,
    ConnectionFailedError,
    RateLimitError,
    RefusedRequestError,
    StallError,
    StreamBrokenError,
    UsageError,
)
from streamval.testing import STALL, FaultyBackend, run_virtually
from streamval.types import ToolCallDelta
from streamval.view import RunView
from tests.support.breaking import Breaking
from tests.support.upstream import words

TEXT = "One is fine. Two is good.\n\nThree is here, and it ends.\n"


def get(city: str) -> str: ...


def a_call(index, city):
    return [
        Delta(tool_call=ToolCallDelta(index, f"c{index}", "get", '{"city"')),
        Delta(tool_call=ToolCallDelta(index, None, None, f': "{city}"}}')),
    ]


ANSWERS = {
    "text": words(TEXT),
    "reasoning": [*(Delta(reasoning=one) for one in words("Let me. I know.")), *words(TEXT)],
    "tools": [*words("I ask."), *a_call(0, "Bonn"), *a_call(1, "Ulm")],
    "JSON": ['{"na', 'me": ', '"Ann ', 'Lee",', ' "n": ', "12", "}"],
}


class Seen:
    """What a subscriber sees of a run, and which chunks were judged."""

    def __init__(self, backend, kind, **options):
        self.judged, self.shown, self.calls, self.retries = [], [], [], []
        rule = sv.stream_check(lambda text: self.judged.append(text), "look").on(
            "text", "reasoning"
        )
        if kind == "tools":
            options["tools"] = [get]
        if kind == "JSON":
            options["format"] = {"type": "object"}
        options = {"retry": sv.Repair(loop_budget=1), **options}
        self.pipeline = sv.Pipeline(backend, requirements=[rule], **options)

    def note(self, event):
        if event.type == "chunk":
            self.shown.append(event.separator + event.text)
            assert event.text in self.judged
        elif event.type == "tool_call":
            self.calls.append((event.index, event.name, event.raw))
        elif event.type == "retry":
            self.retries.append(event)

    async def run(self):
        run, view = self.pipeline.start("Say it."), RunView()
        run.subscribe(self.note)
        run.subscribe(view.apply)
        result = await run
        stands = [call["raw"] for call in view.snapshot()["calls"] if call["stands"]]
        assert (view.text, stands) == (result.text, [call.raw for call in result.tool_calls])
        return (
            result.success,
            result.full_text,
            result.reasoning,
            [(call.index, call.name, call.raw) for call in result.tool_calls],
            "".join(self.shown),
            self.calls,
        )


@pytest.mark.parametrize("chunking", ["sentence", "word", None])
@pytest.mark.parametrize("way", ["prefix", "ask"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_stream_that_breaks_off_anywhere_gives_the_same(kind, way, chunking):
    answer = ANSWERS[kind]
    whole, _ = run_virtually(Seen(Breaking(answer, (), way), kind, chunking=chunking).run())
    assert whole[0]
    for at in range(len(answer) + 1):
        for again in (None, 0, 1, 3):  # the second stream may break off, too
            breaks = [at] if again is None else [at, again]
            seen = Seen(Breaking(answer, breaks, way), kind, chunking=chunking)
            got, _ = run_virtually(seen.run())  # the pauses cost nothing
            assert got == whole, breaks
            assert {event.mode for event in seen.retries} == {"resume"}


@pytest.mark.parametrize("at", range(13))
async def test_reasoning_between_tags_goes_on_within_itself(at):
    thought, answer = "Let me see. I know it.", "It rains. It pours."
    said = words(f"<think>{thought}</think>\n\n{answer}")

    class Tagged(Breaking):
        reasoning_tags = ("<think>", "</think>")

    backend = Tagged(said, [at])
    result = await sv.Pipeline(backend, retry=sv.Repair()).run("Weather?")
    assert (result.success, result.reasoning, result.text) == (True, thought, answer)
    assert len(backend.requests) == 2
    prefix = backend.requests[1].prefix or ""
    assert "".join(said).startswith(prefix)


async def test_the_next_backend_goes_on_and_says_so():
    main, spare = (
        Breaking(words(TEXT), [5], error=ConnectionFailedError, model="main"),
        Breaking(words(TEXT), model="spare", way="ask"),
    )
    seen = Seen([main, spare], "text", retry=None)
    assert (await seen.run())[1] == TEXT
    (event,) = seen.retries
    assert (event.mode, event.model, event.keep_chunks, event.failures) == (
        "resume",
        "spare",
        1,
        (),
    )
    assert event.reason.startswith("ConnectionFailedError")


async def test_options_of_a_backend_do_not_go_to_another():
    main, spare = Breaking(words(TEXT), [0]), Breaking(words(TEXT))
    main.options, spare.options = {"top_p": 0.5, "seed": 1}, {"top_k": 4, "seed": 2}
    await sv.Pipeline([main, spare], options={"temperature": 0.1}).run("Say it.", seed=7)
    assert main.requests[0].options == {"top_p": 0.5, "seed": 7, "temperature": 0.1}
    assert spare.requests[0].options == {"top_k": 4, "seed": 7, "temperature": 0.1}


async def test_usage_counts_the_attempts_that_broke_off():
    result = await sv.Pipeline(Breaking(words(TEXT), [5]), retry=sv.Repair()).run("Say it.")
    first, second = result.attempts
    assert first.error == "StreamBrokenError: cut"
    assert (first.usage.completion_tokens, first.usage.discarded_tokens) == (5, 3)
    assert second.error is None
    assert result.usage.completion_tokens == len(words(TEXT)) + 3
    assert result.usage.discarded_tokens == 3


async def test_a_limit_of_tokens_is_for_the_whole_answer():
    backend = Breaking(words(TEXT), [5, 6])
    await sv.Pipeline(backend, retry=sv.Repair()).run("Say it.", max_tokens=100)
    assert [one.options["max_tokens"] for one in backend.requests] == [100, 98, 95]


async def test_resuming_uses_no_repair_and_repairs_use_no_resuming():
    bad = sv.forbidden_words(["Two"])
    texts = [words("One. Two. Three."), words("One. Too. Three.")]

    class Better(Breaking):
        @property
        def answer(self):
            return texts[any("rejected" in m.content for m in self.requests[-1].messages)]

        @answer.setter
        def answer(self, given): ...

    backend = Better(None, [1, None, 0])
    result = await sv.Pipeline(
        backend, requirements=[bad], chunking="word", retry=sv.Repair(loop_budget=2)
    ).run("Say it.")
    assert (result.success, result.text) == (True, "One. Too. Three.")
    assert [bool(one.failures) for one in result.attempts] == [False, True, False, False]
    # what the repair said is said again after the next break
    assert "rejected" in backend.requests[3].messages[0].content


@pytest.mark.parametrize(
    "error",
    [AuthenticationError, RefusedRequestError, UsageError, ValueError, sv.errors.BackendError],
)
async def test_what_would_fail_again_is_raised(error):
    backend = Breaking(words(TEXT), [4, 4], error=error)
    with pytest.raises(error):
        await sv.Pipeline(backend, retry=sv.Repair()).run("Say it.")
    assert len(backend.requests) == 1


async def test_without_a_repair_or_with_resume_0_the_error_is_raised():
    for retry in (None, sv.Repair(resume=0)):
        backend = Breaking(words(TEXT), [4])
        with pytest.raises(StreamBrokenError):
            await sv.Pipeline(backend, retry=retry).run("Say it.")
        assert len(backend.requests) == 1


async def test_an_error_of_a_judge_is_not_resumed():
    def judge(_):
        raise StreamBrokenError("of the judge")

    backend = Breaking(words(TEXT))
    rule = sv.stream_check(judge, "judge")
    with pytest.raises(StreamBrokenError, match="of the judge"):
        await sv.Pipeline(backend, requirements=[rule], retry=sv.Repair()).run("Say it.")
    assert len(backend.requests) == 1


def test_it_waits_as_long_as_the_server_says():
    def busy():
        error = RateLimitError("busy")
        error.retry_after = 7.0
        return error

    result, seconds = run_virtually(
        sv.Pipeline(Breaking(words(TEXT), [0], error=busy), retry=sv.Repair()).run("Say it.")
    )
    assert result.success
    assert seconds == 7.0


def test_a_stall_is_resumed():
    backend = FaultyBackend(["One. ", STALL], ["Two."], supports_prefix=True)
    result, seconds = run_virtually(
        sv.Pipeline(backend, retry=sv.Repair(), stall_timeout=8).run("Count.")
    )
    assert result.success
    assert result.attempts[0].error.startswith("StallError")
    assert seconds == pytest.approx(8, abs=1.1)


def test_the_last_error_is_raised_and_nothing_delivered_is_lost():
    backend = FaultyBackend(["One is fine. Two is", STALL], [Delta(), STALL], supports_prefix=True)
    chunks = []

    async def main():
        run = sv.Pipeline(backend, retry=sv.Repair(resume=1), stall_timeout=4).start("Count.")
        run.subscribe(lambda event: chunks.append(event.type))
        with pytest.raises(StallError):
            await run
        return run.text

    text, _ = run_virtually(main())
    assert text == "One is fine."
    assert chunks[-2:] == ["error", "completed"]
    assert backend.opened == 2


async def test_a_run_that_is_cancelled_at_the_retry_event_asks_nobody():
    backend = Breaking(words(TEXT), [4])
    run = sv.Pipeline(backend, retry=sv.Repair()).start("Say it.")
    run.subscribe(lambda event: run.cancel() if event.type == "retry" else None)
    result = await run
    assert not result.success
    assert len(backend.requests) == 1


async def test_operators_keep_their_state_and_may_handle_the_error_themselves():
    from reactivex import operators as ops

    seen = []

    def numbered(source):
        return source.pipe(ops.do_action(lambda chunk: seen.append(chunk.index)))

    pipeline = sv.Pipeline(
        Breaking(words(TEXT), [5]), chunk_operators=[numbered], retry=sv.Repair()
    )
    assert (await pipeline.run("Say it.")).full_text == TEXT
    assert seen == [0, 1, 2]

    import reactivex

    backend = Breaking(words(TEXT), [3])
    caught = sv.Pipeline(
        backend, delta_operators=[ops.catch(reactivex.of("the end."))], retry=sv.Repair()
    )
    assert (await caught.run("Say it.")).text == "One is fine. the end."
    assert len(backend.requests) == 1


def test_wrong_values_are_refused():
    with pytest.raises(UsageError, match="resume counts attempts"):
        sv.Repair(resume=-1)
    with pytest.raises(UsageError, match="needs at least one"):
        sv.Pipeline([])
    with pytest.raises(UsageError, match="cannot continue a prefix"):
        sv.Pipeline([Breaking([]), Breaking([], way="ask")], retry=sv.Repair(mode="continue"))
