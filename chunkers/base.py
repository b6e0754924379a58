"""The `Chunker` protocol, and the base classes of the chunkers of text.

A chunker is a plain object: `feed` takes a delta and returns the chunks it completes, `flush`
returns the rest. It has no observables or tasks, so a test is a plain call.

The laws that every chunker here keeps, checked by property tests:

- the same chunks however the text is sliced into deltas;
- each chunk verbatim, and ``"".join(separator + text)`` the text less trailing whitespace;
- cost linear in the text, even where no boundary comes;
- memory only for the pending fragment, which `max_chars` can bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Protocol, Self, runtime_checkable

from streamval.errors import DeltaTypeError, UsageError
from streamval.types.chunks import Chunk


@runtime_checkable
class Chunker(Protocol):
    """Cuts a stream of text into chunks."""

    def feed(self, delta: str) -> list[Chunk]:
        """Take the next piece of text; return the chunks it completes."""

    def flush(self) -> list[Chunk]:
        """Return the rest. More may be fed afterwards."""


@runtime_checkable
class Resumable(Protocol):
    """A chunker whose chunks depend on all text before them, such as `JSONChunker`."""

    def resume(self, text: str) -> None:
        """Continue after a text that has been cut already. Called before anything is fed."""


class ChunkingStrategy(ABC):
    """Splits text without keeping state.

    Accepted wherever a chunker is. `split` is called again as text arrives, with the text since the last
    chunk. The chunks do not depend on how the text is sliced if `split` looks only at the text before
    a boundary, and not at where the text ends.
    """

    @abstractmethod
    def split(self, accumulated_text: str) -> list[str]:
        """Return the complete chunks of the text, each verbatim, without the trailing fragment."""

    def flush(self, accumulated_text: str) -> list[str]:
        """Return the chunks of the remaining text at the end of the stream; by default an empty list."""
        return []


JOIN_AT = 512
"""Number of pending pieces at which they are joined, because each takes about fifty extra bytes."""


class PendingChunker(ABC):
    """The base class of the chunkers of text: it keeps the pending text, and makes chunks from it.

    The pending text is kept in pieces and joined only for a chunk, so that a long stretch without
    a boundary costs no more than a short one. Whitespace around a chunk goes to the separator,
    except an indent where `keep_indent` is set.
    """

    grain: ClassVar[int | None] = None
    """How fine it cuts, or `None`: chunks of a lower grain never reach across a boundary of
    a higher grain. 1 word, 2 sentence or line, 3 paragraph or block."""

    keep_indent: ClassVar[bool] = False

    def __init__(self, *, max_chars: int | None = None) -> None:
        if max_chars is not None and max_chars < 1:
            raise UsageError(f"max_chars must be at least 1, or None for no bound, not {max_chars}")
        self._max_chars = max_chars
        self._pieces: list[str] = []
        self._join_at = JOIN_AT
        self._length = 0
        self._blank = 0  # how much of its beginning is known to be whitespace
        self._start = 0
        self._index = 0

    @property
    def max_chars(self) -> int | None:
        """The length at which a chunk is cut at the latest; `None` for no limit."""
        return self._max_chars

    @abstractmethod
    def advance(self, delta: str) -> list[Chunk]:
        """Take a piece of text of any size; return the chunks it completes."""

    def restart(self) -> None:
        """Reset the search, as the pending text has just been cut."""

    def feed(self, delta: str) -> list[Chunk]:
        """Take the next piece of text; return the chunks it completes."""
        if not isinstance(delta, str):
            raise not_text(delta)
        if self._max_chars is None:
            return self.advance(delta)
        chunks = []
        while delta:
            room = max(self._max_chars - self._length, 1)
            chunks += self.advance(delta[:room])
            delta = delta[room:]
            if self._length >= self._max_chars:
                chunks += self._force()
        return chunks

    def flush(self) -> list[Chunk]:
        """Return the rest. More may be fed afterwards."""
        chunks = self.emit()
        self.restart()
        return chunks

    def keep(self, text: str) -> None:
        """Add to the pending text."""
        if text:
            if self._blank == self._length and text.isspace():
                self._blank += len(text)
            self._pieces.append(text)
            self._length += len(text)
            if len(self._pieces) >= self._join_at:
                self.pending()
                self._join_at *= 2  # join ever less often, so that the cost stays linear

    def pending(self) -> str:
        """Return the text since the last chunk, its separator included."""
        pieces = self._pieces
        if len(pieces) > 1:
            pieces[:] = ("".join(pieces),)
        return pieces[0] if pieces else ""

    def emit(self, behind: int = 0) -> list[Chunk]:
        """Make a chunk of the pending text, without its last `behind` characters."""
        if self._length - behind <= self._blank:
            return []
        pending = self.pending()
        head = (pending[:-behind] if behind else pending).rstrip()
        text = head.lstrip()
        if not text:
            return []
        end = len(head)
        lead = end - len(text)
        if self.keep_indent and lead:
            indented = head.rfind("\n", 0, lead) + 1
            if self._max_chars is None or end - indented <= self._max_chars:
                lead, text = indented, head[indented:]
        start = self._start
        chunk = Chunk(text, self._index, start + lead, start + end, head[:lead])
        self._drop(end, pending[end:])
        return [chunk]

    def drop(self, size: int) -> None:
        """Remove the first `size` characters, which have become a chunk, from the pending text."""
        self._drop(size, self.pending()[size:])

    def _drop(self, size: int, rest: str) -> None:
        self._index += 1
        self._start += size
        self._pieces = [rest] if rest else []
        self._length = len(rest)
        self._blank = len(rest) if rest.isspace() else 0
        self._join_at = JOIN_AT

    def _force(self) -> list[Chunk]:
        """Cut the pending text, which has reached `max_chars`, at its last whitespace or at its end."""
        if self._blank == self._length:
            return []
        pending = self.pending()
        lead = len(pending) - len(pending.lstrip())
        space = max(pending.rfind(" "), pending.rfind("\n"))
        chunks = self.emit(len(pending) - space if space > lead else 0)
        if chunks:
            self.restart()
        return chunks

    def __copy__(self) -> Self:
        """Return an independent copy with the same state."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._pieces = list(self._pieces)
        return twin


class TextChunker(PendingChunker):
    """A base for your own chunkers: a subclass only returns where to cut.

    Args:
        max_chars: A chunk that reaches this length is cut at its last whitespace, or there
            if it has none. `None` for no limit.

    Example:
        >>> class Clauses(TextChunker):
        ...     def cuts(self, delta):
        ...         return [at + 1 for at, char in enumerate(delta) if char == ","]
        >>> clauses = Clauses()
        >>> [chunk.text for delta in ["one,t", "wo, thr"] for chunk in clauses.feed(delta)]
        ['one,', 'two,']
        >>> clauses.flush()[0].text
        'thr'
    """

    @abstractmethod
    def cuts(self, delta: str) -> Iterable[int]:
        """Return the offsets in `delta` at which a chunk ends, ascending.

        Called once for each delta, in order. Keep state between deltas on `self`, and reassign it
        (copies are shallow). Reset in `restart` only state about the pending chunk.
        """

    def advance(self, delta: str) -> list[Chunk]:
        """Cut at the offsets from `cuts`."""
        chunks: list[Chunk] = []
        done = 0
        for cut in self.cuts(delta):
            self.keep(delta[done:cut])
            done = cut
            chunks += self.emit()
        self.keep(delta[done:] if done else delta)
        return chunks


def shifted(chunk: Chunk, offset: int, index: int = 0, attempt: int = 1) -> Chunk:
    """Return the chunk shifted by `offset` characters and `index` chunks, with the given attempt."""
    return replace(
        chunk,
        index=chunk.index + index,
        start=chunk.start + offset,
        end=chunk.end + offset,
        attempt=attempt,
    )


def not_text(delta: object) -> DeltaTypeError:
    """Return the error for a delta that a text chunker cannot take."""
    hint = {
        "NoneType": "skip deltas without content before you yield",
        "bytes": "decode them first; for audio choose a chunker that takes bytes",
    }.get(type(delta).__name__, "yield strings, or Delta objects")
    message = f"the backend yielded {type(delta).__name__} where text is expected: {hint}"
    return DeltaTypeError(message)


def not_sound(delta: object) -> DeltaTypeError:
    """Return the error for a delta that a chunker of sound cannot take."""
    message = (
        f"the backend yielded {type(delta).__name__} where sound is expected: yield bytes of PCM, "
        "or choose a chunker of text"
    )
    return DeltaTypeError(message)
