"""`JudgedGuardrail`: our requirements as a guardrail of LiteLLM's proxy.

    guardrails:
      - guardrail_name: streamval
        litellm_params:
          guardrail: streamval.integrations.litellm_proxy.JudgedGuardrail
          mode: post_call
          default_on: true
          requirements: [no_secrets, {forbidden_words: [acme]}]

Chat completions are judged: streamed ones while they are written, whole ones before they are sent. A failure closes
the provider's stream. Nothing is asked again: for repairs there is our own gateway.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from litellm.exceptions import GuardrailRaisedException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.utils import ModelResponse, ModelResponseStream

from streamval.backends.base import Backend, GenerationRequest
from streamval.chunkers.chunking import Chunking
from streamval.errors import UsageError
from streamval.events import ChunkEvent, Event, ReasoningEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.run import Run
from streamval.requirements.by_name import requirement_of
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.messages import texts_in
from streamval.types.results import StreamResult
from streamval.wire.completions import CompletionReader
from streamval.wire.openai_chat import ChatWriter
from streamval.wire.parts import as_mapping, part, text_in

_LOG = logging.getLogger(__name__)


class JudgedGuardrail(CustomGuardrail):  # type: ignore[misc]  # mypy does not follow LiteLLM
    """Judges the answers that the proxy sends.

    Args:
        guardrail_name: Its name in requests.
        requirements: Names of ready requirements, or ``{NAME: arguments}``, as in the gateway's file. `no_secrets` and
            others judge reasoning and calls of tools too. Calls are judged by the schemas of the request's tools.
        chunking: How the text is cut, such as ``"sentence"``: a client gets a chunk once it was judged.
        **options: LiteLLM's own, such as `event_hook` and `default_on`.

    The proxy starts without a guardrail that cannot be made, and says so in its log alone. So a mistake in
    `requirements` or `chunking` raises nothing: it is logged, and every answer is refused with its text.

    Example:
        >>> JudgedGuardrail(requirements=["no_secrets", {"word_limit": 80}]).guardrail_name
        'streamval'
    """

    def __init__(
        self,
        guardrail_name: str = "streamval",
        requirements: Iterable[str | Mapping[str, Any]] = (),
        chunking: Chunking = "sentence",
        **options: Any,
    ) -> None:
        super().__init__(guardrail_name=guardrail_name, **options)
        self._problem: str | None = None
        try:
            if isinstance(requirements, (str, Mapping)):
                raise UsageError(f"requirements must be a list, not {requirements!r:.80}")
            judges = [requirement_of(written) for written in requirements]
            self._pipeline = Pipeline(_Answer(()), requirements=judges, chunking=chunking)
        except Exception as error:  # of a user's own requirement too
            self._problem = f"the guardrail {guardrail_name!r} is configured wrongly: {error}"
            _LOG.error("%s; every answer is refused until that is mended", self._problem)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the chunks of a stream that have passed.

        Raises:
            GuardrailRaisedException: If one fails; the message has the names of the requirements that it does not meet.
        """
        answer = _Answer(response)
        sent = _Sent(answer)
        async with self._start(answer, request_data) as run:
            async for event in run:
                for frame in sent.frames(event):
                    yield frame
            options = request_data.get("stream_options") or {}
            for frame in sent.end(self._valid(await run), usage=bool(options.get("include_usage"))):
                yield frame

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Return a whole answer, once each of its choices has passed.

        Raises:
            GuardrailRaisedException: If one fails.
        """
        if not isinstance(response, ModelResponse):
            raise self._refused("it judges chat completions; leave it out of other routes")
        for choice in response.choices:
            if unjudged := _unjudged(choice):
                raise self._refused(f"the answer has {unjudged}, which it does not judge")
            self._valid(await self._start(_Answer(_as_deltas(choice)), data))
        return response

    def _start(self, answer: _Answer, data: Mapping[str, Any]) -> Run[Any]:
        if self._problem is not None:
            raise self._refused(self._problem)
        try:
            pipeline = self._pipeline.with_backend(answer).with_tools(data.get("tools") or [])
        except UsageError as error:
            raise self._refused(str(error)) from None
        if (data.get("n") or 1) != 1:
            raise self._refused("it judges one answer to a request; leave n out")
        return pipeline.start("the request of the proxy's client")

    def _valid(self, result: StreamResult) -> StreamResult:
        """Return a result if it is valid. What a rule says may quote text that was withheld, so it is not sent."""
        if not result.success:
            names = dict.fromkeys(failure.requirement for failure in result.failures)
            raise self._refused(f"the answer does not meet: {'; '.join(names)}", blocked=True)
        return result

    def _refused(self, why: str, *, blocked: bool = False) -> GuardrailRaisedException:
        return GuardrailRaisedException(
            self.guardrail_name,
            why,
            should_wrap_with_default_message=False,
            blocked_content=blocked,
        )


class _Answer(Backend):
    """An answer that LiteLLM has, as a backend: it is judged, whatever is asked.

    Args:
        pieces: The chunks of its stream, or deltas.

    Attributes:
        first: The first chunk.
    """

    model = "litellm"

    def __init__(self, pieces: Any) -> None:
        self.first: Any = None
        self._pieces = pieces

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Yield its deltas."""
        if not hasattr(self._pieces, "__aiter__"):
            for delta in self._pieces:
                yield delta
            return
        reader = CompletionReader()
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                if part(piece, "object") != "chat.completion.chunk":
                    raise UsageError(
                        "JudgedGuardrail judges chat completions; leave it out of other routes"
                    )
                self.first = self.first or piece
                for delta in reader.read(piece):
                    yield delta


class _Sent:
    """Writes the events of a run as LiteLLM's chunks."""

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer
        self._writer = ChatWriter("", "", 0)
        self._begun = False

    def frames(self, event: Event) -> list[ModelResponseStream]:
        """Return what to send for an event; for most nothing."""
        if isinstance(event, ChunkEvent):
            text = event.separator + event.text
            begun, self._begun = self._begun, True
            return self._as_chunks(*self._writer.text(text if begun else text.lstrip()))
        if isinstance(event, ReasoningEvent):
            return self._as_chunks(*self._writer.reasoning(event.separator + event.text))
        return []

    def end(self, result: StreamResult, *, usage: bool) -> list[ModelResponseStream]:
        """Return the calls, the end, and the usage where the client asked for it."""
        frames = self._writer.tool_calls(result.tool_calls)
        counted = result.usage if usage else None
        frames += self._writer.end(result.finish_reason or "stop", counted)
        return self._as_chunks(*frames)

    def _as_chunks(self, *frames: dict[str, Any]) -> list[ModelResponseStream]:
        first = self._answer.first
        head = {name: part(first, name) for name in ("id", "model", "created")}
        return [ModelResponseStream(**{**frame, **head}) for frame in frames]


_JUDGED = frozenset({"role", "content", "tool_calls", "reasoning_content"})
"""The fields of a message that are judged."""


def _unjudged(choice: Any) -> str | None:
    """Return a field of a whole answer that has something in it and is not judged; `None` if there is none.

    Blocks of thinking whose text is that of `reasoning_content`, and what providers add to a field, are no such field.
    """
    fields = as_mapping(part(choice, "message"))
    thought = text_in(fields.get("reasoning_content"))
    blocks = fields.pop("thinking_blocks", None) or ()
    if not all(text in thought for block in blocks for text in texts_in(as_mapping(block))):
        return "thinking_blocks"
    provider = fields.pop("provider_specific_fields", None) or {}
    known = {"thinking_blocks", "reasoning_content", "refusal", "citations"}
    fields |= {name: value for name, value in provider.items() if name not in known}
    return next((name for name, value in fields.items() if value and name not in _JUDGED), None)


def _as_deltas(choice: Any) -> Sequence[Delta]:
    """Return the message of a whole answer as deltas."""
    message = part(choice, "message")
    calls = [
        Delta(
            tool_call=ToolCallDelta(
                at,
                part(call, "id"),
                text_in(part(part(call, "function"), "name")),
                text_in(part(part(call, "function"), "arguments")),
            )
        )
        for at, call in enumerate(part(message, "tool_calls") or ())
    ]
    reasoning = text_in(part(message, "reasoning_content"))
    return [
        Delta(reasoning=reasoning),
        Delta(text_in(part(message, "content"))),
        *calls,
        Delta(finish_reason=text_in(part(choice, "finish_reason")) or "stop"),
    ]
