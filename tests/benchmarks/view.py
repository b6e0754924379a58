"""`make bench-view`: what seeing a run costs, on a run of 20,000 events.

Ratios are of one run on one machine, the best of a few repeats. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import streamval as sv
from streamval.view import RunView, draw, patch

EVENTS = 20_000
WORDS_A_SENTENCE = 8


class Speaker(sv.Backend):
    """Says sentences, a word a delta, and lets the loop turn now and then."""

    model = "bench"

    def __init__(self, words, seconds=0.0):
        self.words = words
        self.pause = seconds * 50 / words

    async def stream(self, request):
        for n in range(self.words):
            if not n % 50:
                await asyncio.sleep(self.pause)
            yield "ends. " if n % WORDS_A_SENTENCE == WORDS_A_SENTENCE - 1 else "word "


def pipeline(words, seconds=0.0):
    """Three lanes, with tokens and verdicts: eight words are thirteen events."""
    lanes = [sv.stream_check(lambda text: True, f"lane {n}") for n in range(3)]
    return sv.Pipeline(
        Speaker(words, seconds), requirements=lanes, emit_tokens=True, emit_verdicts=True
    )


def words_for(events):
    """How many words make so many events."""
    return events * WORDS_A_SENTENCE // (WORDS_A_SENTENCE + 5)


async def recorded():
    """The events of a run of at least 20,000."""
    words = words_for(EVENTS)
    seen = sv.sinks.Collect()
    run = pipeline(words).start("go")
    run.subscribe(seen)
    await run
    return list(seen.events)


def timed(work, repeats):
    """The least seconds that some work takes, and what it returned."""
    best, result = float("inf"), None
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - began)
    return best, result


def folded(events, **options):
    view = RunView(**options)
    for event in events:
        view.apply(event)
    return view


async def run_seconds(words, *, live):
    """Seconds of a run with one subscriber, and with a live view as well."""
    run = pipeline(words).start("go")
    run.subscribe(lambda event: None)
    if live:
        run.live()
    began = time.perf_counter()
    await run
    return time.perf_counter() - began


async def bare_seconds(words):
    began = time.perf_counter()
    backend = Speaker(words)
    async for _ in backend.stream(backend.request("go")):
        pass
    return time.perf_counter() - began


async def cost_of_live(words, repeats):
    """The cost a token without and with a live view, in microseconds."""
    plain, live = [], []
    for _ in range(repeats):
        bare = await bare_seconds(words)
        plain.append(await run_seconds(words, live=False) - bare)
        live.append(await run_seconds(words, live=True) - bare)
    return min(plain) / words * 1e6, min(live) / words * 1e6


async def updates_in(words, seconds):
    """The updates that a live view sends in about so many seconds; whether the last one shows all."""
    run = pipeline(words, seconds).start("go")
    widget = run.live()
    began = time.perf_counter()
    result = await run
    took = time.perf_counter() - began
    shown = "".join(segment["text"] for segment in widget.snapshot["text"])
    return f"{widget.number} in {took:.1f} s", shown == result.text


def traffic(events, every):
    """Characters of patches, of whole snapshots, and of the last one, with an update every so many events."""
    view, sent = RunView(), {}
    patches = wholes = 0
    for n, event in enumerate(events, 1):
        view.apply(event)
        if not n % every or n == len(events):
            now = view.snapshot()
            patches += len(json.dumps(patch(sent, now)))
            wholes += len(json.dumps(now))
            sent = now
    return patches, wholes, len(json.dumps(sent))


def main(repeats):
    events = asyncio.run(recorded())
    count = len(events)
    fold, _ = timed(lambda: folded(events), repeats)
    with_times, view = timed(lambda: folded(events, timeline=True), repeats)
    snapshot, _ = timed(view.snapshot, 20)
    svg_seconds, svg = timed(lambda: draw(view), repeats)
    page_seconds, page = timed(lambda: draw_page(view), repeats)
    patches, wholes, last = traffic(events, count // 100)
    plain, live = asyncio.run(cost_of_live(8000, repeats))
    updates, is_whole = asyncio.run(updates_in(words_for(EVENTS), 3.0))
    rows = [
        ("events", f"{count:,}"),
        ("folding an event", f"{fold / count * 1e6:.2f} µs"),
        ("folding an event with its times", f"{with_times / count * 1e6:.2f} µs"),
        ("a snapshot at the end", f"{snapshot * 1e6:.0f} µs"),
        ("drawing the SVG", f"{svg_seconds * 1000:.0f} ms, {len(svg.encode()) / 1e3:,.0f} kB"),
        ("drawing the page", f"{page_seconds * 1000:.0f} ms, {len(page.encode()) / 1e6:.2f} MB"),
        (
            "100 updates, as patches, over the last snapshot",
            f"{patches / last:.2f} ({wholes / last:.0f} as snapshots)",
        ),
        ("cost a token, without a live view", f"{plain:.2f} µs"),
        ("cost a token, with one", f"{live:.2f} µs"),
        ("ratio (2 at most)", f"{live / plain:.2f}"),
        ("updates sent (ten a second at most)", updates),
        ("the last update is the whole run", "yes" if is_whole else "NO"),
    ]
    print("| | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def draw_page(view):
    from streamval.view.page import drawing_page

    return drawing_page(view)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=5)
    main(arguments.parse_args().repeats)
