"""Tests of `streamval.session.sampling`."""

import pytest

import streamval as sv
from tests.support.sources import Judge, Spoken, fails_on


def whole(word, description="says it"):
    return sv.req(description, sv.simple_validate(lambda text: (word in text, f"no {word} in it")))


async def sampled(backend, strategy, *requirements):
    return await sv.start_session(backend).ainstruct(
        "Say it.", requirements=requirements, strategy=strategy, return_sampling_results=True
    )


def prompts(backend):
    return [request.messages[-1].content for request in backend.requests]


async def test_loop_budget_counts_attempts_in_all():
    backend = Spoken(["a"], ["b"], ["c"], ["d"])
    result = await sampled(backend, sv.session.RejectionSamplingStrategy(loop_budget=3), whole("z"))
    assert not result.success
    assert [str(sample) for sample in result.sample_generations] == ["a", "b", "c"]
    assert backend.opened == 3


async def test_the_valid_sample_is_the_result():
    requirement = whole("b")
    result = await sampled(
        Spoken(["a"], ["b"]), sv.session.RejectionSamplingStrategy(), requirement
    )
    assert (result.success, str(result.result), result.result_index) == (True, "b", 1)
    assert [[bool(v) for _, v in sample] for sample in result.sample_validations] == [
        [False],
        [True],
    ]
    ((judged, validation),) = result.sample_validations[0]
    assert judged is requirement
    assert validation.reason == "no b in it"
    assert result.result_validations == result.sample_validations[1]
    assert result.result is result.sample_generations[1]


async def test_without_a_valid_one_the_least_bad_and_latest_is_the_result():
    requirements = [whole("x"), whole("y"), whole("z")]
    backend = Spoken(["x y"], ["x z"], ["x"])
    result = await sampled(
        backend, sv.session.RejectionSamplingStrategy(loop_budget=3), *requirements
    )
    assert str(result.result) == "x z"
    assert [bool(v) for _, v in result.result_validations] == [True, False, True]


async def test_an_attempt_that_failed_early_is_a_sample_like_any_other():
    strict, other = Judge(fails_on("Bad."), "strict"), Judge("pass", "other")
    backend = Spoken(["Good. ", "Bad. ", "More."], ["Good. Fine."])
    result = await sampled(backend, sv.session.RejectionSamplingStrategy(), other, strict)
    assert result.success
    first, second = result.sample_generations
    assert (str(first), first.generation.cancelled) == ("Good. Bad. More.", True)
    assert (str(second), second.generation.cancelled) == ("Good. Fine.", False)
    assert [(r, v.reason) for r, v in result.sample_validations[0]] == [(strict, "about Bad.")]
    assert len(result.result_validations) == 2


async def test_rejection_asks_the_same_again():
    backend = Spoken(["a"], ["b"])
    await sampled(backend, sv.session.RejectionSamplingStrategy(), whole("b"))
    first, second = prompts(backend)
    assert first == second


async def test_repair_lists_every_failed_requirement_and_why():
    secret = sv.check("no a", sv.simple_validate(lambda text: ("a" not in text, "it says a")))
    backend = Spoken(["a"], ["x y"])
    result = await sampled(
        backend, sv.session.RepairTemplateStrategy(), whole("x", "an x"), whole("y", "a y"), secret
    )
    assert result.success
    said, asked = (message.content for message in backend.requests[1].messages)
    assert asked == prompts(backend)[0]
    assert "- an x: no x in it\n- a y: no y in it\n- it says a\n" in said
    assert "no a" not in said  # checked only: its words are in no prompt


async def test_multi_turn_keeps_what_was_said_and_what_was_wrong_with_it():
    backend = Spoken(["a"], ["b"], ["c"])
    await sampled(backend, sv.session.MultiTurnStrategy(loop_budget=3), whole("z", "a z"))
    turns = [turn.role for turn in backend.requests[2].messages]
    assert turns == ["user", "assistant", "user", "assistant", "user"]
    contents = [turn.content for turn in backend.requests[2].messages]
    assert contents[1::2] == ["a", "b"]
    assert all("- a z: no z in it" in complaint for complaint in contents[2::2])


async def test_the_strategys_requirements_take_the_place_of_the_instructions():
    strategy = sv.session.RejectionSamplingStrategy(requirements=[whole("a")])
    result = await sampled(Spoken(["a"]), strategy, whole("z"))
    assert result.success


async def test_a_strategy_is_a_repair_and_a_repair_is_a_strategy():
    backend = Spoken(["a"], ["b"])
    pipeline = sv.Pipeline(
        backend, requirements=[whole("b")], retry=sv.session.RejectionSamplingStrategy()
    )
    assert (await pipeline.run("go")).success
    continuing = Spoken(["Good. ", "Bad. "], [" Fine."], supports_prefix=True)
    result = await sampled(continuing, sv.Repair(), Judge(fails_on("Bad.")))
    assert str(result.result) == "Good. Fine."
    assert continuing.requests[1].prefix == "Good."


@pytest.mark.parametrize(
    "kind",
    [
        sv.session.RejectionSamplingStrategy,
        sv.session.RepairTemplateStrategy,
        sv.session.MultiTurnStrategy,
    ],
)
def test_a_budget_below_one_is_refused(kind):
    with pytest.raises(ValueError, match="at least 1"):
        kind(loop_budget=0)


async def test_other_dice_for_each_attempt():
    backend = Spoken(["a"], ["b"])
    await sv.start_session(backend).ainstruct(
        "Say it.", requirements=[whole("b")], model_options={"seed": 5, "temperature": 0}
    )
    assert [r.options["seed"] for r in backend.requests] == [5, 6]
    assert [r.options["temperature"] for r in backend.requests] == [0, 0.7]
