"""Tests of `streamval.view.marbles`: valid XML whatever a model writes, and what a reader must see."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

import streamval as sv
from streamval.view import RunView
from streamval.view.marbles import BINS, marbles
from tests.support.sources import PlainJudge, Spoken, fails_on, thinking_and_calling, watch

SVG = "{http://www.w3.org/2000/svg}"


def drawn(events, **options):
    view = RunView(timeline=True)
    for event in events:
        view.apply(event)
    svg = marbles(view, **options)
    return svg, ET.fromstring(svg)


def texts(root):
    return [text.text for text in root.iter(f"{SVG}text")]


async def a_repaired_run(**options):
    backend = Spoken(
        ["Fine. ", "Bad! ", "More ", "of it. ", "And so on."], [" Good."], supports_prefix=True
    )
    judge = PlainJudge(fails_on("Bad!"), "calm")
    pipeline = sv.Pipeline(
        backend, requirements=[judge], retry=sv.Repair(), emit_tokens=True, emit_verdicts=True
    )
    return await watch(pipeline.start("go"))


async def test_what_a_reader_must_see():
    svg, root = drawn(await a_repaired_run())
    said = "\n".join(texts(root))
    for what in ("calm: about Bad!", " after ✕", "1 released, 1 kept from before", "chunks"):
        assert what in said
    assert len(re.findall(r'<text class="head side"[^>]*>attempt \d', svg)) == 2
    fails = [use for use in root.iter(f"{SVG}use") if use.get("href") == "#sv-fail"]
    assert len(fails) == 2  # the verdict, and the legend
    assert fails[0].find(f"{SVG}title").text.startswith("calm: fail on chunk 1")
    assert "prefers-color-scheme:dark" in svg


async def test_it_is_self_contained_and_runs_nothing():
    svg, root = drawn(await a_repaired_run())
    for element in root.iter():
        assert element.tag.removeprefix(SVG) not in ("script", "foreignObject", "image", "a")
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert "href" not in name or value.startswith("#")
    assert "url(" not in svg
    assert "@import" not in svg


async def test_without_its_style_it_has_none():
    _, root = drawn(await a_repaired_run(), styled=False)
    assert root.find(f"{SVG}style") is None


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=30), st.text(max_size=30), st.text(max_size=200), st.floats(), st.booleans()
)
def test_it_is_valid_whatever_was_written(model, name, text, stamp, detail):
    head = {"run_id": "r", "attempt": 1, "timestamp": stamp}
    events = [
        sv.StartedEvent(**head, model=model, requirements=(name,), chunking=text),
        sv.TokenEvent(**head, text=text),
        sv.QuickCheckEvent(
            **head,
            chunk_index=0,
            passed=False,
            verdict="fail",
            results=(sv.PartialValidationResult("fail", reason=text),),
        ),
        sv.ChunkEvent(**head, text=text, chunk_index=0, start=0, end=9, separator=""),
        sv.RetryEvent(
            **head, reason=text, failures=(), mode="restart", keep_chunks=0, closed_at=stamp
        ),
    ]
    svg, _ = drawn(events, detail=detail)
    assert "nan" not in svg.split("</defs>")[1].replace(text, "").replace("unknown", "")


def many(chunks):
    """Events of a run with one late failure."""
    yield sv.StartedEvent(
        run_id="r", attempt=1, timestamp=0.0, model="m", requirements=("a",), chunking="word"
    )
    for n in range(chunks):
        head = {"run_id": "r", "attempt": 1, "timestamp": n / 100}
        verdict = "fail" if n == chunks - 1 else "pass"
        results = (sv.PartialValidationResult(verdict),)
        yield sv.TokenEvent(**head, text="word ")
        yield sv.QuickCheckEvent(
            **head, chunk_index=n, passed=verdict == "pass", verdict=verdict, results=results
        )
        if verdict == "pass":
            yield sv.ChunkEvent(
                **head, text="word", chunk_index=n, start=n * 5, end=n * 5 + 4, separator=" "
            )


def test_the_size_of_the_picture_has_a_limit_and_the_failure_stays():
    small, _ = drawn(many(2_000))
    large, root = drawn(many(20_000))
    assert len(large) < 1.2 * len(small)
    uses = [use.get("href") for use in root.iter(f"{SVG}use")]
    assert uses.count("#sv-fail") == 2
    assert len(uses) <= 3 * (BINS + 2) + 4


def test_with_detail_every_chunk_is_there():
    _, root = drawn(many(500), detail=True)
    named = {use.get("data-c") for use in root.iter(f"{SVG}use")} - {None}
    assert named == {f"1-{n}" for n in range(500)}


def test_a_run_without_events_is_an_empty_picture():
    assert "0 attempts" in marbles(RunView(timeline=True))
    assert "0 attempts" in marbles(RunView())


async def test_a_failure_of_the_whole_is_there_and_so_is_the_outcome():
    never = sv.Requirement("say please", lambda _: sv.ValidationResult(False, reason="no please"))
    pipeline = sv.Pipeline(Spoken("Fine. ", "So."), requirements=[never], emit_tokens=True)
    svg, root = drawn(await watch(pipeline.start("go")))
    said = "\n".join(texts(root))
    assert "not valid after 1 attempt" in said
    assert "say please: no please" in said
    assert "say please: fail on the whole output: no please" in svg


def test_times_that_no_run_took():
    for stamps in ((-1.7e308, 1.7e308), (0.0, 5e-324), (1e308, 1.5e308), (float("inf"), 0.0)):
        events = list(many(3))
        events = [
            event.model_copy(update={"timestamp": stamps[n % 2]}) for n, event in enumerate(events)
        ]
        svg, _ = drawn(events, detail=True)
        positions = re.findall(r'(?:x|x1|x2|width)="(-?[\d.e+-]+)%"', svg)
        assert positions
        assert all(-1 <= float(position) <= 101 for position in positions)


async def test_reasoning_and_calls_have_rows_of_their_own():
    svg, root = drawn(await watch(thinking_and_calling().start("go")))
    assert texts(root).count("reasoning") == 2
    assert texts(root).count("calls of tools") == 2
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "reasoning, fail: about Bad!" in titles
    assert 'tool, pass: weather({"city": "Oslo"})' in titles
    assert "closed" in svg  # at the verdict on the reasoning
