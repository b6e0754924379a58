"""`instrument`: a sink for every run of the process."""

from __future__ import annotations

from typing import Self

from streamval.events import Event
from streamval.pipeline.subscribers import Overflow, Sink, check_sink

_attached: list[Instrument] = []


class Instrument:
    """A sink that every run is subscribed to, until it is closed. Made by `instrument`.

    It is a context manager, also with ``async with``. Runs that are under way send nothing more once it is closed.
    """

    def __init__(self, sink: Sink, overflow: Overflow) -> None:
        self._sink: Sink | None = sink
        self.overflow: Overflow = overflow
        self.__qualname__ = getattr(sink, "__qualname__", type(sink).__name__)

    def __call__(self, event: Event) -> object:
        """Hand an event to the sink; what it returns may be awaited."""
        return None if self._sink is None else self._sink(event)

    def close(self) -> None:
        """Detach the sink."""
        self._sink = None
        if self in _attached:
            _attached.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def instrument(sink: Sink, overflow: Overflow = "hold") -> Instrument:
    """Subscribe a sink to every run of this process that starts from now on.

    Args:
        sink: A function of an event, sync or async, as for `Run.subscribe`. It gets the events of all runs, which
            have a `run_id`; those of each run in order. What it raises is reported, and hurts no run.
        overflow: As for `Run.subscribe`: whether a slow async sink holds a run back.

    Returns:
        A handle, which detaches the sink when it is closed, or left as a context manager.

    Raises:
        UsageError: If `sink` is not a function, or `overflow` is no choice.

    Example:
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend, instrument
        >>> async def main():
        ...     async with instrument(lambda event: print(event.type)):
        ...         await Pipeline(ScriptedBackend("One.")).run("Count.")
        ...     await Pipeline(ScriptedBackend("Two.")).run("Count.")
        >>> asyncio.run(main())
        started
        chunk
        streaming_done
        completed

        With OpenTelemetry, in one line: ``instrument(sinks.OpenTelemetry())``.
    """
    check_sink(sink, overflow)
    handle = Instrument(sink, overflow)
    _attached.append(handle)
    return handle


def instruments() -> tuple[Instrument, ...]:
    """Return what is attached to every run."""
    return tuple(_attached)
