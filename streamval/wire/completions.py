"""The common part of OpenAI's chat and text completions: requests, choices, usage, log probabilities.

Frames are read from dictionaries and from the objects of the `openai` package and of LiteLLM alike
(`streamval.wire.parts`). Sources: https://platform.openai.com/docs/api-reference/chat and …/completions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, ClassVar, Literal, TypeAlias

from streamval.errors import RequestError, StreamBrokenError, UsageError
from streamval.types.deltas import Delta, ToolCallDelta
from streamval.types.messages import Message
from streamval.types.results import Usage
from streamval.wire.answers import Answer, AnswerWriter, Contents
from streamval.wire.parts import as_mapping, count, index_in, part, text_in
from streamval.wire.sse import DONE

Completion: TypeAlias = Literal["chat", "text"]
"""The two kinds of completions."""

Protocol: TypeAlias = Literal["chat", "text", "responses", "messages"]
"""OpenAI's chat completions, text completions and Responses, and Anthropic's Messages."""

OWN = frozenset({"model", "messages", "prompt", "stream", "stream_options", "n", "echo"})
"""The fields of a request that the gateway handles itself. All others go to the upstream."""

NOT_SERVED = {
    **dict.fromkeys(
        (
            *("api_base", "base_url", "api_key", "api_version", "organization"),
            *("headers", "default_headers", "extra_headers", "extra_body", "extra_query"),
        ),
        "a request cannot say where it goes, or with which key",
    )
}

MAX_CALLS = 128
"""The largest index of a call of a tool."""


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
        echo: What an answer repeats of the request: the fields of a response, or the prompt of a text completion.
        headers: The client's headers that go to the upstream.
        body: The request of Responses and Messages as it came, for an upstream that speaks the same.
        earlier: The messages that come from a response that was kept. They are among `messages`, too.
    """

    kind: Protocol
    model: str
    messages: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]
    stream: bool
    wants_usage: bool
    echo: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    earlier: tuple[Mapping[str, Any], ...] = ()

    def behind(self, earlier: tuple[Mapping[str, Any], ...]) -> CompletionRequest:
        """Return the request with the messages of an earlier response before its own, but behind its instructions."""
        begins = 1 if self.body.get("instructions") else 0
        whole = (*self.messages[:begins], *earlier, *self.messages[begins:])
        return replace(self, messages=whole, earlier=earlier)

    @property
    def said(self) -> tuple[Mapping[str, Any], ...]:
        """The messages without the instructions, which an earlier response does not hand on."""
        return self.messages[1:] if self.body.get("instructions") else self.messages

    @property
    def wants_json(self) -> bool:
        """Whether the answer is to be JSON."""
        wanted = self.options.get("response_format")
        return isinstance(wanted, dict) and wanted.get("type") != "text"

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages, as a pipeline takes them.

        Raises:
            RequestError: If the role of one is not known.
        """
        try:
            return tuple(map(Message.read, self.messages))
        except UsageError as error:
            raise RequestError(str(error)[:500], param="messages") from None


def read_request(
    body: bytes,
    kind: Completion,
    messages_in: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], ...]],
) -> CompletionRequest:
    """Read a request's body; `messages_in` reads the messages, which differ between chat and text.

    Raises:
        RequestError: If it is not a request for one answer.
    """
    given = object_in(body)
    model = model_in(given)
    if given.get("n") not in (None, 1):
        raise RequestError("n must be 1: a run judges one answer", param="n")
    for name, why in NOT_SERVED.items():
        if given.get(name) not in (None, False):
            raise RequestError(why, param=name)
    modalities = given.get("modalities") or []
    if not isinstance(modalities, list) or "audio" in modalities:
        raise RequestError("sound is not served: leave it out", param="modalities")
    stream, stream_options = is_streamed(given), given.get("stream_options") or {}
    if not isinstance(stream_options, dict):
        raise RequestError("stream_options must be an object", param="stream_options")
    return CompletionRequest(
        kind,
        model,
        messages_in(given),
        {name: value for name, value in given.items() if name not in OWN and value is not None},
        stream,
        stream_options.get("include_usage") is True,
    )


def object_in(body: bytes) -> dict[str, Any]:
    """Return the object of JSON that a body is.

    Raises:
        RequestError: If it is none.

    Example:
        >>> object_in(b'{"model": "m"}')
        {'model': 'm'}
    """
    try:
        given = json.loads(body, parse_constant=no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise RequestError("the body is not JSON") from None
    if not isinstance(given, dict):
        raise RequestError("the body must be a JSON object")
    return given


def model_in(given: Mapping[str, Any]) -> str:
    """Return the name of the model in a request.

    Raises:
        RequestError: If there is none.
    """
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError("model must be the name of a served model", param="model")
    return model


def is_streamed(given: Mapping[str, Any]) -> bool:
    """Return whether a request asks for frames.

    Raises:
        RequestError: If `stream` is neither true nor false.
    """
    stream = given.get("stream") or False
    if not isinstance(stream, bool):
        raise RequestError("stream must be true or false", param="stream")
    return stream


def no_number(name: str) -> None:
    """Refuse `NaN` and `Infinity`, which Python reads in JSON."""
    raise ValueError(f"{name} is not JSON")


def _finite(written: str) -> float:
    """Read a number. One that is too large would be sent on as `Infinity`."""
    if not isfinite(number := float(written)):
        no_number(written)
    return number


# Reading frames


def first_choice(frame: Any) -> Any:
    """Return the first of the answers in a frame, or `None`. Other answers do not count."""
    return next((one for one in part(frame, "choices") or () if not part(one, "index")), None)


def text_alone(frame: Any) -> str | None:
    """Return the text of a chat's frame that says nothing else. Most are such; to read all costs six times as much.

    Example:
        >>> text_alone({"choices": [{"index": 0, "delta": {"content": "Hi"}}]})
        'Hi'
        >>> text_alone({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    """
    choices = frame.get("choices") if type(frame) is dict else None
    if type(choices) is not list or len(choices) != 1 or frame.get("usage"):
        return None
    choice = choices[0]
    if type(choice) is not dict or any(map(choice.get, _SAYS_MORE)):
        return None
    message = choice.get("delta")
    if type(message) is not dict or len(message) != 1 or "text" in choice:
        return None
    text = message.get("content")
    return text if type(text) is str else None


_SAYS_MORE = ("index", "finish_reason", "logprobs")


class CompletionReader:
    """Takes the frames of a stream of either kind in order, returns their deltas.

    Reasoning is read wherever servers put it: `reasoning_content` (DeepSeek, SGLang, LiteLLM), `reasoning` (vLLM,
    Ollama, OpenRouter, Groq), parts of type `thinking` (Mistral). Signed and encrypted blocks of it
    (`thinking_blocks` of LiteLLM, `reasoning_details` of OpenRouter) become opaque blocks.

    Attributes:
        ended: Whether a finish reason has come.
        reasoning_field: The field in which this server sends reasoning, and expects it back.

    Example:
        >>> CompletionReader().read({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
        [Delta('Hi', finish_reason='stop')]
        >>> CompletionReader().read({"choices": [{"text": "Hi"}]})
        [Delta('Hi')]
    """

    def __init__(self) -> None:
        self.ended = False
        self.reasoning_field = "reasoning_content"
        self._thought = ""  # of a block of thinking that has no signature yet
        self._details: dict[int, dict[str, Any]] = {}  # OpenRouter's, by their index

    def read(self, frame: Any) -> list[Delta]:
        """Read a frame.

        Raises:
            StreamBrokenError: If its content is not text, or the server says that it has failed.
        """
        if (alone := text_alone(frame)) is not None:
            return [Delta(alone)]
        choice = first_choice(frame)
        message = part(choice, "delta")
        reason, refusal = part(choice, "finish_reason"), part(message, "refusal")
        written = part(choice, "text")
        if reason == "error":  # OpenRouter reports that its upstream broke off
            raise StreamBrokenError("the generation has failed; the server gives no reason")
        content = part(message, "content") if written is None else written
        delta = Delta(
            text_in(content),
            reasoning=self._reasoning(message, content),
            usage=read_usage(part(frame, "usage")),
            finish_reason=reason if isinstance(reason, str) and reason else None,
            refusal=refusal if isinstance(refusal, str) else None,
        )
        self.ended = self.ended or delta.finish_reason is not None
        if message is None:
            return [delta]
        calls = list(part(message, "tool_calls") or ())
        if function := part(message, "function_call"):  # the form before there were tools
            calls.append({"index": 0, "function": function})
        more = [*self._opaque(message), *map(_call_in, calls)]
        return [delta, *more] if more else [delta]

    def _reasoning(self, message: Any, content: Any) -> str:
        for name in ("reasoning_content", "reasoning"):
            if said := part(message, name):
                self.reasoning_field = name
                return text_in(said)
        if isinstance(content, list):
            return "".join(
                text_in(one.get("thinking")) for one in content if one.get("type") == "thinking"
            )
        return ""

    def _opaque(self, message: Any) -> Iterator[Delta]:
        for block in part(message, "thinking_blocks") or ():
            if part(block, "type") == "redacted_thinking":
                yield Delta(opaque=as_mapping(block))
                continue
            self._thought += text_in(part(block, "thinking"))
            if signature := part(block, "signature"):
                whole = {"type": "thinking", "thinking": self._thought, "signature": signature}
                yield Delta(opaque=whole)
                self._thought = ""
        for detail in part(message, "reasoning_details") or ():
            if (joined := self._joined(as_mapping(detail))) is not None:
                yield Delta(opaque=joined)

    def _joined(self, detail: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a block of OpenRouter's, whose text comes in pieces, once it is signed or encrypted."""
        index = index_in(detail.get("index"))
        known = self._details.setdefault(index, {})
        text = "".join(
            one for one in (known.get("text"), detail.get("text")) if isinstance(one, str)
        )
        known |= {name: value for name, value in detail.items() if value is not None}
        if text:
            known["text"] = text
        if known.get("data") or known.get("signature") or len(self._details) > MAX_CALLS:
            del self._details[index]
        return known if known.get("data") or known.get("signature") else None


def _call_in(fragment: Any) -> Delta:
    """Return a piece of a call of a tool.

    Raises:
        StreamBrokenError: If it is none, or its index.
    """
    index, key = part(fragment, "index"), part(fragment, "id")
    if (index, key, part(fragment, "function")) == (None, None, None):
        raise StreamBrokenError(f"the server sent an invalid tool call: {fragment!r:.60}")
    index = 0 if index is None else index
    if type(index) is not int or not 0 <= index < MAX_CALLS:
        raise StreamBrokenError(f"the server sent a tool call with index {index!r:.60}")
    function = part(fragment, "function")
    signature = part(part(part(fragment, "extra_content"), "google"), "thought_signature")
    arguments = part(function, "arguments")
    if isinstance(arguments, Mapping):  # whole, and not as text
        arguments = json.dumps(arguments)
    call = ToolCallDelta(
        index,
        key if isinstance(key, str) and key else None,
        text_in(part(function, "name")) or None,
        text_in(arguments),
        signature if isinstance(signature, str) else None,
    )
    return Delta(tool_call=call)


def read_logprobs(choice: Mapping[str, Any]) -> Iterator[tuple[str, Any, Contents]]:
    """Yield the tokens of a choice of either kind, their log probabilities, and those of other tokens."""
    known = choice.get("logprobs") or {}
    if tokens := known.get("tokens"):
        tops = known.get("top_logprobs") or [None] * len(tokens)
        for token, logprob, top in zip(tokens, known["token_logprobs"], tops, strict=True):
            yield token, logprob, [{"token": t, "logprob": p} for t, p in (top or {}).items()]
    for entry in known.get("content") or ():
        others = [one for one in entry.get("top_logprobs") or () if _is_logprob(one)]
        yield entry["token"], entry["logprob"], others


def _is_logprob(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), (int, float))
    )


def read_usage(reported: Any) -> Usage | None:
    """Return the usage that a server reports; `None` where it reports no completion tokens."""
    written = count(part(reported, "completion_tokens"))
    if not written:
        return None
    return Usage(
        prompt_tokens=count(part(reported, "prompt_tokens")),
        completion_tokens=written,
        reasoning_tokens=count(
            part(part(reported, "completion_tokens_details"), "reasoning_tokens")
        ),
        cached_tokens=count(part(part(reported, "prompt_tokens_details"), "cached_tokens")),
        source="backend",
    )


# Writing


def write_usage(usage: Usage) -> dict[str, Any]:
    """Return a usage as OpenAI writes it."""
    read, written = usage.prompt_tokens or 0, usage.completion_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "rejected_prediction_tokens": usage.discarded_tokens,
        },
    }


class CompletionWriter(AnswerWriter):
    """Writes an answer as frames, or as one object. The two kinds of completions subclass it.

    Args:
        head: The fields that all frames begin with: `id`, `object`, `created`, `model`.
    """

    terminator: ClassVar[str] = DONE

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._head = head

    def adopt(self, fields: Mapping[str, Any]) -> None:
        """Take over the upstream's id and marks: `id`, `created`, `system_fingerprint`, `service_tier`."""
        self._head = {**self._head, **fields}

    def begin(self) -> Contents:
        """Send nothing: the first frame begins the answer."""
        return []

    def fail(self, error: Mapping[str, Any]) -> Contents:
        """End the answer with an error."""
        return [dict(error)]

    def note(self, content: Mapping[str, Any]) -> Contents:
        """Write what only our own clients read, on a frame without choices."""
        return [{**self._head, "choices": [], "x_streamval": content}]

    def choice_frame(self, **choice: Any) -> dict[str, Any]:
        """Return the content of a frame with one choice."""
        full = {"index": 0, "finish_reason": None, "logprobs": None, **choice}
        return {**self._head, "choices": [full]}

    def last_frames(self, usage: Usage | None, last: Mapping[str, Any]) -> Contents:
        """Return the contents of the last frame of an answer, and of the one with its usage."""
        if usage is None:
            return [dict(last)]
        return [dict(last), {**self._head, "choices": [], "usage": write_usage(usage)}]

    def whole_answer(self, kind: str, choice: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        """Return an answer as one object."""
        choices = [{"index": 0, "finish_reason": answer.reason, **choice}]
        usage = write_usage(answer.usage)
        return {**self._head, "object": kind, "choices": choices, "usage": usage}


def head_of(run_id: str, prefix: str, kind: str, model: str, created: int) -> dict[str, Any]:
    """Return the fields that all frames of an answer begin with."""
    return {"id": f"{prefix}-{run_id}", "object": kind, "created": created, "model": model}
