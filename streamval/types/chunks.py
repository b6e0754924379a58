"""A chunk: the piece of output that requirements judge and subscribers receive."""

from __future__ import annotations

from dataclasses import dataclass

from streamval.types.channels import Channel
from streamval.types.notebook import html_of


@dataclass(frozen=True, init=False)
class Chunk:
    """A verbatim piece of a model's output.

    Joining `separator + text` over all chunks of a channel gives back its raw text, less
    trailing whitespace. The raw text of calls of tools has a line for each call: its name, a space, its
    arguments.

    Attributes:
        text: The piece itself. Most chunkers strip the line breaks around it.
        index: Position on its channel, from 0.
        start: Offset of the first character in the attempt's raw text on this channel.
        end: Offset just past the last one, so that ``raw[start:end] == text``.
        separator: The raw text between the previous chunk and this one.
        attempt: The attempt that wrote it, from 1.
        channel: `"text"`, `"reasoning"` or `"tool"`.
        call: Which call of a tool it belongs to, from 0; else `None`.
        masked: Whether a requirement has masked a part of it: its text is not that of its offsets then.

    Example:
        >>> Chunk("Hello.", index=0, start=1, end=7, separator=" ").text
        'Hello.'
    """

    text: str
    index: int
    start: int
    end: int
    separator: str = ""
    attempt: int = 1
    channel: Channel = "text"
    call: int | None = None
    masked: bool = False

    def __init__(
        self,
        text: str,
        index: int,
        start: int,
        end: int,
        separator: str = "",
        attempt: int = 1,
        channel: Channel = "text",
        call: int | None = None,
        masked: bool = False,
    ) -> None:
        # Made for each chunk: as in `PartialValidationResult`, half the time of a generated `__init__`.
        own = self.__dict__
        own["text"] = text
        own["index"] = index
        own["start"] = start
        own["end"] = end
        own["separator"] = separator
        own["attempt"] = attempt
        if channel != "text":  # else those of the class
            own["channel"] = channel
            own["call"] = call
        if masked:
            own["masked"] = masked

    _repr_html_ = html_of


class CutChunk(Chunk):
    """A chunk that ends where the model went on on another channel, perhaps inside of a word.

    A rule of words keeps its last word until it is known to be whole: when more of the channel comes, or the end.
    """
