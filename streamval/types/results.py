"""Verdicts on a chunk and on the whole output, and the results of attempts and runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Generic, Literal, Self, get_args

from pydantic import Field, PlainSerializer
from typing_extensions import TypeVar

from streamval.types.channels import Channel
from streamval.types.messages import Message, ToolCall, assistant_message
from streamval.types.notebook import html_of
from streamval.types.text import mended

TriState = Literal["pass", "fail", "unknown"]
"""`"pass"`: satisfied so far. `"fail"`: violated, stop. `"unknown"`: undecided so far, continue."""


def _finite_or_name(score: float | None) -> float | str | None:
    return score if score is None or isfinite(score) else str(score)


# JSON has no infinity: it is written as a string, which pydantic reads as a number again.
_Score = Annotated[float | None, PlainSerializer(_finite_or_name, when_used="json")]

_TRI_STATES = frozenset(get_args(TriState))

# Live objects that came out of a judgement: kept for the caller, left out of JSON and equality.
_Live = Annotated[Any, Field(exclude=True)]


@dataclass(frozen=True, init=False)
class PartialValidationResult:
    """A requirement's tri-state verdict on one chunk. True only for `"pass"`.

    Awaiting it returns itself, so ``await requirement.stream_validate(...)`` works whether
    `stream_validate` is a plain function or a coroutine function.

    Attributes:
        success: `"pass"`, `"fail"` or `"unknown"`.
        reason: Why, in words a model can act on: it goes into the repair prompt.
        score: A confidence, on the validator's own scale.
        masks: Parts of the chunk's text that are delivered as something else, of a requirement with `masks`:
            ``(start, end, replacement)`` each. With `hold`, a start below 0 is in the text that it holds back before
            the chunk.
        thunk: The model output behind the verdict, if a model judged. Not serialised.
        context: The context of that judgement. Not serialised.

    Raises:
        ValueError: If `success` is not one of the three, or a mask ends before it starts.

    Example:
        >>> PartialValidationResult("fail", reason="too long").as_bool()
        False
    """

    success: TriState
    reason: str | None = field(default=None, kw_only=True)
    score: _Score = field(default=None, kw_only=True)
    masks: tuple[tuple[int, int, str], ...] = field(default=(), kw_only=True)
    thunk: _Live = field(default=None, kw_only=True, compare=False, repr=False)
    context: _Live = field(default=None, kw_only=True, compare=False, repr=False)

    def __init__(
        self,
        success: TriState,
        *,
        reason: str | None = None,
        score: float | None = None,
        masks: Iterable[tuple[int, int, str]] = (),
        thunk: Any = None,
        context: Any = None,
    ) -> None:
        # A validator makes one for each chunk. The `__init__` of a frozen dataclass takes twice as
        # long (Python 3.11), as it calls `object.__setattr__` for each field.
        own = self.__dict__
        own["success"] = success
        own["reason"] = reason
        own["score"] = score
        own["thunk"] = thunk
        own["context"] = context
        if masks:  # else those of the class
            own["masks"] = tuple(map(tuple, masks))
        if reason is not None or success not in _TRI_STATES or masks:
            self.__post_init__()

    def __post_init__(self) -> None:
        if self.success not in _TRI_STATES:
            raise ValueError(f"success must be 'pass', 'fail' or 'unknown', not {self.success!r}")
        if self.reason is not None:
            object.__setattr__(self, "reason", mended(str(self.reason)))
        for start, end, replacement in self.masks:
            if not start <= end or not isinstance(replacement, str):
                raise ValueError(
                    f"a mask is (start, end, replacement), not {(start, end, replacement)!r}"
                )

    def as_bool(self) -> bool:
        """Return True for `"pass"` only. Read `success` to distinguish `"unknown"` from `"fail"`."""
        return self.success == "pass"

    def __bool__(self) -> bool:
        return self.success == "pass"

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self


PASS = PartialValidationResult("pass")
FAIL = PartialValidationResult("fail")
UNKNOWN = PartialValidationResult("unknown")


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """A requirement's verdict on the whole output.

    Attributes:
        result: Whether the requirement is met.
        reason: Why, in words a model can act on.
        score: A confidence, on the validator's own scale.
        thunk: The model output behind the verdict, if a model judged. Not serialised.
        context: The context of that judgement. Not serialised.
        error: The error while judging (an exception is kept as ``"Type: text"``). A result
            with an error is never a pass.

    Example:
        >>> bool(ValidationResult(True)), bool(ValidationResult(True, error=ValueError("no JSON")))
        (True, False)
    """

    result: bool
    reason: str | None = field(default=None, kw_only=True)
    score: _Score = field(default=None, kw_only=True)
    thunk: _Live = field(default=None, kw_only=True, compare=False, repr=False)
    context: _Live = field(default=None, kw_only=True, compare=False, repr=False)
    error: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        # Events are JSON, which cannot hold an exception object: keep its message.
        if not isinstance(self.result, bool):
            object.__setattr__(self, "result", bool(self.result))
        if self.reason is not None and not isinstance(self.reason, str):
            object.__setattr__(self, "reason", str(self.reason))
        if isinstance(self.error, BaseException):
            object.__setattr__(self, "error", f"{type(self.error).__name__}: {self.error}")
        for name in ("reason", "error"):
            if isinstance(text := getattr(self, name), str):
                object.__setattr__(self, name, mended(text))

    def as_bool(self) -> bool:
        """Return True if the requirement passed and judging it raised no error."""
        return self.error is None and bool(self.result)

    def __bool__(self) -> bool:
        return self.as_bool()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens spent.

    Attributes:
        prompt_tokens: Tokens read, or `None` where the backend did not say.
        completion_tokens: Tokens generated, attempts that were cut short included.
        discarded_tokens: Those of `completion_tokens` that do not stand in the final text.
        reused_tokens: Those that stand although their attempt failed: a repair continued after
            them and did not generate them again.
        source: Who counted: `"backend"` (it reported them), `"deltas"` (counted here, one for each
            delta) or `"mixed"`.
        reasoning_tokens: Those of `completion_tokens` that were reasoning; `None` where the backend did not say.
        cached_tokens: Those of `prompt_tokens` that the backend had in its cache; `None` where it did not say.
    """

    prompt_tokens: int | None = None
    completion_tokens: int = 0
    discarded_tokens: int = 0
    reused_tokens: int = 0
    source: Literal["backend", "deltas", "mixed"] = "deltas"
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=_sum(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=self.completion_tokens + other.completion_tokens,
            discarded_tokens=self.discarded_tokens + other.discarded_tokens,
            reused_tokens=self.reused_tokens + other.reused_tokens,
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            source=self.source if self.source == other.source else "mixed",
        )


def _sum(one: int | None, other: int | None) -> int | None:
    """Return the sum of two counts, of which either may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


@dataclass(frozen=True, slots=True)
class Failure:
    """One requirement that failed, and why.

    Attributes:
        requirement: Its description.
        reason: Why it failed.
        chunk_index: The chunk it failed on; `None` where the whole output failed its final
            validation.
        lane: Which requirement it was, from 0.
        check_only: Whether its description must not be put into a prompt.
        channel: What it failed: the text, the reasoning, or the calls of tools.
    """

    requirement: str
    reason: str | None = None
    chunk_index: int | None = None
    lane: int | None = None
    check_only: bool = False
    channel: Channel = "text"

    def __str__(self) -> str:
        return f"{self.requirement}: {self.reason}" if self.reason else self.requirement

    def for_prompt(self) -> str:
        """Return the words for a repair prompt.

        Example:
            >>> Failure("no elephants", "it names an animal", check_only=True).for_prompt()
            'it names an animal'
        """
        if self.check_only:
            return self.reason or "it does not meet a requirement that is checked only"
        return str(self)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of one attempt.

    Attributes:
        text: Everything that the model wrote, including rejected text and the prefix that it continued.
        failures: The requirements that failed, and why.
        validations: The final validations, if it came that far.
        usage: Its tokens.
        seconds: From the request to the last verdict.
        audio: The same as `text`, of sound.
        finish_reason: Why the model stopped, in the backend's words (`"stop"`, `"length"`, …);
            `None` where it does not say, or was cut off.
        kept: The offset of its text from which the next attempt continued; else 0.
        reasoning: All reasoning that the model wrote, rejected reasoning included.
        tool_calls: The calls that were whole, and passed.
        error: Why its stream broke off, where it was resumed; else `None`.
        model: The model that was asked.
    """

    text: str
    failures: tuple[Failure, ...]
    validations: tuple[ValidationResult, ...]
    usage: Usage
    seconds: float
    audio: bytes | None = None
    finish_reason: str | None = None
    kept: int = 0
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    error: str | None = None
    model: str = ""

    _repr_html_ = html_of


T = TypeVar("T", default=Any)
"""The type of a pipeline's `format`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of `Pipeline.map`.

    Attributes:
        done: Prompts whose runs have ended.
        total: Prompts in all, where that is known.
        valid: Of those done, how many succeeded.
        invalid: Of those done, how many failed.
        raised: How many ended in an exception (with `return_exceptions`).
        tokens: Tokens generated.
        seconds: Since the first run began.
    """

    done: int = 0
    total: int | None = None
    valid: int = 0
    invalid: int = 0
    raised: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamResult(Generic[T]):
    """The result of a run.

    Attributes:
        success: True only if nothing failed while streaming, nothing raised, and every final
            validation passed.
        text: The delivered text that still stands: its chunks, joined.
        full_text: The same; of a success, with the whitespace that the model wrote behind the last chunk.
        attempts: The attempts, in order.
        failures: Those of the last attempt; empty after a success.
        validations: The final validations of the last attempt, if it came that far.
        usage: Tokens of all attempts together.
        parsed: The instance of the pipeline's `format`; `None` without a format, or where the text
            is invalid.
        audio: The same as `text`, of sound.
        finish_reason: That of the last attempt.
        reasoning: The delivered reasoning that still stands.
        tool_calls: The calls of tools that were delivered, and stand. None are executed.
        opaque: The signed or encrypted reasoning of a successful run, as the provider sent it.
        opaque_places: What each block of it came behind: 0 nothing, 1 text, 2 the first call (and text, if any), …
    """

    success: bool
    text: str
    attempts: tuple[AttemptResult, ...]
    failures: tuple[Failure, ...]
    validations: tuple[ValidationResult, ...]
    usage: Usage
    parsed: T | None = None
    audio: bytes | None = None
    finish_reason: str | None = None
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    opaque: tuple[Mapping[str, Any], ...] = ()
    opaque_places: tuple[int, ...] = ()
    full_text: str = ""

    @property
    def message(self) -> Message:
        """The answer as the assistant's message, to go on from: with its calls, and the reasoning that goes back.

        Add it to the conversation, then a message of the role `"tool"` for each call.

        Example:
            >>> import streamval as sv
            >>> sv.Pipeline(sv.ScriptedBackend("All is well.")).run_sync("How is it?").message
            Message(role='assistant', content='All is well.')
        """
        return assistant_message(
            self.text, self.tool_calls, self.reasoning, self.opaque, self.opaque_places
        )

    _repr_html_ = html_of
