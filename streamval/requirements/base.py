"""The requirement: its verdict on each chunk, and on the whole output."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streamval.errors import RunError, UsageError, ValidatorError
from streamval.requirements.judge import ask_judge, default_output_to_bool, judging
from streamval.types.context import Context
from streamval.types.results import PartialValidationResult, ValidationResult

if TYPE_CHECKING:
    from streamval.backends.base import Backend
    from streamval.chunkers.chunking import Chunking
    from streamval.types.components import CBlock, Component, TemplateRepresentation

ValidationFn: TypeAlias = Callable[
    [Context], "ValidationResult | bool | Awaitable[ValidationResult | bool]"
]
OnError: TypeAlias = Literal["raise", "fail", "pass"]


class Requirement:
    """Something an output must satisfy.

    Override `stream_validate` to judge chunk by chunk; without it, every chunk is `"unknown"` and
    the whole output is judged at its end, by `validation_fn` or else by asking a model.

    Each attempt judges with `copy(requirement)`, so state kept on `self` starts afresh and the
    original is never touched. **The copy is shallow**: a list or dict made in `__init__` is the
    *same* object in every copy. Reassign (``self.seen = [*self.seen, chunk]``), never mutate
    (``self.seen.append(chunk)``), or override `__copy__`.

    Args:
        description: What is asked for, in words: for prompts, repair prompts and the judge.
        validation_fn: Judges the whole output instead of a model. Takes the `Context`, returns a
            `ValidationResult` or a bool; may be async.
        output_to_bool: Reads the judge's answer.
        check_only: Keep the description out of prompts (naming a thing invites it).
        chunking: Cut the stream this way for this requirement, whatever the pipeline's chunks.
        max_concurrency: How many chunks may be judged at once. 1 keeps them in order, as a
            requirement with state needs; a stateless one that waits for something can overlap.
        timeout: Seconds a call may take, or `None`.
        on_error: What it means if the validator raises or times out: `"raise"` ends the run with
            that exception, `"fail"` and `"pass"` count it as that verdict.
        hold: Keep an `"unknown"` chunk, and all after it, from the consumer until a later
            `"pass"` covers it or the final validation passes.

    Raises:
        UsageError: If an argument cannot work.

    Example:
        >>> class NoQuestions(Requirement):
        ...     def stream_validate(self, chunk, *, backend, ctx):
        ...         if chunk.endswith("?"):
        ...             return PartialValidationResult("fail", reason="asks a question")
        ...         return PartialValidationResult("pass")
        >>> NoQuestions("Ask nothing.").description
        'Ask nothing.'
    """

    verbatim: bool = False
    """Whether chunks come with the raw text between them (whitespace, mostly) in front, so that
    joined they are the output. For a subclass that parses."""

    reads_json: bool = False
    """Whether it takes chunks that have been read as JSON (`JSONDelta`) as they are, not their text."""

    resumable: bool = True
    """Whether a repair may go on from the chunk before the one that failed: nothing of the fault has
    been delivered."""

    judges: type[str | bytes] | None = None
    """What it judges: text (`str`), sound (`bytes`), or either (`None`). A pipeline of the other kind
    refuses it."""

    judge_whole: bool | None = None
    """Whether a requirement that judges its chunks, and has neither a `validation_fn` nor a `validate`
    of its own, asks a model about the whole output as well. `None`: it does, and warns. `False`: it
    goes by its chunks, and an output that was not streamed is one chunk."""

    # Defaults of what `__init__` sets, for a subclass that does not call it.
    description: str | None = None
    validation_fn: ValidationFn | None = None
    output_to_bool: Callable[[str], bool] = staticmethod(default_output_to_bool)
    check_only: bool = False
    chunking: Chunking = None
    max_concurrency: int = 1
    timeout: float | None = None
    on_error: OnError = "raise"
    hold: bool = False

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
    ) -> None:
        if max_concurrency < 1:
            message = f"max_concurrency must be at least 1, not {max_concurrency}"
            raise UsageError(message)
        if timeout is not None and timeout <= 0:
            message = f"timeout must be above 0 seconds, or None for no limit, not {timeout}"
            raise UsageError(message)
        if on_error not in ("raise", "fail", "pass"):
            message = f"on_error must be 'raise', 'fail' or 'pass', not {on_error!r}"
            raise UsageError(message)
        if validation_fn is not None and not callable(validation_fn):
            message = f"validation_fn must be callable, not {type(validation_fn).__name__}"
            raise UsageError(message)
        self.description = description
        self.validation_fn = validation_fn
        self.output_to_bool = output_to_bool
        self.check_only = check_only
        self.chunking = chunking
        self.max_concurrency = max_concurrency
        self.timeout = timeout
        self.on_error = on_error
        self.hold = hold

    def stream_validate(
        self,
        chunk: str,
        *,
        backend: Backend | None,
        ctx: Context | None,
    ) -> PartialValidationResult | Awaitable[PartialValidationResult]:
        """Judge one chunk as it arrives. Override it with a plain function or a coroutine function.

        A plain function costs least, and blocks the event loop while it runs. Write ``async def``
        for what has to wait.

        Called once a chunk, in order (unless `max_concurrency` says otherwise), on this attempt's
        copy. Do not read the stream from here. A requirement that does not override it is not
        asked about chunks at all.

        Args:
            chunk: The chunk alone, not the text so far; keep on `self` what you need of it.
            backend: For checks that ask a model.
            ctx: The conversation. The output is not in it yet.

        Returns:
            `"unknown"` here. `"pass"` does not spare the final `validate`; `"fail"` stops the
            stream at once.
        """
        del chunk, backend, ctx
        return PartialValidationResult("unknown")

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Judge the whole output: by `validation_fn`, else by asking `backend`.

        Args:
            backend: Whom to ask where there is no `validation_fn`.
            ctx: The conversation, ending in the output.
            format: A schema for the judge's answer.
            model_options: Options for the judge, such as `temperature`.

        Returns:
            The verdict.

        Raises:
            UsageError: If there is neither a `validation_fn` nor a description and a backend.
            ValidatorError: If `validation_fn` returns neither a bool nor a `ValidationResult`.
        """
        if self.validation_fn is None:
            if self.judge_whole is None and judges_chunks_only(self):
                message = (
                    f"{type(self).__name__} judges its chunks, and a model is asked about the whole "
                    "output as well; write judge_whole = False in the class to go by the chunks "
                    "alone, or True to ask without this warning"
                )
                warnings.warn(message, stacklevel=2)
            return await ask_judge(self, backend, ctx, format=format, model_options=model_options)
        answer = self.validation_fn(ctx)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ValidationResult):
            return answer
        if isinstance(answer, bool):
            return ValidationResult(answer)
        message = (
            f"validation_fn of {self.name!r} returned {type(answer).__name__}; return a "
            "ValidationResult or a bool (simple_validate() makes one from a function of the text)"
        )
        raise ValidatorError(message)

    def parts(self) -> Sequence[Component | CBlock]:
        """What it is made of, for a judge: nothing, unless a subclass says otherwise."""
        return []

    def format_for_llm(self) -> TemplateRepresentation | str:
        """How a judge is asked. Override it for a question of your own.

        Called from within `validate`, on a copy that knows the output to be judged.

        Raises:
            RunError: If it is called from elsewhere, where there is no output to judge.
        """
        if self._output is None:
            message = "format_for_llm() belongs to a validate() call: there is no output to judge"
            raise RunError(message)
        return judging(self, self._output)

    @property
    def name(self) -> str:
        """What events and messages call it: the description, else the class."""
        return self.description or type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description!r})"


def judges_chunks_only(requirement: Requirement) -> bool:
    """Whether it judges chunks, and has nothing of its own to judge the whole output with."""
    kind = type(requirement)
    return (
        requirement.validation_fn is None
        and kind.stream_validate is not Requirement.stream_validate
        and kind.validate is Requirement.validate
    )


def req(description: str, validation_fn: ValidationFn | None = None, **options: Any) -> Requirement:
    """A requirement that goes into the prompt. Short for `Requirement`.

    Args:
        description: What is asked for, in words.
        validation_fn: Judges the whole output; without one a model is asked.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Example:
        >>> req("The email has a salutation.").check_only
        False
    """
    return Requirement(description, validation_fn, **options)


def check(
    description: str, validation_fn: ValidationFn | None = None, **options: Any
) -> Requirement:
    """A requirement that is checked but never put into a prompt, as naming a thing invites it.

    A repair prompt says only why it failed.

    Args:
        description: What is required, in words: for the judge, and for messages.
        validation_fn: Judges the whole output; without one a model is asked.
        **options: As for `Requirement`.

    Returns:
        The requirement.

    Example:
        >>> check("No purple elephants.").check_only
        True
    """
    return Requirement(description, validation_fn, **{"check_only": True, **options})


def simple_validate(fn: Callable[[str], bool | tuple[bool, str]]) -> ValidationFn:
    """A `validation_fn` from a function of the output's text.

    Args:
        fn: Returns a bool, or a bool and the reason.

    Returns:
        A function of the context. Where there is no output yet, it fails without asking `fn`.

    Raises:
        ValidatorError: By what is returned, if `fn` returns anything else: most often a `return`
            has been forgotten.

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
                return ValidationResult(passed)
            case (bool(passed), str(reason)):
                return ValidationResult(passed, reason=reason)
        name = getattr(fn, "__qualname__", type(fn).__name__)
        message = (
            f"the function {name} given to simple_validate returned {answer!r}; "
            "return a bool, or (bool, reason)"
        )
        raise ValidatorError(message)

    return validate


def as_requirements(given: Sequence[Requirement | str] | None) -> tuple[Requirement, ...]:
    """Requirements as they may be written: objects, and plain strings for a model to judge.

    Raises:
        UsageError: For anything else, a single string in place of a list included.
    """
    if given is None:
        return ()
    if isinstance(given, (str, Requirement)):
        message = f"requirements must be a list; write requirements=[{given!r}]"
        raise UsageError(message)
    requirements = []
    for position, item in enumerate(given):
        if isinstance(item, str):
            if not item.strip():
                message = f"requirement {position} is an empty string; say what is required"
                raise UsageError(message)
            requirements.append(Requirement(item))
        elif isinstance(item, Requirement):
            requirements.append(item)
        else:
            message = (
                f"requirement {position} is {_what(item)}, not a requirement; give a Requirement, "
                "a string, or wrap a function in stream_check(fn)"
            )
            raise UsageError(message)
    return tuple(requirements)


def _what(item: object) -> str:
    if isinstance(item, type):
        return f"the class {item.__name__} (make an instance of it)"
    return f"of type {type(item).__name__}"
