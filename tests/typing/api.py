"""Read by the type checker, never run: the public API as a user types it."""

from collections.abc import Callable
from typing import assert_type

from pydantic import BaseModel
from reactivex import Observable
from reactivex import operators as ops

import streamval as sv
from streamval.events import BaseEvent
from streamval.operators import cancel_on_fail, chunk, fan_out, merge_tri_state, only, release


async def drive(pipeline: sv.Pipeline) -> None:
    assert_type(await pipeline.run("go"), sv.StreamResult)
    async with pipeline.start("go") as run:
        async for event in run:
            if event.type == "chunk":
                assert_type(event, sv.ChunkEvent)
            elif event.type == "retry":
                assert_type(event.keep_chunks, int)
        async for piece in run.chunks():
            assert_type(piece, sv.Chunk)
    async for prompt, result in pipeline.map(["a"]):
        assert_type(prompt, str)
        assert_type(result, sv.StreamResult)
    async for _, outcome in pipeline.map(["a"], return_exceptions=True):
        assert_type(outcome, sv.StreamResult | Exception)


class City(BaseModel):
    name: str


async def typed() -> None:
    cities = sv.Pipeline(sv.ScriptedBackend("x"), format=City)
    assert_type(cities, sv.Pipeline[City])
    assert_type((await cities.run("go")).parsed, City | None)
    assert_type(cities.run_sync("go").parsed, City | None)
    assert_type((await cities.start("go")).parsed, City | None)


def on_event(event: sv.Event) -> None: ...


def subscribed(run: sv.Run) -> None:
    run.subscribe(on_event)


def compose(backend: sv.Backend, judge: sv.Requirement) -> Observable[sv.Chunk]:
    return backend.observe("go").pipe(
        chunk("sentence"), cancel_on_fail(fan_out([judge, "be kind"])), merge_tri_state(), release()
    )


def first_words() -> Callable[[Observable[sv.Chunk]], Observable[str]]:
    """A user's own operator."""

    def word(found: sv.Chunk) -> str:
        return found.text.split()[0]

    return ops.map(word)


def chosen(events: Observable[BaseEvent]) -> Observable[sv.TokenEvent]:
    return events.pipe(only(sv.TokenEvent))


class Kind(sv.Requirement):
    async def stream_validate(
        self, chunk: str, *, backend: sv.Backend | None, ctx: sv.types.Context | None
    ) -> sv.PartialValidationResult:
        return sv.PartialValidationResult("pass" if "kind" in chunk else "unknown")


class Brief(sv.Requirement):
    def stream_validate(
        self, chunk: str, *, backend: sv.Backend | None, ctx: sv.types.Context | None
    ) -> sv.PartialValidationResult:
        return sv.PartialValidationResult("pass" if len(chunk) < 80 else "fail")


async def either_kind(judge: sv.Requirement) -> bool:
    return bool(await judge.stream_validate("x", backend=None, ctx=None))


pipeline = sv.Pipeline(
    sv.ScriptedBackend("x"),
    requirements=[
        Kind("be kind"),
        Brief("be brief"),
        "be brief",
        sv.stream_check(lambda text: bool(text)),
    ],
    retry=sv.Repair(loop_budget=3, mode="restart"),
    chunk_operators=[sv.operators.rewrite(str.upper)],
)


async def sessions(m: sv.session.Session) -> None:
    assert_type(await m.ainstruct("Go."), sv.types.ModelOutputThunk)
    assert_type(await m.ainstruct("Go.", return_sampling_results=True), sv.session.SamplingResult)
    assert_type(m.instruct("Go."), sv.types.ModelOutputThunk)
    assert_type(m.stream_instruct("Go.", requirements=["be brief"]), sv.Run)
    assert_type(m.chat("Hi."), sv.types.Message)
    assert_type(m.validate(["be brief"]), list[sv.ValidationResult])


@sv.contract(post_remedy=False)
class Doubled(sv.Expression):
    prompt = "Double the input."

    def forward(self, n: int) -> int:
        return int(self.contract_result)
