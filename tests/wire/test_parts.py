"""Tests of `streamval.wire.parts`."""

import json
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from streamval.errors import StreamBrokenError
from streamval.wire.parts import as_mapping, count, part, read_json, text_in, written_json


class Item(BaseModel):
    id: str
    status: str | None = None


def test_dictionaries_and_objects_are_read_alike():
    assert part({"a": 1}, "a") == part(SimpleNamespace(a=1), "a") == 1
    assert part(None, "a") is part({}, "a") is part(5, "a") is None
    assert as_mapping({"id": "x"}) == as_mapping(Item(id="x")) == {"id": "x"}
    assert as_mapping(5) == {}


@pytest.mark.parametrize("content", [5, True, {"a": 1}, [5]])
def test_content_that_is_no_text_is_a_broken_stream(content):
    assert text_in(None) == ""
    with pytest.raises(StreamBrokenError, match="where text is expected"):
        text_in(content)


@pytest.mark.parametrize("number", ["many", 2.5, -1, True, 2**60, None])
def test_a_count_that_is_none(number):
    assert (count(number), count(0)) == (None, 0)


@pytest.mark.parametrize(
    "value",
    [
        *(
            {"a": ["é\u2028\u0085\x7f😀", 1, 1.5, True, None]},
            {},
            "",
            10**30,
            [[]],
            {"a": '</script>\\"\n\x00'},
        ),
        *(
            "\ud83d",
            {"token": "\udc00", "x": "é"},
            float("inf"),
        ),  # only Python's own reads and writes these
    ],
)
def test_json_is_written_in_ascii_and_read_as_it_was(value):
    written = written_json(value)
    assert written.isascii()
    assert written.splitlines() == [written]
    assert read_json(written.encode()) == json.loads(written) == value


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": "\xff"}', b"1" * 5000])
def test_what_is_no_json_is_a_value_error(data):
    with pytest.raises(ValueError):
        read_json(data)


def test_what_is_nested_too_deeply_is_an_error_in_words():
    with pytest.raises((ValueError, RecursionError)):
        read_json(b"[" * 100_000)
