"""OpenAI's wire format: what a client asks, and what it is sent.

What a client may rely on was tried with openai-python, openai-node, the AI SDK, LangChain and LiteLLM:
they take extra data on a frame with ``choices: []``, and the finish reason ``content_filter``. They break
on named events and on ``choices: null``, and few of them notice that a finish is missing, so there always
is one, or an error.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from streamval.errors import UsageError
from streamval.serve.frames import frame
from streamval.types.context import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamval.types.results import Usage

Kind = Literal["chat", "text"]


class TokenLogprob(NamedTuple):
    """A token's log probability: nothing else of its entry, which was not judged.

    Attributes:
        end: Where the token ends in the attempt's text.
        token: Its text.
        logprob: Its natural logarithm.
    """

    end: int
    token: str
    logprob: float


REFUSAL = "The rest of this answer was withheld: it did not meet the rules of this service."
"""Says nothing of what was withheld, nor of the rules: both may be what must not be said."""

OWN = frozenset({"model", "messages", "prompt", "stream", "stream_options", "n"})
"""What of a request is the gateway's own business: all else goes through."""
REFUSED = {
    "functions": "functions are not served; use tools",
    "function_call": "function_call is not served; use tool_choice",
    "audio": "sound is not served",
    "best_of": "best_of asks for several answers, and a run judges one; leave it out",
    "echo": "echo is not served: the prompt is not judged",
    "suffix": "suffix is not served: what is inserted would be judged without what follows",
}


class BadRequestError(UsageError):
    """What a client asks cannot be served.

    Attributes:
        status: Of HTTP.
        code: For programs.
        param: Which part of the request.
    """

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks.

    Attributes:
        kind: A chat, or a text completion.
        model: The name that it asks for.
        messages: As they came; a prompt is one message of the user.
        options: All else, which goes through to the upstream.
        stream: Whether it wants frames.
        wants_usage: Whether it wants a frame with the usage.
    """

    kind: Kind
    model: str
    messages: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]
    stream: bool
    wants_usage: bool

    @property
    def wants_json(self) -> bool:
        """Whether the answer is to be JSON."""
        wanted = self.options.get("response_format")
        return isinstance(wanted, dict) and wanted.get("type") != "text"

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages as a pipeline knows them: their text."""
        return tuple(
            Message(message["role"], text_of(message.get("content"))) for message in self.messages
        )


def text_of(content: object) -> str:
    """The text of a message's content: a string, or parts of which some are text.

    Example:
        >>> text_of([{"type": "text", "text": "What is this?"}, {"type": "image_url"}])
        'What is this?'
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return ""


def asked(body: bytes, kind: Kind) -> Asked:
    """Read a request's body.

    Raises:
        BadRequestError: If it is not what OpenAI's clients send.

    Example:
        >>> asked(b'{"model": "m", "prompt": "Hi"}', "text").messages
        ({'role': 'user', 'content': 'Hi'},)
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        message = "the body is no JSON"
        raise BadRequestError(message) from None
    if not isinstance(given, dict):
        message = "the body must be a JSON object"
        raise BadRequestError(message)
    model = given.get("model")
    if not isinstance(model, str) or not model:
        message = "model must be the name of a served model"
        raise BadRequestError(message, param="model")
    if given.get("n") not in (None, 1):
        message = "n must be 1: a run judges one answer"
        raise BadRequestError(message, param="n")
    for name, why in REFUSED.items():
        if given.get(name) not in (None, False):
            raise BadRequestError(why, param=name)
    stream, stream_options = given.get("stream") or False, given.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(stream_options, dict):
        message = "stream must be true or false, and stream_options an object"
        raise BadRequestError(message, param="stream")
    return Asked(
        kind,
        model,
        _messages(given) if kind == "chat" else _prompt(given),
        {name: value for name, value in given.items() if name not in OWN and value is not None},
        stream,
        stream_options.get("include_usage") is True,
    )


def _messages(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        why = "messages must be a list with at least one message"
        raise BadRequestError(why, param="messages")
    for at, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else 0
        if (
            not isinstance(message, dict)
            or not isinstance(message.get("role"), str)
            or not (content is None or isinstance(content, (str, list)))
            or (isinstance(content, list) and not all(isinstance(p, dict) for p in content))
        ):
            why = "a message needs a role, and a content that is a text or a list of parts"
            raise BadRequestError(why, param=f"messages[{at}]")
    return tuple(messages)


def _prompt(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    prompt = given.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    if not isinstance(prompt, str):
        why = "prompt must be one text"
        raise BadRequestError(why, param="prompt")
    return ({"role": "user", "content": prompt},)


class Answer:
    """Makes what a client is sent: frames, or one object. Pure.

    Args:
        asked: What the client asked.
        run_id: Becomes the id of the answer.
    """

    def __init__(self, asked: Asked, run_id: str) -> None:
        self._asked = asked
        chat = asked.kind == "chat"
        self._head = {
            "id": f"chatcmpl-{run_id}" if chat else f"cmpl-{run_id}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()),
            "model": asked.model,
        }
        self._begun = False

    # Streamed

    def text(self, text: str, logprobs: Sequence[TokenLogprob] = ()) -> bytes:
        """A frame of text that may be read."""
        choice: dict[str, Any] = {"logprobs": self._logprobs(logprobs)}
        if self._asked.kind == "text":
            choice["text"] = text
        else:
            choice["delta"] = self._opening() | {"content": text}
        return self._frame(choice)

    def tool_calls(self, calls: Sequence[Mapping[str, Any]]) -> bytes:
        """A frame of whole tool calls."""
        numbered = [{"index": at, **call} for at, call in enumerate(calls)]
        return self._frame({"delta": self._opening() | {"tool_calls": numbered}})

    def end(self, reason: str, usage: Usage, refusal: str | None = None) -> list[bytes]:
        """The last frames of an answer, which has a finish reason in every case."""
        frames = []
        if refusal is not None and self._asked.kind == "chat":
            frames.append(self._frame({"delta": self._opening() | {"refusal": refusal}}))
        last = {"text": ""} if self._asked.kind == "text" else {"delta": self._opening()}
        frames.append(self._frame(last | {"finish_reason": reason}))
        if self._asked.wants_usage:
            frames.append(frame({**self._head, "choices": [], "usage": _usage(usage)}))
        return frames

    def event_frame(self, content: Any) -> bytes:
        """A frame with what only our own clients read."""
        return frame({**self._head, "choices": [], "x_streamval": content})

    def _opening(self) -> dict[str, Any]:
        begun, self._begun = self._begun, True
        return {} if begun else {"role": "assistant"}

    def _frame(self, choice: dict[str, Any]) -> bytes:
        full = {"index": 0, "finish_reason": None, "logprobs": None, **choice}
        return frame({**self._head, "choices": [full]})

    # As one object

    def whole(
        self,
        text: str,
        reason: str,
        usage: Usage,
        *,
        refusal: str | None = None,
        calls: Sequence[Mapping[str, Any]] = (),
        logprobs: Sequence[TokenLogprob] = (),
    ) -> dict[str, Any]:
        """The whole answer."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        choice["logprobs"] = self._logprobs(logprobs)
        if self._asked.kind == "text":
            choice["text"] = text
            kind = "text_completion"
        else:
            message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
            if calls:
                message["tool_calls"] = list(calls)
                message["content"] = text or None
            choice["message"] = message
            kind = "chat.completion"
        return {**self._head, "object": kind, "choices": [choice], "usage": _usage(usage)}

    def _logprobs(self, known: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        """What each kind of completion says of its tokens. Other tokens that the model weighed are not judged."""
        if not known:
            return None
        if self._asked.kind == "text":
            return {
                "tokens": [one.token for one in known],
                "token_logprobs": [one.logprob for one in known],
                "top_logprobs": None,
                "text_offset": [one.end - len(one.token) for one in known],
            }
        content: list[dict[str, Any]] = [
            {"token": one.token, "logprob": one.logprob, "bytes": None, "top_logprobs": []}
            for one in known
        ]
        return {"content": content, "refusal": None}


def error_object(
    message: str, kind: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """An error as OpenAI writes it.

    Example:
        >>> error_object("no such model", "invalid_request_error")["error"]["message"]
        'no such model'
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _usage(usage: Usage) -> dict[str, Any]:
    read, written = usage.prompt_tokens or 0, usage.completion_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "completion_tokens_details": {"rejected_prediction_tokens": usage.discarded_tokens},
    }
