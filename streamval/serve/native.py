"""Upstreams that speak Responses or Anthropic's Messages.

A request that a client sends in the same protocol goes there as it came, but for the model and what a repair adds.
Others are translated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from streamval.backends.base import GenerationRequest
from streamval.backends.options import SAMPLING
from streamval.serve.upstream import OpenAIRelay, marks_in
from streamval.types.deltas import MAX_OPAQUE, Delta
from streamval.types.messages import Message
from streamval.wire.anthropic_messages import MessagesReader, check_messages, messages_body
from streamval.wire.completions import CompletionRequest
from streamval.wire.openai_responses import (
    ResponsesReader,
    input_items,
    options_for_responses,
    responses_body,
)

VERSION = "2023-06-01"
"""The version of Anthropic's protocol, where a client names none."""


class NativeRelay(OpenAIRelay):
    """Relays one request to an upstream of another protocol than completions."""

    ends_itself = True
    kind = ""

    @abstractmethod
    def _new_body(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a translated request."""

    @abstractmethod
    def _repeated(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's own body, with the messages of a repair, and the options within the file's limits."""

    def _body(self, request: GenerationRequest) -> dict[str, Any]:
        options = self._options_of(request)
        asked = self._asked
        if asked is not None and asked.kind == self.kind:
            body = self._repeated(request, {n: v for n, v in options.items() if n in _PLAIN})
        else:
            body = self._new_body(request, options)
        return {**body, "model": self.model, "stream": True}

    def _note(self, frame: Any, deltas: list[Delta]) -> None:
        whole = frame.get("response") or frame.get("message")
        if isinstance(whole, dict):
            self.marks = self.marks or marks_in(whole)
        self._note_refusal(deltas)
        blocks = [delta.opaque for delta in deltas if delta.opaque is not None]
        self.opaque += blocks[: MAX_OPAQUE - len(self.opaque)]


_PLAIN = SAMPLING | {"max_tokens", "max_completion_tokens"}
"""Options that the file may limit, and that are the same in a client's own body but for their names."""


class ResponsesRelay(NativeRelay):
    """Relays one request to an upstream that speaks Responses."""

    kind = "responses"

    def _new_reader(self) -> ResponsesReader:
        return ResponsesReader()

    def _new_body(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        return responses_body(request.messages, options)

    def _repeated(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        assert self._asked is not None
        said = self._asked.body["input"]
        items = [{"role": "user", "content": said}] if isinstance(said, str) else said
        items = [*input_items(list(map(Message.read, self._asked.earlier))), *items]
        more = input_items(added(request.messages, self._asked.turns))
        body = {**self._asked.body, **options_for_responses(options), "input": [*items, *more]}
        body.pop("previous_response_id", None)  # it is kept here
        return {**body, "store": False}


class MessagesRelay(NativeRelay):
    """Relays one request to an upstream that speaks Anthropic's Messages."""

    kind = "messages"

    def _passed_on(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {"anthropic-version": VERSION, **headers}

    def _new_reader(self) -> MessagesReader:
        return MessagesReader()

    def check(self, asked: CompletionRequest) -> None:
        """Refuse what is not translated."""
        if asked.kind != self.kind:
            check_messages(asked.turns, asked.options, self.model)

    def _new_body(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        return messages_body(request.messages, options, request.prefix)

    def _repeated(self, request: GenerationRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        assert self._asked is not None
        said = added(request.messages, self._asked.turns)
        more = messages_body(said, options, request.prefix)
        messages = [*self._asked.body["messages"], *more.pop("messages")]
        more.pop("system", None)  # a repair has none
        return {**self._asked.body, **more, "messages": messages}


def added(messages: Sequence[Message], turns: Sequence[Message]) -> list[Message]:
    """Return the messages that a repair has added to those of the client. They go behind them, in their order.

    Example:
        >>> hi, again = Message("user", "Hi"), Message("user", "(Once more.)")
        >>> added([again, hi], [hi])
        [Message(role='user', content='(Once more.)')]
    """
    left, found = deque(turns), []
    for message in messages:
        if left and message == left[0]:
            left.popleft()
        else:
            found.append(message)
    return found
