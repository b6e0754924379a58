"""What a chunker is, and what the chunkers of text share.

A chunker is a plain object: `feed` takes a delta and returns the chunks it completes, `flush`
returns what is left. It knows nothing of observables or tasks, so a test of one is a plain call.

The laws that every chunker here keeps, checked by property tests:

- the same chunks however the text is sliced into deltas;
- each chunk verbatim, and ``"".join(separator + text)`` the text less trailing whitespace;
- cost linear in the text, even where no boundary comes;
- memory only for the pending fragment, which `max_chars` can bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from streamval.errors import DeltaTypeError, UsageError
from streamval.types.chunks import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable


@runtime_checkable
class Chunker(Protocol):
    """Cuts a stream of text into chunks."""

    def feed(self, delta: str) -> list[Chunk]:
        """Take the next piece of text; return the chunks it completes."""

    def flush(self) -> list[Chunk]:
        """Return what is left. Feeding may go on afterwards."""


@runtime_checkable
class Resumable(Protocol):
    """A chunker whose chunks depend on all text before them, such as `JSONChunker`."""

    def resume(self, text: str) -> None:
        """Go on behind a text that was cut already. Called before anything is fed."""


class ChunkingStrategy(ABC):
    """A stateless way to split text, for those who would rather not keep state.

    Accepted wherever a chunker is, and driven incrementally: it sees the text since the last
    chunk. The chunks are the same however the text is sliced if `split` decides on what is before
    a boundary, never on where the text happens to end.
    """

    @abstractmethod
    def split(self, accumulated_text: str) -> list[str]:
        """The complete chunks of the text, each verbatim, without the trailing fragment."""

    def flush(self, accumulated_text: str) -> list[str]:
        """What to make of the text that is left when the stream ends: by default nothing."""
        del accumulated_text
        return []


JOIN_AT = 512
"""Pieces of pending text that are joined into one, as each takes some fifty bytes of its own."""


class PendingChunker(ABC):
    """What the chunkers of text share: the pending text, and how a chunk is made of it.

    The pending text is kept in pieces and joined only for a chunk, so that a long stretch without
    a boundary costs no more than a short one. Whitespace around a chunk goes to the separator,
    except an indent where `keep_indent` is set.
    """

    grain: ClassVar[int | None] = None
    """How fine it cuts, where that compares: a chunker of a lower grain never cuts across one of
    a higher grain. 1 word, 2 sentence or line, 3 paragraph or block."""

    keep_indent: ClassVar[bool] = False

    def __init__(self, *, max_chars: int | None = None) -> None:
        if max_chars is not None and max_chars < 1:
            message = f"max_chars must be at least 1, or None for no bound, not {max_chars}"
            raise UsageError(message)
        self._max_chars = max_chars
        self._pieces: list[str] = []
        self._join_at = JOIN_AT
        self._length = 0
        self._start = 0
        self._index = 0

    @property
    def max_chars(self) -> int | None:
        """The length at which a chunk is cut, wherever that is; `None` for none."""
        return self._max_chars

    @abstractmethod
    def advance(self, delta: str) -> list[Chunk]:
        """Take a piece of text of any size; return the chunks it completes."""

    def restart(self) -> None:  # noqa: B027  most have nothing to forget
        """Forget what was found in the pending text, as it has just been cut off."""

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
        """Return what is left. Feeding may go on afterwards."""
        chunks = self.emit()
        self.restart()
        return chunks

    def keep(self, text: str) -> None:
        """Add to the pending text."""
        if text:
            self._pieces.append(text)
            self._length += len(text)
            if len(self._pieces) >= self._join_at:
                self.pending()
                self._join_at *= 2  # ever more seldom, so that joining stays linear

    def pending(self) -> str:
        """The text since the last chunk, its separator included."""
        pieces = self._pieces
        if len(pieces) > 1:
            pieces[:] = ("".join(pieces),)
        return pieces[0] if pieces else ""

    def emit(self, behind: int = 0) -> list[Chunk]:
        """Make a chunk of the pending text but for the last `behind` characters."""
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
        """Take the first `size` characters off the pending text: they are a chunk now."""
        self._drop(size, self.pending()[size:])

    def _drop(self, size: int, rest: str) -> None:
        self._index += 1
        self._start += size
        self._pieces = [rest] if rest else []
        self._length = len(rest)
        self._join_at = JOIN_AT

    def _force(self) -> list[Chunk]:
        """The pending text has reached `max_chars`: cut it at the last whitespace, or there."""
        pending = self.pending()
        lead = len(pending) - len(pending.lstrip())
        space = max(pending.rfind(" "), pending.rfind("\n"))
        chunks = self.emit(len(pending) - space if space > lead else 0)
        if chunks:
            self.restart()
        return chunks

    def __copy__(self) -> PendingChunker:
        """A copy that goes on from here, independent of the original."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._pieces = list(self._pieces)
        return twin


class TextChunker(PendingChunker):
    """A chunker that only has to say where to cut: a base for your own.

    Args:
        max_chars: A chunk that grows to this length is cut there, at the last whitespace before
            if there is some. `None` for no bound.

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
        """Positions in `delta` before which the pending text makes a chunk, ascending.

        Called once for each piece of text, in order; what must be remembered from one piece to
        the next lives on `self`, and is reset in `restart`.
        """

    def advance(self, delta: str) -> list[Chunk]:
        """Cut where `cuts` says."""
        chunks: list[Chunk] = []
        done = 0
        for cut in self.cuts(delta):
            self.keep(delta[done:cut])
            done = cut
            chunks += self.emit()
        self.keep(delta[done:] if done else delta)
        return chunks


def shifted(chunk: Chunk, offset: int, index: int = 0, attempt: int = 1) -> Chunk:
    """The same chunk, `offset` characters and `index` chunks further on, of an attempt."""
    return replace(
        chunk,
        index=chunk.index + index,
        start=chunk.start + offset,
        end=chunk.end + offset,
        attempt=attempt,
    )


def not_text(delta: object) -> DeltaTypeError:
    """The error for a delta that a text chunker cannot take."""
    hint = {
        "NoneType": "skip deltas without content before you yield",
        "bytes": "decode them first; for audio choose a chunker that takes bytes",
    }.get(type(delta).__name__, "yield strings, or Delta objects")
    message = f"the backend yielded {type(delta).__name__} where text is expected: {hint}"
    return DeltaTypeError(message)


def not_sound(delta: object) -> DeltaTypeError:
    """The error for a delta that a chunker of sound cannot take."""
    message = (
        f"the backend yielded {type(delta).__name__} where sound is expected: yield bytes of PCM, "
        "or choose a chunker of text"
    )
    return DeltaTypeError(message)
