"""`JudgedModel`: any model of Pydantic AI, judged while it writes.

    an agent ─▶ JudgedModel ─▶ a pipeline ─▶ the wrapped model
    text, thinking, calls  ◀─ what has passed ◀─ everything that it writes

The wrapped model gets the agent's own messages, parameters and settings. What a repair says is a part of its own
behind them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import KnownModelName, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from streamval.backends.base import Backend, GenerationRequest
from streamval.errors import NotValidError, UsageError
from streamval.events import (
    ChunkEvent,
    CompletedEvent,
    Event,
    ReasoningEvent,
    RetryEvent,
    ToolCallEvent,
)
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.run import Run
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.messages import Message, ToolCall
from streamval.types.results import Usage


class JudgedModel(WrapperModel):
    """A model whose agents get text, thinking and calls of tools that have been judged.

    Calls are judged by the tools' schemas while they are written, an `output_type` by its schema. They arrive with the
    end of an answer that is valid. An agent takes nothing back, so a repair that restarts after text was streamed
    fails the answer.

    Args:
        wrapped: A model of Pydantic AI, or its name. It has to stream.
        on_failure: What an answer that is not valid in the end does: `"raise"` a `NotValidError`, or `"retry"`: raise
            Pydantic AI's `ModelRetry`, so that the agent asks again within its own `retries`.
        **options: As for `Pipeline`: `requirements`, `chunking`, `retry`, `reasoning`, …

    Raises:
        UsageError: If an option cannot work.
        NotValidError: Raised by the agent, if no attempt was valid.

    Example:
        >>> import asyncio, streamval as sv
        >>> from pydantic_ai import Agent
        >>> from pydantic_ai.models.test import TestModel
        >>> model = JudgedModel(TestModel(custom_output_text="All is well."), requirements=[sv.no_secrets()])
        >>> Agent(model).run_sync("How is it?").output
        'All is well.'
    """

    def __init__(
        self,
        wrapped: Model | KnownModelName | str,
        *,
        on_failure: Literal["raise", "retry"] = "raise",
        **options: Any,
    ) -> None:
        super().__init__(wrapped)
        if on_failure not in ("raise", "retry"):
            raise UsageError(f"on_failure must be 'raise' or 'retry', not {on_failure!r}")
        if taken := {"format", "tools", "options"} & options.keys():
            raise UsageError(f"the agent says {min(taken)!r}; leave it out")
        self._on_failure = on_failure
        self._pipeline: Pipeline[Any] = Pipeline(_Wrapped(self.wrapped), **options)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return a judged answer. The wrapped model is streamed, so that it can be cancelled."""
        speaker = _Wrapped(self.wrapped, messages, model_settings, model_request_parameters)
        result = await self._start(speaker)
        if not result.success:
            raise self.failure("; ".join(map(str, result.failures)))
        calls = [_part_of(call) for call in result.tool_calls]
        texts = [TextPart(result.text)] if result.text or not calls else []
        signed = speaker.signed(result.reasoning)
        thought = signed or ([ThinkingPart(result.reasoning)] if result.reasoning else [])
        return ModelResponse(
            parts=[*thought, *texts, *calls, *speaker.others],
            usage=_usage(result.usage),
            model_name=self.wrapped.model_name,
            provider_name=self.wrapped.system,
            finish_reason=speaker.finish_reason,
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream a judged answer."""
        speaker = _Wrapped(
            self.wrapped, messages, model_settings, model_request_parameters, run_context
        )
        async with self._start(speaker) as run:
            yield _JudgedStream(
                model_request_parameters=model_request_parameters,
                run=run,
                speaker=speaker,
                model=self,
            )

    def failure(self, why: str) -> Exception:
        """Return the exception for an answer that is not valid."""
        return NotValidError(why) if self._on_failure == "raise" else ModelRetry(why)

    def _start(self, speaker: _Wrapped) -> Run[Any]:
        pipeline, asked = self._pipeline.with_backend(speaker), speaker.parameters
        offered = [*asked.function_tools, *asked.output_tools]
        if offered:
            tools = [
                {"name": one.name, "parameters": one.parameters_json_schema} for one in offered
            ]
            pipeline = pipeline.with_tools([{"type": "function", "function": one} for one in tools])
        if asked.output_object is not None and asked.output_mode == "native":
            pipeline = pipeline.with_format(asked.output_object.json_schema)
        return pipeline.start(ASKED)


def _part_of(call: ToolCall) -> ToolCallPart:
    return ToolCallPart(call.name, call.raw, call.id)


def _usage(usage: Usage) -> RequestUsage:
    details = {} if usage.reasoning_tokens is None else {"reasoning_tokens": usage.reasoning_tokens}
    return RequestUsage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cached_tokens or 0,
        details=details,
    )


class _Wrapped(Backend):
    """A model of Pydantic AI as a backend, for one request of an agent.

    Attributes:
        parameters: What the agent asks for.
        parts: The parts of the last answer that were signed, as the model wrote them.
        others: Parts that are neither text, thinking nor calls of our tools: they are passed on.
    """

    def __init__(
        self,
        model: Model,
        messages: Sequence[ModelMessage] = (),
        settings: ModelSettings | None = None,
        parameters: ModelRequestParameters | None = None,
        context: RunContext[Any] | None = None,
    ) -> None:
        self.model = model.model_name
        self.parameters = parameters or ModelRequestParameters()
        self.parts: list[ModelResponsePart] = []
        self.others: list[ModelResponsePart] = []
        self.finish_reason: Any = None
        self._model = model
        self._messages = list(messages)
        self._settings = settings
        self._context = context

    def signed(self, thought: str) -> list[ThinkingPart]:
        """Return the signed thinking whose text, if it can be read, was judged and delivered as reasoning."""
        thinking = [one for one in self.parts if isinstance(one, ThinkingPart)]
        return [one for one in thinking if one.content.strip() in thought]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield what the model writes."""
        async with self._model.request_stream(
            self._asked(request.messages), self._settings, self.parameters, self._context
        ) as response:
            calls: dict[int, int] = {}
            async for event in response:
                for delta in _deltas(event, calls):
                    yield delta
            whole = response.get()
            self.parts = [
                one for one in whole.parts if isinstance(one, ThinkingPart) and one.signature
            ]
            known = (TextPart, ThinkingPart, ToolCallPart)
            self.others = [one for one in whole.parts if not isinstance(one, known)]
            self.finish_reason = whole.finish_reason
            details: Mapping[str, int] = whole.usage.details
            usage = Usage(
                prompt_tokens=whole.usage.input_tokens or None,
                completion_tokens=whole.usage.output_tokens,
                reasoning_tokens=details.get("reasoning_tokens"),
                cached_tokens=whole.usage.cache_read_tokens or None,
                source="backend",
            )
            reported = usage if usage.completion_tokens else None
            yield Delta(usage=reported, finish_reason=self.finish_reason)

    def _asked(self, messages: Sequence[Message]) -> list[ModelMessage]:
        """Return the agent's messages, with what a repair says as a part of its own at their end."""
        *history, last = self._messages
        answered: list[ModelMessage] = []
        words: list[UserPromptPart] = []
        for one in messages:
            if one.role == "assistant":  # kept text, from which the model is asked to go on
                answered.append(ModelResponse([TextPart(one.content)]))
            elif answered:
                answered.append(ModelRequest([UserPromptPart(one.content)]))
            elif one.content != ASKED:
                words.append(UserPromptPart(one.content))
        if words and isinstance(last, ModelRequest):
            last = replace(last, parts=[*last.parts, *words])
        return [*history, last, *answered]


ASKED = "the messages of the agent"
"""The prompt of the pipeline, in place of which the wrapped model gets the agent's messages."""


def _deltas(event: ModelResponseStreamEvent, calls: dict[int, int]) -> list[Delta]:
    """Return an event of a wrapped model as deltas. `calls` has the number of each call by its part."""
    deltas: list[Delta] = []
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            deltas = [Delta(text)]
        case PartStartEvent(part=ThinkingPart(content=thought)):
            deltas = [Delta(reasoning=thought)]
        case PartStartEvent(part=ToolCallPart() as part):
            number = calls[event.index] = len(calls)
            whole = part.args_as_json_str() if isinstance(part.args, dict) else part.args
            arguments = whole or ""
            call = ToolCallDelta(number, part.tool_call_id, part.tool_name, arguments)
            deltas = [Delta(tool_call=call)]
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            deltas = [Delta(text)]
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(thought))):
            deltas = [Delta(reasoning=thought)]
        case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(more))) if event.index in calls:
            deltas = [Delta(tool_call=ToolCallDelta(calls[event.index], arguments=more))]
    return deltas


@dataclass
class _JudgedStream(StreamedResponse):
    """The events of a run as those of a model of Pydantic AI."""

    run: Run[Any] = field(kw_only=True)
    speaker: _Wrapped = field(kw_only=True)
    model: JudgedModel = field(kw_only=True)
    began: datetime = field(default_factory=lambda: datetime.now(UTC), kw_only=True)
    _has_thought: bool = field(default=False, init=False)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        chunks, calls = 0, list[ToolCall]()
        async for event in self.run:
            match event:
                case ToolCallEvent():  # passed on at the end: a repair may take it back
                    calls.append(event.call())
                case RetryEvent() if event.keep_chunks < chunks:
                    raise self.model.failure(
                        f"text that was streamed no longer stands: {event.reason}"
                    )
                case RetryEvent():
                    calls = calls if event.mode == "resume" else []
                    if (
                        self._has_thought and not event.keep_reasoning
                    ):  # it thinks anew, in its place
                        blank = ThinkingPart("")
                        yield self._parts_manager.handle_part(vendor_part_id="thinking", part=blank)
                case CompletedEvent():
                    self._usage = _usage(event.usage)
                    break
                case _:
                    for said in self._said(event, first=not chunks):
                        yield said
                    chunks += isinstance(event, ChunkEvent)
        result = await self.run
        if not result.success:
            raise self.model.failure("; ".join(map(str, result.failures)))
        self.finish_reason = self.speaker.finish_reason
        for said in self._end(calls, result.reasoning):
            yield said

    def _said(self, event: Event, *, first: bool) -> list[ModelResponseStreamEvent]:
        if isinstance(event, ChunkEvent):
            text = event.separator + event.text
            text = text.lstrip() if first else text
            return list(self._parts_manager.handle_text_delta(vendor_part_id="text", content=text))
        if isinstance(event, ReasoningEvent):
            thought = event.separator + event.text
            parts, self._has_thought = self._parts_manager, True
            return list(parts.handle_thinking_delta(vendor_part_id="thinking", content=thought))
        return []

    def _end(self, calls: Sequence[ToolCall], thought: str) -> list[ModelResponseStreamEvent]:
        """Return the calls, the signatures of thinking, and the parts that are passed on."""
        parts = self._parts_manager
        events: list[ModelResponseStreamEvent] = []
        for at, part in enumerate(
            (*self.speaker.signed(thought), *map(_part_of, calls), *self.speaker.others)
        ):
            # Signed thinking takes the place of what was streamed: it goes back as it came.
            is_first_thought = isinstance(part, ThinkingPart) and at == 0
            place = "thinking" if is_first_thought else f"part {at}"
            events.append(parts.handle_part(vendor_part_id=place, part=part))
        return events

    @property
    def model_name(self) -> str:
        return self.model.wrapped.model_name

    @property
    def provider_name(self) -> str | None:
        return self.model.wrapped.system

    @property
    def provider_url(self) -> str | None:
        return self.model.wrapped.base_url

    @property
    def timestamp(self) -> datetime:
        return self.began
