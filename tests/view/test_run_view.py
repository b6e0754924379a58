"""Tests of `streamval.view.run_view`: at every event, what it says stands is what the run's text is."""

import asyncio
import json
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import streamval as sv
from streamval.testing import run_virtually
from streamval.view import RunView
from streamval.view.labels import taken_back
from streamval.view.patch import patch, patched
from tests.support.sources import PlainJudge, Spoken, fails_on, thinking_and_calling, watch


class Person(BaseModel):
    name: str
    age: int


class Random(sv.Requirement):
    """Passes, fails or does not know, in its own time, as the dice say."""

    def __init__(self, dice, **options):
        super().__init__("random", **options)
        self.dice = dice

    async def stream_validate(self, chunk, *, backend, ctx):
        await asyncio.sleep(self.dice.choice([0, 0, 1, 3]))
        verdict = self.dice.choice(["pass"] * 8 + ["unknown"] * 3 + ["fail"])
        return sv.PartialValidationResult(verdict, reason=self.dice.choice([None, "why"]))

    async def validate(self, backend, ctx, **_):
        return sv.ValidationResult(self.dice.random() < 0.7, reason="whole")


class Marked(sv.Pipeline):
    """Remembers whether it rewrites what is delivered."""

    has_operators = False


def a_pipeline(dice):
    """A pipeline as people make them, of everything that changes what stands."""
    if dice.random() < 0.15:
        said = [json.dumps({"name": "Ann", "age": age}) for age in ("old", 7)]
        return Marked(
            sv.ScriptedBackend(said, token_size=3),
            format=Person,
            retry=sv.Repair(),
            emit_tokens=True,
        )
    pieces = [
        "One. ",
        "Two is here. ",
        "Thr",
        "ee. ",
        "\n\n",
        "It \U0001f600 is. ",
        " ",
        "and so on",
    ]

    def speak():
        said = [dice.choice(pieces) for _ in range(dice.randrange(12))]
        if dice.random() < 0.1:
            said.insert(dice.randrange(len(said) + 1), OSError("gone"))
        return [part for piece in said for part in (dice.choice([0, 0.5]), piece)]

    lanes = [
        Random(dice, hold=dice.random() < 0.3, chunking=dice.choice([None, None, "word"]))
        for _ in range(dice.randrange(4))
    ]
    redact = sv.operators.rewrite(lambda text: "…")
    rewrites = dice.random() < 0.1
    pipeline = Marked(
        Spoken(*[speak() for _ in range(3)], supports_prefix=dice.random() < 0.5),
        requirements=lanes,
        retry=dice.choice([None, sv.Repair(loop_budget=3), sv.Repair(3, mode="restart")]),
        emit_tokens=dice.random() < 0.7,
        emit_verdicts=dice.random() < 0.5,
        chunk_operators=[redact] if rewrites else [],
    )
    pipeline.has_operators = rewrites
    return pipeline


@settings(max_examples=250, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_it_says_stands_is_what_the_run_says(dice):
    async def main():
        view, seen = RunView(timeline=True), []
        pipeline = a_pipeline(dice)
        run = pipeline.start("go")
        leave_at = dice.choice([None, None, dice.randrange(30)])

        def look(event):
            view.apply(event)
            snapshot = view.snapshot()
            assert view.text == run.text
            assert shown(snapshot) == run.text
            seen.append((event, snapshot, json.dumps(snapshot)))
            if len(seen) == leave_at:
                run.cancel()

        failed = []
        asyncio.get_running_loop().set_exception_handler(lambda _, c: failed.append(c))
        run.subscribe(look)
        try:
            await run
        except OSError:
            assert view.snapshot()["state"] == "error"
        assert not failed
        return pipeline, view, seen

    (pipeline, view, seen), _ = run_virtually(main())
    events = [event for event, *_ in seen]
    last = seen[-1][1]
    assert view.is_over
    assert (last["state"] == "valid") == events[-1].success
    assert last["pending"] == ""
    assert view.text.rstrip() == events[-1].full_text.rstrip()
    # A run that is cancelled as an attempt is told of has not begun it.
    assert len(last["attempts"]) - events[-1].attempts_used in (0, 1)
    # A snapshot stays as it was, and patches make each of the one before.
    client = {}
    for _, snapshot, as_json in seen:
        assert json.dumps(snapshot) == as_json
        client = patched(client, json.loads(json.dumps(patch(client, snapshot))))
        assert client == json.loads(as_json)
    if any(event.type == "token" for event in events) and not pipeline.has_operators:
        what_stands_and_what_is_pending_are_all_that_was_written(seen)


def shown(snapshot):
    """What a display shows as standing."""
    gone = set()
    for attempt in snapshot["attempts"]:
        gone.update(range(*(attempt["taken_back"] or (0, 0))))
    return "".join(s["text"] for at, s in enumerate(snapshot["text"]) if at not in gone)


def what_stands_and_what_is_pending_are_all_that_was_written(seen):
    """Until a chunk fails; nothing is missing, and nothing is there twice."""
    written, before, failed = "", "", False
    for event, snapshot, _ in seen:
        if event.type == "retry":
            written, failed = "", False
            before = shown(snapshot)
        elif event.type == "token":
            written += event.text
        failed = failed or (event.type == "quick_check" and not event.passed)
        if not failed and snapshot["state"] == "running":
            assert shown(snapshot) + snapshot["pending"] == before + written


async def view_of(pipeline, prompt="go"):
    view = RunView()
    for event in await watch(pipeline.start(prompt)):
        view.apply(event)
    return view


async def test_a_repair_that_continues_strikes_out_what_was_rejected_only():
    backend = Spoken(["Fine. ", "Bad! ", "x"], [" Good."], supports_prefix=True)
    calm = PlainJudge(fails_on("Bad!"), "calm")
    pipeline = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(), emit_tokens=True)
    snapshot = (await view_of(pipeline)).snapshot()
    assert [segment["text"] for segment in snapshot["text"]] == ["Fine.", " Bad! x", " Good."]
    assert [segment["verdict"] for segment in snapshot["text"]] == ["pass", "fail", "pass"]
    first, second = snapshot["attempts"]
    assert (first["taken_back"], first["mode"], first["reason"]) == (
        [1, 2],
        "continue",
        "calm: about Bad!",
    )
    assert (second["number"], second["taken_back"]) == (2, None)
    assert snapshot["rows"][0]["judged"] == 3
    assert snapshot["usage"]["completion_tokens"] == 4


async def test_a_restart_strikes_out_what_was_delivered_too():
    calm = PlainJudge(fails_on("Bad!"), "calm")
    pipeline = sv.Pipeline(
        Spoken(["Fine. ", "Bad! ", "x"], ["Good."]), requirements=[calm], retry=sv.Repair()
    )
    snapshot = (await view_of(pipeline)).snapshot()
    assert snapshot["attempts"][0]["taken_back"] == [0, 1]
    assert shown(snapshot) == "Good."


async def test_what_is_held_back_is_pending():
    held, view = [], RunView()
    keeps = PlainJudge(lambda chunk: "pass" if chunk == "Three." else "unknown", hold=True)
    pipeline = sv.Pipeline(
        Spoken("One. ", "Two. ", "Three. ", "Four."), requirements=[keeps], emit_tokens=True
    )
    async with pipeline.start("go") as run:
        async for event in run:
            view.apply(event)
            if event.type == "quick_check":
                held.append((view.text, view.snapshot()["pending"]))
    assert held[1] == ("", "One. Two. Three. ")
    assert view.text == "One. Two. Three. Four."


def bytes_in(snapshot):
    """How much sound a display shows as standing."""
    pairs = zip(snapshot["text"], taken_back(snapshot), strict=True)
    return sum(segment["bytes"] for segment, gone in pairs if not gone)


async def test_sound_is_counted_in_bytes():
    pipeline = sv.Pipeline(
        sv.IterableBackend(lambda _: [b"\x00" * 3200] * 3), chunking=sv.chunkers.FrameChunker(0.1)
    )
    run, view, heard = pipeline.start("go"), RunView(), []
    run.subscribe(
        lambda event: (view.apply(event), heard.append((len(run.audio), bytes_in(view.snapshot()))))
    )
    await run
    assert all(of_run == of_view for of_run, of_view in heard)
    assert bytes_in(view.snapshot()) == 9600
    json.dumps(view.snapshot())


async def test_the_stages_of_a_contract():
    class Answer(sv.LLMDataModel):
        value: int

    said = ['{"value": 1}', '{"value": 7}']
    views = []

    @sv.contract(post_remedy=True, backend=sv.ScriptedBackend(said))
    class Asks(sv.Expression):
        prompt = "Answer."

        def pre(self, input: Answer) -> bool:
            return True

        def act(self, input: Answer) -> Answer:
            return input

        def post(self, output: Answer) -> bool:
            if output.value < 5:
                raise ValueError("too small")
            return True

        def forward(self, input: Answer) -> Answer:
            return self.contract_result

    asks = Asks()
    view = RunView()
    asks.subscribe(lambda event: (view.apply(event), views.append(view.snapshot())))
    await asks.acall(input=Answer(value=3))
    last = views[-1]
    assert [(s["stage"], s["status"]) for s in last["stages"]] == [
        ("pre", "passed"),
        ("act", "passed"),
        ("output", "passed"),
    ]
    assert json.loads(view.text) == {"value": 7}
    assert last["stage"] in ("output", "post")
    assert len(last["attempts"]) == 2


async def test_events_of_other_runs_and_a_recording_without_its_beginning():
    events = await watch(sv.Pipeline(Spoken("One. Two."), requirements=[PlainJudge()]).start("go"))
    other = await watch(sv.Pipeline(Spoken("Other.")).start("go"))
    view = RunView()
    for event in [*events[1:3], *other[1:], *events[3:]]:
        view.apply(event)
    assert view.text == "One. Two."
    assert view.snapshot()["rows"][0]["name"] == "requirement 1"
    for event in other:
        view.apply(event)
    assert (view.text, view.snapshot()["rows"]) == ("Other.", [])


@pytest.mark.parametrize("evil", [float("nan"), float("inf"), -1e308, 1e308])
def test_a_recording_may_hold_anything(evil):
    head = {"run_id": "r", "attempt": 10**18, "timestamp": evil}
    view = RunView(timeline=True)
    for event in (
        sv.StartedEvent(**head, model="\x1b[31m", requirements=("a",), chunking="x"),
        sv.VerdictEvent(
            **head, chunk_index=-5, lane=10**9, requirement="b", verdict="fail", seconds=evil
        ),
        sv.ChunkEvent(**head, text="a", chunk_index=-1, start=-9, end=10**15, separator=""),
        sv.TokenEvent(**head, text="b"),
        sv.RetryEvent(**head, reason="x", failures=(), mode="ask", keep_chunks=-3, closed_at=evil),
        sv.CompletedEvent(
            **head,
            success=False,
            full_text="",
            attempts_used=-1,
            usage=sv.types.Usage(),
            closed_at=evil,
        ),
    ):
        view.apply(event)
    json.dumps(view.snapshot(), allow_nan=False)
    assert view.text == ""


def test_a_long_text_without_a_boundary_costs_linear_time_and_its_own_memory():
    head = {"run_id": "r", "attempt": 1}
    view = RunView()
    token = sv.TokenEvent(**head, text="x" * 10)
    tracemalloc.start()
    for _ in range(20_000):
        view.apply(token)
    for n in range(20_000):  # ten characters each out of one long piece
        view.apply(
            sv.ChunkEvent(
                **head, text="x" * 10, chunk_index=n, start=n * 10, end=n * 10 + 10, separator=""
            )
        )
        if not n % 1000:
            view.snapshot()
    assert view.snapshot()["pending"] == ""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000


def test_the_dice_make_all_kinds_of_runs():
    """The property above is worth something only if these come up."""
    kinds = set()
    for seed in range(150):
        dice = random.Random(seed)

        async def main(dice=dice):
            run = a_pipeline(dice).start("go")
            events = []
            run.subscribe(events.append)
            try:
                await run
            except OSError:
                kinds.add("error")
            return events

        asyncio_loop_events, _ = run_virtually(main())
        for event in asyncio_loop_events:
            kinds.add(event.mode if event.type == "retry" else event.type)
        kinds.add(asyncio_loop_events[-1].success)
    assert {"restart", "continue", "error", "partial_object", "verdict", True, False} <= kinds


def test_what_is_rejected_twice_is_one_stretch_and_nothing_in_it_stands():
    head = {"run_id": "r", "attempt": 1}
    view = RunView()
    fail = sv.QuickCheckEvent(**head, chunk_index=0, passed=False, verdict="fail", results=())
    for event in (
        sv.TokenEvent(**head, text="bad"),
        fail,
        sv.ChunkEvent(**head, text="so", chunk_index=1, start=3, end=5, separator=""),
        sv.TokenEvent(**head, text="worse"),
        fail,
        sv.CompletedEvent(
            **head, success=False, full_text="", attempts_used=1, usage=sv.types.Usage()
        ),
    ):
        view.apply(event)
    assert view.text == shown(view.snapshot()) == ""


def test_its_size_counts_what_was_taken_back_and_why():
    head = {"run_id": "r", "attempt": 1}
    view = RunView()
    view.apply(sv.TokenEvent(**head, text="x" * 1000))
    view.apply(sv.RetryEvent(**head, reason="y" * 500, failures=(), mode="restart", keep_chunks=0))
    assert view.text == ""
    assert view.size >= 1500


async def test_what_it_thinks_and_calls_is_folded_too():
    view, seen = RunView(), []
    for event in await watch(thinking_and_calling().start("go")):
        view.apply(event)
        seen.append((event.type, event.attempt, view.snapshot()))
    first = next(shot for kind, attempt, shot in seen if attempt == 1 and kind == "reasoning")
    assert (first["reasoning"]["text"], first["thinking"], first["quiet"]) == ("Hm.", True, False)
    (retried,) = [shot for kind, _, shot in seen if kind == "retry"]
    assert retried["reasoning"] == {"text": "", "pending": "", "rejected": "Hm. Bad!"}
    assert [call["stands"] for call in retried["calls"]] == [False]
    last = view.snapshot()
    assert last["reasoning"] == {"text": "Let me see.", "pending": "", "rejected": ""}
    assert [(call["raw"], call["stands"]) for call in last["calls"]] == [
        ('{"city": "Rome"}', False),
        ('{"city": "Oslo"}', True),
    ]
    assert (last["calling"], last["thinking"], last["state"]) == ("", False, "valid")
    assert shown(last) == "I ask."


def test_what_is_being_thought_and_called_is_pending():
    view, head = RunView(), {"run_id": "r", "attempt": 1}
    view.apply(sv.StartedEvent(**head, model="m", chunking="sentence"))
    view.apply(sv.TokenEvent(**head, text="Hm. So", channel="reasoning"))
    view.apply(sv.ReasoningEvent(**head, text="Hm.", chunk_index=0, start=0, end=3, separator=""))
    view.apply(sv.TokenEvent(**head, text="weather", channel="tool"))
    shot = view.snapshot()
    assert shot["reasoning"] == {"text": "Hm.", "pending": " So", "rejected": ""}
    assert (shot["calling"], shot["thinking"]) == ("weather", False)
