"""Backends and requirements that tests look into."""

from __future__ import annotations

import asyncio

import streamval as sv
from streamval.testing import FaultyBackend as Spoken


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


def called(arguments):
    return sv.Delta(tool_call=sv.types.ToolCallDelta(0, "c1", "weather", arguments))


def thinking_and_calling():
    """An attempt whose reasoning and call fail, and a good one."""
    tool = {
        "type": "function",
        "function": {"name": "weather", "parameters": {"required": ["city"]}},
    }
    backend = Spoken(
        [sv.Delta(reasoning="Hm. "), called('{"city": "Rome"}'), sv.Delta(reasoning="Bad!"), "x"],
        [sv.Delta(reasoning="Let me see. "), "I ask. ", called('{"city": "Oslo"}')],
    )
    calm = PlainJudge(fails_on("Bad!"), "calm").on("reasoning")
    return sv.Pipeline(
        backend, requirements=[calm], tools=[tool], retry=sv.Repair(), emit_tokens=True
    )
