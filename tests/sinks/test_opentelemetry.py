"""Tests of `streamval.sinks.opentelemetry`, with the in-memory exporters of its SDK."""

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

import streamval as sv
from streamval.sinks.opentelemetry import NAMES
from tests.support.sources import PlainJudge, Spoken, fails_on, thinking_and_calling


class Exported:
    """The sink, and what it exports."""

    def __init__(self, **options):
        self.span_exporter, self.log_exporter = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.span_exporter))
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.log_exporter))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.sink = sv.sinks.OpenTelemetry(
            tracer_provider=self.tracers, meter_provider=meters, logger_provider=loggers, **options
        )

    @property
    def spans(self):
        return self.span_exporter.get_finished_spans()

    @property
    def evaluations(self):
        return [log.log_record for log in self.log_exporter.get_finished_logs()]

    @property
    def metrics(self):
        (resource,) = self.reader.get_metrics_data().resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


def repaired(**options):
    backend = Spoken(
        ["Fine. ", "Bad! ", "More ", "of it. ", "And so on."],
        [" Good.", sv.Delta(usage=sv.types.Usage(7, 2, source="backend"), finish_reason="stop")],
        supports_prefix=True,
    )
    judge = PlainJudge(fails_on("Bad!"), "calm")
    return sv.Pipeline(backend, requirements=[judge], retry=sv.Repair(), **options)


async def driven(exported, pipeline):
    run = pipeline.start("go")
    run.subscribe(exported.sink)
    return await run


async def test_a_span_a_run_an_attempt_and_a_judgement():
    exported = Exported()
    with exported.tracers.get_tracer("program").start_as_current_span("mine") as mine:
        await driven(exported, repaired(emit_tokens=True, emit_verdicts=True))
    spans = {span.name: [] for span in exported.spans}
    for span in exported.spans:
        spans[span.name].append(span)
    (run,), (first, second) = spans["streamval.run"], spans["chat faulty"]
    assert run.parent.span_id == mine.get_span_context().span_id
    for attempt in (first, second):
        assert attempt.parent.span_id == run.context.span_id
        assert attempt.kind is trace.SpanKind.CLIENT
        assert attempt.attributes["gen_ai.request.model"] == "faulty"
        assert attempt.attributes["gen_ai.operation.name"] == "chat"
        assert attempt.attributes["gen_ai.response.time_to_first_chunk"] >= 0
    assert [judge.attributes["gen_ai.evaluation.score.label"] for judge in spans["judge"]] == [
        "pass",
        "fail",
        "pass",
    ]
    assert [judge.parent.span_id for judge in spans["judge"]] == [
        *[first.context.span_id] * 2,
        second.context.span_id,
    ]
    assert not first.status.is_ok
    assert first.attributes["error.type"] == "rejected"
    assert second.status.status_code is trace.StatusCode.UNSET
    assert second.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert run.attributes["gen_ai.usage.input_tokens"] == 2 * 7  # the prompts of both
    assert run.attributes["streamval.outcome"] == "valid"
    assert run.start_time <= first.start_time <= first.end_time <= second.start_time
    assert second.end_time <= run.end_time


@pytest.mark.parametrize("emit_verdicts", [False, True])
async def test_an_evaluation_event_for_each_verdict_in_the_span_of_its_attempt(emit_verdicts):
    exported = Exported()
    await driven(exported, repaired(emit_verdicts=emit_verdicts))
    attempts = [span for span in exported.spans if span.name == "chat faulty"]
    assert [
        (
            event.event_name,
            event.attributes["gen_ai.evaluation.name"],
            event.attributes["gen_ai.evaluation.score.label"],
            event.attributes.get("streamval.chunk_index"),
            event.span_id,
        )
        for event in exported.evaluations
    ] == [
        ("gen_ai.evaluation.result", "calm", "pass", 0, attempts[0].context.span_id),
        ("gen_ai.evaluation.result", "calm", "fail", 1, attempts[0].context.span_id),
        ("gen_ai.evaluation.result", "calm", "pass", 1, attempts[1].context.span_id),
        ("gen_ai.evaluation.result", "calm", "pass", None, attempts[1].context.span_id),
    ]


async def test_metrics():
    exported = Exported()
    for _ in range(3):
        result = await driven(exported, repaired(emit_tokens=True))
    metrics = exported.metrics
    assert sum(point.count for point in metrics["gen_ai.client.operation.duration"]) == 6
    assert metrics["gen_ai.client.operation.time_to_first_chunk"][0].count == 6
    assert metrics["streamval.time_to_first_chunk"][0].count == 3
    assert metrics["streamval.retries"][0].value == 3
    assert metrics["streamval.tokens.discarded"][0].value == 3 * result.usage.discarded_tokens
    tokens = {
        point.attributes["gen_ai.token.type"]: point
        for point in metrics["gen_ai.client.token.usage"]
    }
    assert tokens["output"].sum == 3 * result.usage.completion_tokens
    assert tokens["input"].sum == 2 * 21
    (runs,) = metrics["streamval.runs"]
    assert (runs.value, runs.attributes["streamval.outcome"]) == (3, "valid")


@pytest.mark.parametrize("text", [False, True])
async def test_text_leaves_the_program_only_where_it_is_asked_for(text):
    exported = Exported(text=text)
    await driven(exported, repaired(emit_tokens=True, emit_verdicts=True))
    failing = sv.Pipeline(Spoken("Secret. ", OSError("Secret")))
    with pytest.raises(OSError, match="Secret"):
        await driven(exported, failing)
    told = str([span.to_json() for span in exported.spans])
    told += str([dict(event.attributes) for event in exported.evaluations]) + str(exported.metrics)
    for said in ("Secret", "Bad!", "Good."):
        assert (said in told) == text


async def test_a_run_that_breaks_off_and_one_that_is_cancelled():
    exported = Exported()
    with pytest.raises(OSError, match="gone"):
        await driven(exported, sv.Pipeline(Spoken("One. ", OSError("gone"))))
    run = sv.Pipeline(Spoken("One. ", "Two.")).start("go")
    run.subscribe(exported.sink)
    run.subscribe(lambda event: run.cancel())
    await run
    runs = [span for span in exported.spans if span.name == "streamval.run"]
    assert [span.attributes["error.type"] for span in runs] == ["OSError", "cut short"]
    assert exported.sink._runs == {}


def test_the_names_are_those_of_the_conventions():
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for name, value in vars(module).items()
        if name.isupper()
    }
    assert set(NAMES.values()) - known == {"gen_ai.evaluation.result"}  # an event


def test_a_run_without_it_imports_nothing_of_it():
    code = """
import asyncio, sys, streamval as sv
seen = sv.sinks.Collect()
async def main():
    run = sv.Pipeline(sv.ScriptedBackend("One."), requirements=[sv.word_limit(at_most=3)]).start("x")
    run.subscribe(seen)
    await run
asyncio.run(main())
print(sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "anywidget", "starlette")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("stamps", [(100.0, 80.0), (float("nan"), 5.0), (0.0, 1e300), (-1e9, 1.0)])
async def test_a_clock_that_leaps_makes_no_negative_times(stamps):
    exported, events = Exported(), sv.sinks.Collect()
    run = repaired(emit_tokens=True, emit_verdicts=True).start("go")
    run.subscribe(events)
    await run
    for n, event in enumerate(events.events):
        exported.sink(event.model_copy(update={"timestamp": stamps[n > 3]}))
    assert all(span.start_time <= span.end_time for span in exported.spans)
    assert {span.name for span in exported.spans} == {"streamval.run", "chat faulty", "judge"}
    assert all(point.min >= 0 for point in exported.metrics["gen_ai.client.operation.duration"])


async def test_an_exporter_that_raises_leaves_nothing_behind(reported):
    exported = Exported()

    class Raises(SimpleSpanProcessor):
        def on_end(self, span):
            raise OSError("no line")

    exported.tracers.add_span_processor(Raises(InMemorySpanExporter()))
    assert (await driven(exported, repaired())).success
    assert exported.sink._runs == {}
    assert [span.name for span in exported.spans].count("streamval.run") == 1
    assert reported  # and the run goes on


@pytest.mark.parametrize("text", [False, True])
async def test_verdicts_on_other_channels_and_calls_of_tools(text):
    exported = Exported(text=text)
    await driven(exported, thinking_and_calling())
    attempts = [span for span in exported.spans if span.name == "chat faulty"]
    calls = [event for span in attempts for event in span.events]
    assert [one.name for one in calls] == ["streamval.tool_call"] * 2
    assert calls[1].attributes["gen_ai.tool.name"] == "weather"
    assert ("gen_ai.tool.call.arguments" in calls[1].attributes) is text
    (run,) = [span for span in exported.spans if span.name == "streamval.run"]
    assert run.attributes["gen_ai.usage.reasoning.output_tokens"] == 3
