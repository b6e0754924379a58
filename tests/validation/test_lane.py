"""Tests of `streamval.validation.lane`."""

import asyncio

import pytest
import reactivex

import streamval as sv
from streamval.bridge import iterate
from tests.support.sources import Judge, Spoken


async def test_a_validator_may_return_any_awaitable_and_raise_before_it_does():
    class Plain(sv.Requirement):
        def stream_validate(self, chunk, *, backend, ctx):
            if chunk == "Bad.":
                raise OSError("at once")
            return asyncio.ensure_future(later())

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(True)

    async def later():
        await asyncio.sleep(0)
        return sv.PartialValidationResult("pass")

    pipeline = sv.Pipeline(
        sv.ScriptedBackend("One. Two. Bad."), requirements=[Plain("plain", on_error="fail")]
    )
    assert (await pipeline.run("go")).text == "One. Two."


async def test_on_error_covers_a_cancellation_from_inside():
    async def cancelled(_):
        raise asyncio.CancelledError

    judge = Judge(cancelled, on_error="pass")
    assert (await sv.Pipeline(Spoken("One."), requirements=[judge]).run("go")).success


async def test_own_chunks_are_cut_in_order_however_many_are_judged_at_once():
    go, seen = asyncio.Event(), []

    class Overlapping(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            seen.append(chunk)
            if chunk == "Go now.":
                await go.wait()
            return sv.PartialValidationResult("fail" if "all said" in chunk else "pass")

    async def words(_):
        yield "Go now. We all "
        await asyncio.sleep(0.01)
        go.set()  # its judge is about to go on as several chunks come at once
        yield "said it: never say no. Bye. "

    judge = Overlapping("r", lambda _: True, chunking="sentence", max_concurrency=2)
    pipeline = sv.Pipeline(sv.IterableBackend(words), requirements=[judge], chunking="word")
    assert not (await pipeline.run("go")).success
    assert seen == ["Go now.", "We all said it: never say no. Bye."]


async def test_cancelled_from_inside_a_pass_by_on_error_releases_what_was_held():
    class Holds(sv.Requirement):
        async def stream_validate(self, chunk, *, backend, ctx):
            if chunk == "Two.":
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            return sv.PartialValidationResult("pass" if chunk == "One." else "unknown")

    judge = Holds("r", lambda _: False, on_error="pass", hold=True)
    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two. Three. Four"), requirements=[judge]
    ).run("go")
    assert result.text == "One. Two."


async def test_a_validator_that_awaits_nonsense_is_judged_by_its_on_error():
    class Nonsense:
        def __await__(self):
            yield 42

    async def awaits(_):
        await Nonsense()

    result = await sv.Pipeline(
        sv.ScriptedBackend("One. Two."), requirements=[Judge(awaits, on_error="pass")]
    ).run("go")
    assert result.success


class Leaks(sv.Requirement):
    """Its own service refuses it, and repeats its key."""

    def stream_validate(self, chunk, *, backend, ctx):
        raise ValueError("401: no such user, Authorization: Bearer abcd1234zyxw9876")


@pytest.mark.parametrize(
    "requirement",
    [
        Leaks("leaks", on_error="fail"),
        sv.Requirement(
            "leaks",
            lambda ctx: Leaks().stream_validate("", backend=None, ctx=None),
            on_error="fail",
        ),
    ],
)
async def test_a_key_in_a_validators_exception_goes_nowhere(requirement, tmp_path):
    """It went into the recording, and into the repair prompt that is sent to the provider."""
    backend = Spoken("One.")
    path = tmp_path / "run.jsonl"
    run = sv.Pipeline(backend, requirements=[requirement], retry=sv.Repair(loop_budget=2)).start(
        "go"
    )
    run.subscribe(sv.sinks.JSONL(path))
    result = await run
    assert "401" in str(result.failures)
    said = [str(request) for request in backend.requests]
    assert len(said) == 2
    assert "zyxw9876" not in "".join([path.read_text(), str(result), *said])


# What has been said so far


class Reads(sv.Requirement):
    """Notes the text so far of each piece, and fails where a word comes a second time."""

    def __init__(self, seen, **options):
        super().__init__("no word twice", **options)
        self.note = seen.append

    def stream_validate(self, chunk, *, backend, ctx):
        self.note(ctx.text_so_far)
        words = ctx.text_so_far.split()
        twice = len(words) > len(set(words))
        return sv.types.PartialValidationResult("fail" if twice else "unknown", reason="twice")


class ReadsLate(Reads):
    """The same, but it awaits something before it reads."""

    async def stream_validate(self, chunk, *, backend, ctx):
        await asyncio.sleep(0.01 * (10 - len(chunk)))
        return super().stream_validate(chunk, backend=backend, ctx=ctx)


@pytest.mark.parametrize("kind", [Reads, ReadsLate])
@pytest.mark.parametrize("chunking", [None, "word"])
async def test_a_lane_reads_what_was_said_up_to_its_piece(kind, chunking):
    seen = []
    backend = sv.ScriptedBackend("One two. Three four.", token_size=3)
    requirement = kind(seen, chunking=chunking)
    await sv.Pipeline(backend, requirements=[requirement]).run("Count.")
    words = ["One", "One two.", "One two. Three", "One two. Three four."]
    assert seen == (words if chunking else words[1::2])


async def test_pieces_that_are_judged_at_once_have_a_text_each():
    seen = []
    requirement = ReadsLate(seen, max_concurrency=9, chunking="word")
    backend = sv.ScriptedBackend("A bb ccc dddd")
    await sv.Pipeline(backend, requirements=[requirement], chunking="word").run("Count.")
    assert sorted(seen, key=len) == ["A", "A bb", "A bb ccc", "A bb ccc dddd"]
    assert seen[0] == "A bb ccc dddd"  # the longest word waits least


async def test_after_a_repair_that_continues_it_begins_with_what_stands():
    seen = []
    backend = sv.ScriptedBackend(["One. Two. Two. Three.", " Four."], supports_prefix=True)
    result = await sv.Pipeline(backend, requirements=[Reads(seen)], retry=sv.Repair()).run("Count.")
    assert result.text == "One. Two. Four."
    assert seen == ["One.", "One. Two.", "One. Two. Two.", "One. Two. Four."]


async def test_each_channel_has_its_own():
    seen = []
    call = sv.types.ToolCallDelta(0, "c1", "now", '{"zone": "UTC"}')
    script = [sv.Delta(reasoning="Hm."), "It is noon.", sv.Delta(reasoning=" Or not?")]
    backend = sv.ScriptedBackend((*script, sv.Delta(tool_call=call)))
    requirement = Reads(seen).on("text", "reasoning", "tool")
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
    await sv.Pipeline(backend, requirements=[requirement], tools=[tool]).run("When?")
    said = ["now", 'now {"zone":', 'now {"zone": "UTC"}']  # the name, a key, a value
    assert seen == ["Hm.", "It is noon.", "Hm. Or not?", *said]


async def test_without_a_pipeline_the_operator_keeps_the_text_where_it_has_a_context():
    seen = []
    source = reactivex.of("One. Two.").pipe(
        sv.operators.chunk("sentence"), sv.operators.validate([Reads(seen)], ctx=sv.types.Context())
    )
    async for _ in iterate(source):
        pass
    assert seen == ["One.", "One. Two."]


async def test_outside_of_a_stream_it_is_the_output_at_the_end():
    assert sv.types.Context().text_so_far == ""
    assert sv.types.Context().with_output("Done.").text_so_far == "Done."
