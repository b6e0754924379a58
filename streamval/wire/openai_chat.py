"""OpenAI's chat completions: requests, frames, whole answers.

The answers were tested with openai-python, openai-node, the AI SDK, LangChain and LiteLLM.
They accept extra data on a frame with ``choices: []``, and the finish reason ``content_filter``. They
fail on named events and on ``choices: null``. Few of them notice that a finish reason is missing, so
each answer ends with one, or with an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamval.errors import RequestError
from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import Answer, Contents, Logprobs
from streamval.wire.completions import CompletionRequest, CompletionWriter, head_of
from streamval.wire.completions import read_request as read_completion_request


def read_request(body: bytes) -> CompletionRequest:
    """Read the body of a request.

    Raises:
        RequestError: If it is not a request for one answer.

    Example:
        >>> read_request(b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}').turns
        (Message(role='user', content='Hi'),)
    """
    request = read_completion_request(body, "chat", _messages)
    if request.options.get("functions") and not request.options.get("tools"):
        return replace(request, echo={"functions": True})
    return request


def _messages(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages must be a list with at least one message", param="messages")
    for at, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else 0
        if (
            not isinstance(message, dict)
            or not isinstance(message.get("role"), str)
            or not (content is None or isinstance(content, (str, list)))
            or (isinstance(content, list) and not all(isinstance(one, dict) for one in content))
        ):
            raise RequestError(
                "a message needs a role, and content that is a string or a list of parts",
                param=f"messages[{at}]",
            )
    return tuple(messages)


class ChatWriter(CompletionWriter):
    """Writes an answer of a chat.

    Args:
        run_id: The run; it becomes the answer's id.
        model: The name of the model.
        created: When the answer began, in Unix seconds.
        functions: Whether a call is written in the form before there were tools.
    """

    def __init__(self, run_id: str, model: str, created: int, *, functions: bool = False) -> None:
        super().__init__(head_of(run_id, "chatcmpl", "chat.completion.chunk", model, created))
        self._functions = functions
        self._begun = False

    def text(self, text: str, logprobs: Logprobs = ()) -> Contents:
        """Write text."""
        return [self._delta_frame({"content": text}, logprobs=_logprobs(logprobs))]

    def reasoning(self, text: str) -> Contents:
        """Write reasoning, in the field that most clients read."""
        return [self._delta_frame({"reasoning_content": text})]

    def tool_calls(self, calls: Sequence[ToolCall]) -> Contents:
        """Write whole calls of tools, in one frame."""
        if self._functions:
            return [self._delta_frame(_function_call(calls))] if calls else []
        numbered = [{"index": at, **call.as_dict()} for at, call in enumerate(calls)]
        return [self._delta_frame({"tool_calls": numbered})] if numbered else []

    def annotate(self, annotations: Contents) -> Contents:
        """Write what the upstream says about the text."""
        return [self._delta_frame({"annotations": annotations})] if annotations else []

    def end(self, reason: str, usage: Usage | None = None, refusal: str | None = None) -> Contents:
        """End the answer."""
        refused = [] if refusal is None else [self._delta_frame({"refusal": refusal})]
        last = self._delta_frame({}, finish_reason=self._reason(reason))
        return [*refused, *self.last_frames(usage, last)]

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the whole answer."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": answer.text,
            "refusal": answer.refusal,
        }
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.annotations:
            message["annotations"] = answer.annotations
        if answer.calls and self._functions:
            message |= _function_call(answer.calls)
            message["content"] = answer.text or None
        elif answer.calls:
            message["tool_calls"] = [call.as_dict() for call in answer.calls]
            message["content"] = answer.text or None
        choice = {"logprobs": _logprobs(answer.logprobs), "message": message}
        answer = replace(answer, reason=self._reason(answer.reason))
        return self.whole_answer("chat.completion", choice, answer)

    def _reason(self, reason: str) -> str:
        return "function_call" if self._functions and reason == "tool_calls" else reason

    def _delta_frame(self, delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            delta = {"role": "assistant", **delta}
        return self.choice_frame(delta=delta, **choice)


def _function_call(calls: Sequence[ToolCall]) -> dict[str, Any]:
    return {"function_call": {"name": calls[0].name, "arguments": calls[0].raw}}


def _logprobs(known: Logprobs) -> dict[str, Any] | None:
    """Return log probabilities, with the alternatives where nothing has to be judged."""
    if not known:
        return None
    content: list[dict[str, Any]] = [
        {
            "token": one.token,
            "logprob": one.logprob,
            "bytes": list(one.token.encode()),
            "top_logprobs": list(one.others),
        }
        for one in known
    ]
    return {"content": content, "refusal": None}
