"""The gateway's metrics for Prometheus."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from streamval.events import (
    BaseEvent,
    ChunkEvent,
    CompletedEvent,
    FullValidationEvent,
    QuickCheckEvent,
    RetryEvent,
    VerdictEvent,
)
from streamval.serve.limiter import Limiter
from streamval.types.results import Usage

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one process.

    Args:
        shared: Whether several processes write into ``$PROMETHEUS_MULTIPROC_DIR``, and each shows all.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared
        self._registry = CollectorRegistry()
        self.runs = self._counter("runs", "Runs that ended", "model", "outcome")
        self.chunks = self._counter("chunks", "Chunks released", "model")
        self.verdicts = self._counter("verdicts", "Verdicts", "model", "requirement", "verdict")
        self.cuts = self._counter("cuts", "Upstreams cut at a failed chunk", "model")
        self.retries = self._counter("retries", "Repairs", "model", "mode")
        self.tokens = self._counter("tokens", "Tokens: spent, discarded, saved", "model", "kind")
        self.refused = self._counter("refused", "Requests refused", "reason")
        self.first_chunk = Histogram(
            "streamval_first_chunk_seconds",
            "From a request to its first chunk",
            ["model"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._running = self._gauge("running", "Runs now")
        self._waiting = self._gauge("waiting", "Requests that wait")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"streamval_{name}", what, labels, registry=self._registry)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(
            f"streamval_{name}", what, registry=self._registry, multiprocess_mode="livesum"
        )

    def of(self, model: str, requirements: tuple[str, ...]) -> RunMetrics:
        """Return a subscriber that counts a run."""
        return RunMetrics(self, model, requirements)

    def note_limiter(self, limiter: Limiter) -> None:
        """Set the gauges of running and waiting requests, which other processes show as well."""
        self._running.set(limiter.running)
        self._waiting.set(limiter.waiting)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        if not self._shared:
            return generate_latest(self._registry)
        for path in Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("gauge_live*_*.db"):
            pid = int(path.stem.rpartition("_")[2])
            if not _is_alive(pid):  # its runs are not running any more
                mark_process_dead(pid)  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_VERDICTS = "fail", "pass"


COUNTED = (
    ChunkEvent,
    CompletedEvent,
    FullValidationEvent,
    QuickCheckEvent,
    RetryEvent,
    VerdictEvent,
)
"""The events that `RunMetrics` counts."""


class RunMetrics:
    """Counts the events of one run."""

    def __init__(self, metrics: Metrics, model: str, requirements: tuple[str, ...]) -> None:
        self._metrics, self._model, self._names = metrics, model, requirements
        self._released = metrics.chunks.labels(model)
        # Kept, as to look a counter up costs four times what counting does.
        self._verdicts = cache(partial(metrics.verdicts.labels, model))

    def __call__(self, event: BaseEvent) -> None:
        """Count an event."""
        metrics, model = self._metrics, self._model
        match event:
            case ChunkEvent():
                self._released.inc()
            case QuickCheckEvent():
                self._count_check(event)
            case VerdictEvent() if event.observed:
                self._verdicts(event.requirement, event.verdict).inc()
            case FullValidationEvent():
                for name, whole in zip(self._names, event.results, strict=False):
                    self._verdicts(name, _VERDICTS[bool(whole)]).inc()
            case RetryEvent():
                metrics.retries.labels(model, event.mode).inc()
            case CompletedEvent():
                self._count_tokens(event.usage)

    def _count_check(self, event: QuickCheckEvent) -> None:
        if not event.passed:
            self._metrics.cuts.labels(self._model).inc()
        for name, result in zip(self._names, event.results, strict=False):
            if result is not None:
                self._verdicts(name, result.success).inc()

    def _count_tokens(self, usage: Usage) -> None:
        tokens = self._metrics.tokens
        tokens.labels(self._model, "spent").inc(usage.completion_tokens)
        tokens.labels(self._model, "discarded").inc(usage.discarded_tokens)
        tokens.labels(self._model, "saved").inc(usage.reused_tokens)
