"""Tests of `streamval.wire.answers`."""

import pytest

from streamval.wire.answers import finish_reason, frames


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("unheard of", "stop"),
    ],
)
def test_reasons_have_one_name(given, said):
    assert finish_reason(given) == said


def test_nothing_in_a_content_ends_its_frame():
    written = frames([{"type": "ping", "text": "a\n\ndata: b\r\n\r\n\u2028"}])
    assert written.count("\n") == 3
    assert written.startswith("event: ping\ndata: {")
