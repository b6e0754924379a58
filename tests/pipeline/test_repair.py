"""Tests of `streamval.pipeline.repair`."""

from dataclasses import replace

import pytest

import streamval as sv
from streamval.backends.base import GenerationRequest, as_messages
from streamval.errors import UsageError
from streamval.types.messages import Message
from tests.support.sources import Judge, Spoken, fails_on

FAILURES = [sv.types.Failure("be calm", "it shouts", 2), sv.types.Failure("be {short}")]


def request(**options):
    return GenerationRequest((Message("system", "S"), Message("user", "Say {x}.")), options=options)


def test_every_failure_and_its_reason_goes_into_the_prompt():
    asked = sv.Repair().request(request(), request(), FAILURES)
    system, words, user = asked.messages
    assert system == Message("system", "S")
    assert "- be calm: it shouts\n- be {short}" in words.content
    assert user == Message("user", "Say {x}.")


def test_templates():
    def said(template):
        asked = sv.Repair(template=template).request(request(), request(), FAILURES[:1])
        return [message.content for message in asked.messages[1:]]

    assert said("{prompt} Mind: {failures} {other}") == [
        "Say {x}.",
        "Mind: - be calm: it shouts {other}",
    ]
    assert said("No: {failures} {prompt} Go.") == ["No: - be calm: it shouts", "Say {x}.", "Go."]
    assert said(lambda prompt, failures: f"{len(failures)}! {prompt}") == ["1!", "Say {x}."]
    assert said(lambda prompt, failures: "Be calm.") == ["Be calm."]
    assert said("{prompt}") == ["Say {x}."]


PICTURE = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "x"}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "user", "content": PICTURE}],
        [{"role": "user", "content": PICTURE[1:]}],
        [
            {"role": "user", "content": "When?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": "noon", "tool_call_id": "c1"},
        ],
        [{"role": "user", "content": "Say"}, {"role": "assistant", "content": "It"}],
    ],
)
@pytest.mark.parametrize("template", [None, "{prompt}{failures}"])
def test_what_a_repair_says_is_a_message_of_its_own(turns, template):
    first = GenerationRequest(as_messages(turns))
    asked = sv.Repair(template=template).request(first, first, FAILURES[:1])
    words = [one for one in asked.messages if one not in first.messages]
    assert [one.role for one in words] == ["user"]
    assert words[0].is_plain
    assert "- be calm: it shouts" in words[0].content
    assert [one.as_dict() for one in asked.messages if one in first.messages] == turns
    roles = [one.role for one in asked.messages]
    assert "assistant" not in roles or roles[roles.index("assistant") + 1 :][:1] != ["user"]


def test_of_a_rule_that_is_checked_only_a_repair_says_what_was_wrong():
    failure = sv.types.Failure('never say "wombat"', "it says 'wombat'", check_only=True)
    words, _ = sv.Repair().request(request(), request(), [failure]).messages[1:]
    assert "this was wrong with it:\n- it says 'wombat'\nThe next answer must not" in words.content


def test_a_new_attempt_never_replays_the_last_one():
    options = request(seed=7, temperature=0, max_tokens=5)
    assert sv.Repair().request(
        options, replace(options, attempt=2), FAILURES, prefix="pre"
    ).options == {"seed": 9, "temperature": 0.7, "max_tokens": 5}
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


@pytest.mark.parametrize("prompt", ["a", "it", "answer", "rejected", "{failures}"])
async def test_a_prompt_whose_words_are_in_the_template_cuts_nothing(prompt):
    backend = Spoken(["Bad."], ["Good."])
    rule = sv.forbidden_words(["bad"])
    await sv.Pipeline(backend, requirements=[rule], retry=sv.Repair(mode="restart")).run(prompt)
    words, asked = backend.requests[1].messages
    assert asked.content == prompt
    assert words.content.startswith("(An earlier answer was rejected.")
    assert words.content.endswith("must not have these faults.)")
