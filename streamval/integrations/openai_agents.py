"""`JudgedModel`: any model of the OpenAI Agents SDK, judged while it writes.

    an agent ─▶ JudgedModel ─▶ a pipeline ─▶ the wrapped model
    items       ◀─ what has passed ◀─ everything that it writes

The wrapped model gets the agent's own items, settings and tools. What a repair says is an item of its own behind them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from agents.agent_output import AgentOutputSchemaBase
from agents.exceptions import ModelBehaviorError
from agents.handoffs import Handoff
from agents.items import (
    ModelResponse,
    TResponseInputItem,
    TResponseOutputItem,
    TResponseStreamEvent,
)
from agents.model_settings import ModelSettings
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.models.interface import Model, ModelProvider, ModelTracing
from agents.models.multi_provider import MultiProvider
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from agents.tool import FunctionTool, Tool
from agents.usage import Usage as AgentUsage
from openai.types.responses import ResponseOutputMessage, ResponseReasoningItem
from openai.types.responses.response_prompt_param import ResponsePromptParam
from pydantic import Discriminator, TypeAdapter

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.iterable import IterableBackend
from streamval.errors import NotValidError, UsageError
from streamval.events import ChunkEvent, Event, ReasoningEvent, RetryEvent, StartedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.run import Run
from streamval.types.deltas import Delta
from streamval.types.messages import texts_in
from streamval.types.results import StreamResult
from streamval.wire.openai_responses import ResponsesReader, input_items
from streamval.wire.responses_writer import ResponsesWriter, usage_object

ASKED = "the items of the agent"
"""The prompt of the pipeline, in place of which the wrapped model gets the agent's items."""


class JudgedModel(Model):
    """A model whose agents get text, reasoning and calls of tools that have been judged.

    Calls are judged by the tools' schemas while they are written, an `output_type` by its schema. They arrive with the
    end of an answer that is valid, so nothing is executed that was not judged. An agent takes nothing back, so a repair
    that restarts after text was streamed fails the answer. Items of tools that OpenAI executes are passed on as they are.

    Args:
        wrapped: A model of the SDK. It is streamed, so that it can be cancelled.
        **options: As for `Pipeline`: `requirements`, `chunking`, `retry`, `reasoning`, …

    Raises:
        UsageError: If an option cannot work.
        NotValidError: Raised by the agent's run, if no attempt was valid.

    Example:
        >>> import streamval as sv
        >>> from openai import AsyncOpenAI
        >>> from agents import OpenAIChatCompletionsModel
        >>> plain = OpenAIChatCompletionsModel("gpt-5", AsyncOpenAI(api_key="…"))
        >>> JudgedModel(plain, requirements=[sv.no_secrets()]).wrapped.model
        'gpt-5'
    """

    def __init__(self, wrapped: Model, **options: Any) -> None:
        if not isinstance(wrapped, Model):
            raise UsageError(
                f"wrap a model of the SDK, such as OpenAIResponsesModel(…), not {type(wrapped).__name__}; "
                "for names of models there is JudgedModelProvider"
            )
        if taken := {"format", "tools", "options"} & options.keys():
            raise UsageError(f"the agent says {min(taken)!r}; leave it out")
        self.wrapped = wrapped
        self._pipeline: Pipeline[Any] = Pipeline(_Wrapped(wrapped, {}), **options)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002  # the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        """Return a judged answer."""
        asked = {name: value for name, value in locals().items() if name != "self"}
        speaker = _Wrapped(self.wrapped, asked)
        result = _valid(await self._start(speaker))
        tokens = usage_object(result.usage)
        return ModelResponse(
            output=speaker.items(result),
            usage=AgentUsage(requests=len(result.attempts), **tokens),
            response_id=speaker.response_id,
        )

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002  # the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Stream a judged answer."""
        asked = {name: value for name, value in locals().items() if name != "self"}
        speaker = _Wrapped(self.wrapped, asked)
        written = _Written(speaker)
        async with self._start(speaker) as run:
            async for event in run:
                for one in written.events(event):
                    yield _EVENTS.validate_python(one)
            for one in written.end(_valid(await run)):
                yield _EVENTS.validate_python(one)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """Return what the wrapped model advises."""
        return self.wrapped.get_retry_advice(request)

    async def close(self) -> None:
        """Close the wrapped model."""
        await self.wrapped.close()

    def _start(self, speaker: _Wrapped) -> Run[Any]:
        pipeline, schema = self._pipeline.with_backend(speaker), speaker.asked["output_schema"]
        offered: list[dict[str, Any]] = [
            {"name": tool.name, "parameters": tool.params_json_schema}
            for tool in speaker.asked["tools"]
            if isinstance(tool, FunctionTool)
        ]
        offered += [
            {"name": one.tool_name, "parameters": one.input_json_schema or {"type": "object"}}
            for one in speaker.asked["handoffs"]
        ]
        if offered:
            pipeline = pipeline.with_tools(
                [{"type": "function", "function": one} for one in offered]
            )
        if schema is not None and not schema.is_plain_text():
            pipeline = pipeline.with_format(schema.json_schema())
        return pipeline.start(ASKED)


class JudgedModelProvider(ModelProvider):
    """A provider whose models are judged: for `RunConfig(model_provider=…)`, and agents that name their model.

    Args:
        provider: The provider of the models; by default the SDK's own.
        **options: As for `JudgedModel`.

    Example:
        >>> import streamval as sv
        >>> from agents import RunConfig
        >>> config = RunConfig(model_provider=JudgedModelProvider(requirements=[sv.no_secrets()]))
    """

    def __init__(self, provider: ModelProvider | None = None, **options: Any) -> None:
        self._provider = provider or MultiProvider()
        self._options = options
        Pipeline(IterableBackend(str.split), **options)  # options that cannot work raise now

    def get_model(self, model_name: str | None) -> Model:
        """Return a model by its name, judged."""
        return JudgedModel(self._provider.get_model(model_name), **self._options)

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


def _valid(result: StreamResult) -> StreamResult:
    """Return a result if it is valid.

    Raises:
        NotValidError: If it is not.
    """
    if not result.success:
        raise NotValidError("; ".join(map(str, result.failures)))
    return result


_EVENTS: TypeAdapter[TResponseStreamEvent] = TypeAdapter(
    Annotated[TResponseStreamEvent, Discriminator("type")]
)


class _Wrapped(Backend):
    """A model of the SDK as a backend, for one request of an agent.

    Args:
        model: The model.
        asked: The arguments of the agent's request, by their names.

    Attributes:
        asked: The same.
        response_id: The id of the last response.
        ids: The ids of the items that the model writes, by their kinds.
    """

    def __init__(self, model: Model, asked: dict[str, Any]) -> None:
        self.model = str(getattr(model, "model", type(model).__name__))
        self.asked = asked
        self.response_id: str | None = None
        self.ids: dict[str, str] = {}
        self._model = model
        self._output: Sequence[TResponseOutputItem] = ()

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield what the model writes."""
        reader = ResponsesReader()
        said = [one for one in request.messages if one.content != ASKED]
        given = self.asked["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        asked = {**self.asked, "input": [*items, *input_items(said)] if said else given}
        async for event in self._model.stream_response(**asked):
            if event.type == "response.output_item.added" and event.item.id:
                self.ids[event.item.type] = event.item.id
            elif event.type in ("response.completed", "response.incomplete"):
                self._output, self.response_id = event.response.output, event.response.id
            for delta in reader.read(event):
                yield delta
        if not reader.ended:
            raise ModelBehaviorError("the model's stream ended without a response")

    def items(self, result: StreamResult) -> list[TResponseOutputItem]:
        """Return the items of the last response, with the text that was judged in place of another.

        Reasoning that can be read stays if it was judged and delivered.
        """
        output = [
            one
            for one in self._output
            if not isinstance(one, ResponseReasoningItem)
            or all(text.strip() in result.reasoning for text in texts_in(one.model_dump()))
        ]
        messages = [one for one in output if isinstance(one, ResponseOutputMessage)]
        parts = [part for one in messages for part in one.content]
        said = "".join(part.text for part in parts if part.type == "output_text")
        if said.strip() == result.text.strip():
            return output
        # A repair went on from text that stood, or a rule has masked some of it.
        text = {"type": "output_text", "text": result.text, "annotations": []}
        message = ResponseOutputMessage.model_validate({**_MESSAGE, "content": [text]})
        first = next((at for at, one in enumerate(output) if one in messages), 0)
        others = [one for one in output if one not in messages]
        return [*others[:first], message, *others[first:]]


_MESSAGE = {"id": FAKE_RESPONSES_ID, "type": "message", "role": "assistant", "status": "completed"}
"""A message that no server knows: the SDK leaves its id out where it sends the message back."""


class _Written:
    """Writes the events of a run as those of a response."""

    def __init__(self, speaker: _Wrapped) -> None:
        self._speaker = speaker
        self._chunks = 0
        self._writer = ResponsesWriter(FAKE_RESPONSES_ID, speaker.model, id_of=self._id_of)

    def _id_of(self, kind: str) -> str:
        return self._speaker.ids.get(kind, FAKE_RESPONSES_ID)

    def events(self, event: Event) -> list[dict[str, Any]]:
        """Return what to send for an event of the run; for most nothing.

        Raises:
            NotValidError: If a repair takes back text that was streamed.
        """
        match event:
            case StartedEvent():
                return self._writer.begin()
            case ChunkEvent():
                text = event.separator + event.text
                self._chunks += 1
                return self._writer.text(text.lstrip() if self._chunks == 1 else text)
            case ReasoningEvent():
                return self._writer.reasoning(event.separator + event.text)
            case RetryEvent() if event.keep_chunks < self._chunks:
                raise NotValidError(f"text that was streamed no longer stands: {event.reason}")
        return []

    def end(self, result: StreamResult) -> list[dict[str, Any]]:
        """Return the calls, which a repair might have taken back before, and the end."""
        output = [item.model_dump() for item in self._speaker.items(result)]
        calls = self._writer.tool_calls(result.tool_calls)
        ends = self._writer.end(result.finish_reason or "stop", result.usage, output=output)
        ends[-1]["response"]["id"] = self._speaker.response_id
        return [*calls, *ends]
