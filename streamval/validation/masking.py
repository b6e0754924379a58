"""Masks: spans of a model's text that are delivered as something else.

A verdict names them by their place in the chunk that was judged. A lane makes offsets on the channel of them, the
release order replaces them in the chunks that it lets go, and the run keeps them, so that no result has what they hide.

    verdict ─ lane: offsets on the channel ─┬─ release order: chunks with replacements
                                            └─ run: `Masks`, for results and the final validation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamval.chunkers.tool import ToolChunk, read_arguments
from streamval.types.channels import Channel
from streamval.types.chunks import Chunk
from streamval.types.masks import Mask, applied, merged
from streamval.types.messages import ToolCall


def masked_chunk(chunk: Chunk, masks: Sequence[Mask]) -> Chunk:
    """Return a chunk with its masks replaced, in the text and in the separator before it; itself if it has none."""
    if isinstance(chunk, ToolChunk):
        return _masked_call(chunk, masks)
    begin = chunk.start - len(chunk.separator)
    inside = [mask for mask in merged(masks) if mask.end > begin and mask.start < chunk.end]
    if not inside:
        return chunk
    return replace(
        chunk,
        text=applied(chunk.text, inside, chunk.start),
        separator=applied(chunk.separator, inside, begin),
        masked=True,
    )


def _masked_call(chunk: ToolChunk, masks: Sequence[Mask]) -> Chunk:
    inside = [mask for mask in masks if mask.call == chunk.call]
    if chunk.whole is None or not inside:
        return chunk
    return replace(chunk, whole=masked_call(chunk.whole, inside), masked=True)


def masked_call(call: ToolCall, masks: Sequence[Mask]) -> ToolCall:
    """Return a call of a tool with the masks in its arguments replaced."""
    raw = applied(call.raw, masks)
    return replace(call, raw=raw, arguments=read_arguments(raw))


class Masks:
    """The masks of a run's output so far."""

    def __init__(self) -> None:
        self._by_channel: dict[Channel, list[Mask]] = {}

    def add(self, channel: Channel, masks: Sequence[Mask]) -> None:
        """Add the masks of a chunk."""
        self._by_channel.setdefault(channel, []).extend(masks)

    def keep(self, channel: Channel, end: int) -> None:
        """Forget the masks behind an offset, from which a new attempt goes on."""
        known = self._by_channel.get(channel, ())
        self._by_channel[channel] = [mask for mask in known if mask.start < end]

    def clear(self, *channels: Channel) -> None:
        """Forget the masks of channels that are written anew; without any, all."""
        for channel in channels or tuple(self._by_channel):
            self._by_channel.pop(channel, None)

    def over(self, channel: Channel, text: Any) -> Any:
        """Return the raw text of a channel from its beginning, with its masks replaced."""
        known = self._by_channel.get(channel)
        return applied(text, known) if known else text

    def over_call(self, call: ToolCall) -> ToolCall:
        """Return a call of a tool with its masks replaced."""
        known = [one for one in self._by_channel.get("tool", ()) if one.call == call.index]
        return masked_call(call, known) if known else call

    def hidden(self, channel: Channel, text: Any) -> list[tuple[str, str]]:
        """Return what the masks hide in the raw text of a channel, with the replacements."""
        known = merged(self._by_channel.get(channel, ()))
        return [(text[mask.start : mask.end], mask.replacement) for mask in known]
