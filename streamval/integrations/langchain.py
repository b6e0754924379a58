"""`JudgedChatModel`: a pipeline as a chat model of LangChain, in a chain or in LangGraph."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import itemgetter
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.outputs.chat_generation import ChatGeneration
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from pydantic import BaseModel, ConfigDict

from streamval.aio.blocking import wait_for
from streamval.errors import UsageError
from streamval.events import ChunkEvent, CompletedEvent, Event, RetryEvent, StreamingDoneEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.types.messages import Message

_ROLES = {"human": "user", "ai": "assistant", "system": "system"}


class JudgedChatModel(BaseChatModel):
    """A chat model that streams only chunks that have been judged.

    Metadata reports the text that a repair takes back, as LangChain has no way to do so: the
    `response_metadata` of a message without text has ``{"streamval": [{"type": "retry", "keep_chunks":
    …, "keep_characters": …, "reason": …}]}``. The last one has ``{"type": "completed", "success": …}``. A
    run that is not valid gives its valid part, with the `finish_reason` ``"content_filter"``.

    Attributes:
        pipeline: The pipeline.

    Example:
        >>> from streamval import Pipeline, ScriptedBackend
        >>> model = JudgedChatModel(pipeline=Pipeline(ScriptedBackend("All is well.")))
        >>> model.invoke("How is it?").content
        'All is well.'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    pipeline: Pipeline

    @property
    def _llm_type(self) -> str:
        return "streamval"

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
        model = JudgedChatModel(pipeline=self.pipeline.with_format(schema))
        parser: BaseOutputParser[Any] = JsonOutputParser()
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            parser = PydanticOutputParser(pydantic_object=schema)
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
    ) -> AsyncIterator[ChatGenerationChunk]:
        options = {**kwargs, "stop": stop} if stop else kwargs
        ends: list[int] = []  # where each chunk that stands ends, in the text
        async with self.pipeline.start([_as_message(m) for m in messages], **options) as run:
            async for event in run:
                piece = _as_chunk(event, ends)
                if piece is None:
                    continue
                if run_manager is not None and piece.text:
                    await run_manager.on_llm_new_token(piece.text, chunk=piece)
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
        result = await self.pipeline.run([_as_message(m) for m in messages], **options)
        failures = [str(failure) for failure in result.failures]
        message = AIMessageChunk(
            content=result.text,
            response_metadata={
                "finish_reason": result.finish_reason if result.success else "content_filter",
                "streamval": [
                    {"type": "completed", "success": result.success, "failures": failures}
                ],
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait_for(lambda: self._agenerate(messages, stop, **kwargs))


def _as_message(message: BaseMessage) -> Message:
    if message.type not in _ROLES:
        raise UsageError(
            f"a pipeline takes messages of human, ai and system, not of {message.type!r}"
        )
    return Message(_ROLES[message.type], message.text)  # type: ignore[arg-type]


def _as_chunk(event: Event, ends: list[int]) -> ChatGenerationChunk | None:
    """Return an event as a chunk of a chat model, text or metadata; `None` for most."""
    text, extra, usage = "", None, None
    metadata: dict[str, Any] = {}
    match event:
        case ChunkEvent():
            text = event.separator + event.text
            text = text if ends else text.lstrip()
            ends.append((ends[-1] if ends else 0) + len(text))
        case RetryEvent():
            del ends[event.keep_chunks :]
            extra = {
                "keep_chunks": event.keep_chunks,
                "keep_characters": ends[-1] if ends else 0,
                "reason": event.reason,
            }
        case StreamingDoneEvent() if event.finish_reason:
            metadata["finish_reason"] = event.finish_reason
        case CompletedEvent():
            extra = {"success": event.success}
            if not event.success:
                metadata["finish_reason"] = "content_filter"
            read, written = event.usage.prompt_tokens or 0, event.usage.completion_tokens
            usage = UsageMetadata(
                input_tokens=read, output_tokens=written, total_tokens=read + written
            )
    if extra is not None:
        metadata["streamval"] = [{"type": event.type, **extra}]
    if not (text or metadata):
        return None
    message = AIMessageChunk(content=text, response_metadata=metadata, usage_metadata=usage)
    return ChatGenerationChunk(message=message)
