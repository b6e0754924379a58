"""OpenAI's text completions: requests, frames, whole answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamval.errors import RequestError
from streamval.types.messages import ToolCall
from streamval.types.results import Usage
from streamval.wire.answers import Answer, Contents, Logprobs
from streamval.wire.completions import CompletionRequest, CompletionWriter, head_of, object_in
from streamval.wire.completions import read_request as read_completion_request


def read_request(body: bytes) -> CompletionRequest:
    """Read the body of a request.

    Raises:
        RequestError: If it is not a request for one answer.

    Example:
        >>> read_request(b'{"model": "m", "prompt": "Hi"}').messages
        ({'role': 'user', 'content': 'Hi'},)
    """
    request = read_completion_request(body, "text", _prompt)
    if object_in(body).get("echo") is not True:
        return request
    if request.options.get("logprobs"):
        raise RequestError(
            "echo is not served with logprobs, as the prompt has none here", param="echo"
        )
    return replace(request, echo={"prompt": request.messages[0]["content"]})


def _prompt(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if given.get("tools"):
        raise RequestError("a text completion has no tools; use chat completions", param="tools")
    prompt = given.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    if not isinstance(prompt, str):
        raise RequestError("prompt must be a single string", param="prompt")
    return ({"role": "user", "content": prompt},)


class TextWriter(CompletionWriter):
    """Writes an answer of a text completion, which has neither tools nor refusals.

    Args:
        run_id: The run; it becomes the answer's id.
        model: The name of the model.
        created: When the answer began, in Unix seconds.
        prompt: What the answer begins with, where the client asked for an echo.
    """

    def __init__(self, run_id: str, model: str, created: int, prompt: str = "") -> None:
        super().__init__(head_of(run_id, "cmpl", "text_completion", model, created))
        self._prompt = prompt

    def begin(self) -> Contents:
        """Begin the answer with the prompt."""
        return [self.choice_frame(text=self._prompt)] if self._prompt else []

    def text(self, text: str, logprobs: Logprobs = ()) -> Contents:
        """Write text."""
        return [self.choice_frame(text=text, logprobs=_logprobs(logprobs))]

    def reasoning(self, text: str) -> Contents:
        """Leave reasoning out: a text completion has no place for it."""
        return []

    def tool_calls(self, calls: Sequence[ToolCall]) -> Contents:
        """Refuse calls of tools, which a text completion cannot write."""
        if calls:
            raise TypeError("a text completion has no tool calls")
        return []

    def end(self, reason: str, usage: Usage | None = None, refusal: str | None = None) -> Contents:
        """End the answer; a refusal shows as the finish reason alone."""
        return self.last_frames(usage, self.choice_frame(text="", finish_reason=reason))

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the whole answer."""
        choice = {"logprobs": _logprobs(answer.logprobs), "text": self._prompt + answer.text}
        return self.whole_answer("text_completion", choice, answer)


def _logprobs(known: Logprobs) -> dict[str, Any] | None:
    """Return log probabilities, with the alternatives where nothing has to be judged."""
    if not known:
        return None
    others = [{other["token"]: other["logprob"] for other in one.others} for one in known]
    return {
        "tokens": [one.token for one in known],
        "token_logprobs": [one.logprob for one in known],
        "top_logprobs": others if any(others) else None,
        "text_offset": [one.end - len(one.token) for one in known],
    }
