"""`JudgedChatModel`: a pipeline as a chat model of LangChain, in a chain or in LangGraph."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.outputs.chat_generation import ChatGeneration
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ConfigDict

from streamval.aio.blocking import iterate_blocking, wait_for
from streamval.errors import NotValidError
from streamval.events import ChunkEvent, CompletedEvent, Event, ReasoningEvent, RetryEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.structured.tools import as_tools
from streamval.types.messages import Message
from streamval.types.results import StreamResult, Usage


class JudgedChatModel(BaseChatModel):
    """A chat model that streams only chunks that have been judged.

    Tools that are bound are judged: a call arrives with the end of a run that is valid, and only then. Reasoning
    arrives in `additional_kwargs["reasoning_content"]`, once it was judged.

    Metadata reports the text that a repair takes back, as LangChain has no way to do so: the
    `response_metadata` of a message without text has ``{"streamval": [{"type": "retry", "keep_chunks":
    …, "keep_characters": …, "reason": …}]}``. The last one has ``{"type": "completed", "success": …, "failures": …}``, and
    the `reasoning` that stands, where there was more than one attempt.

    Attributes:
        pipeline: The pipeline.
        on_failure: What a run that is not valid gives: `"mark"`, its valid part, with the `finish_reason`
            ``"content_filter"``; `"raise"`, a `NotValidError` that says why.

    Example:
        >>> from streamval import Pipeline, ScriptedBackend
        >>> model = JudgedChatModel(pipeline=Pipeline(ScriptedBackend("All is well.")))
        >>> model.invoke("How is it?").content
        'All is well.'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    pipeline: Pipeline
    on_failure: Literal["mark", "raise"] = "mark"

    @property
    def _llm_type(self) -> str:
        return "streamval"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.pipeline.backend.model}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        return {**params, "ls_provider": "streamval", "ls_model_name": self._named(kwargs)}

    def _named(self, options: Mapping[str, Any]) -> str:
        """Return the name of the model that a generation with these options asks for."""
        return str(options.get("model") or self.pipeline.backend.model)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a model that may call tools, whose calls are judged while they are written.

        Args:
            tools: Tools of LangChain, functions, pydantic models or dictionaries.
            tool_choice: The name of the tool to call; `"any"`, `"required"` or `True` for one of them; `"auto"`,
                `"none"`, or OpenAI's dictionary.
            **kwargs: Options for each generation.

        Raises:
            UsageError: If a tool cannot be used.
        """
        offered = [convert_to_openai_tool(tool) for tool in tools]
        for one in offered:
            as_tools([one])
        choice = _choice(tool_choice)
        return super().bind(tools=offered, **({"tool_choice": choice} if choice else {}), **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a model whose text is JSON for a schema, which is judged while it is written.

        Args:
            schema: A JSON Schema, a pydantic model, or a `TypedDict`.
            include_raw: Return ``{"raw": message, "parsed": …, "parsing_error": …}``, and raise nothing.
            **kwargs: `method` is not needed: a pipeline judges the text itself.

        Returns:
            A runnable that gives an instance of the model, or a dictionary.

        Raises:
            OutputParserException: Raised by the runnable, if the run was not valid.
            UsageError: If the schema cannot be used.
        """
        is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        wanted = schema if is_model else convert_to_json_schema(schema)
        judged = self.model_copy(update={"pipeline": self.pipeline.with_format(wanted)})
        written = {"kwargs": {"method": "json_schema"}, "schema": convert_to_openai_tool(schema)}
        model = judged.bind(ls_structured_output_format=written)
        parser: BaseOutputParser[Any] = JsonOutputParser()
        if isinstance(schema, type) and is_basemodel_subclass(schema):
            parser = PydanticOutputParser[Any](pydantic_object=schema)
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
        )
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        safe = parsed.with_fallbacks([failed], exception_key="parsing_error")
        return RunnableMap(raw=model) | safe

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        options = {**kwargs, "stop": stop} if stop else kwargs
        writer = _Writer()
        async with self.pipeline.start(_as_messages(messages), **options) as run:
            async for event in run:
                is_last = isinstance(event, CompletedEvent)
                piece = self._end(await run, options) if is_last else writer.chunk(event)
                if piece is None:
                    continue
                if run_manager is not None and piece.text:
                    await run_manager.on_llm_new_token(piece.text, chunk=piece)
                yield piece

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces = iterate_blocking(lambda: self._astream(messages, stop, **kwargs))
        for piece in pieces:
            if run_manager is not None and piece.text:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        """Return the text that stands in the end, without text that was taken back."""
        options = {**kwargs, "stop": stop} if stop else kwargs
        result = await self.pipeline.run(_as_messages(messages), **options)
        message = AIMessage(
            content=result.text,
            additional_kwargs=_shown(result) | _goes_back(result),
            tool_calls=[
                {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
                for call in result.tool_calls
            ],
            response_metadata=self._metadata(result, options),
            usage_metadata=_usage(result.usage),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _end(self, result: StreamResult, options: Mapping[str, Any]) -> ChatGenerationChunk:
        """Return the last chunk of a stream: the calls, and what goes back to the provider."""
        return _piece(
            content="",
            additional_kwargs=_goes_back(result),
            response_metadata=self._metadata(result, options),
            usage_metadata=_usage(result.usage),
            chunk_position="last",
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=call.raw, id=call.id, index=call.index)
                for call in result.tool_calls
            ],
        )

    def _metadata(self, result: StreamResult, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how a run ended.

        Raises:
            NotValidError: If it is not valid, and that is to be raised.
        """
        failures = [str(failure) for failure in result.failures]
        if not result.success and self.on_failure == "raise":
            raise NotValidError("; ".join(failures) or "the run was cut short")
        said: dict[str, Any] = {
            "type": "completed",
            "success": result.success,
            "failures": failures,
        }
        if result.reasoning and len(result.attempts) > 1:
            said["reasoning"] = result.reasoning
        return {
            "finish_reason": result.finish_reason if result.success else "content_filter",
            "model_name": self._named(options),
            "streamval": [said],
        }

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait_for(lambda: self._agenerate(messages, stop, **kwargs))


_BLOCKS = ("thinking_blocks", "reasoning_items", "reasoning_details")
_GOES_BACK = ("reasoning_content", *_BLOCKS)
"""The fields of an answer that its provider may want back."""


def _as_messages(messages: list[BaseMessage]) -> list[Message]:
    """Return messages as OpenAI writes them, with their pictures, calls, results and reasoning."""
    read: list[Message] = []
    for message in messages:
        # One message may become several: the results of tools in Anthropic's form.
        *before, one = convert_to_openai_messages([message])
        read += map(Message.read, before)
        more = {name: message.additional_kwargs.get(name) for name in _GOES_BACK}
        # A message that was put together of chunks has the reasoning of every attempt.
        ends = message.response_metadata.get("streamval") or [{}]
        more["reasoning_content"] = ends[-1].get("reasoning", more["reasoning_content"])
        read.append(Message.read({**one, **{name: kept for name, kept in more.items() if kept}}))
    return read


def _choice(given: str | dict[str, Any] | bool | None) -> Any:
    """Return a tool choice as OpenAI writes it."""
    if given is True or given == "any":
        return "required"
    if isinstance(given, str) and given not in ("auto", "none", "required"):
        return {"type": "function", "function": {"name": given}}
    return given or None


def _shown(result: StreamResult) -> dict[str, Any]:
    return {"reasoning_content": result.reasoning} if result.reasoning else {}


def _goes_back(result: StreamResult) -> dict[str, Any]:
    """Return the blocks that the provider wants back as they came."""
    fields = result.message.fields
    return {name: fields[name] for name in _BLOCKS if name in fields}


def _usage(usage: Usage) -> UsageMetadata:
    read, written = usage.prompt_tokens or 0, usage.completion_tokens
    made = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    if usage.cached_tokens is not None:
        made["input_token_details"] = {"cache_read": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        made["output_token_details"] = {"reasoning": usage.reasoning_tokens}
    return made


class _Writer:
    """Writes the events of a run, but for its end, as chunks of a chat model."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # where each chunk that stands ends, in the text

    def chunk(self, event: Event) -> ChatGenerationChunk | None:
        """Return an event as a chunk: text, reasoning or what was taken back; `None` for most."""
        match event:
            case ChunkEvent():
                text = event.separator + event.text
                text = text if self._ends else text.lstrip()
                self._ends.append((self._ends[-1] if self._ends else 0) + len(text))
                return _piece(content=text)
            case ReasoningEvent():
                thought = event.separator + event.text
                return _piece(content="", additional_kwargs={"reasoning_content": thought})
            case RetryEvent():
                del self._ends[event.keep_chunks :]
                said = {
                    "type": event.type,
                    "keep_chunks": event.keep_chunks,
                    "keep_characters": self._ends[-1] if self._ends else 0,
                    "reason": event.reason,
                }
                return _piece(content="", response_metadata={"streamval": [said]})
        return None


def _piece(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))
