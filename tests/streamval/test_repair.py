from dataclasses import replace

import pytest

import streamval as sv
from streamval.backends.base import GenerationRequest
from streamval.context import Message
from streamval.errors import UsageError
from tests.support.sources import Judge, Spoken, fails_on, watch

FAILURES = [sv.Failure("be calm", "it shouts", 2), sv.Failure("be {short}")]


def request(**options):
    return GenerationRequest((Message("system", "S"), Message("user", "Say {x}.")), options=options)


# The plain part


def test_every_failure_and_its_reason_goes_into_the_prompt():
    asked = sv.Repair().request(request(), request(), FAILURES)
    system, user = asked.messages
    assert system == Message("system", "S")
    assert "- be calm: it shouts\n- be {short}" in user.content
    assert user.content.endswith("Say {x}.")


def test_templates():
    text = sv.Repair(template="{prompt} Mind: {failures} {other}")
    assert text.request(request(), request(), FAILURES[:1]).messages[-1].content == (
        "Say {x}. Mind: - be calm: it shouts {other}"
    )
    fn = sv.Repair(template=lambda prompt, failures: f"{prompt}!{len(failures)}")
    assert fn.request(request(), request(), FAILURES).messages[-1].content == "Say {x}.!2"


def test_a_new_attempt_never_replays_the_last_one():
    options = request(seed=7, temperature=0, max_tokens=5)
    assert sv.Repair().request(
        options, replace(options, attempt=2), FAILURES, prefix="pre"
    ).options == {
        "seed": 9,
        "temperature": 0.7,
        "max_tokens": 5,
    }
    assert sv.Repair().request(request(temperature=0.2), request(), []).options == {
        "temperature": 0.2
    }


@pytest.mark.parametrize(
    "wrong",
    [{"loop_budget": 0}, {"loop_budget": 1.5}, {"mode": "again"}, {"template": "no placeholder"}],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(UsageError):
        sv.Repair(**wrong)


# Running


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
        *((0, "Good one.", 1), (1, "Good two.", 1), (2, "Good three.", 2)),
    ]
    whole = events[-1].full_text
    assert whole == "Good one. Good two. Good three."
    assert [whole[c.start : c.end] for c in chunks] == [c.text for c in chunks]


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


async def test_tokens_of_thrown_away_attempts_are_counted():
    backend = Spoken(["One. ", "Two. ", "Bad. ", "x"], [" Three", "."], supports_prefix=True)
    judge = Judge(fails_on("Bad."))
    continued = await sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).run("go")
    assert continued.usage == sv.Usage(None, 6, 3, 1, "deltas")
    restarted = await sv.Pipeline(
        backend, requirements=[judge], retry=sv.Repair(mode="restart")
    ).run("go")
    assert restarted.usage == sv.Usage(None, 6, 4, 0, "deltas")
    assert [attempt.usage.discarded_tokens for attempt in restarted.attempts] == [4, 0]


async def test_what_the_backend_reports_counts():
    backend = Spoken("One.", sv.Delta("", usage=sv.Usage(9, 30, source="backend")))
    assert (await sv.Pipeline(backend).run("go")).usage == sv.Usage(9, 30, 0, 0, "backend")


async def test_a_backend_that_cannot_continue_is_refused_for_continue():
    with pytest.raises(UsageError, match="cannot continue a prefix"):
        sv.Pipeline(Spoken("One."), retry=sv.Repair(mode="continue"))


async def test_a_limit_on_tokens_is_a_limit_on_the_output():
    backend = Spoken(
        ["Good.", " Two.", " Bad."], [" Fine.", " Bad."], [" Well."], supports_prefix=True
    )
    pipeline = sv.Pipeline(
        backend,
        requirements=[Judge(fails_on("Bad."))],
        retry=sv.Repair(loop_budget=3),
        options={"max_tokens": 10},
    )
    assert (await pipeline.run("go")).success
    assert [request.options["max_tokens"] for request in backend.requests] == [10, 8, 7]


async def test_a_restart_has_the_whole_limit():
    backend = Spoken(["Good. ", "Bad. "], ["Well."])
    pipeline = sv.Pipeline(
        backend,
        requirements=[Judge(fails_on("Bad."))],
        retry=sv.Repair(),
        options={"max_tokens": 10},
    )
    await pipeline.run("go")
    assert [request.options["max_tokens"] for request in backend.requests] == [10, 10]


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
