"""Marble diagrams of what an observable emits, in the notation of reactivex."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import groupby
from typing import Any, TypeVar

import reactivex
from reactivex import Notification, Observable
from reactivex import operators as ops
from reactivex.notification import OnError, OnNext
from reactivex.scheduler import VirtualTimeScheduler

from streamval import bridge
from streamval.types.chunks import Chunk

T = TypeVar("T")


def chunks(*texts: str, separator: str = " ") -> list[Chunk]:
    """Return texts as the chunks of one stream, with their offsets.

    Example:
        >>> [(one.text, one.start, one.end) for one in chunks("One.", "Two.")]
        [('One.', 0, 4), ('Two.', 5, 9)]
    """
    made, start = [], 0
    for index, text in enumerate(texts):
        before = separator if index else ""
        start += len(before)
        made.append(Chunk(text, index, start, start + len(text), before))
        start += len(text)
    return made


def from_marbles(
    diagram: str,
    values: Mapping[str, Any] | None = None,
    *,
    step: float = 1.0,
    error: Exception | None = None,
) -> Observable[Any]:
    """Return a cold observable that emits as a diagram says, on the running loop.

    Args:
        diagram: Each character is one `step`: ``-`` nothing, ``|`` the end, ``#`` an error, ``(a,b)`` two items at
            once; anything else is the name of an item.
        values: The items by name; by default a name is its own item.
        step: Seconds of a character: run the test by `run_virtually`, and they take none.
        error: What ``#`` fails with.

    Example:
        >>> from reactivex import operators as ops
        >>> from streamval.testing import from_marbles, run_virtually, to_marbles
        >>> source = from_marbles("a-b---c|").pipe(ops.debounce(3))
        >>> run_virtually(to_marbles(source))[0]
        '-----b-(c,|)'
    """
    named: dict[str | float, Any] = dict(values.items()) if values else {}
    scheduler, script = VirtualTimeScheduler(), list[tuple[float, Notification[Any]]]()
    reactivex.from_marbles(
        diagram, timespan=1.0, lookup=named, error=error, scheduler=scheduler
    ).pipe(ops.materialize()).subscribe(lambda what: script.append((float(scheduler.clock), what)))
    scheduler.start()

    async def played() -> AsyncGenerator[Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for at, what in script:
            if (wait := began + at * step - loop.time()) > 0:
                await asyncio.sleep(wait)
            if isinstance(what, OnNext):
                yield what.value
            elif isinstance(what, OnError):
                raise what.exception
        if not script or isinstance(script[-1][1], OnNext):  # neither an end nor an error
            await asyncio.Event().wait()

    return bridge.from_async_iterable(played)


async def to_marbles(
    observable: Observable[T], name: Callable[[T], object] = str, *, step: float = 1.0
) -> str:
    """Subscribe to an observable, wait for its end, and return its diagram.

    Args:
        observable: Any observable: of chunks, verdicts, events.
        name: Returns the name of an item in the diagram: ``lambda chunk: chunk.text``, say.
        step: Seconds of a character.

    Returns:
        The diagram, in the notation of `from_marbles`; an error is its ``#``.

    Example:
        >>> from streamval.operators import validate
        >>> from streamval import stream_check
        >>> from streamval.testing import chunks, from_marbles, run_virtually
        >>> a, b = chunks("Fine.", "Bad!")
        >>> calm = stream_check(lambda text: text[-1] != "!", "stay calm")
        >>> checks = from_marbles("a--b--a|", {"a": a, "b": b}).pipe(validate([calm]))
        >>> run_virtually(to_marbles(checks, lambda check: check.success))[0]
        'pass(fail,|)'
    """
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), []

    def note(what: object) -> None:
        seen.append((round((loop.time() - began) / step), str(what)))

    async with bridge.Subscription(observable, lambda item: note(name(item))) as subscription:
        try:
            await subscription.completed()
            note("|")
        except Exception:
            note("#")
    diagram = ""
    for at, together in groupby(seen, key=lambda one: one[0]):
        names = [what for _, what in together]
        diagram = diagram.ljust(at, "-")
        diagram += names[0] if len(names) == 1 else f"({','.join(names)})"
    return diagram
