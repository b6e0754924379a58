"""Tests of `streamval.pipeline.ledger`."""

import streamval as sv
from tests.support.sources import Judge, Spoken, fails_on


async def test_attempts_tell_how_it_went():
    backend = Spoken(["One. ", "Bad. ", "x"], ["Two."])
    judge = Judge(lambda text: "fail" if text == "Bad." else "pass")
    result = await sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).run("go")
    first, second = result.attempts
    assert first.text == "One. Bad. x"
    assert first.failures == (sv.types.Failure("judge", "about Bad.", 1, lane=0),)
    assert (second.text, second.failures) == ("Two.", ())
    assert second.validations == (sv.ValidationResult(True),)
    assert result.validations == second.validations
    assert all(attempt.seconds >= 0 for attempt in result.attempts)


async def test_tokens_of_thrown_away_attempts_are_counted():
    backend = Spoken(["One. ", "Two. ", "Bad. ", "x"], [" Three", "."], supports_prefix=True)
    judge = Judge(fails_on("Bad."))
    continued = await sv.Pipeline(backend, requirements=[judge], retry=sv.Repair()).run("go")
    assert continued.usage == sv.types.Usage(None, 6, 3, 1, "deltas")
    restarted = await sv.Pipeline(
        backend, requirements=[judge], retry=sv.Repair(mode="restart")
    ).run("go")
    assert restarted.usage == sv.types.Usage(None, 6, 4, 0, "deltas")
    assert [attempt.usage.discarded_tokens for attempt in restarted.attempts] == [4, 0]


async def test_what_the_backend_reports_counts():
    backend = Spoken("One.", sv.Delta("", usage=sv.types.Usage(9, 30, source="backend")))
    assert (await sv.Pipeline(backend).run("go")).usage == sv.types.Usage(9, 30, 0, 0, "backend")
