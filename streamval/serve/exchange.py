"""`Exchange`: turns a run's events into the HTTP answer to one client.

    begin ─▶ answer ─┬─ chunk events: _send_chunks, or kept where all of it is judged first
                     └─ completed: _finish (valid) or _reject (failed for good)
    break_off: the run raised. refuse: nothing was sent yet.

Four rules decide the order of the calls here:

- **Nothing is sent before it was judged.** Chunks arrive released, so they may be sent at once, except
  where the answer is JSON with requirements, or `release: all`. Then they wait in `_chunks`.
- **The status line goes with the first bytes** (`_write`), not before: an upstream that fails early
  still gets a real status. After that an error can only be a frame. `status` tells which case it is.
- **A client is never left in silence.** After `headers_after` seconds the status goes out anyway, and in a pause of the
  model a ping. That is a task of its own, so a lock keeps its writes apart from the others.
- **Sent text cannot be taken back.** A repair that restarts reports how many chunks still stand
  (`RetryEvent.keep_chunks`). If fewer stand than were sent, the run is cancelled.

Log probabilities are taken from the relay when a chunk is released (`_note`, a subscriber), not when
it is sent: by then the next attempt may have replaced them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from starlette.types import Send

from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    QuickCheckEvent,
    ReasoningEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
    TokenEvent,
    ToolCallEvent,
    VerdictEvent,
)
from streamval.pipeline.run import Run
from streamval.serve.configuration import ServedModel
from streamval.serve.native import NativeRelay
from streamval.serve.upstream import Relay
from streamval.types.messages import ToolCall, assistant_message, texts_in
from streamval.types.results import Usage
from streamval.wire.answers import Answer, Contents, TokenLogprob, finish_reason, frames
from streamval.wire.completions import CompletionRequest, Protocol
from streamval.wire.errors import error_object
from streamval.wire.protocols import WRITERS, error_body
from streamval.wire.responses_writer import ResponsesWriter
from streamval.wire.sse import MEDIA_TYPE

REFUSAL = "The rest of this answer was withheld: it did not meet the rules of this service."
"""It mentions neither the withheld text nor the rules, because both may be confidential."""

PING_SECONDS = 2.0
"""The longest silence of a streamed answer. Some clients give up after three seconds."""

STREAM = [
    (b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode()),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


_HANDLED = (
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    ReasoningEvent,
    RetryEvent,
    StreamingDoneEvent,
    ToolCallEvent,
)
"""The events that an answer is made of. A client may ask for the others as well."""


class Exchange:
    """Sends one answer: the status line with the first valid chunk, and only judged text.

    Args:
        send: ASGI's send. It blocks while the client does not read, which pauses the run.
        request_id: Goes into a header of the answer.
        protocol: The client's protocol.

    Attributes:
        status: Of HTTP; 0 before it is sent.
        outcome: ``valid``, ``rejected``, ``broken``; empty before that is known.
        answered: Of Responses, the id of a valid answer, and the answer as a message.
    """

    def __init__(self, send: Send, request_id: str, protocol: Protocol = "chat") -> None:
        self._send = send
        self._protocol: Protocol = protocol
        self._id = (b"x-request-id", request_id.encode())
        self.status = 0
        self.outcome = ""
        # Released, and not sent: text, and the log probabilities of its tokens.
        self._chunks: list[tuple[str, list[TokenLogprob]]] = []
        # Of chunks that are still to be handled.
        self._logprobs: deque[list[TokenLogprob]] = deque()
        self._asked_in_words = False
        self._relay: Relay | None = None  # that generates, if the request goes there as it came
        self._sent = 0
        self._thoughts: list[str] = []
        self._thought = ""  # that was sent
        self._thought_again: str | None = None  # what of it a resumed stream has repeated
        self._extras: list[dict[str, Any]] = []
        self._calls: list[ToolCall] = []
        self._reason: str | None = None
        self._raised = False
        self.answered: tuple[str, dict[str, Any]] | None = None
        self._streams = False  # until `begin`
        self._writing = asyncio.Lock()
        self._written_at, self._begun, self._ended = 0.0, False, False

    def begin(
        self,
        request: CompletionRequest,
        run: Run[Any],
        model: ServedModel,
        *,
        wants_events: bool,
        judged: bool = True,
        headers_after: float = 5.0,
        passes: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """Prepare the answer to a request.

        See `ServerSettings` for `headers_after`; `judged` says whether rules decide, `passes` judges the words with
        which a model refuses.
        """
        self._time = asyncio.get_running_loop().time  # kept: each write needs it
        self._headers_after, self._passes = headers_after, passes
        self._request, self._run, self._model = request, run, model
        self._streams = request.stream
        make = WRITERS[request.kind]
        self._writer = make(run.run_id, request.model, int(time.time()), request.echo)
        self._wants_events = wants_events and request.stream
        # Chunks of JSON are single deltas, so with requirements the whole answer is judged first.
        self._judged = judged
        judged_late = judged and request.wants_json
        self._held = model.release == "all" or judged_late
        run.subscribe(self._note, events=(StartedEvent, RetryEvent, ChunkEvent))

    async def answer(self) -> None:
        """Drive the run, and send the chunks that it releases.

        Raises:
            Exception: The exception that ends the run. No error has been sent to the client for it.
        """
        pinging = asyncio.create_task(self._ping()) if self._streams else None
        try:
            async for event in self._run.iterate(*(() if self._wants_events else _HANDLED)):
                await self._handle(event)
        finally:
            if pinging is not None:
                pinging.cancel()

    async def _handle(self, event: Event) -> None:
        if self._wants_events and not isinstance(event, (TokenEvent, VerdictEvent)):
            self._extras.append(_public(event))
        match event:
            case ChunkEvent():
                logprobs = self._logprobs.popleft() if self._logprobs else []
                self._chunks.append((event.separator + event.text, logprobs))
                if self._streams and not self._held:
                    await self._send_chunks()
            case ReasoningEvent():
                self._add_thought(event.separator + event.text)
                if self._streams and not self._held:
                    await self._send_chunks()
            case ErrorEvent():
                self._raised = True
            case CompletedEvent():
                await self._complete(event)
            case _:
                self._take(event)

    def _take(self, event: Event) -> None:
        """Note an event for which nothing is sent yet."""
        match event:
            case ToolCallEvent():  # sent with the end: a repair may take it back
                # We generate ids; the upstream's may be model output. All servers accept nine characters.
                self._calls.append(replace(event.call(), id=token_hex(5)[:9]))
            case StreamingDoneEvent():
                self._reason = event.finish_reason
            case RetryEvent():
                if event.mode != "resume":
                    self._calls.clear()
                if not event.keep_reasoning:
                    self._thoughts.clear()  # those that were sent stand: each was judged
                    self._thought_again = "" if event.mode == "resume" else None
                if event.keep_chunks < self._sent:  # sent chunks cannot be taken back
                    self._run.cancel()  # then it completes without success: see `_reject`
                else:
                    del self._chunks[event.keep_chunks - self._sent :]

    def _add_thought(self, thought: str) -> None:
        """Add a piece of reasoning, unless a stream that was resumed repeats what was sent."""
        if self._thought_again is not None:
            again = self._thought_again + thought
            if self._thought.startswith(again):
                self._thought_again = again
                return
            self._thought_again = None
        self._thoughts.append(thought)

    def _note(self, event: BaseEvent) -> None:
        """Note which upstream generates, and take the log probabilities of a released chunk: the next attempt drops them."""
        if isinstance(event, ChunkEvent):
            if self._relay is not None:
                known = self._relay.take_logprobs(event.separator + event.text, event.end)
                self._logprobs.append([] if self._asked_in_words or event.masked else known)
            return
        backend = self._run.backend
        self._relay = backend if isinstance(backend, Relay) else None
        if isinstance(event, RetryEvent):
            # Where the relay was asked in words, its offsets do not include the kept text.
            by_words = event.mode == "resume" and not self._run.backend.supports_prefix
            self._asked_in_words = event.mode == "ask" or by_words

    async def refuse(
        self, status: int, said: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an error as the whole answer, before anything else was sent."""
        body = error_body(self._protocol, status, said)
        await self._send_whole(status, json.dumps(body).encode(), headers or {})

    async def break_off(
        self, status: int, said: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """Send the error that ended the run: with a real status if possible, else as a frame without ``[DONE]``."""
        self.outcome = "broken"
        if not self.status:
            await self.refuse(status, said, headers)
        elif self._streams:
            await self._write(self._writer.fail(said), last=True)

    async def _complete(self, event: CompletedEvent) -> None:
        if event.success:
            self.outcome = "valid"
            await self._finish(event)
        elif not self._raised:  # the caller reports exceptions
            self.outcome = "rejected"
            await self._reject(event)

    async def _finish(self, event: CompletedEvent) -> None:
        reason = finish_reason(self._reason)
        blank = event.full_text[len(self._run.text) :]  # behind the last chunk
        annotations = await self._annotations()
        if isinstance(self._writer, ResponsesWriter):
            self._adopt()
            said = assistant_message(event.full_text, self._calls, self._thought_of())
            self.answered = (self._writer.id, said.as_dict())
        if not self._streams:
            text, logprobs = self._joined()
            thought = self._thought = "".join(self._thoughts)
            answer = Answer(
                text + blank,
                reason,
                event.usage,
                thought,
                calls=self._calls,
                logprobs=logprobs,
                annotations=annotations,
                opaque=self._signed(),
            )
            await self._send_answer(answer)
            return
        await self._send_chunks()
        contents = [*self._started()]
        contents += [one for block in self._signed() for one in self._writer.opaque(block)]
        contents += [*(self._writer.text(blank) if blank else [])]
        contents += self._writer.tool_calls(self._calls) + self._writer.annotate(annotations)
        contents += self._writer.end(reason, self._usage_of(event))
        await self._write([*contents, *self._taken_extras()], last=True, ends=True)

    async def _reject(self, event: CompletedEvent) -> None:
        """Send the end of an answer that failed for good: the sent chunks stand."""
        if self._model.on_failure == "error":
            said = error_object(REFUSAL, "content_filter", "content_filter")
            if self.status:
                await self._write([*self._taken_extras(), *self._writer.fail(said)], last=True)
            else:
                await self.refuse(400, said)
            return
        reason, instead, refusal = await self._withheld()
        if not self._streams:
            text, _ = ("", None) if self._held else self._joined()
            text += instead
            await self._send_answer(Answer(text, reason, event.usage, refusal=refusal))
            return
        contents = [*self._started(), *(self._writer.text(instead) if instead else [])]
        contents += self._writer.end(reason, self._usage_of(event), refusal)
        await self._write([*contents, *self._taken_extras()], last=True, ends=True)

    def _thought_of(self) -> str:
        """Return the reasoning that was sent, or is about to be."""
        return self._thought + "".join(self._thoughts)

    async def _annotations(self) -> list[dict[str, Any]]:
        """Return what the upstream says about its text, if that meets the rules."""
        given = [] if self._relay is None else self._relay.annotations
        if given and self._judged and self._passes is not None:
            return given if await self._passes(json.dumps(given, ensure_ascii=False)) else []
        return given

    async def _withheld(self) -> tuple[str, str, str | None]:
        """Return how an answer ends that failed for good: the reason, a text, and a refusal.

        A model's own refusal is passed on, if its words meet the rules.
        """
        words = "" if self._relay is None else self._relay.refusal
        if words and self._passes is not None and await self._passes(words):
            return "content_filter" if self._protocol == "messages" else "stop", "", words
        if isinstance(self._model.on_failure, str):
            return "content_filter", "", REFUSAL
        return "content_filter", self._model.on_failure.text, None  # many clients show no refusals

    # What goes over the wire

    async def _send_chunks(self) -> None:
        """Send released chunks."""
        if not self._chunks and not self._thoughts:
            return  # signed reasoning is sent with what follows it
        writer, contents = self._writer, [*self._started(), *self._taken_extras()]
        for thought in self._thoughts:
            contents += writer.reasoning(thought)
            self._thought += thought
        contents += [one for block in self._signed() for one in writer.opaque(block)]
        for text, known in self._chunks:
            contents += writer.text(text, known)
        self._sent += len(self._chunks)
        self._chunks.clear()
        self._thoughts.clear()
        if contents:
            await self._write(contents)

    def _signed(self) -> list[Mapping[str, Any]]:
        """Take the signed and encrypted reasoning that may be sent: what can be read of it was judged and sent."""
        relay = self._relay
        if not isinstance(relay, NativeRelay) or relay.kind != self._protocol:
            return []
        blocks, relay.opaque = relay.opaque, []
        return [one for one in blocks if all(text in self._thought for text in texts_in(one))]

    def _started(self) -> Contents:
        """Return what begins an answer, before all else that is written of it, and the first time only."""
        if self._begun:
            return []
        self._begun = True
        self._adopt()
        return self._writer.begin()

    def _adopt(self) -> None:
        relay = self._relay
        spoken = relay.kind if isinstance(relay, NativeRelay) else "chat"
        if relay is not None and (spoken == self._protocol or self._protocol in ("chat", "text")):
            self._writer.adopt(relay.marks)

    def _joined(self) -> tuple[str, Sequence[TokenLogprob]]:
        text = "".join(text for text, _ in self._chunks)
        return text, [known for _, logprobs in self._chunks for known in logprobs]

    def _taken_extras(self) -> Contents:
        extras, self._extras = self._extras, []
        return [one for extra in extras for one in self._writer.note(extra)]

    def _usage_of(self, event: CompletedEvent) -> Usage | None:
        return event.usage if self._request.wants_usage else None

    async def _write(self, contents: Contents, *, last: bool = False, ends: bool = False) -> None:
        """Send frames; `last` closes the answer, `ends` says that it came to its regular end."""
        async with self._writing:
            await self._send_status()
            written = frames(contents) + (self._writer.terminator if ends else "")
            await self._send_body(written, last=last)

    async def _send_status(self) -> None:
        if not self.status:
            self.status = 200
            headers = [*STREAM, self._id]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _send_body(self, written: str, *, last: bool = False) -> None:
        self._written_at, self._ended = self._time(), last
        body = written.encode()
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def _ping(self) -> None:
        """Send the status after `headers_after` seconds, and a ping in each silence."""
        pause = self._headers_after
        while True:
            await asyncio.sleep(pause)
            silent = self._time() - self._written_at
            if self.status and silent < PING_SECONDS:
                pause = PING_SECONDS - silent
                continue
            pause = PING_SECONDS
            if self._writing.locked():  # the client does not read
                continue
            async with self._writing:
                if self._ended:
                    return
                begun = frames(self._started())  # before it waits: nothing may come before this
                await self._send_status()
                await self._send_body(begun + self._writer.ping)

    async def _send_answer(self, answer: Answer) -> None:
        self._adopt()
        whole = self._writer.whole(answer)
        await self._send_whole(200, json.dumps(whole).encode(), {})

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
    """Return the fields of an event for clients: no text that was not released."""
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
