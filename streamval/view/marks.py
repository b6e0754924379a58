"""What a marble diagram shows of the times of an attempt: its marks, and where its time went."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from streamval.view.words import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamval.view.timeline import AttemptTimes

Kind: TypeAlias = Literal["pass", "unknown", "fail", "chunk"]
"""The shape of a mark: a verdict, or a chunk that was cut."""

_WORST: dict[Kind, int] = {"chunk": 0, "pass": 0, "unknown": 1, "fail": 2}


class Mark(NamedTuple):
    """Something at a point of time.

    Attributes:
        kind: Its shape.
        at: Where it stands, in seconds since the run began.
        begin: Where its bar begins; the same as `at` without one.
        chunk: Which chunk it is about; the first one, of a group.
        title: What hovering tells.
    """

    kind: Kind
    at: float
    begin: float
    chunk: int
    title: str


def cut_times(times: AttemptTimes) -> dict[int, float]:
    """When each chunk was handed to the lanes: before its first verdict, else as it was released."""
    cut: dict[int, float] = {}
    for judged in times.judged:
        at = judged.answered if judged.asked is None else judged.asked
        cut[judged.chunk] = min(at, cut.get(judged.chunk, at))
    for checked in times.checked:
        cut.setdefault(checked.chunk, checked.at)
    for released in times.released:
        cut.setdefault(released.chunk, released.at)
    return cut


def chunk_marks(times: AttemptTimes) -> list[Mark]:
    """The chunks, where they were handed to the lanes."""
    text = {released.chunk: released.text for released in times.released}
    cut = sorted(cut_times(times).items())
    return [Mark("chunk", at, at, n, _about(n, text.get(n))) for n, at in cut]


def lane_marks(times: AttemptTimes, lane: int, name: str) -> list[Mark]:
    """The verdicts of one lane, each with a bar from when it was asked."""
    marks = []
    for judged in times.judged:
        if judged.lane == lane:
            asked = judged.answered if judged.asked is None else judged.asked
            took = f" in {seconds(judged.answered - asked)}" if judged.asked is not None else ""
            reason = f": {judged.reason}" if judged.reason else ""
            title = f"{name}: {judged.verdict} on chunk {judged.chunk}{took}{reason}"
            marks.append(Mark(judged.verdict, judged.answered, asked, judged.chunk, title))
    return marks


def released_marks(times: AttemptTimes) -> list[Mark]:
    """The delivered chunks, each with a bar from when it was cut: how long it had waited."""
    cut = cut_times(times)
    return [
        Mark("pass", one.at, cut.get(one.chunk, one.at), one.chunk, _about(one.chunk, one.text))
        for one in times.released
    ]


def grouped(marks: Sequence[Mark], bin_of: Callable[[float], int]) -> Iterator[Mark]:
    """One mark for all that stand in the same bin. Failures stay alone.

    Args:
        marks: The marks of a row.
        bin_of: Which bin a time belongs to.
    """
    yield from (mark for mark in marks if mark.kind == "fail")
    others = sorted((mark for mark in marks if mark.kind != "fail"), key=lambda mark: mark.at)
    for _, together in groupby(others, lambda mark: bin_of(mark.at)):
        yield _together(list(together))


def _together(marks: list[Mark]) -> Mark:
    if len(marks) == 1:
        return marks[0]
    worst = max(marks, key=lambda mark: _WORST[mark.kind])
    counts = {kind: sum(mark.kind == kind for mark in marks) for kind in _WORST}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    chunks = [mark.chunk for mark in marks]
    title = f"chunks {min(chunks)} to {max(chunks)}: {said}"
    begin, at = min(mark.begin for mark in marks), max(mark.at for mark in marks)
    return Mark(worst.kind, at, begin, marks[0].chunk, title)


def where_time_went(times: AttemptTimes, names: Sequence[str], end: float) -> list[str]:
    """What is worth saying of an attempt: the model, the slowest lane, what came after the last delta."""
    said = []
    if len(times.deltas) > 1:
        first, last = times.deltas[0], times.deltas[-1]
        said.append(f"first delta after {seconds(first - times.began)}")
        said.append(f"the model wrote for {seconds(last - first)}")
        said.append(f"{seconds(end - last)} after the last delta")
    busy = [_busy(mark for mark in lane_marks(times, lane, "")) for lane in range(len(names))]
    if busy and max(busy) > 0:
        slowest = max(range(len(busy)), key=busy.__getitem__)
        said.append(f"slowest lane: {names[slowest]}, {seconds(busy[slowest])} busy")
    waits = [mark.at - mark.begin for mark in released_marks(times)]
    if max(waits, default=0) > 0:
        said.append(f"a chunk waited {seconds(max(waits))} at most")
    return said


def _busy(bars: Iterable[Mark]) -> float:
    """Seconds that are covered by bars, which may overlap."""
    covered, until = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar.begin):
        covered += max(bar.at - max(bar.begin, until), 0.0)
        until = max(until, bar.at)
    return covered


def _about(chunk: int, text: str | None) -> str:
    return f"chunk {chunk}: {text}" if text else f"chunk {chunk}"
