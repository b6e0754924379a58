"""Tests of `streamval.chunkers.delta`."""

from streamval.chunkers.chunking import start_chunker


def cut(chunking, *deltas):
    chunker = start_chunker(chunking)
    chunks = [chunk for delta in deltas for chunk in chunker.feed(delta)]
    return [chunk.text for chunk in chunks + chunker.flush()]


def test_none_is_a_chunk_a_delta_whitespace_and_all():
    assert cut(None, "a", " ", "", "b\n") == ["a", " ", "b\n"]
