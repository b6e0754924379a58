"""Tests of `streamval.chunkers.tool`: calls of tools, as all kinds of servers send them."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamval.chunkers.tool import MAX_ARGUMENTS, MAX_CALLS, ToolChunker
from streamval.errors import StreamBrokenError
from streamval.types import ToolCallDelta as Piece


def cut(*pieces, names=()):
    chunker = ToolChunker(names)
    return [*(chunk for piece in pieces for chunk in chunker.feed(piece)), *chunker.flush()]


def calls(*pieces, **options):
    return [
        (one.whole.id, one.whole.name, one.whole.raw)
        for one in cut(*pieces, **options)
        if one.whole is not None
    ]


def test_the_chunks_joined_are_a_line_for_each_call():
    chunks = cut(Piece(0, "a", "now", '{"x": 1}'), Piece(1, "b", "then"), Piece(1, arguments="{}"))
    raw = "".join(chunk.separator + chunk.text for chunk in chunks)
    assert raw == 'now {"x": 1}\nthen {}\n'
    assert all(raw[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert [chunk.index for chunk in chunks] == list(range(6))
    assert [chunk.call for chunk in chunks] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "pieces",
    [
        [Piece(0, "a", "now", '{"x": 1}')],  # in one piece
        [
            Piece(0, None, "no"),
            Piece(0, "a", "w"),
            Piece(0, arguments='{"x"'),
            Piece(0, arguments=": 1}"),
        ],
        [Piece(0, None, "now", '{"x": 1}'), Piece(0, "a")],  # its id comes last
        [Piece(0, "a", "now"), Piece(0, "other", "", '{"x": 1}'), Piece(0, "a", None, " ")],
        [Piece(0, "a", "now", '{"x": 1}'), Piece(0, "a", "now", "")],  # its name comes again
    ],
)
def test_one_call_in_many_ways(pieces):
    assert calls(*pieces) == [("a", "now", '{"x": 1}')]


@pytest.mark.parametrize(
    "pieces",
    [
        [Piece(0, "a", "now", "{}"), Piece(0, "b", "then", "{}")],  # every index is 0
        [
            Piece(0, "a", "now"),
            Piece(1, "b", "then"),
            Piece(1, arguments="{}"),
            Piece(0, arguments="{}"),
        ],
        [Piece(0, "a", "now"), Piece(1, "b", "then")],  # without arguments
        [Piece(7, "a", "now"), Piece(3, "b", "then")],
    ],
)
def test_several_calls_at_once(pieces):
    assert sorted(calls(*pieces)) == [("a", "now", "{}"), ("b", "then", "{}")]


def test_a_name_is_known_as_soon_as_it_is_certain():
    names = ["get", "get_all"]
    for name, certain in [("get", False), ("get_all", True), ("nothing", True), ("g", False)]:
        assert [chunk.text for chunk in ToolChunker(names).feed(Piece(0, "a", name))] == (
            [name] if certain else []
        )
    assert cut(Piece(0, "a", "get"), names=names)[0].text == "get"


def test_an_id_and_a_name_are_made_where_there_is_none():
    ((made, name, _),) = calls(Piece(0, None, None, "{}"))
    assert (len(made), name) == (9, "?")


@given(st.dictionaries(st.text(max_size=3), st.text() | st.integers()), st.data())
def test_no_slicing_shows(arguments, data):
    raw = json.dumps(arguments)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=5)) | {0, len(raw)})
    pieces = [Piece(0, arguments=raw[a:b]) for a, b in itertools.pairwise(cuts)]
    assert calls(Piece(0, "a", "now"), *pieces) == [("a", "now", raw)]


@pytest.mark.parametrize("raw", ['{"x": 1', "[" * 5000, '{"x": NaN}', '{"x": 1e999}', "word"])
def test_arguments_that_are_no_json_are_none(raw):
    (end,) = [chunk for chunk in cut(Piece(0, "a", "now", raw)) if chunk.whole is not None]
    assert end.whole.arguments is None


def test_calls_without_end_are_a_broken_stream():
    with pytest.raises(StreamBrokenError, match="more than 128 tool calls"):
        cut(*(Piece(0, str(n), "now") for n in range(MAX_CALLS + 1)))
    with pytest.raises(StreamBrokenError, match="more than 4,194,304 characters"):
        cut(*[Piece(0, "a", "now", '{"x": "' + "x" * (MAX_ARGUMENTS // 4))] * 5)


def test_half_a_surrogate_pair_is_replaced():
    assert calls(Piece(0, "a", "now\ud800", '{"x": "\ud83d'), Piece(0, arguments='\ude00"}')) == [
        ("a", "now\ufffd", '{"x": "\U0001f600"}')
    ]


def test_whole_calls_of_index_0_without_ids_are_calls_of_their_own():
    def calls(*deltas):
        chunker = ToolChunker(["now", "weather"])
        chunks = [*(one for delta in deltas for one in chunker.feed(delta)), *chunker.flush()]
        return [(one.whole.name, one.whole.raw) for one in chunks if one.part == "end"]

    whole = [Piece(0, None, "weather", '{"city": "Rome"}'), Piece(0, None, "now", "{}")]
    assert calls(*whole) == [("weather", '{"city": "Rome"}'), ("now", "{}")]
    # Others send the name with each piece, and an empty piece at the end.
    pieces = [Piece(0, "c", "now", piece) for piece in ("{", "}", "")]
    assert calls(*pieces) == [("now", "{}")]
