"""Tests of `streamval.pipeline.attempts`."""

from dataclasses import replace

import pytest

import streamval as sv
from streamval.backends.base import GenerationRequest
from streamval.types.messages import Message
from tests.support.sources import Judge, Spoken, fails_on, watch


async def test_loop_budget_counts_attempts_in_all():
    backend = Spoken("One.")
    pipeline = sv.Pipeline(backend, requirements=[Judge("fail")], retry=sv.Repair(loop_budget=3))
    result = await pipeline.run("go")
    assert (backend.opened, len(result.attempts), result.success) == (3, 3, False)
    backend = Spoken("One.")
    await sv.Pipeline(backend, requirements=[Judge("fail")], retry=sv.Repair(loop_budget=1)).run(
        "x"
    )
    assert backend.opened == 1


async def test_continue_keeps_the_delivered_chunks_and_asks_only_for_the_rest():
    backend = Spoken(
        ["Good one. ", "Good two. ", "Bad. ", "Never. "], [" Good", " three."], supports_prefix=True
    )
    judge = Judge(fails_on("Bad."))
    events = await watch(sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).start("go"))
    assert backend.requests[1].prefix == "Good one. Good two."
    retry = next(event for event in events if event.type == "retry")
    assert (retry.mode, retry.keep_chunks, retry.attempt) == ("continue", 2, 2)
    chunks = [event for event in events if event.type == "chunk"]
    assert [(c.chunk_index, c.text, c.attempt) for c in chunks] == [
        *((0, "Good one.", 1), (1, "Good two.", 1), (2, "Good three.", 2))
    ]
    whole = events[-1].full_text
    assert whole == "Good one. Good two. Good three."
    assert [whole[c.start : c.end] for c in chunks] == [c.text for c in chunks]


async def test_restart_discards_what_was_delivered():
    backend = Spoken(["One. ", "Bad. ", "x"], ["Two."])
    run = sv.Pipeline(
        backend, requirements=[Judge(fails_on("Bad."))], retry=sv.Repair(mode="restart")
    ).start("go")
    events = []
    run.subscribe(events.append)
    result = await run
    retry = next(event for event in events if event.type == "retry")
    assert (retry.mode, retry.keep_chunks) == ("restart", 0)
    assert backend.requests[1].prefix is None
    assert result.text == run.text == "Two."


async def test_a_failed_final_validation_restarts_even_where_the_backend_can_continue():
    backend = Spoken(["Wrong."], ["Right."], supports_prefix=True)
    judge = Judge("pass", whole=lambda text: text == "Right.")
    events = await watch(sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).start("go"))
    retry = next(event for event in events if event.type == "retry")
    assert (retry.mode, retry.keep_chunks) == ("restart", 0)
    assert events[-1].full_text == "Right."


async def test_a_chat_model_is_asked_in_words_to_go_on():
    calm = sv.stream_check(lambda text: (not text.endswith("!"), "it shouts"), "stay calm")
    backend = Spoken(
        ["All is well. ", "It is fine. ", "Help! ", "More. "],
        ["Sure, I'll continue:\n\nIt is ", "fine. We go on."],
    )
    pipeline = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(mode="ask"))
    run = pipeline.start("How is it?")
    events = []
    run.subscribe(events.append)
    result = await run
    assert result.success
    assert result.text == "All is well. It is fine. We go on."
    (retry,) = [event for event in events if event.type == "retry"]
    assert (retry.mode, retry.keep_chunks) == ("ask", 2)
    asked = backend.requests[1]
    assert asked.prefix is None
    words, prompt, kept, request = asked.messages
    assert [one.role for one in asked.messages] == ["user", "user", "assistant", "user"]
    assert "it shouts" in words.content
    assert (prompt.content, kept.content) == ("How is it?", "All is well. It is fine.")
    assert 'from its last words: "All is well. It is fine."' in request.content
    chunks = [event.chunk() for event in events if event.type == "chunk"]
    assert [(chunk.index, chunk.attempt) for chunk in chunks] == [(0, 1), (1, 1), (2, 2)]
    assert "".join(chunk.separator + chunk.text for chunk in chunks) == result.text


async def test_asking_is_never_the_default_and_not_for_sound():
    assert sv.Repair().mode is None
    with pytest.raises(sv.errors.UsageError, match="asks in words"):
        sv.Pipeline(
            Spoken(b""),
            chunking=lambda: sv.chunkers.FrameChunker(0.02),
            retry=sv.Repair(mode="ask"),
        )


async def test_an_answer_that_is_only_repeated_ends_there():
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    backend = Spoken(["All is well. ", "Help! "], ["All is ", "well."])
    result = await sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(mode="ask")).run("go")
    assert (result.success, result.text) == (True, "All is well.")


async def test_attempts_are_counted_whatever_a_repair_or_a_request_says():
    class SameAgain(sv.Repair):
        def request(self, first, last, failures, **_):
            return replace(first, options={"seed": last.attempt})

    never = sv.stream_check(lambda _: False)
    pipeline = sv.Pipeline(
        sv.ScriptedBackend("No."), requirements=[never], retry=SameAgain(loop_budget=3)
    )
    request = GenerationRequest((Message("user", "x"),), attempt=3)
    run = pipeline.start_request(request)
    events = []
    run.subscribe(events.append)
    assert len((await run).attempts) == 3
    assert [event.attempt for event in events if event.type == "retry"] == [2, 3]
