"""`ChannelChunker`: cuts the text, the reasoning and the calls of tools of one stream."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial

from streamval.chunkers.base import Chunker, Resumable
from streamval.chunkers.chunking import Chunking, chunking_on, start_chunker
from streamval.chunkers.tool import ToolChunker
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk, CutChunk
from streamval.types.deltas import Delta
from streamval.types.text import Mender


class ChannelChunker:
    """Cuts each channel of a stream with a chunker of its own, and keeps their order.

    Where the model goes on on another channel, the rest of the last one is a chunk, so that nothing is judged
    later than what was written behind it: a `CutChunk` if it may end inside of a word. Words as chunks wait instead.

    Args:
        text: Cuts the text.
        reasoning: Makes what cuts the reasoning, with the first of it: most streams have none.
        names: The names of the tools.
        may_go_on: Whether text may go on behind another channel, such as JSON: then its rest waits.

    Example:
        >>> from streamval.chunkers import SentenceChunker
        >>> chunker = ChannelChunker(SentenceChunker(), SentenceChunker)
        >>> deltas = [Delta(reasoning="Let me see"), Delta("It rains. And"), Delta(reasoning=" Hm.")]
        >>> [(chunk.channel, chunk.text) for delta in deltas for chunk in chunker.feed(delta)]
        [('reasoning', 'Let me see'), ('text', 'It rains.'), ('text', 'And')]
    """

    def __init__(
        self,
        text: Chunker,
        reasoning: Callable[[], Chunker],
        names: Collection[str] = (),
        *,
        may_go_on: bool = False,
    ) -> None:
        self.text = text
        self._start_reasoning = reasoning
        self._names = names
        self._may_go_on = may_go_on
        self.channel: Channel = "text"

    @cached_property
    def _reasoning(self) -> Chunker:
        return self._start_reasoning()

    @cached_property
    def _tools(self) -> ToolChunker:
        return ToolChunker(self._names)

    @cached_property
    def _mender(self) -> Mender:
        return Mender()

    @classmethod
    def of(cls, chunking: Chunking, names: Collection[str] = ()) -> ChannelChunker:
        """Return a chunker for a value of `chunking=`.

        Reasoning is cut in the same way, or by sentences where that is JSON or sound.
        """
        text = start_chunker(chunking)
        reasoning = partial(start_chunker, chunking_on("reasoning", chunking))
        return cls(text, reasoning, names, may_go_on=waits(text))

    def feed(self, delta: Delta | str) -> list[Chunk]:
        """Take a delta; return the chunks that it completes."""
        if not isinstance(delta, Delta):
            return self._enter("text") + self.text.feed(delta)
        chunks: list[Chunk] = []
        if delta.reasoning:
            chunks += self._enter("reasoning")
            chunks += self._cut_reasoning(self._mender.feed(delta.reasoning))
        if delta.text:
            chunks += self._enter("text") + self.text.feed(delta.text)
        if delta.tool_call is not None:
            chunks += self._enter("tool") + self._tools.feed(delta.tool_call)
        return chunks

    def flush(self) -> list[Chunk]:
        """Return the rest of every channel."""
        rest = self._rest_of(self.channel)
        if self.channel != "text":
            rest += self.text.flush()
        return rest

    def _enter(self, channel: Channel) -> list[Chunk]:
        """Begin to read a channel. Return the rest of the last one."""
        last, self.channel = self.channel, channel
        if last == channel or (last == "text" and self._may_go_on):
            return []
        rest = self._rest_of(last)
        if rest and last != "tool" and _may_be_cut(rest[-1].text):
            rest[-1] = CutChunk(**vars(rest[-1]))
        return rest

    def _rest_of(self, channel: Channel) -> list[Chunk]:
        if channel == "tool":
            return self._tools.flush()
        if channel == "text":
            return self.text.flush()
        return self._cut_reasoning(self._mender.flush()) + _placed(self._reasoning.flush())

    def _cut_reasoning(self, text: str) -> list[Chunk]:
        return _placed(self._reasoning.feed(text)) if text else []


def waits(text: object) -> bool:
    """Return whether the rest of a chunker waits while the model writes on another channel: of JSON, and of words."""
    return isinstance(text, Resumable) or getattr(text, "grain", None) == 1


_JOINS = frozenset("_-/+=@#&%$~\\")
"""The marks inside of words, keys and addresses."""


def _may_be_cut(text: object) -> bool:
    """Return whether a text may end inside of a word."""
    return isinstance(text, str) and (text[-1:].isalnum() or text[-1:] in _JOINS)


def _placed(chunks: list[Chunk]) -> list[Chunk]:
    return [replace(chunk, channel="reasoning") for chunk in chunks]
