"""What requirements for prose see of JSON."""

import json
from copy import copy

import pytest

import streamval as sv
from streamval.chunkers.json import JSONDeltaChunker
from streamval.validation.json_prose import JSONProse


class Seen(sv.ChunkRule):
    """Notes what it was asked."""

    def __init__(self, **options):
        super().__init__("seen", **options)
        self.seen = []

    def check(self, chunk):
        self.seen.append(chunk)
        return "acme" not in chunk.lower(), "it names a competitor"


TEXT = 'Here: {"a": "We like \\u0061cme.", "n": 41, "list": ["One. Two.", true, null]} Thanks!'


def pieces_of(text, size, **options):
    prose, chunker = JSONProse(**options), JSONDeltaChunker()
    found = []
    for at in range(0, len(text), size):
        for chunk in chunker.feed(text[at : at + size]):
            found += prose.take(chunk)
    return found + prose.flush()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_each_string_is_one_chunk_decoded_and_so_is_text_around_it(size):
    assert [piece.text for piece in pieces_of(TEXT, size)] == [
        "Here:",
        "We like acme.",
        "One. Two.",
        "Thanks!",
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_know_their_place_in_the_raw_text(size):
    for piece in pieces_of(TEXT, size):
        raw = TEXT[piece.start : piece.end]
        assert piece.text in (raw, json.loads(raw) if raw.startswith('"') else raw)


def test_keys_and_numbers_too_where_asked_and_strings_are_cut_further():
    found = [piece.text for piece in pieces_of(TEXT, 5, chunking="word", keys=True, scalars=True)]
    assert found == ["Here:", "a", "We", "like", "acme.", "n", "41", "list"] + [
        "One.", "Two.", "true", "null", "Thanks!",
    ]  # fmt: skip


@pytest.mark.parametrize("chunking", ["sentence", None, "json"])
async def test_a_function_judges_each_string_of_typed_output(chunking):
    """Pieces such as "ac" and "me" hid the word, and nothing judged the whole."""
    rule = sv.stream_check(lambda text: ("acme" not in text.lower(), "a competitor"))
    backend = sv.ScriptedBackend('{"says": "Buy Acme now."}', token_size=2)
    result = await sv.Pipeline(
        backend, requirements=[rule], chunking=chunking, format=dict[str, str]
    ).run("go")
    assert [str(failure.reason) for failure in result.failures] == ["a competitor"]


async def test_a_judge_is_asked_once_a_string():
    rule = Seen()
    backend = sv.ScriptedBackend(json.dumps({"a": "word " * 40, "b": "Fine."}), token_size=3)
    with pytest.warns(sv.errors.SharedStateWarning):
        await sv.Pipeline(backend, requirements=[rule], format=dict[str, str]).run("go")
    assert [text.strip() for text in rule.seen] == [("word " * 40).strip(), "Fine."]


async def test_an_escape_hides_no_key_and_nothing_of_it_is_delivered():
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    hidden = "".join(f"\\u{ord(char):04x}" for char in key)
    backend = sv.ScriptedBackend(f'{{"a": "fine", "{hidden}": 1}}', token_size=4)
    pipeline = sv.Pipeline(
        backend, requirements=[sv.requirements.no_secrets()], format=dict[str, str | int]
    )
    result = await pipeline.run("go")
    assert not result.success
    assert "\\u0067" not in result.text


async def test_a_repair_goes_on_within_json():
    answers = ['{"a": "One.", "b": "Acme."', '"Two."}', '{"a": "One.", "b": "Two."}']
    backend = sv.ScriptedBackend(answers, token_size=3)
    rule = sv.stream_check(lambda text: "Acme" not in text, "no Acme")
    pipeline = sv.Pipeline(
        backend, requirements=[rule], format=dict[str, str], retry=sv.Repair(loop_budget=3)
    )
    result = await pipeline.run("go")
    assert result.success
    assert result.parsed == {"a": "One.", "b": "Two."}


def test_a_bracket_that_begins_no_json_holds_back_little():
    prose, chunker = JSONProse(), JSONDeltaChunker()
    found = []
    for delta in ["See [note. ", *["More of it. "] * 1000]:
        found += [piece.text for chunk in chunker.feed(delta) for piece in prose.take(chunk)]
    assert len(found) > 900
    found += [piece.text for piece in prose.flush()]
    assert found == ["See [note.", *["More of it."] * 1000]


@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_nothing_of_a_string_is_delivered_before_it_was_judged(size):
    text = json.dumps({"fine": "Yes.", "bad": "We recommend Acme to you."})
    delivered = []
    rule = sv.stream_check(lambda text: "Acme" not in text, "no Acme")
    backend = sv.ScriptedBackend(text, token_size=size)
    pipeline = sv.Pipeline(backend, requirements=[rule], format=dict[str, str])
    async with pipeline.start("go") as run:
        async for chunk in run.chunks():
            delivered.append(chunk.text)
    assert not (await run).success
    assert "We" not in "".join(delivered)
    assert size > 4 or "Yes." in "".join(delivered)


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "text",
    ['{"a": "We like \\u0041cme and', '{"a": 1 "We like Acme"}', '{"a": 1}\n{"b": "\\u0041cme"}'],
)
def test_json_that_breaks_off_or_is_none_is_judged_as_prose(text, size):
    assert "Acme" in "".join(piece.text for piece in pieces_of(text, size))


def test_cost_is_linear_in_one_long_string_and_in_one_long_delta():
    """Each took minutes where every delta, or every value, copies all text before it."""
    assert len(pieces_of(json.dumps(["x" * 400_000]), 4)) == 1
    assert len(pieces_of(json.dumps(["x"] * 40_000), 10**9)) == 40_000


LOOP = "so it goes on and \\u006fn, \\ud83d\\ude00 "


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("around", ['{"a": "%s"}', '{"b": ["x", "%s"]}'])
async def test_a_loop_within_a_string_is_cut_before_its_end(around, size):
    written = around % (LOOP * 200)
    backend = sv.ScriptedBackend(written, token_size=size)
    result = await sv.Pipeline(backend, requirements=[sv.no_loop()], format=dict).run("go")
    assert "again and again" in result.failures[0].reason
    assert result.usage.completion_tokens * size < 300
    assert "so" not in result.text


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    "text",
    [
        '{"a": "One two \\u0062\\n three\\\\", "b": "\\ud83d\\ude00 x \\ud83d y"}',
        '{"a": "One two',
        '{"a": "One two \\',
        '{"a": "One two \\ud83d',
        '{"a": "One two" "three"}',
        '{"a": "  ", "b": ""}',
    ],
)
def test_strings_that_are_cut_further_do_not_depend_on_the_slicing(text, size):
    whole = [piece.text for piece in pieces_of(text, len(text), chunking="word", keys=True)]
    assert [piece.text for piece in pieces_of(text, size, chunking="word", keys=True)] == whole


def test_a_copy_of_a_string_that_is_being_written_goes_on_by_itself():
    prose, chunker = JSONProse("word"), JSONDeltaChunker()
    (chunk,) = chunker.feed('{"a": "One tw')
    assert [piece.text for piece in prose.take(chunk)] == ["One"]
    twin, other = copy(prose), copy(chunker)
    for one, cut, rest in ((prose, chunker, "o"), (twin, other, "ice")):
        (chunk,) = cut.feed(rest + '"}')
        assert [piece.text for piece in one.take(chunk)] == ["tw" + rest]
