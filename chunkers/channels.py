"""`ChannelChunker`: cuts the text, the reasoning and the calls of tools of one stream."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial

from streamval.chunkers.base import Chunker
from streamval.chunkers.chunking import Chunking, chunking_on, start_chunker
from streamval.chunkers.tool import ToolChunker
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk, CutChunk
from streamval.types.deltas import Delta
from streamval.types.text import Mender


class ChannelChunker:
    """Cuts each channel of a stream with a chunker of its own, and keeps their order.

    Where the model goes on on another channel, the rest of the last one is a chunk, so that nothing is judged
    later than what was written behind it. If it may end inside of a word, that word is a `CutChunk` of its own. Words
    as chunks wait instead, and so does a call whose arguments are not complete.

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
        self._cut_words: dict[Channel, int] = {}  # words that are chunks of their own, by channel
        self._thought = ""  # the last piece of reasoning
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
            return self._enter("text") + self._placed("text", self.text.feed(delta))
        chunks: list[Chunk] = []
        if delta.reasoning:
            chunks += self._enter("reasoning")
            chunks += self._cut_reasoning(self._mender.feed(delta.reasoning))
        if delta.text:
            chunks += self._enter("text") + self._placed("text", self.text.feed(delta.text))
        if delta.tool_call is not None:
            chunks += self._enter("tool") + self._tools.feed(delta.tool_call)
        return chunks

    @property
    def is_plain(self) -> bool:
        """Whether a string may be fed to `text` itself."""
        return self.channel == "text" and not self._cut_words

    def flush(self) -> list[Chunk]:
        """Return the rest of every channel."""
        rest = [] if self.channel == "text" else self._rest_of(self.channel)
        if "_tools" in vars(self):
            rest += self._tools.flush()
        return rest + self._rest_of("text")

    def _enter(self, channel: Channel) -> list[Chunk]:
        """Begin to read a channel. Return the rest of the last one."""
        last, self.channel = self.channel, channel
        if last == channel or (last == "text" and self._may_go_on):
            return []
        rest = self._rest_of(last)
        ends_word = last == "reasoning" and self._thought[-1:].isspace()
        if rest and last != "tool" and not ends_word and may_be_cut(rest[-1].text):
            whole, word = _last_word(rest.pop())
            if whole is not None:
                self._cut_words[last] = self._cut_words.get(last, 0) + 1
                rest.append(whole)
            rest.append(word)
        return rest

    def _rest_of(self, channel: Channel) -> list[Chunk]:
        if channel == "tool":
            return self._tools.pause()
        if channel == "text":
            return self._placed("text", self.text.flush())
        rest = self._cut_reasoning(self._mender.flush())
        return rest + self._placed("reasoning", self._reasoning.flush())

    def _cut_reasoning(self, text: str) -> list[Chunk]:
        if not text:
            return []
        self._thought = text
        return self._placed("reasoning", self._reasoning.feed(text))

    def _placed(self, channel: Channel, chunks: list[Chunk]) -> list[Chunk]:
        """Return the chunks with their channel, and with their index behind the words that were cut off."""
        more = self._cut_words.get(channel, 0)
        if channel == "text" and not more:
            return chunks
        return [replace(chunk, index=chunk.index + more, channel=channel) for chunk in chunks]


def waits(text: object) -> bool:
    """Return whether the rest of a chunker waits while the model writes on another channel: of JSON, and of words."""
    return hasattr(text, "resume") or getattr(text, "grain", None) == 1


_JOINS = frozenset("_-/+=@#&%$~\\")
"""The marks inside of words, keys and addresses."""


def may_be_cut(text: object) -> bool:
    """Return whether a text may end inside of a word."""
    return isinstance(text, str) and (text[-1:].isalnum() or text[-1:] in _JOINS)


def _last_word(chunk: Chunk) -> tuple[Chunk | None, CutChunk]:
    """Return what precedes the last word of a chunk, if anything does, and that word."""
    at = len(chunk.text) - len(chunk.text.split()[-1])
    before = chunk.text[:at].rstrip()
    if not before:
        return None, CutChunk(**vars(chunk))
    end = chunk.start + len(before)
    whole = replace(chunk, text=before, end=end)
    word = replace(chunk, text=chunk.text[at:], index=chunk.index + 1, start=chunk.start + at)
    return whole, CutChunk(**{**vars(word), "separator": chunk.text[len(before) : at]})
