"""Tests of `streamval.requirements.language`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.requirements import failing, on_the_whole, passing


async def test_language_fails_once_it_is_certain():
    english = "The weather was so fine that everybody went out into the garden. "
    german = "Das Wetter war so schön, dass alle in den Garten hinausgingen. "
    await passing(sv.language("en"), english * 3)
    _, reason, written = await failing(sv.language("en"), german * 5)
    assert reason == "it is in the language 'de'"
    assert written < 2.5 * len(german)
    assert (await failing(sv.language("en", hold=True), german * 5))[0] == ""


async def test_too_little_text_gets_the_benefit_of_the_doubt():
    await passing(sv.language("en"), "OK.")
    assert await on_the_whole(sv.language("en"), "")


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match=r"not 'english'.*known are: .*en"):
        sv.language("english")
