"""`Context`: the messages of a conversation, and how many of them a generation sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from streamval.errors import RunError, UsageError
from streamval.types.components import CBlock
from streamval.types.messages import Message
from streamval.types.thunk import GenerationMetadata, ModelOutputThunk


@dataclass(frozen=True, slots=True)
class Context:
    """A conversation and, once there is one, the output at its end. Immutable.

    Attributes:
        messages: The turns, oldest first.
        output: The model's output that followed them.

    Example:
        >>> ctx = Context((Message("user", "Hi"),)).with_output("Hello.")
        >>> ctx.last_output().value
        'Hello.'
    """

    messages: tuple[Message, ...] = ()
    output: ModelOutputThunk | None = None
    _said: Callable[[], str] | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def text_so_far(self) -> str:
        """The text up to and including the chunk that is judged, of its channel, as the model wrote it.

        A `stream_validate` reads it here, and keeps no text of its own. It is put together when it is asked for.
        After a repair that continues, it begins with the text that stands. Elsewhere it is the output at the end.
        Of sound it is bytes. On the channel `"tool"` it has the name and the arguments of each call.

        Example:
            >>> from streamval import Pipeline, ScriptedBackend, stream_check
            >>> from streamval.requirements import Requirement
            >>> from streamval.types import PartialValidationResult
            >>> class OneQuestion(Requirement):
            ...     def stream_validate(self, chunk, *, backend, ctx):
            ...         asked = ctx.text_so_far.count("?")
            ...         return PartialValidationResult("fail" if asked > 1 else "unknown")
            >>> pipeline = Pipeline(ScriptedBackend("Why? How? When?"), requirements=[OneQuestion("one question")])
            >>> pipeline.run_sync("Ask.").text
            'Why?'
        """
        if self._said is not None:
            return self._said()
        return "" if self.output is None else self.output.value or ""

    def add(self, turn: Message | ModelOutputThunk | CBlock | str) -> Self:
        """Return the conversation with one more turn.

        Args:
            turn: A message, the model's output, or the user's words, as text or a block.

        Returns:
            A new context; this one stays as it is.

        Raises:
            RunError: If the output at the end of this one has not been computed yet.
            UsageError: If `turn` is anything else.
        """
        if isinstance(turn, ModelOutputThunk):
            return replace(self, messages=self._turns(), output=turn)
        if isinstance(turn, (str, CBlock)):
            turn = Message("user", str(turn))
        if not isinstance(turn, Message):
            raise UsageError(
                f"add a Message, an output, a CBlock or a string, not {type(turn).__name__}"
            )
        return replace(self, messages=(*self._turns(), turn), output=None)

    def with_output(self, text: str, generation: GenerationMetadata | None = None) -> Self:
        """Return the same conversation, ending in `text`, with the metadata of its generation."""
        return replace(self, output=ModelOutputThunk(text, generation))

    def last_output(self) -> ModelOutputThunk | None:
        """Return the output at the end, if there is one yet."""
        return self.output

    def history(self) -> tuple[Message, ...]:
        """Return the turns that the next generation sees: here, all of them.

        Raises:
            RunError: If the output at the end has not been computed yet.
        """
        return self._turns()

    def _turns(self) -> tuple[Message, ...]:
        """Return every turn, including the output."""
        if self.output is None:
            return self.messages
        if self.output.value is None:
            raise RunError("the last output has not been computed yet; await its avalue() first")
        return (*self.messages, Message("assistant", self.output.value))


@dataclass(frozen=True, slots=True)
class SimpleContext(Context):
    """Each generation sees only its own prompt.

    Example:
        >>> SimpleContext().add("Hi").with_output("Hello.").history()
        ()
    """

    def history(self) -> tuple[Message, ...]:
        """Return an empty tuple: no earlier turn is seen."""
        return ()


@dataclass(frozen=True, slots=True)
class ChatContext(Context):
    """Each generation sees the conversation, or its last turns.

    Attributes:
        window_size: How many of the last turns it sees, system messages (always seen) not
            counted; `None` for all.

    Raises:
        UsageError: If `window_size` is below 1.

    Example:
        >>> chat = ChatContext(window_size=2).add("My name is Ann.").with_output("Hi, Ann.")
        >>> [turn.content for turn in chat.add("Who am I?").history()]
        ['Hi, Ann.', 'Who am I?']
    """

    window_size: int | None = None

    def __post_init__(self) -> None:
        if self.window_size is not None and self.window_size < 1:
            raise UsageError(
                f"window_size must be at least 1, or None for all, not {self.window_size}"
            )

    def history(self) -> tuple[Message, ...]:
        """Return the system messages, and the last `window_size` of the other turns."""
        turns = self._turns()
        if self.window_size is None:
            return turns
        others = [turn for turn in turns if turn.role != "system"]
        seen = others[-self.window_size :]
        return (*(turn for turn in turns if turn.role == "system"), *seen)
