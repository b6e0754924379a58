"""The protocols in which an answer can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from streamval.wire.answers import AnswerWriter
from streamval.wire.completions import Protocol
from streamval.wire.messages_writer import MessagesWriter, error_event
from streamval.wire.openai_chat import ChatWriter
from streamval.wire.openai_text import TextWriter
from streamval.wire.responses_writer import ResponsesWriter

MakeWriter: TypeAlias = Callable[[str, str, int, Mapping[str, Any]], AnswerWriter]
"""Makes a writer for an answer: of its run's id, the model's name, the time when it began (in Unix seconds), and what
the answer repeats of its request."""

WRITERS: Mapping[Protocol, MakeWriter] = MappingProxyType(
    {
        "chat": lambda run_id, model, created, echo: ChatWriter(
            run_id, model, created, functions="functions" in echo
        ),
        "text": lambda run_id, model, created, echo: TextWriter(
            run_id, model, created, echo.get("prompt", "")
        ),
        "responses": lambda run_id, model, created, echo: ResponsesWriter(
            f"resp_{run_id}", model, {**echo, "created_at": created}
        ),
        "messages": lambda run_id, model, *_: MessagesWriter(f"msg_{run_id}", model),
    }
)


def error_body(protocol: Protocol, status: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error in OpenAI's form as the body of an answer in a protocol.

    Example:
        >>> error_body("messages", 404, {"error": {"message": "no such model"}})["type"]
        'error'
    """
    return error_event(error, status) if protocol == "messages" else dict(error)
