"""`OpenTelemetry`: a run as spans, evaluation events and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from streamval.errors import UsageError
from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    ErrorEvent,
    FullValidationEvent,
    QuickCheckEvent,
    RetryEvent,
    StartedEvent,
    StreamingDoneEvent,
    TokenEvent,
    ToolCallEvent,
    VerdictEvent,
)
from streamval.types.results import TriState
from streamval.validation.final_check import REFUSED

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

NAMES = {
    # OpenTelemetry's conventions for generative AI are in development. These are the names of
    # opentelemetry-semantic-conventions 0.66b2 (schema 1.44.0), after which they moved to a repository of
    # their own (open-telemetry/semantic-conventions-genai).
    "operation": "gen_ai.operation.name",
    "model": "gen_ai.request.model",
    "stream": "gen_ai.request.stream",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "time_to_first_chunk": "gen_ai.response.time_to_first_chunk",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "tool_name": "gen_ai.tool.name",
    "tool_call_id": "gen_ai.tool.call.id",
    "tool_call_arguments": "gen_ai.tool.call.arguments",
    "token_type": "gen_ai.token.type",
    "output": "gen_ai.output.messages",
    "evaluation": "gen_ai.evaluation.name",
    "label": "gen_ai.evaluation.score.label",
    "score": "gen_ai.evaluation.score.value",
    "explanation": "gen_ai.evaluation.explanation",
    "evaluation_event": "gen_ai.evaluation.result",
    "duration_metric": "gen_ai.client.operation.duration",
    "first_chunk_metric": "gen_ai.client.operation.time_to_first_chunk",
    "tokens_metric": "gen_ai.client.token.usage",
}
"""The names from the conventions that are used here."""

_LAST = 1e10
"""The latest Unix time accepted, in the year 2286: later nanoseconds may not fit into 64 bits."""

_MOST = 1e8
"""The longest time accepted between two events, in seconds: about three years."""

_MISSING = 'sinks.OpenTelemetry needs the extra: pip install "streamval-llm[otel]"'

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [4**n for n in range(14)]
"""Boundaries of histograms, as the conventions ask for them."""


class OpenTelemetry:
    """Reports runs to OpenTelemetry: spans, evaluation events, metrics. Any number of runs at a time.

    - A span for each run (``streamval.run``), in it a span for each attempt (``chat MODEL``), and in that
      a span for each judgement (``judge``), with `emit_verdicts`. The run's span is a child of the
      span that is current where the run is driven.
    - A ``gen_ai.evaluation.result`` event for each verdict on a chunk and on the whole output, as a log
      record of the attempt's span.
    - An event ``streamval.tool_call`` on the attempt's span for each delivered call of a tool.
    - Metrics: the duration of attempts, the time to the first delta (with `emit_tokens`), tokens, and our
      own ``streamval.time_to_first_chunk`` (of delivered chunks), ``streamval.runs`` by outcome,
      ``streamval.retries`` and ``streamval.tokens.discarded``.

    The names of the attributes are in `NAMES`. Times are those of the events. The providers default to
    the global ones, which do nothing until your program has set them up with ``opentelemetry-sdk``
    (in ``pip install "streamval-llm[otel]"``).

    Args:
        text: Also send the output, and the reasons of verdicts, which may quote it. By default no
            text leaves the program.
        tracer_provider: Makes the spans.
        meter_provider: Makes the metrics.
        logger_provider: Takes the events.

    Raises:
        UsageError: If the packages of OpenTelemetry are missing or too old.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
        >>> async def main():
        ...     run = Pipeline(ScriptedBackend("All is well.")).start("How is it?")
        ...     run.subscribe(OpenTelemetry(tracer_provider=provider))
        ...     await run
        >>> asyncio.run(main())
        >>> [span.name for span in exporter.get_finished_spans()]
        ['chat scripted', 'streamval.run']
    """

    def __init__(
        self,
        *,
        text: bool = False,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        logger_provider: Any = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry._logs import Logger, get_logger  # the only place where it has them
        except ImportError:
            raise UsageError(_MISSING) from None
        if "event_name" not in signature(Logger.emit).parameters:  # before 1.39
            raise UsageError(_MISSING)
        self._text = text
        self._runs: dict[str, _OpenRun] = {}
        self._tracer = trace.get_tracer("streamval", tracer_provider=tracer_provider)
        self._logger = get_logger("streamval", logger_provider=logger_provider)
        meter = metrics.get_meter("streamval", meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            NAMES["duration_metric"], "s", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._first_delta = meter.create_histogram(
            NAMES["first_chunk_metric"], "s", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._tokens = meter.create_histogram(
            NAMES["tokens_metric"], "{token}", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._first_chunk = meter.create_histogram(
            "streamval.time_to_first_chunk", "s", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._outcomes = meter.create_counter("streamval.runs", "{run}")
        self._retries = meter.create_counter("streamval.retries", "{attempt}")
        self._discarded = meter.create_counter("streamval.tokens.discarded", "{token}")

    def __call__(self, event: BaseEvent) -> None:
        """Report an event."""
        if isinstance(event, StartedEvent):
            self._start(event)
            return
        run = self._runs.get(event.run_id)
        if run is None:  # subscribed too late, or an event of a contract
            return
        if isinstance(event, CompletedEvent):  # first, because an exporter may raise
            del self._runs[event.run_id]
        run.now = max(run.now, min(event.timestamp, run.now + _MOST))
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(self, run, event)

    def _start(self, event: StartedEvent) -> None:
        attributes = {NAMES["operation"]: "chat", NAMES["model"]: event.model}
        # For a recording with a broken clock, no time is better than a wrong time.
        began = event.timestamp if 0 <= event.timestamp < _LAST else 0.0
        span = self._tracer.start_span(
            "streamval.run",
            start_time=_nanoseconds(began),
            attributes={**attributes, "streamval.chunking": event.chunking},
        )
        run = _OpenRun(span, event.requirements, attributes, began, began)
        self._runs[event.run_id] = run
        self._begin_attempt(run, event.attempt)

    def _begin_attempt(self, run: _OpenRun, number: int) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        run.attempt = self._tracer.start_span(
            f"chat {run.attributes[NAMES['model']]}",
            context=set_span_in_context(run.span),
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(run.now),
            attributes={**run.attributes, NAMES["stream"]: True, "streamval.attempt": number},
        )
        run.inside = set_span_in_context(run.attempt)
        run.attempt_began, run.has_token = run.now, False

    def _on_token(self, run: _OpenRun, _: TokenEvent) -> None:
        if not run.has_token:
            run.has_token = True
            seconds = run.now - run.attempt_began
            run.attempt.set_attribute(NAMES["time_to_first_chunk"], seconds)
            self._first_delta.record(seconds, run.attributes)

    def _on_verdict(self, run: _OpenRun, event: VerdictEvent) -> None:
        run.has_verdicts = True
        end = _nanoseconds(run.now)
        seconds = event.seconds if 0 <= event.seconds < _MOST else 0.0
        span = self._tracer.start_span(
            "judge",
            context=run.inside,
            start_time=_nanoseconds(max(run.now - seconds, run.attempt_began)),
            attributes={
                NAMES["evaluation"]: event.requirement,
                NAMES["label"]: event.verdict,
                "streamval.chunk_index": event.chunk_index,
                "streamval.lane": event.lane,
                **_channel(event),
            },
        )
        span.end(end)
        self._evaluate(run, event, event.requirement, event.verdict, event.reason)

    def _on_check(self, run: _OpenRun, event: QuickCheckEvent) -> None:
        run.failed = run.failed or not event.passed
        if not run.has_verdicts:
            for name, result in zip(run.names, event.results, strict=False):
                if result is not None:
                    self._evaluate(run, event, name, result.success, result.reason, result.score)

    def _on_call(self, run: _OpenRun, event: ToolCallEvent) -> None:
        attributes = {NAMES["tool_name"]: event.name, NAMES["tool_call_id"]: event.id}
        if self._text:
            attributes[NAMES["tool_call_arguments"]] = event.raw
        run.attempt.add_event("streamval.tool_call", attributes, _nanoseconds(run.now))

    def _on_chunk(self, run: _OpenRun, _: ChunkEvent) -> None:
        if not run.has_chunk:
            run.has_chunk = True
            self._first_chunk.record(run.now - run.began, run.attributes)

    def _evaluate(
        self,
        run: _OpenRun,
        event: BaseEvent,
        name: str,
        verdict: TriState,
        reason: str | None,
        score: float | None = None,
    ) -> None:
        attributes: dict[str, Any] = {NAMES["evaluation"]: name, NAMES["label"]: verdict}
        if score is not None:
            attributes[NAMES["score"]] = score
        if self._text and reason:
            attributes[NAMES["explanation"]] = reason
        index = getattr(event, "chunk_index", None)
        if index is not None:
            attributes["streamval.chunk_index"] = index
        attributes |= _channel(event)
        self._logger.emit(
            timestamp=_nanoseconds(run.now),
            context=run.inside,
            event_name=NAMES["evaluation_event"],
            attributes=attributes,
        )

    def _on_done(self, run: _OpenRun, event: StreamingDoneEvent) -> None:
        if event.finish_reason is not None:
            run.attempt.set_attribute(NAMES["finish_reasons"], [event.finish_reason])
            run.failed = run.failed or event.finish_reason in REFUSED

    def _on_validation(self, run: _OpenRun, event: FullValidationEvent) -> None:
        run.failed = run.failed or not event.passed
        for name, result in zip(run.names, event.results, strict=False):
            verdict: TriState = "pass" if result else "fail"
            self._evaluate(run, event, name, verdict, result.reason, result.score)

    def _on_retry(self, run: _OpenRun, event: RetryEvent) -> None:
        self._end_attempt(run, event.reason)
        run.failed = False
        self._retries.add(1, run.attributes | {"streamval.mode": event.mode})
        self._begin_attempt(run, event.attempt)

    def _on_error(self, run: _OpenRun, event: ErrorEvent) -> None:
        run.error = event.exception_type
        if self._text:
            run.span.set_attribute("streamval.error", event.detail)

    def _end_attempt(self, run: _OpenRun, why: str | None) -> None:
        from opentelemetry.trace import StatusCode

        attributes = dict(run.attributes)
        if why is not None:
            rejected = "rejected" if run.failed else "cut short"
            attributes["error.type"] = run.error or rejected
            run.attempt.set_attribute("error.type", attributes["error.type"])
            run.attempt.set_status(StatusCode.ERROR, why if self._text else None)
        run.attempt.end(_nanoseconds(run.now))
        self._duration.record(run.now - run.attempt_began, attributes)

    def _complete(self, run: _OpenRun, event: CompletedEvent) -> None:
        outcome = "invalid" if run.failed else "cut short"
        outcome = "valid" if event.success else "error" if run.error else outcome
        try:
            self._end_attempt(run, None if event.success else outcome)
        finally:  # an exporter may raise
            self._end_run(run, event, outcome)

    def _end_run(self, run: _OpenRun, event: CompletedEvent, outcome: str) -> None:
        from opentelemetry.trace import StatusCode

        usage, span = event.usage, run.span
        span.set_attribute(NAMES["output_tokens"], usage.completion_tokens)
        span.set_attribute("streamval.tokens.discarded", usage.discarded_tokens)
        span.set_attribute("streamval.attempts", event.attempts_used)
        span.set_attribute("streamval.outcome", outcome)
        counted = [("output", usage.completion_tokens)]
        if usage.prompt_tokens is not None:
            span.set_attribute(NAMES["input_tokens"], usage.prompt_tokens)
            counted.append(("input", usage.prompt_tokens))
        for name in ("reasoning_tokens", "cached_tokens"):
            if (tokens := getattr(usage, name)) is not None:
                span.set_attribute(NAMES[name], tokens)
        for kind, tokens in counted:
            self._tokens.record(tokens, run.attributes | {NAMES["token_type"]: kind})
        if self._text:
            span.set_attribute(NAMES["output"], event.full_text)
        if not event.success:
            span.set_attribute("error.type", run.error or outcome)
            span.set_status(StatusCode.ERROR)
        span.end(_nanoseconds(run.now))
        self._discarded.add(usage.discarded_tokens, run.attributes)
        self._outcomes.add(1, run.attributes | {"streamval.outcome": outcome})

    _handlers: ClassVar[dict[type[BaseEvent], Callable[[OpenTelemetry, _OpenRun, Any], None]]] = {
        TokenEvent: _on_token,
        VerdictEvent: _on_verdict,
        QuickCheckEvent: _on_check,
        ChunkEvent: _on_chunk,
        ToolCallEvent: _on_call,
        StreamingDoneEvent: _on_done,
        FullValidationEvent: _on_validation,
        RetryEvent: _on_retry,
        ErrorEvent: _on_error,
        CompletedEvent: _complete,
    }


@dataclass(slots=True)
class _OpenRun:
    """A run whose spans are open."""

    span: Span
    names: tuple[str, ...]
    attributes: dict[str, str]
    began: float
    now: float  # never decreases, even if the clock does
    attempt: Span = field(init=False)
    inside: Context = field(init=False)
    attempt_began: float = 0.0
    has_token: bool = False
    has_chunk: bool = False
    has_verdicts: bool = False
    failed: bool = False
    error: str | None = None


def _channel(event: BaseEvent) -> dict[str, str]:
    """Return the attribute for the channel of a verdict; empty for the text and for the whole output."""
    channel = getattr(event, "channel", "text")
    return {} if channel == "text" else {"streamval.channel": channel}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
