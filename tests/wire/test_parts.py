"""Tests of `streamval.wire.parts`."""

from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from streamval.errors import StreamBrokenError
from streamval.wire.parts import as_mapping, count, part, text_in


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
