"""A chunking strategy of a user, and the way to cut text by any."""

from streamval.chunkers import ChunkingStrategy
from streamval.chunkers.chunking import start_chunker


class Bars(ChunkingStrategy):
    """The reference's kind of strategy: stateless, the trailing fragment withheld."""

    def __init__(self):
        self.seen = []

    def split(self, accumulated_text):
        self.seen.append(accumulated_text)
        return [part for part in accumulated_text.split("|")[:-1] if part]

    def flush(self, accumulated_text):
        rest = accumulated_text.split("|")[-1]
        return [rest] if rest else []


def cut(chunking, *deltas):
    chunker = start_chunker(chunking)
    chunks = [chunk for delta in deltas for chunk in chunker.feed(delta)]
    return [chunk.text for chunk in chunks + chunker.flush()]
