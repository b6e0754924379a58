"""Tests of `streamval.requirements.patterns`."""

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.errors import UsageError, ValidatorError
from streamval.requirements import patterns
from tests.support.requirements import failing, on_the_whole, passing, run_of, streamed


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


CHUNKINGS = [
    None,
    "word",
    "line",
    "sentence",
    "paragraph",
    "markdown",
    sv.chunkers.SentenceChunker(max_chars=20),
]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("space", [" ", "\n", "\n\n", " \t ", "\u00a0"])
async def test_nothing_of_a_phrase_is_delivered_in_any_chunking(chunking, space, size):
    """Every phrase was sent with ``chunking="word"``, and one with an empty line in it always."""
    phrase = space.join(["as", "an", "AI"])
    rule = sv.forbidden_words(["as an ai", "acme"])
    delivered, _, _ = await failing(
        rule, f"Well, just {phrase} model. Bye now.", chunking=chunking, size=size
    )
    assert "Well, just".startswith(delivered.strip())


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("text", ["Such as an apple. As", "It is as an ACMEist said.", "as an"])
async def test_the_beginning_of_a_phrase_is_no_phrase(text, chunking):
    await passing(sv.forbidden_words(["as an ai", "acme"]), text, chunking=chunking)


async def test_a_phrase_is_found_where_it_begins_behind_its_own_beginning():
    rule = sv.forbidden_words(["as an AI"])
    assert (await failing(rule, "as well, as as an as an AI", chunking="word"))[0] == "as well,"


async def test_a_word_is_judged_with_the_chunk_that_ends_it():
    """Where chunks keep words whole, a word needs no other chunk to be judged."""
    events = []
    rule = sv.forbidden_words(["acme"])
    pipeline = sv.Pipeline(
        sv.ScriptedBackend("Buy Acme\nnow. More."), requirements=[rule], chunking="line"
    )
    async with pipeline.start("x") as run:
        run.subscribe(lambda event: events.append(event))
        await run
    checks = [event for event in events if event.type == "quick_check"]
    assert [check.verdict for check in checks] == ["fail"]


READ_AS_ACME = [
    *("_Acme_", "__Acme__", "my_acme_plan", "Ac**me**", "*Ac*me", "`Ac`me", "~~Ac~~me"),
    *("A\u200bcme", "Ac\u00adme", "A\u2060c\ufeffme", "A\ufe0fcme", "A\u034fcme", "A\x00cme"),
    *("Ａｃｍｅ", "𝐀𝐜𝐦𝐞", "ⓐⓒⓜⓔ", "&#65;cme", "&#x41;cme", "A&shy;cme", "<b>Ac</b>me"),
    *("Ac<!--so-->me", "[Ac](https://a.org)me", "![Acme](x.png)", '{"a": "\\u0041cme"}'),
    *("A[cm][1]e", "[Ac](x(y)z)me", "A<!--c>b-->cme", 'A<b/title=">">cme</b>', "Ac~m~e", "A\u0336c\u0336me"),
    *('<b class="x">A</b>cme', '<b title="a > b">Ac</b>me', "我们的Acme产品"),
    *(r'```json{"a": "\u0041cme"}```', r'{"in": "{\"a\": \"\\u0041cme\"}"}', r"\u0041\u0063me"),
]  # fmt: skip


@pytest.mark.parametrize("chunking", ["sentence", "word", None])
@pytest.mark.parametrize("written", READ_AS_ACME)
async def test_a_word_is_found_as_its_reader_sees_it(written, chunking):
    text = f"Well, we like {written} best. Bye now."
    delivered, _, _ = await failing(sv.forbidden_words(["acme"]), text, chunking=chunking, size=2)
    assert not {"A", "c", "m"} & set(delivered.removeprefix("Well, we like"))
    assert not await on_the_whole(sv.forbidden_words(["acme"]), text)


@pytest.mark.parametrize(
    "written",
    [
        *("acme\\\ncorp", "acme<br>corp", "acme <br /> corp", "acme</li><li>corp", "acme\n> corp"),
        *('[acme](http://x "t") corp', "acme\u3164corp", "acme" + " " * 200 + "corp"),
        '<b class="x">acme</b> <i class="y">corp</i>',
    ],
)
@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_phrase_is_found_as_its_reader_sees_it(written, chunking):
    rule = sv.forbidden_words(["acme corp"])
    delivered, _, _ = await failing(rule, f"Go {written} now. Bye.", chunking=chunking, size=3)
    assert "corp" not in delivered
    assert not await on_the_whole(rule, written)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        *(("自杀", "他想自杀了。"), ("ฆ่าตัวตาย", "เขาฆ่าตัวตายแล้ว"), ("straße", "STRASSE 5")),
        *(("strasse", "Straße 5"), ("자살", "그는 자살을 했다")),
    ],
)
async def test_a_word_of_a_script_without_spaces_may_stand_between_any_letters(word, text):
    await failing(sv.forbidden_words([word]), f"So: {text} it is. Bye.")


@pytest.mark.parametrize("written", ["Ac\x85me", "Ac\x1fme"])
@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_word_is_not_cut_by_what_is_no_space_to_a_reader(written, chunking):
    rule = sv.forbidden_words(["acme"])
    delivered, _, _ = await failing(rule, f"Go {written} now. Bye.", chunking=chunking)
    assert "me" not in delivered


async def test_an_entity_of_ten_thousand_digits_is_judged():
    text = "say &#" + "1" * 10_000 + "; now acme."
    await failing(sv.forbidden_words(["acme"]), text)
    await failing(sv.forbidden_words(["acme"]), text, chunking="word")


async def test_letters_have_one_form_in_the_words_and_in_the_text():
    for word, text in (
        ("café", "cafe\u0301"),
        ("cafe\u0301", "café"),
        ("ﬁne print", "fine  print"),
    ):
        assert (await streamed(reqs.forbidden_words([word]), f"A {text} it is."))[0] is False
    assert (await streamed(reqs.forbidden_words(["acme"]), "Acmeist Pacme АСМЕ"))[0]


async def test_a_pattern_is_searched_in_what_is_read_too():
    assert (await streamed(reqs.forbidden_pattern(r"\d{4}"), "Fine. Pin 1**2**34. No."))[
        1
    ] == "Fine."
    assert (await streamed(reqs.forbidden_pattern(r"\*\*"), "Fine. **No**. No."))[1] == "Fine."


@pytest.mark.parametrize(
    "unit",
    [
        *("<a ", "](", "[x](", "<!--", "*", "a_", "\\", "&#", "\\u006", "as ", '<a "', "](("),
        *("[a][", "> \n", "a", " ", "](" + "a" * 299_998),
    ],
)
async def test_text_of_any_shape_is_searched_in_linear_time(unit):
    text = unit * (300_000 // len(unit))  # quadratic, it would time out
    assert await on_the_whole(sv.forbidden_words(["as an AI"]), text)
    await passing(sv.forbidden_words(["as an AI"]), text[:30_000], chunking="word", size=4000)


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


@pytest.mark.parametrize("make", [sv.forbidden_pattern, sv.required_pattern])
async def test_a_pattern_that_backtracks_for_years_is_stopped(make, monkeypatch):
    monkeypatch.setattr(patterns, "PATIENCE", 0.05)
    text = "a" * 60 + "! Bye."
    with pytest.raises(
        ValidatorError, match=r"the pattern '\(a\|aa\)\+\$' took more than 0.05 seconds"
    ):
        await on_the_whole(make(r"(a|aa)+$"), text)
    result = await run_of(make(r"(a|aa)+$", on_error="fail"), text)
    assert not result.success
    assert await on_the_whole(sv.forbidden_pattern(r"(a+)+$"), "a" * 42 + "!")  # took 45 seconds
