"""The common part of OpenAI's chat and text completions: requests, choices, usage, log probabilities.

Frames are read from dictionaries and from the objects of the `openai` package and of LiteLLM alike
(`part`). Sources: https://platform.openai.com/docs/api-reference/chat and …/completions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from streamval.errors import RequestError, StreamBrokenError
from streamval.types.deltas import Delta
from streamval.types.messages import Message
from streamval.types.results import Usage

Completion: TypeAlias = Literal["chat", "text"]
"""The two kinds of completions."""

OWN = frozenset({"model", "messages", "prompt", "stream", "stream_options", "n"})
"""The fields of a request that the gateway handles itself. All others go to the upstream."""

NOT_SERVED = {
    "functions": "functions are not served; use tools",
    "function_call": "function_call is not served; use tool_choice",
    "audio": "sound is not served",
    "best_of": "best_of asks for several answers, and a run judges one; leave it out",
    "echo": "echo is not served: the prompt is not judged",
    **dict.fromkeys(
        (
            *("api_base", "base_url", "api_key", "api_version", "organization"),
            *("headers", "default_headers", "extra_headers", "extra_body", "extra_query"),
        ),
        "a request cannot say where it goes, or with which key",
    ),
    "suffix": "suffix is not served: the inserted text would be judged without the text after it",
}

NO_TEXT = frozenset({"thinking", "reference"})
"""The parts of a content that are no part of the answer: Mistral's thoughts, and marks of sources."""

MAX_TOKENS = 2**40
"""The most tokens that a server may report. A larger number is ignored."""


class TokenLogprob(NamedTuple):
    """The log probability of a token, without the other fields of its entry, which were not judged.

    Attributes:
        end: Where the token ends in the attempt's text.
        token: Its text.
        logprob: The natural logarithm of its probability.
    """

    end: int
    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A client's request for a completion.

    Attributes:
        kind: A chat, or a text completion.
        model: The name of the model.
        messages: As they came; a prompt is one message of the user.
        options: All other fields, which go to the upstream.
        stream: Whether the client wants frames.
        wants_usage: Whether it wants a frame with the usage.
    """

    kind: Completion
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
        """The text of the messages, as a pipeline takes it."""
        return tuple(
            Message(message["role"], message_text(message.get("content")))
            for message in self.messages
        )


def message_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text among its parts.

    Example:
        >>> message_text([{"type": "text", "text": "What is this?"}, {"type": "image_url"}])
        'What is this?'
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return ""


def read_request(
    body: bytes,
    kind: Completion,
    messages_in: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], ...]],
) -> CompletionRequest:
    """Read a request's body; `messages_in` reads the messages, which differ between chat and text.

    Raises:
        RequestError: If it is not a request for one answer.
    """
    try:
        given = json.loads(body, parse_constant=no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise RequestError("the body is no JSON") from None
    if not isinstance(given, dict):
        raise RequestError("the body must be a JSON object")
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError("model must be the name of a served model", param="model")
    if given.get("n") not in (None, 1):
        raise RequestError("n must be 1: a run judges one answer", param="n")
    for name, why in NOT_SERVED.items():
        if given.get(name) not in (None, False):
            raise RequestError(why, param=name)
    stream, stream_options = given.get("stream") or False, given.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(stream_options, dict):
        raise RequestError(
            "stream must be true or false, and stream_options an object", param="stream"
        )
    return CompletionRequest(
        kind,
        model,
        messages_in(given),
        {name: value for name, value in given.items() if name not in OWN and value is not None},
        stream,
        stream_options.get("include_usage") is True,
    )


def no_number(name: str) -> None:
    """Refuse `NaN` and `Infinity`, which Python reads in JSON."""
    raise ValueError(f"{name} is no JSON")


def _finite(written: str) -> float:
    """Read a number. One that is too large would be sent on as `Infinity`."""
    if not isfinite(number := float(written)):
        no_number(written)
    return number


# Reading frames


def part(of: Any, name: str) -> Any:
    """Return a part of a dictionary or an object; `None` if there is none."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def first_choice(frame: Any) -> Any:
    """Return the first of the answers in a frame, or `None`. Other answers do not count."""
    return next((one for one in part(frame, "choices") or () if not part(one, "index")), None)


def read_delta(frame: Any) -> Delta:
    """Read a frame of either kind.

    Raises:
        StreamBrokenError: If its content is not text, or the server says that it has failed.

    Example:
        >>> read_delta({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
        Delta('Hi', finish_reason='stop')
        >>> read_delta({"choices": [{"text": "Hi"}]}).text
        'Hi'
    """
    choice = first_choice(frame)
    message = part(choice, "delta")
    reason, refusal = part(choice, "finish_reason"), part(message, "refusal")
    written = part(choice, "text")
    if reason == "error":  # OpenRouter reports that its upstream broke off
        raise StreamBrokenError("the generation has failed; the server gives no reason")
    return Delta(
        text=text_in(part(message, "content") if written is None else written),
        usage=read_usage(part(frame, "usage")),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        refusal=refusal if isinstance(refusal, str) else None,
    )


def read_logprobs(choice: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tokens of a choice of either kind with their log probabilities."""
    known = choice.get("logprobs") or {}
    if known.get("tokens"):
        yield from zip(known["tokens"], known["token_logprobs"], strict=True)
    for entry in known.get("content") or ():
        yield entry["token"], entry["logprob"]


def text_in(content: object) -> str:
    """Return the text in a frame: a string, nothing, or (Mistral's) a list of parts.

    Raises:
        StreamBrokenError: If it is something else, or a part may have text that is not known here.

    Example:
        >>> text_in([{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": []}])
        'Hi'
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
        return "".join(map(_text_of_part, content))
    raise StreamBrokenError(f"the server sent {type(content).__name__} where text is expected")


def _text_of_part(one: Mapping[str, Any]) -> str:
    kind = one.get("type", "text")
    if kind in NO_TEXT:
        return ""
    if kind in ("text", "output_text"):
        return text_in(one.get("text"))
    raise StreamBrokenError(f"the server sent a part of type {kind!r:.60}, which is not known")


def read_usage(reported: Any) -> Usage | None:
    """Return the usage that a server reports; `None` where it reports no completion tokens."""
    written = _count(part(reported, "completion_tokens"))
    if not written:
        return None
    read = _count(part(reported, "prompt_tokens"))
    return Usage(prompt_tokens=read, completion_tokens=written, source="backend")


def _count(number: object) -> int | None:
    return number if type(number) is int and 0 <= number <= MAX_TOKENS else None


# Writing


def write_usage(usage: Usage) -> dict[str, Any]:
    """Return a usage as OpenAI writes it."""
    read, written = usage.prompt_tokens or 0, usage.completion_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "completion_tokens_details": {"rejected_prediction_tokens": usage.discarded_tokens},
    }


class CompletionWriter:
    """Writes an answer as frames, or as one object. The two kinds of completions subclass it.

    Args:
        head: The fields that all frames begin with: `id`, `object`, `created`, `model`.
    """

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._head = head

    def choice_frame(self, **choice: Any) -> dict[str, Any]:
        """Return the content of a frame with one choice."""
        full = {"index": 0, "finish_reason": None, "logprobs": None, **choice}
        return {**self._head, "choices": [full]}

    def usage_frame(self, usage: Usage) -> dict[str, Any]:
        """Return the content of the frame with the usage."""
        return {**self._head, "choices": [], "usage": write_usage(usage)}

    def extra_frame(self, content: Any) -> dict[str, Any]:
        """Return the content of a frame that only our own clients read."""
        return {**self._head, "choices": [], "x_streamval": content}

    def whole_answer(self, kind: str, choice: Mapping[str, Any], usage: Usage) -> dict[str, Any]:
        """Return an answer as one object."""
        choices = [{"index": 0, **choice}]
        return {**self._head, "object": kind, "choices": choices, "usage": write_usage(usage)}


def head_of(run_id: str, prefix: str, kind: str, model: str, created: int) -> dict[str, Any]:
    """Return the fields that all frames of an answer begin with."""
    return {"id": f"{prefix}-{run_id}", "object": kind, "created": created, "model": model}


Logprobs: TypeAlias = Sequence[TokenLogprob]
