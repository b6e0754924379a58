"""Tests of `streamval.requirements.patterns`."""

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.errors import UsageError
from tests.support.requirements import failing, on_the_whole, passing, streamed


async def test_required_words_pass_with_the_last_and_fail_at_the_end():
    words = sv.required_words(["Dear", "kind regards"])
    await passing(words, "DEAR Ann. I am late. Kind\nregards, Bob. And more.")
    _, reason, _ = await failing(words, "Dear Ann. I am late.")
    assert reason == 'it never says "kind regards"'


async def test_required_words_can_hold_until_they_have_come():
    delivered, _, _ = await failing(sv.required_words(["late"], hold=True), "Dear Ann. Bye. Bye.")
    assert delivered == ""


@pytest.mark.parametrize("make", [sv.required_words, sv.forbidden_words, sv.allowed_hosts])
@pytest.mark.parametrize("given", ["Dear", []])
def test_a_list_is_wanted(make, given):
    with pytest.raises(UsageError, match=make.__name__):
        make(given)


async def test_forbidden_words_as_whole_words_in_any_case():
    forbidden = reqs.forbidden_words(["cat", "in order to"])
    assert (await streamed(forbidden, "Concatenate. Fine."))[0]
    assert await streamed(forbidden, "Fine. A Cat sat. No.") == (
        *(False, "Fine."),
        ["it says 'Cat'"],
    )
    assert (await streamed(forbidden, "Try in\norder  to win."))[0] is False
    assert forbidden.check_only


async def test_a_phrase_across_chunks_is_found_at_the_end():
    assert (await streamed(reqs.forbidden_words(["in order to"]), "in order to", chunking="word"))[
        2
    ] == ["it says 'in order to'"]


async def test_patterns():
    assert (await streamed(reqs.forbidden_pattern(r"\d{4}"), "Fine. Pin 1234. No."))[1] == "Fine."
    bullets = reqs.required_pattern(r"^- ", each=True)
    assert (await streamed(bullets, "- a\n- b\nc\n- d", chunking="line"))[1] == "- a\n- b"
    somewhere = reqs.required_pattern("moon")
    assert (await streamed(somewhere, "The sun. The moon."))[0]
    assert (await streamed(somewhere, "The sun."))[2] == ["nothing in the output matches"]


@pytest.mark.parametrize("make", [reqs.forbidden_pattern, reqs.required_pattern])
def test_a_pattern_that_is_none_is_refused(make):
    with pytest.raises(UsageError, match="not a regular expression"):
        make("(")


@pytest.mark.parametrize("words", ["cat", [], [" "]])
def test_forbidden_words_wants_a_list_of_words(words):
    with pytest.raises(UsageError, match="forbidden_words"):
        reqs.forbidden_words(words)


async def test_language_fails_once_it_is_certain():
    english = "The weather was so fine that everybody went out into the garden. "
    german = "Das Wetter war so schön, dass alle in den Garten hinausgingen. "
    await passing(sv.language("en"), english * 3)
    _, reason, written = await failing(sv.language("en"), german * 5)
    assert reason == "it is in the language 'de'"
    assert written < 2.5 * len(german)
    assert (await failing(sv.language("en", hold=True), german * 5))[0] == ""


async def test_one_foreign_sentence_in_much_of_the_wanted_language_is_found():
    english = "The weather was so fine that everybody went out into the garden. " * 6
    german = "Das Wetter war so schön, dass alle in den Garten hinausgingen. "
    text, reason, _ = await failing(sv.language("en"), english + german + english)
    assert reason == "a part of it is in the language 'de'"
    assert "Wetter" not in text
    # What neighbours share is no reason, nor is a name.
    norwegian = "Hun sa at han skulle komme hjem senere, men ingen hadde sett ham siden mandag. "
    named = "In a quiet Berlin street, Frau Doktor Helga Schmidt-Rottluff sang. "
    await passing(
        sv.language("da"), "Vejret er meget smukt i hele byen i dag, og alle går. " + norwegian
    )
    await passing(sv.language("en"), english + named + english)


async def test_too_little_text_gets_the_benefit_of_the_doubt():
    await passing(sv.language("en"), "OK.")
    assert await on_the_whole(sv.language("en"), "")


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match=r"not 'english'.*known are: .*en"):
        sv.language("english")
