"""`judged_model`: a pipeline as a model of Pydantic AI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from streamval.errors import NotValidError, UsageError
from streamval.events import ChunkEvent, RetryEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.types.messages import Message


def judged_model(pipeline: Pipeline) -> FunctionModel:
    """Return a pipeline as a model of Pydantic AI, whose agents get text that has been judged.

    An agent takes nothing back: a run that is not valid in the end raises, and so does a repair that
    restarts after text was streamed. An agent's `output_type` is judged by its JSON Schema while it is
    written. Tools are not passed on.

    Args:
        pipeline: The pipeline.

    Returns:
        The model, for ``Agent(judged_model(pipeline))``.

    Raises:
        NotValidError: Raised by the agent, if no attempt was valid.
        UsageError: Raised by the agent, if it has tools, or no message has text.

    Example:
        >>> from pydantic_ai import Agent
        >>> from streamval import Pipeline, ScriptedBackend
        >>> agent = Agent(judged_model(Pipeline(ScriptedBackend("All is well."))))
        >>> agent.run_sync("How is it?").output
        'All is well.'
    """

    def asked(info: AgentInfo) -> Pipeline[Any]:
        wanted = info.model_request_parameters.output_object
        return pipeline if wanted is None else pipeline.with_format(wanted.json_schema)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        result = await asked(info).run(_as_messages(messages, info))
        if not result.success:
            raise NotValidError("; ".join(str(failure) for failure in result.failures))
        usage = RequestUsage(
            input_tokens=result.usage.prompt_tokens or 0,
            output_tokens=result.usage.completion_tokens,
        )
        return ModelResponse(parts=[TextPart(result.text)], usage=usage)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        chunks = 0
        async with asked(info).start(_as_messages(messages, info)) as run:
            async for event in run:
                if isinstance(event, ChunkEvent):
                    text = event.separator + event.text
                    yield text if chunks else text.lstrip()
                    chunks += 1
                elif isinstance(event, RetryEvent) and event.keep_chunks < chunks:
                    raise NotValidError(f"text that was streamed no longer stands: {event.reason}")
            result = await run
            if not result.success:
                raise NotValidError("; ".join(str(failure) for failure in result.failures))

    profile = ModelProfile(
        supports_json_schema_output=True, default_structured_output_mode="native"
    )
    name = pipeline.backend.model
    return FunctionModel(answer, stream_function=stream, model_name=name, profile=profile)


def _as_messages(messages: list[ModelMessage], info: AgentInfo) -> list[Message]:
    if info.function_tools:
        raise UsageError("a judged model passes no tools on; give the agent another model for them")
    found: list[Message] = []
    if info.instructions:
        found.append(Message("system", info.instructions))
    for turn in messages:
        if isinstance(turn, ModelResponse):
            found.append(Message("assistant", turn.text or ""))
        elif isinstance(turn, ModelRequest):
            for part in turn.parts:
                if isinstance(part, SystemPromptPart):
                    found.append(Message("system", part.content))
                elif isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    found.append(Message("user", part.content))
    return found
