"""Tests of `streamval.validation.checkpoints`."""

import asyncio

import streamval as sv
from tests.support.sources import Judge, Spoken, fails_on


async def test_continue_with_overlapping_judgements_never_sees_rejected_text():
    seen = []

    async def overlapping(piece):
        seen.append(piece)
        await asyncio.sleep(0.002)
        return "pass"

    async def strict(text):
        await asyncio.sleep(0.01 if text == "Bad." else 0)
        return "fail" if text == "Bad." else "pass"

    backend = sv.ScriptedBackend(
        ["One.\nTwo.\nThree.\nBad.\nFive.\nSix.\nSeven.\n", "\nNew.\nEnd.\n"], supports_prefix=True
    )
    await sv.Pipeline(
        backend,
        requirements=[Judge(overlapping, chunking="line", max_concurrency=4), Judge(strict)],
        chunking="line",
        retry=sv.Repair(),
    ).run("go")
    assert seen[-2:] == ["New.", "End."]
    assert seen.count("Six.") <= 1


async def test_a_chunker_with_a_list_of_its_own_survives_continue():
    class Clauses:
        def __init__(self):
            self.buffer, self.index, self.at = [], 0, 0

        def feed(self, delta):
            found = []
            for char in delta:
                self.buffer.append(char)
                if char == ";":
                    found += self.flush()
            return found

        def flush(self):
            text = "".join(self.buffer)
            self.buffer.clear()
            if not text.strip():
                return []
            self.index += 1
            return [sv.Chunk(text.strip(), self.index - 1, 0, len(text), "")]

    judge = Judge("pass", chunking=Clauses)
    backend = Spoken(["One is fine. ", "Bad. ", "x "], [" Two is good; "], supports_prefix=True)
    await sv.Pipeline(
        backend, requirements=[judge, Judge(fails_on("Bad."))], retry=sv.Repair()
    ).run("go")
    assert judge.asked[-1] == "One is fine. Two is good;"


async def test_continue_resumes_requirements_and_asks_nothing_twice():
    class Counter(sv.Requirement):
        seen = ()

        async def stream_validate(self, chunk, *, backend, ctx):
            self.seen = (*self.seen, chunk)
            states.append(self.seen)
            return sv.PartialValidationResult("fail" if "Bad" in chunk else "pass")

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(str(ctx.last_output()) == "One. Two. Three.")

    states = []
    backend = Spoken(["One. ", "Two. ", "Bad. ", "x "], [" Three."], supports_prefix=True)
    result = await sv.Pipeline(backend, requirements=[Counter("count")], retry=sv.Repair()).run(
        "go"
    )
    assert result.success
    assert states == [
        *(("One.",), ("One.", "Two."), ("One.", "Two.", "Bad.")),
        ("One.", "Two.", "Three."),  # the failing chunk is forgotten, the kept ones are not
    ]


async def test_continue_resumes_a_lane_with_a_chunking_of_its_own():
    judge = Judge(lambda text: "fail" if "Bad" in text else "pass", chunking="paragraph")
    backend = Spoken(
        ["One. Two.\n\n", "Three. ", "Bad.\n\n", "Four. "],
        [" Four.\n\n", "Five."],
        supports_prefix=True,
    )
    result = await sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).run("go")
    assert judge.asked == ["One. Two.", "Three. Bad.", "Three. Bad. Four."]
    assert result.failures[0].chunk_index == 5


async def test_a_lane_keeps_its_state_over_a_repair_where_it_has_raised():
    class Counts(sv.Requirement):
        seen = 0

        async def stream_validate(self, chunk, *, backend, ctx):
            self.seen += 1
            told.append((chunk, self.seen))
            if chunk == "Two.":
                raise ValueError(chunk)
            return sv.PartialValidationResult("pass")

        async def validate(self, backend, ctx, **_):
            return sv.ValidationResult(True)

    told = []
    backend = Spoken(["One. ", "Two. ", "Bad. "], [" Three. "], supports_prefix=True)
    result = await sv.Pipeline(
        backend,
        requirements=[Counts("counts", on_error="pass"), Judge(fails_on("Bad."))],
        retry=sv.Repair(mode="continue", loop_budget=2),
    ).run("go")
    assert result.text == "One. Two. Three."
    assert told == [("One.", 1), ("Two.", 2), ("Bad.", 3), ("Three.", 3)]
