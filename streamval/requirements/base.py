"""`Requirement`: it judges each chunk, and the whole output."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, Literal, Self, TypeAlias

from streamval.backends.base import Backend
from streamval.chunkers.chunking import Chunking
from streamval.errors import RunError, UsageError, ValidatorError
from streamval.requirements.judge import ask_judge, default_output_to_bool, judging
from streamval.types.channels import CHANNELS, Channel
from streamval.types.components import CBlock, Component, TemplateRepresentation
from streamval.types.context import Context
from streamval.types.results import UNKNOWN, PartialValidationResult, ValidationResult

ValidationFn: TypeAlias = Callable[
    [Context], "ValidationResult | bool | Awaitable[ValidationResult | bool]"
]
OnError: TypeAlias = Literal["raise", "fail", "pass"]


class Requirement:
    """Something an output must satisfy.

    Override `stream_validate` to judge each chunk; an output is then valid when no chunk failed.
    Without it every chunk is `"unknown"`, and the whole output is judged at its end: by
    `validation_fn`, else by asking a model. To judge chunks with a plain function of the text,
    subclass `ChunkRule`, or use `stream_check`.

    Each attempt judges with `copy(requirement)`, so state kept on `self` starts afresh (where a repair
    continues, with the state after the last kept chunk), and the original never changes. **The copy is
    shallow**: a list or dict made in `__init__` is the *same* object in every copy. Reassign
    (``self.seen = [*self.seen, chunk]``), never mutate (``self.seen.append(chunk)``), or define `__copy__`.

    Args:
        description: What is required, in words: for prompts, repair prompts and judges. Without
            it the requirement has the name of its class.
        validation_fn: Judges the whole output instead of a model. Takes the `Context`, returns a
            `ValidationResult` or a bool; may be async.
        output_to_bool: Reads the answer of a model that judges.
        check_only: Keep the description out of prompts (naming a thing invites it).
        chunking: Cut the stream this way for this requirement, whatever the pipeline's chunks.
        max_concurrency: How many chunks may be judged at once. 1 keeps them in order, as a
            requirement with state needs; a stateless one that waits for something can overlap.
        timeout: Seconds a call may take, or `None`.
        on_error: The effect if the validator raises or times out: `"raise"` ends the run with
            that exception, `"fail"` and `"pass"` count as that verdict.
        hold: Keep an `"unknown"` chunk, and all after it, from the consumer until a later
            `"pass"` covers it or the final validation passes.
        enforce: Whether it decides. If not, it observes: its verdicts come as `VerdictEvent`s, in the final results
            and in the metrics of the gateway, and never fail anything, hold anything back or delay a chunk. For trying
            a rule on real traffic. One that cannot keep up stops judging. Only the end of a run waits for it.

    Raises:
        UsageError: If an argument cannot work.

    Example:
        >>> import streamval as sv
        >>> class NoQuestions(sv.Requirement):
        ...     def stream_validate(self, chunk, *, backend, ctx):
        ...         if chunk.endswith("?"):
        ...             return sv.PartialValidationResult("fail", reason="asks a question")
        ...         return sv.PartialValidationResult("pass")
        >>> for said in "It rains. Take a coat.", "It rains. Why? Look up.":
        ...     pipeline = sv.Pipeline(sv.ScriptedBackend(said), requirements=[NoQuestions("Ask nothing.")])
        ...     result = pipeline.run_sync("How is the weather?")
        ...     print(result.success, result.text)
        True It rains. Take a coat.
        False It rains.
    """

    verbatim: bool = False
    """Whether each chunk comes with the raw text before it (mostly whitespace), so that joined they
    are the output. For a subclass that parses."""

    judges_all: bool = False
    """Whether it judges whatever is delivered, on every channel. Of JSON, a requirement judges the strings, decoded,
    each as one chunk; with this, the keys and numbers too."""

    longer_chunks: bool = False
    """Whether the pipeline's chunks will do in place of those of `chunking`, where they do not cut through
    them."""

    reads_json: bool = False
    """Whether it takes a chunk that has been parsed as JSON (`JSONDelta`) in place of its text."""

    masks: bool = False
    """Whether its verdicts may mask text (`PartialValidationResult.masks`). Then nothing that was not judged is in an
    event or a result: there are no events of tokens, and attempts have only the text that was delivered."""

    resumable: bool = True
    """Whether a repair may continue after the last chunk before the failed chunk, because no part of
    the fault has been delivered."""

    judges: type[str | bytes] | None = None
    """The content that it judges: text (`str`), sound (`bytes`), or either (`None`). Other pipelines
    reject it."""

    judge_whole: bool = False
    """Whether a model is asked about the whole output although `stream_validate` is overridden.
    (The reference always asks.)"""

    # Defaults of the attributes, for a subclass that does not call `__init__`.
    description: str | None = None
    validation_fn: ValidationFn | None = None
    output_to_bool: Callable[[str], bool] = staticmethod(default_output_to_bool)
    check_only: bool = False
    chunking: Chunking = None
    max_concurrency: int = 1
    timeout: float | None = None
    on_error: OnError = "raise"
    hold: bool = False
    enforce: bool = True

    observed: PartialValidationResult | None = None
    """The first failure of a copy that observes."""

    holds_back: bool = False
    """Whether its last verdict was no pass, so that it holds text back. Set on a copy that judges with
    `hold`."""

    reads_tools: bool = False
    """Whether it takes the chunks of calls of tools as they are (`ToolChunk`), and not the strings in them."""

    listens: tuple[Channel, ...] | None = None
    """The channels that it judges, as `on` sets them. `None`: text; with `judges_all`, whatever is delivered."""

    _output: str | None = None

    def __init__(
        self,
        description: str | None = None,
        validation_fn: ValidationFn | None = None,
        *,
        output_to_bool: Callable[[str], bool] = default_output_to_bool,
        check_only: bool = False,
        chunking: Chunking = None,
        max_concurrency: int = 1,
        timeout: float | None = None,
        on_error: OnError = "raise",
        hold: bool = False,
        enforce: bool = True,
    ) -> None:
        if max_concurrency < 1:
            raise UsageError(f"max_concurrency must be at least 1, not {max_concurrency}")
        if timeout is not None and timeout <= 0:
            raise UsageError(
                f"timeout must be above 0 seconds, or None for no limit, not {timeout}"
            )
        if on_error not in ("raise", "fail", "pass"):
            raise UsageError(f"on_error must be 'raise', 'fail' or 'pass', not {on_error!r}")
        if validation_fn is not None and not callable(validation_fn):
            raise UsageError(f"validation_fn must be callable, not {type(validation_fn).__name__}")
        self.description = description
        self.validation_fn = validation_fn
        self.output_to_bool = output_to_bool
        self.check_only = check_only
        self.chunking = chunking
        self.max_concurrency = max_concurrency
        self.timeout = timeout
        self.on_error = on_error
        self.hold = hold
        self.enforce = enforce

    def on(self, *channels: Channel) -> Self:
        """Return a copy that judges these channels: `"text"`, `"reasoning"`, `"tool"`.

        Each channel is judged by a clone of its own. In a call of a tool that is the name, then each key and each
        value, unescaped, as soon as it is complete.

        Raises:
            UsageError: If there is no such channel, or none is given.

        Example:
            >>> import streamval as sv
            >>> judge = sv.no_loop().on("reasoning")
            >>> thought = [sv.Delta(reasoning="I go round. " * 9), sv.Delta("Done.")]
            >>> pipeline = sv.Pipeline(sv.IterableBackend(lambda prompt: thought), requirements=[judge])
            >>> str(pipeline.run_sync("Go.").failures[0])
            "never go round in circles: it says 'i go round' again and again"
        """
        if not channels or not set(channels) <= set(CHANNELS):
            raise UsageError(f"channels are 'text', 'reasoning' and 'tool', not {channels!r}")
        twin = copy(self)
        twin.listens = tuple(channel for channel in CHANNELS if channel in channels)
        return twin

    def stream_validate(
        self, chunk: str, *, backend: Backend | None, ctx: Context | None
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Judge one chunk as it arrives. Override it with a plain function or a coroutine function.

        A plain function costs least, and blocks the event loop while it runs. Write ``async def``
        if it has to wait.

        Called once a chunk, in order (unless `max_concurrency` says otherwise), on this attempt's
        copy. Do not read the stream from here. A requirement that does not override it is not
        asked about chunks at all.

        Args:
            chunk: The chunk alone, not the text so far. Keep earlier text on `self` if you need it.
            backend: The backend, for checks that ask a model.
            ctx: The conversation. The output is not in it yet.

        Returns:
            `"unknown"` here. A `"pass"` does not replace the final `validate`; a `"fail"` stops the
            stream at once.
        """
        return UNKNOWN

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Judge the whole output: by `validation_fn`, else by its chunks, else by asking `backend`.

        A requirement that only overrides `stream_validate` judges the output as one chunk here. At
        the end of a stream, `validate` is not called for it, because no chunk failed.

        Args:
            backend: The model to ask, where one is needed.
            ctx: The conversation, ending in the output.
            format: A schema for the model's answer.
            model_options: Options for the model, such as `temperature`.

        Returns:
            The verdict.

        Raises:
            UsageError: If a model has to be asked, and there is no description or no backend.
            ValidatorError: If `validation_fn` returns neither a bool nor a `ValidationResult`.
        """
        if self.chunks_decide:
            output = ctx.last_output()
            if output is None or not str(output).strip():
                return ValidationResult(True)
            verdict = await self.stream_validate(str(output), backend=backend, ctx=ctx)
            return whole_result(verdict)
        if self.validation_fn is None:
            return await ask_judge(self, backend, ctx, format=format, model_options=model_options)
        answer = self.validation_fn(ctx)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ValidationResult):
            return answer
        if isinstance(answer, bool):
            return ValidationResult(answer)
        raise ValidatorError(
            f"validation_fn of {self.name!r} returned {type(answer).__name__}; return a "
            "ValidationResult or a bool (simple_validate() makes one from a function of the text)"
        )

    def parts(self) -> Sequence[Component | CBlock]:
        """Return its parts, for a judge; by default an empty list."""
        return []

    def format_for_llm(self) -> TemplateRepresentation | str:
        """Return the question to a judge. Override it for a question of your own.

        Called by `validate`, on a copy that has the output to be judged.

        Raises:
            RunError: If it is called from elsewhere, where there is no output.
        """
        if self._output is None:
            raise RunError(
                "format_for_llm() belongs to a validate() call: there is no output to judge"
            )
        return judging(self, self._output)

    @property
    def chunks_decide(self) -> bool:
        """Whether an output is valid when none of its chunks failed."""
        kind = type(self)
        return (
            self.validation_fn is None
            and not self.judge_whole
            and kind.stream_validate is not Requirement.stream_validate
            and kind.validate is Requirement.validate
        )

    @property
    def name(self) -> str:
        """The description, else the name of the class: for events and messages."""
        return self.description or type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description!r})"


def judges_on(
    requirement: Requirement, channel: Channel, *, delivered: Collection[Channel] = CHANNELS
) -> bool:
    """Return whether a requirement judges a channel.

    By default that is the text; a requirement with `judges_all` judges all channels that are delivered.
    """
    chosen = requirement.listens
    if chosen is not None:
        return channel in chosen
    return channel == "text" or (requirement.judges_all and channel in delivered)


NEVER_PASSED = ValidationResult(
    False, reason="it never passed what it held back: its last verdict was 'unknown'"
)


def whole_result(verdict: PartialValidationResult) -> ValidationResult:
    """Return the verdict on a chunk as a verdict on the whole output."""
    return ValidationResult(verdict.success != "fail", reason=verdict.reason, score=verdict.score)


def req(description: str, validation_fn: ValidationFn | None = None, **options: Any) -> Requirement:
    """Make a `Requirement` that goes into the prompt.

    Example:
        >>> req("The email has a salutation.").check_only
        False
    """
    return Requirement(description, validation_fn, **options)


def check(
    description: str, validation_fn: ValidationFn | None = None, **options: Any
) -> Requirement:
    """Make a `Requirement` that is checked but never put into a prompt, as naming a thing invites it.

    A repair prompt says only why it failed.

    Example:
        >>> check("No purple elephants.").check_only
        True
    """
    return Requirement(description, validation_fn, **{"check_only": True, **options})


def simple_validate(
    fn: Callable[[str], bool | tuple[bool, str]], *, reason: str | None = None
) -> ValidationFn:
    """Make a `validation_fn` of a function of the output's text.

    Args:
        fn: Returns a bool, or a bool and the reason.
        reason: Why it failed, where `fn` returns a bool.

    Returns:
        A function of the context. It fails where there is no output yet, and raises a
        `ValidatorError` if `fn` returns anything else (most often because a `return` is missing).

    Example:
        >>> short = simple_validate(lambda text: (len(text) < 9, "too long"))
        >>> short(Context().with_output("much too long")).reason
        'too long'
    """

    def validate(ctx: Context) -> ValidationResult:
        output = ctx.last_output()
        if output is None:
            return ValidationResult(False, reason="there is no output")
        answer: object = fn(str(output))
        match answer:
            case bool(passed):
                return ValidationResult(passed, reason=None if passed else reason)
            case (bool(passed), str(why)):
                return ValidationResult(passed, reason=why)
        name = getattr(fn, "__qualname__", type(fn).__name__)
        raise ValidatorError(
            f"the function {name} given to simple_validate returned {answer!r}; "
            "return a bool, or (bool, reason)"
        )

    return validate


def as_requirements(given: Sequence[Requirement | str] | None) -> tuple[Requirement, ...]:
    """Return requirements: objects as they are, plain strings as requirements that a model judges.

    Raises:
        UsageError: For anything else, a single string in place of a list included.
    """
    if given is None:
        return ()
    if isinstance(given, (str, Requirement)):
        raise UsageError(f"requirements must be a list; write requirements=[{given!r}]")
    requirements = []
    for position, item in enumerate(given):
        if isinstance(item, str):
            if not item.strip():
                raise UsageError(f"requirement {position} is an empty string; say what is required")
            requirements.append(Requirement(item))
        elif isinstance(item, Requirement):
            requirements.append(item)
        else:
            raise UsageError(
                f"requirement {position} is {_what(item)}, not a requirement; give a Requirement, "
                "a string, or wrap a function in stream_check(fn)"
            )
    return tuple(requirements)


def _what(item: object) -> str:
    if isinstance(item, type):
        return f"the class {item.__name__} (make an instance of it)"
    return f"of type {type(item).__name__}"
