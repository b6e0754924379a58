"""Tests of `streamval.requirements.base`."""

import asyncio

import pytest

import streamval as sv
from streamval.errors import UsageError, ValidatorError
from tests.support.requirements import streamed, whole


async def test_the_default_is_unknown_and_the_end_decides():
    seen = []

    def validate(ctx):
        seen.append(str(ctx.last_output()))
        return sv.ValidationResult(len(seen[-1]) < 10, reason="too long")

    assert await streamed(sv.Requirement("short", validate), "One. Two.") == (True, "One. Two.", [])
    assert seen == ["One. Two."]
    _, _, reasons = await streamed(sv.Requirement("short", validate), "One. Two. Three.")
    assert reasons == ["too long"]


async def test_a_validation_fn_may_be_async_or_return_a_bool():
    async def later(ctx):
        await asyncio.sleep(0)
        return False

    assert (await streamed(sv.Requirement("x", later), "One."))[0] is False
    assert (await streamed(sv.Requirement("x", lambda ctx: True), "One."))[0] is True


async def test_a_validation_fn_that_returns_something_else_is_named():
    with pytest.raises(ValidatorError, match=r"simple_validate\(\)"):
        await streamed(sv.Requirement("x", lambda ctx: "yes"), "One.")


def test_simple_validate():
    with_reason = sv.simple_validate(lambda text: (text == "ok", "say ok"))
    assert bool(with_reason(whole("ok")))
    assert with_reason(whole("no")).reason == "say ok"
    assert not sv.simple_validate(lambda text: text == "ok")(whole("no"))


@pytest.mark.parametrize("answer", [None, "yes", 1, (True,), (True, "a", "b"), ("yes", True)])
def test_simple_validate_refuses_what_is_no_answer(answer):
    with pytest.raises(ValidatorError, match=r"simple_validate returned .*; return a bool"):
        sv.simple_validate(lambda text: answer)(whole("ok"))


def test_simple_validate_fails_where_there_is_no_output():
    verdict = sv.simple_validate(lambda text: True)(sv.types.Context())
    assert not verdict
    assert verdict.reason == "there is no output"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"on_error": "ignore"}, "on_error"),
        ({"validation_fn": "text"}, "callable"),
    ],
)
def test_wrong_options_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        sv.Requirement("x", **options)


def test_simple_validate_has_a_reason_for_a_bare_false():
    short = sv.simple_validate(lambda text: len(text) < 3, reason="too long")
    assert short(sv.types.Context().with_output("long")).reason == "too long"
    assert short(sv.types.Context().with_output("ok")).reason is None
    own = sv.simple_validate(lambda text: (False, "of its own"), reason="too long")
    assert own(sv.types.Context().with_output("x")).reason == "of its own"
