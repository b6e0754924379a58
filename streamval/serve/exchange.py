"""`Exchange`: one client's answer, from a run's events to what goes over the wire."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

from streamval.events import (
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    QuickCheckEvent,
    RetryEvent,
    StreamingDoneEvent,
    TokenEvent,
    VerdictEvent,
)
from streamval.serve.frames import DONE, frame
from streamval.serve.wire import REFUSAL, Answer, error_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import Send

    from streamval.events import BaseEvent
    from streamval.pipeline.run import Run
    from streamval.serve.configuration import ServedModel
    from streamval.serve.upstream import Relay
    from streamval.serve.wire import Asked, TokenLogprob

REASONS = ("stop", "length", "tool_calls", "content_filter")
"""The finish reasons that clients know. Any other word of an upstream is not sent on."""

STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Exchange:
    """Sends one answer: the status line with the first good chunk, and no byte that was not judged.

    Args:
        send: Of ASGI. It waits while the client does not read, and so does the run.
        request_id: Goes into a header of the answer.

    Attributes:
        status: Of HTTP; 0 before it is sent.
        outcome: ``valid``, ``rejected``, ``broken``; empty before that is known.
    """

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._id = (b"x-request-id", request_id.encode())
        self.status = 0
        self.outcome = ""
        # Released, and not sent: text, and the log probabilities of its tokens.
        self._chunks: list[tuple[str, list[TokenLogprob]]] = []
        self._logprobs: deque[list[TokenLogprob]] = (
            deque()
        )  # of chunks that are still to be handled
        self._asked_in_words = False
        self._sent = 0
        self._extras: list[bytes] = []
        self._reason: str | None = None
        self._raised = False

    def begin(
        self,
        asked: Asked,
        run: Run[Any],
        relay: Relay | None,
        model: ServedModel,
        *,
        wants_events: bool,
    ) -> None:
        """What is to be answered."""
        self._asked, self._run, self._relay, self._model = asked, run, relay, model
        self._answer = Answer(asked, run.run_id)
        self._wants_events = wants_events and asked.stream
        # In JSON a rule would judge deltas, so where there are rules all of it is judged first.
        judged_late = bool(model.requirements) and asked.wants_json
        self._held = model.release == "all" or judged_late
        if relay is not None:
            run.subscribe(self._note)

    async def answer(self) -> None:
        """Drive the run, and send what it releases.

        Raises:
            Exception: What ends the run. Nothing has been sent of its error then.
        """
        async for event in self._run:
            if self._wants_events and not isinstance(event, (TokenEvent, VerdictEvent)):
                self._extras.append(self._answer.event_frame(_public(event)))
            match event:
                case ChunkEvent():
                    logprobs = self._logprobs.popleft() if self._logprobs else []
                    self._chunks.append((event.separator + event.text, logprobs))
                    if self._asked.stream and not self._held:
                        await self._send_chunks()
                case StreamingDoneEvent():
                    self._reason = event.finish_reason
                case RetryEvent():
                    if event.keep_chunks < self._sent:  # what was sent cannot be taken back
                        self._run.cancel()
                    else:
                        del self._chunks[event.keep_chunks - self._sent :]
                case ErrorEvent():
                    self._raised = True
                case CompletedEvent():
                    await self._complete(event)

    def _note(self, event: BaseEvent) -> None:
        """Take a chunk's log probabilities as it is released: the next attempt forgets them."""
        if isinstance(event, RetryEvent):
            # Its attempt counts from the words in which it was asked to go on, and not from the text.
            self._asked_in_words = event.mode == "ask"
        elif isinstance(event, ChunkEvent) and self._relay is not None:
            known = self._relay.logprobs_of(event.separator + event.text, event.end)
            self._logprobs.append([] if self._asked_in_words else known)

    async def refuse(
        self, status: int, said: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """An answer that is an error, before anything was sent."""
        await self._send_whole(status, json.dumps(said).encode(), headers or {})

    async def break_off(
        self, status: int, said: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """The run has raised: a real status if there is still time, else a frame, and no ``[DONE]``."""
        self.outcome = "broken"
        if not self.status:
            await self.refuse(status, said, headers)
        elif self._asked.stream:
            await self._write(frame(said), last=True)

    async def _complete(self, event: CompletedEvent) -> None:
        if event.success:
            self.outcome = "valid"
            await self._finish(event)
        elif not self._raised:  # what raised is told by whoever drives this
            self.outcome = "rejected"
            await self._reject(event)

    async def _finish(self, event: CompletedEvent) -> None:
        calls = self._relay.tool_calls if self._relay is not None else []
        reason = self._reason if self._reason in REASONS else "stop"
        if not self._asked.stream:
            text, logprobs = self._taken()
            whole = self._answer.whole(text, reason, event.usage, calls=calls, logprobs=logprobs)
            await self._send_whole(200, json.dumps(whole).encode(), {})
            return
        await self._send_chunks()
        frames = [self._answer.tool_calls(calls)] if calls else []
        frames += self._answer.end(reason, event.usage)
        await self._write(b"".join([*frames, *self._taken_extras(), DONE]), last=True)

    async def _reject(self, event: CompletedEvent) -> None:
        """It failed for good: what was sent stands."""
        if self._model.on_failure == "error":
            said = error_object(REFUSAL, "content_filter", "content_filter")
            if self.status:
                await self._write(b"".join([*self._taken_extras(), frame(said)]), last=True)
            else:
                await self.refuse(400, said)
            return
        if not self._asked.stream:
            text, _ = ("", None) if self._held else self._taken()
            whole = self._answer.whole(text, "content_filter", event.usage, refusal=REFUSAL)
            await self._send_whole(200, json.dumps(whole).encode(), {})
            return
        frames = self._answer.end("content_filter", event.usage, REFUSAL)
        await self._write(b"".join([*frames, *self._taken_extras(), DONE]), last=True)

    # What goes over the wire

    async def _send_chunks(self) -> None:
        """Send what was released."""
        frames = [self._answer.text(text, logprobs) for text, logprobs in self._chunks]
        self._sent += len(self._chunks)
        self._chunks.clear()
        if frames:
            await self._write(b"".join([*self._taken_extras(), *frames]))

    def _taken(self) -> tuple[str, Sequence[TokenLogprob]]:
        text = "".join(text for text, _ in self._chunks)
        return text, [known for _, logprobs in self._chunks for known in logprobs]

    def _taken_extras(self) -> list[bytes]:
        extras, self._extras = self._extras, []
        return extras

    async def _write(self, body: bytes, *, last: bool = False) -> None:
        if not self.status:
            self.status = 200
            headers = [*STREAM, self._id]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def _send_whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.status = status
        sent = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            self._id,
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})
        await self._send({"type": "http.response.body", "body": body})


def _public(event: BaseEvent) -> dict[str, Any]:
    """What of an event a client may know: nothing that was written and not released."""
    said: dict[str, Any] = {"type": event.type, "attempt": event.attempt}  # type: ignore[attr-defined]
    match event:
        case QuickCheckEvent():
            said |= {"chunk_index": event.chunk_index, "verdict": event.verdict}
        case ChunkEvent():
            said |= {"chunk_index": event.chunk_index, "start": event.start, "end": event.end}
        case RetryEvent():
            said |= {"mode": event.mode, "keep_chunks": event.keep_chunks}
        case CompletedEvent():
            said |= {"success": event.success, "attempts_used": event.attempts_used}
    return said
