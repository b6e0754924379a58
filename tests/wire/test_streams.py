"""Tests of `streamval.wire.streams`."""

from types import SimpleNamespace

from streamval.types import Delta
from streamval.wire.anthropic_messages import MessagesReader
from streamval.wire.completions import CompletionReader
from streamval.wire.openai_responses import ResponsesReader
from streamval.wire.streams import StreamReader

CHUNK = {"choices": [{"delta": {"content": "Hi"}}]}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}


def read(*pieces):
    reader = StreamReader()
    return [one for piece in pieces for one in reader.read(piece)], type(reader.reader)


def test_the_first_piece_decides_the_format():
    assert read(CHUNK) == ([Delta("Hi")], CompletionReader)
    assert read(TEXT) == ([Delta("Hi")], MessagesReader)
    delta = SimpleNamespace(type="response.output_text.delta", delta="Hi")
    assert read(delta) == ([Delta("Hi")], ResponsesReader)


def test_what_the_helpers_of_the_packages_add_is_left_out():
    said = SimpleNamespace(type="content.delta", delta="Hi")
    assert read(SimpleNamespace(type="chunk", chunk=CHUNK), said)[0] == [Delta("Hi")]
    assert read(TEXT, SimpleNamespace(type="text", text="Hi"))[0] == [Delta("Hi")]


def test_anything_else_is_returned_as_it_is():
    assert read("Hi", None, b"x", Delta("y"), 5) == (["Hi", None, b"x", Delta("y"), 5], type(None))
