"""Backends and requirements that tests look into."""

from __future__ import annotations

import asyncio

import streamval as sv


class Spoken(sv.Backend):
    """Says the given deltas, and remembers what became of each stream.

    An exception among the deltas is raised there; a callable is awaited; a number is slept.
    """

    model = "spoken"

    def __init__(self, *deltas, supports_prefix=False, closing=None):
        self.deltas = deltas
        self.supports_prefix = supports_prefix
        self.closing = closing
        self.requests = []
        self.opened = 0
        self.closed = 0
        self.said = 0

    async def stream(self, request):
        self.requests.append(request)
        self.opened += 1
        try:
            for delta in self.deltas_of(request):
                if isinstance(delta, BaseException):
                    raise delta
                if isinstance(delta, (int, float)):
                    await asyncio.sleep(delta)
                elif callable(delta):
                    await delta()
                else:
                    self.said += 1
                    yield delta
        finally:
            if self.closing is not None:
                await self.closing()
            self.closed += 1

    def deltas_of(self, request):
        """A list of lists is one an attempt."""
        if self.deltas and isinstance(self.deltas[0], list):
            return self.deltas[request.attempt - 1]
        return self.deltas


class Judge(sv.Requirement):
    """Judges by a function of the chunk, which may be async; remembers what it was asked."""

    def __init__(self, verdict="pass", description="judge", *, whole=True, **options):
        super().__init__(description, **options)
        self.verdict = verdict
        self.whole = whole
        self.asked = []

    def __copy__(self):
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin  # shares `asked` with the original on purpose: tests read it there

    async def stream_validate(self, chunk, *, backend, ctx):
        self.asked.append(chunk)
        verdict = self.verdict(chunk) if callable(self.verdict) else self.verdict
        if asyncio.iscoroutine(verdict):
            verdict = await verdict
        if isinstance(verdict, str):
            return sv.PartialValidationResult(verdict, reason=f"about {chunk}")
        return verdict

    async def validate(self, backend, ctx, **_):
        whole = self.whole(str(ctx.last_output())) if callable(self.whole) else self.whole
        if isinstance(whole, BaseException):
            raise whole
        return sv.ValidationResult(whole, reason=None if whole else "not as a whole")


class PlainJudge(Judge):
    """The same with a plain function, which is judged without a task."""

    def stream_validate(self, chunk, *, backend, ctx):
        self.asked.append(chunk)
        verdict = self.verdict(chunk) if callable(self.verdict) else self.verdict
        if isinstance(verdict, str):
            return sv.PartialValidationResult(verdict, reason=f"about {chunk}")
        return verdict


def fails_on(text):
    """A verdict that fails the chunk with this text."""
    return lambda chunk: "fail" if chunk == text else "pass"


def types(events):
    """The types of events, in order."""
    return [event.type for event in events]


async def watch(run):
    """Drive a run; returns its events."""
    return [event async for event in run]
