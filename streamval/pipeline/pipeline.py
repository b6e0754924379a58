"""`Pipeline`: a backend, requirements, a chunking, and a repair."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
    Sized,
)
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import reactivex
from aiostream import Stream, stream
from reactivex import Observable

from streamval import bridge
from streamval.aio.blocking import wait_for
from streamval.aio.one_loop import OneLoop
from streamval.backends.base import Backend, GenerationRequest, Prompt, as_messages
from streamval.backends.default import as_backend
from streamval.backends.options import STALL_TIMEOUT, stall_timeout_of
from streamval.chunkers.chunking import Chunking, check_chunking, takes_audio
from streamval.chunkers.json import JSONChunker, JSONDeltaChunker
from streamval.errors import UsageError
from streamval.events import Event
from streamval.pipeline.repair import Repair
from streamval.pipeline.run import Run
from streamval.pipeline.settings import Settings
from streamval.requirements.base import Requirement, as_requirements
from streamval.requirements.schema import MatchesSchema, ToolCalls, matches
from streamval.structured.schema import Schema
from streamval.structured.tools import ToolLike, as_tools
from streamval.types.channels import CHANNELS
from streamval.types.chunks import Chunk
from streamval.types.notebook import html_of
from streamval.types.results import Progress, StreamResult, T
from streamval.validation.options import MAX_PENDING_CHUNKS

P = TypeVar("P", bound="Prompt")


Format: TypeAlias = "type[T] | Mapping[str, Any] | bool | Schema[T] | MatchesSchema"
"""What an output is to be: a type that pydantic knows, a JSON Schema, or what `matches` makes of either."""


class Pipeline(Generic[T]):
    """Judges a model's output while it is being written.

        deltas ─ chunk ─┬─ lane: requirement 1 ─┐
                        ├─ lane: requirement 2 ─┼─ merge_tri_state ─ release ─ events
                        └─ lane: requirement n ─┘
           ▲                    │ fail
           └──── cancel ◀───────┘

    A pipeline holds no state of a run: start any number of runs, one after the other or at once,
    on one event loop at a time.

    Args:
        backend: A `Backend`, or a LiteLLM model name. `None` for `$STREAMVAL_MODEL`,
            else the embedded model (`LocalBackend`). Of a list of them, the next one takes over where one refuses
            to start or breaks off (see `Repair.resume`), and all judges ask the one that generates.
        requirements: `Requirement` objects, and plain strings for a model to judge.
        chunking: How the stream is cut; see `streamval.operators.chunk`.
        retry: The repair after a failure. `None` for one attempt.
        max_pending_chunks: The number of chunks waiting for verdicts at which the backend is paused.
        emit_tokens: Send a `TokenEvent` for each raw delta, before any check.
        emit_verdicts: Send a `VerdictEvent` for each lane's verdict on a chunk, as it comes, with the
            seconds that it took, which `draw` shows as bars.
        stall_timeout: Seconds without a delta before the run ends with an error; `None` for
            never.
        delta_operators: Your operators on the raw stream, before it is cut. Where one of them ends
            the stream, the text has come to its end, and is judged as a whole.
        chunk_operators: Your operators on chunks, after they are released: a `rewrite`, say. Where
            one of them ends the stream, nothing is judged as a whole, and the run does not succeed.
        validation_backend: The backend that requirements ask. By default `backend`, at the endpoint that the
            run's options lead to (`api_base`, `api_key`, headers, …).
        options: For each generation: `temperature`, `seed`, `max_tokens` and other options of the
            backend. They override the backend's own.
        format: A pydantic model, or any type that pydantic knows, that the output is to be an
            instance of; or a JSON Schema that it is to meet: a mapping or a boolean; or what
            `requirements.matches` makes of either, which has options. The backend is asked for its schema where it can do that; it is checked
            anyway, by one more requirement (`requirements.matches`), the last one. Each value
            is emitted as a `PartialObjectEvent` when it completes. The result has the instance as
            `parsed`.
            JSON has no sentences: with a format, ``chunking="sentence"`` makes each delta a chunk,
            so that a wrong value is noticed at once.
        tools: The tools that the model may call: functions, pydantic models, or dictionaries of OpenAI's chat
            completions. They are never executed. Each call is judged while it is written, by one more requirement
            (`requirements.ToolCalls`): its name at once, its arguments by the tool's schema. Without tools, a call
            fails.
        reasoning: Whether the reasoning is delivered once it was judged, or not at all: then only the
            requirements that ask for it (`Requirement.on`) judge it.

    Raises:
        UsageError: If an argument cannot work. Nothing has been started then.

    Example:
        >>> import asyncio
        >>> from streamval import ScriptedBackend, stream_check
        >>> calm = stream_check(lambda text: (text[-1] != "!", "it shouts"), "stay calm")
        >>> pipeline = Pipeline(ScriptedBackend("Good. Help! More."), requirements=[calm])
        >>> result = asyncio.run(pipeline.run("How are things?"))
        >>> result.success, result.text, str(result.failures[0])
        (False, 'Good.', 'stay calm: it shouts')
    """

    def __init__(
        self,
        backend: Backend | str | Sequence[Backend | str] | None = None,
        *,
        requirements: Sequence[Requirement | str] | None = None,
        chunking: Chunking = "sentence",
        retry: Repair | None = None,
        max_pending_chunks: int = MAX_PENDING_CHUNKS,
        emit_tokens: bool = False,
        emit_verdicts: bool = False,
        stall_timeout: float | None = STALL_TIMEOUT,
        delta_operators: Sequence[Callable[[Observable[str]], Observable[str]]] = (),
        chunk_operators: Sequence[Callable[[Observable[Chunk]], Observable[Chunk]]] = (),
        validation_backend: Backend | str | None = None,
        options: Mapping[str, Any] | None = None,
        format: Format[T] | None = None,
        tools: Sequence[ToolLike] | None = None,
        reasoning: Literal["deliver", "drop"] = "deliver",
    ) -> None:
        _check(retry, max_pending_chunks, stall_timeout, reasoning)
        offered = as_tools(tools)
        if retry is not None and retry.requirements is not None:
            requirements = retry.requirements
        judges = as_requirements(requirements)
        if offered:
            judges = (*judges, ToolCalls(offered))
        schema: Schema[Any] | None = None
        if format is not None:
            matching, chunking = _of_format(format, chunking)
            schema, judges = matching.schema, (*judges, matching)
        nothing = b"" if takes_audio(check_chunking(chunking)) else ""
        for judge in judges:
            if judge.judges not in (None, type(nothing)):
                raise _of_the_other_kind(judge)
        speakers = _as_backends(backend)
        for speaker in speakers:
            speaker.check_options(stall_timeout_of(options or {})[1])
        if len(speakers) > 1 and retry is None:
            retry = Repair(loop_budget=1)  # the next backend takes over
        self._settings = Settings(
            backends=speakers,
            validation_backend=(
                None if validation_backend is None else as_backend(validation_backend)
            ),
            requirements=judges,
            chunking=chunking,
            nothing=nothing,
            schema=schema,
            tools=offered,
            delivered=("text", "tool") if reasoning == "drop" else CHANNELS,
            retry=retry,
            options=MappingProxyType(dict(options or {})),
            max_pending_chunks=max_pending_chunks,
            stall_timeout=stall_timeout,
            emit_tokens=emit_tokens,
            emit_verdicts=emit_verdicts,
            delta_operators=_operators("delta_operators", delta_operators),
            chunk_operators=_operators("chunk_operators", chunk_operators),
        )
        cannot = [one for one in speakers if not one.supports_prefix]
        if retry is not None and retry.mode == "continue" and cannot:
            raise UsageError(
                f"{cannot[0]!r} cannot continue a prefix; use Repair(mode='ask') to ask it in words, "
                "mode='restart', or leave the mode out to continue only where the backend can"
            )
        if retry is not None and retry.mode == "ask" and nothing == b"":
            raise UsageError(
                "Repair(mode='ask') asks in words, but this pipeline's output is sound"
            )
        self._loop = OneLoop()

    @property
    def backend(self) -> Backend:
        """The backend that generates; the first of several."""
        return self._settings.backend

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The original requirements, which no run changes."""
        return self._settings.requirements

    @property
    def chunking(self) -> Chunking:
        """How the stream is cut."""
        return self._settings.chunking

    @property
    def retry(self) -> Repair | None:
        """The repair; `None` for one attempt."""
        return self._settings.retry

    @property
    def backends(self) -> tuple[Backend, ...]:
        """The backends that generate, in the order in which they are asked."""
        return self._settings.backends

    def with_backend(self, backend: Backend | str | Sequence[Backend | str]) -> Pipeline[T]:
        """Return the same pipeline before another backend.

        Example:
            >>> from streamval import ScriptedBackend
            >>> one = Pipeline(ScriptedBackend("One."))
            >>> one.with_backend(ScriptedBackend("Two.")).run_sync("Count.").text
            'Two.'
        """
        return self._with(backends=_as_backends(backend))

    def with_format(self, format: Format[T]) -> Pipeline[T]:
        """Return the same pipeline for another format, in place of its own, if it has one.

        Example:
            >>> from streamval import ScriptedBackend
            >>> one = Pipeline(ScriptedBackend("[1, 2]"))
            >>> one.with_format({"type": "array"}).run_sync("Count.").parsed
            [1, 2]
        """
        settings = self._settings
        judges = settings.requirements[: -1 if settings.schema else None]
        matching, chunking = _of_format(format, None if settings.schema else settings.chunking)
        return self._with(
            requirements=(*judges, matching),
            schema=matching.schema,
            chunking=check_chunking(chunking),
        )

    def with_tools(self, tools: Sequence[ToolLike]) -> Pipeline[T]:
        """Return the same pipeline for other tools, in place of its own, if it has some.

        Example:
            >>> from streamval import Delta, IterableBackend
            >>> from streamval.types import ToolCallDelta
            >>> call = Delta(tool_call=ToolCallDelta(0, "c1", "add", '{"a": 1, "b": 2}'))
            >>> def add(a: int, b: int) -> int: ...
            >>> pipeline = Pipeline(IterableBackend(lambda prompt: [call])).with_tools([add])
            >>> [one.arguments for one in pipeline.run_sync("Add 1 and 2.").tool_calls]
            [{'a': 1, 'b': 2}]
        """
        offered = as_tools(tools)
        rules = [one for one in self._settings.requirements if not isinstance(one, ToolCalls)]
        if offered:
            rules.insert(len(rules) - (self._settings.schema is not None), ToolCalls(offered))
        return self._with(requirements=tuple(rules), tools=offered)

    def _with(self, **settings: Any) -> Pipeline[Any]:
        """Return a twin with other settings."""
        twin: Pipeline[Any] = copy(self)
        twin._settings = replace(self._settings, **settings)
        twin._loop = OneLoop()
        return twin

    def start(self, prompt: Prompt, **options: Any) -> Run[T]:
        """Return a run, not started yet: drive it with ``async for`` or ``await``.

        Args:
            prompt: A text, or a list of messages.
            **options: For this generation, overriding the pipeline's: `temperature`, `seed`,
                `max_tokens` and other options of the backend; `stall_timeout`, in seconds.

        Returns:
            The run.

        Raises:
            UsageError: If `prompt` is not a prompt, or an option cannot work.
        """
        settings = self._settings
        timeout, options = stall_timeout_of({**settings.options, **options}, settings.stall_timeout)
        choice = options.pop("tool_choice", None)
        if (tools := options.pop("tools", None)) is not None:
            return self.with_tools(tools).start(prompt, tool_choice=choice, **options)
        request = replace(settings.backend.request(prompt, **options), tool_choice=choice)
        if timeout != settings.stall_timeout:
            settings = replace(settings, stall_timeout=timeout)
        return self._start(request, settings)

    def start_request(self, request: GenerationRequest) -> Run[T]:
        """Return a run for a `GenerationRequest`, not started yet.

        Args:
            request: The request to the backend. The pipeline's `format`, if any, replaces the request's.

        Returns:
            The run.
        """
        return self._start(request, self._settings)

    def _start(self, request: GenerationRequest, settings: Settings) -> Run[T]:
        if settings.schema is not None:
            request = replace(request, format=settings.schema.type)
        if settings.tools:
            request = replace(request, tools=tuple(tool.written for tool in settings.tools))
        for backend in settings.backends:
            backend.check_request(request)
        return Run(settings, request, self._loop)

    async def run(self, prompt: Prompt, **options: Any) -> StreamResult[T]:
        """Generate, judge and repair to the end.

        Args:
            prompt: A text, or a list of messages.
            **options: For this generation, over the pipeline's.

        Returns:
            The result. It reports failed requirements, which raise no exception.

        Raises:
            Exception: Any exception of a backend, chunker or validator.
        """
        return await self.start(prompt, **options)

    def run_sync(self, prompt: Prompt, **options: Any) -> StreamResult[T]:
        """Run as `run` does, and wait: from a script, or inside a running loop, as in Jupyter.

        Example:
            >>> from streamval import ScriptedBackend
            >>> Pipeline(ScriptedBackend("All is well.")).run_sync("How is it?").text
            'All is well.'
        """
        return wait_for(lambda: self.run(prompt, **options))

    def observe(self, prompt: Prompt, **options: Any) -> Observable[Event]:
        """Return the events as a cold observable: each subscription is a run.

        Disposing cancels the run. An exception that ends it arrives at `on_error`, after its
        `ErrorEvent` and `CompletedEvent`.
        """
        as_messages(prompt)
        return bridge.from_async_iterable(lambda: self.start(prompt, **options))

    @overload
    def map(
        self,
        prompts: Iterable[P] | AsyncIterable[P] | Observable[P],
        *,
        task_limit: int = 8,
        ordered: bool = True,
        return_exceptions: Literal[False] = False,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> AsyncGenerator[tuple[P, StreamResult[T]]]: ...
    @overload
    def map(
        self,
        prompts: Iterable[P] | AsyncIterable[P] | Observable[P],
        *,
        task_limit: int = 8,
        ordered: bool = True,
        return_exceptions: Literal[True],
        on_progress: Callable[[Progress], object] | None = None,
    ) -> AsyncGenerator[tuple[P, StreamResult[T] | Exception]]: ...
    async def map(
        self,
        prompts: Iterable[P] | AsyncIterable[P] | Observable[P],
        *,
        task_limit: int = 8,
        ordered: bool = True,
        return_exceptions: bool = False,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> AsyncGenerator[tuple[P, StreamResult[T] | Exception]]:
        """Run many prompts, several at a time.

        Args:
            prompts: The prompts; from an async iterable or an observable as well. The next is read only when
                a run has ended.
            task_limit: How many run at once.
            ordered: Yield results in the order of the prompts, else as they come.
            return_exceptions: Yield the exception that ends a run as its result, and continue with the
                others. By default it is raised, and the other runs are cancelled.
            on_progress: Called with the progress when a run ends.
                `sinks.ProgressBar` shows it.

        Yields:
            Each prompt with its result.

        Raises:
            UsageError: If `task_limit` is below 1, or `prompts` is a single string.
            Exception: Any exception of a run, or of `on_progress`.
        """
        if task_limit < 1:
            raise UsageError(f"task_limit must be at least 1, not {task_limit}")
        if isinstance(prompts, str):
            raise UsageError(f"map takes several prompts; write map([{prompts[:40]!r}])")
        total = len(prompts) if isinstance(prompts, Sized) else None
        began, progress = time.monotonic(), Progress(total=total)

        async def one(prompt: P, *_: P) -> tuple[P, StreamResult[T] | Exception]:
            nonlocal progress
            result: StreamResult[T] | Exception
            try:
                result = await self.run(prompt)
            except Exception as error:
                if not return_exceptions:
                    raise
                result = error
            if on_progress is not None:
                progress = _further(progress, result, time.monotonic() - began)
                on_progress(progress)
            return prompt, result

        me = asyncio.current_task()
        cancelled_before = me.cancelling() if me else 0
        asked: Stream[P] = stream.iterate(bridge.as_async_iterable(prompts))
        results: Stream[tuple[P, StreamResult[T] | Exception]] = stream.map(
            asked, one, ordered=ordered, task_limit=task_limit
        )
        async with results.stream() as streamer:
            async for result in streamer:
                yield result
        # aiostream can swallow a cancellation that arrives while it cleans up.
        if me is not None and me.cancelling() > cancelled_before:
            raise asyncio.CancelledError

    _repr_html_ = html_of

    def __repr__(self) -> str:
        return f"Pipeline({self.backend!r}, requirements={list(self.requirements)!r})"


def _further(before: Progress, result: StreamResult[Any] | Exception, seconds: float) -> Progress:
    """Return the progress after one more run."""
    further = replace(before, done=before.done + 1, seconds=seconds)
    if isinstance(result, Exception):
        return replace(further, raised=further.raised + 1)
    return replace(
        further,
        valid=further.valid + result.success,
        invalid=further.invalid + (not result.success),
        tokens=further.tokens + result.usage.completion_tokens,
    )


def _as_backends(given: Backend | str | Sequence[Backend | str] | None) -> tuple[Backend, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        if not given:
            raise UsageError("a list of backends needs at least one")
        return tuple(as_backend(one) for one in given)
    return (as_backend(given),)


def _of_the_other_kind(requirement: Requirement) -> UsageError:
    kinds = ("text", "sound") if requirement.judges is str else ("sound", "text")
    return UsageError(
        f"{requirement.name!r} judges {kinds[0]}, and the pipeline is one of {kinds[1]} "
        "(its chunking says which)"
    )


def _operators(name: str, given: Sequence[Any]) -> tuple[Any, ...]:
    if callable(given) or not all(callable(operator) for operator in given):
        raise UsageError(
            f"{name} must be a list of operators (functions from observable to observable)"
        )
    for position, operator in enumerate(given):
        made = operator(reactivex.never())
        if not isinstance(made, Observable):
            called = getattr(operator, "__name__", type(operator).__name__).strip("_")
            hint = f"call it: ops.{called}(…)" if callable(made) else "return an observable"
            raise UsageError(
                f"{name}[{position}] ({called}) returned {type(made).__name__} for an observable; {hint}"
            )
    return tuple(given)


def _check(
    retry: object, max_pending_chunks: object, stall_timeout: float | None, reasoning: object
) -> None:
    if reasoning not in ("deliver", "drop"):
        raise UsageError(f"reasoning must be 'deliver' or 'drop', not {reasoning!r}")
    if retry is not None and not isinstance(retry, Repair):
        raise UsageError(
            f"retry must be a Repair or None, not {retry!r}; write Repair(loop_budget=…)"
        )
    if not isinstance(max_pending_chunks, int) or max_pending_chunks < 1:
        raise UsageError(f"max_pending_chunks must be at least 1, not {max_pending_chunks!r}")
    if stall_timeout is not None and stall_timeout <= 0:
        raise UsageError(f"stall_timeout must be above 0 seconds, or None, not {stall_timeout!r}")


def _of_format(format: Format[Any], chunking: Chunking) -> tuple[MatchesSchema, Chunking]:
    """Return the requirement of a format, and the chunking for it: JSON has no sentences."""
    matching = format if isinstance(format, MatchesSchema) else matches(format)
    schema = matching.schema
    if schema.is_scalar:
        return matching, None if chunking == "sentence" else chunking
    if chunking in ("sentence", None):
        return matching, JSONDeltaChunker(root=schema.root, only_json=not schema.text_around)
    if chunking == "json":
        return matching, JSONChunker(root=schema.root, only_json=not schema.text_around)
    return matching, chunking
