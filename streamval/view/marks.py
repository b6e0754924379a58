"""Computes the marks of an attempt in a marble diagram, and where its time went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from streamval.types.channels import Channel
from streamval.view.labels import seconds
from streamval.view.timeline import WHOLE, AttemptTimes

MarkKind: TypeAlias = Literal["pass", "unknown", "fail", "chunk"]
"""The shape of a mark: a verdict, or a chunk that was cut."""

SHOWN = 200
"""Characters of a text, a reason or a name that a picture shows."""

_WORST: dict[MarkKind, int] = {"chunk": 0, "pass": 0, "unknown": 1, "fail": 2}


class Mark(NamedTuple):
    """A mark at a point in time.

    Attributes:
        kind: Its shape.
        at: Where it stands, in seconds since the run began.
        begin: Where its bar begins; the same as `at` without one.
        chunk: Which chunk it is about; the first one, of a group.
        about: A short description, shown on hover.
        said: The text, or the reason of a verdict. It is not copied.
    """

    kind: MarkKind
    at: float
    begin: float
    chunk: int
    about: str
    said: str = ""

    @property
    def title(self) -> str:
        """The text that is shown on hover."""
        said = self.said if len(self.said) <= SHOWN else f"{self.said[:SHOWN]}…"
        return f"{self.about}: {said}" if said else self.about


def cut_times(times: AttemptTimes) -> dict[int, float]:
    """Return when each chunk was given to the lanes: before its first verdict, else as it was released."""
    cut: dict[int, float] = {}
    for judged in times.judged:
        if judged.chunk != WHOLE:
            at = judged.answered if judged.asked is None else judged.asked
            cut[judged.chunk] = min(at, cut.get(judged.chunk, at))
    for checked in times.checked:
        cut.setdefault(checked.chunk, checked.at)
    for released in times.released:
        cut.setdefault(released.chunk, released.at)
    return cut


def chunk_marks(
    times: AttemptTimes, cut: Mapping[int, float], rejected: Mapping[int, str]
) -> list[Mark]:
    """Return the marks of chunks, at the time when lanes got them; `rejected` has the text of failed ones."""
    text = {**rejected, **{released.chunk: released.text for released in times.released}}
    handed = sorted(cut.items())
    return [Mark("chunk", at, at, n, f"chunk {n}", text.get(n, "")) for n, at in handed]


def lane_marks(times: AttemptTimes, names: Sequence[str]) -> list[list[Mark]]:
    """Return the marks of each lane's verdicts, each with a bar from when the lane was asked."""
    lanes: list[list[Mark]] = [[] for _ in names]
    shown = [name if len(name) <= SHOWN else f"{name[:SHOWN]}…" for name in names]
    for lane, chunk, verdict, reason, asked, answered in times.judged:
        if 0 <= lane < len(lanes):
            took = f" in {seconds(answered - asked)}" if asked is not None else ""
            what = "the whole output" if chunk == WHOLE else f"chunk {chunk}"
            about = f"{shown[lane]}: {verdict} on {what}{took}"
            begin = answered if asked is None else asked
            lanes[lane].append(Mark(verdict, answered, begin, chunk, about, reason))
    return lanes


def beside_marks(times: AttemptTimes, channel: Channel) -> list[Mark]:
    """Return the marks of what was delivered, and what failed, on a channel beside the text."""
    return [
        Mark(one.verdict, one.at, one.at, WHOLE, f"{one.channel}, {one.verdict}", one.said)
        for one in times.beside
        if one.channel == channel
    ]


def released_marks(times: AttemptTimes, cut: Mapping[int, float]) -> list[Mark]:
    """Return the marks of delivered chunks, each with a bar from when it was cut."""
    return [
        Mark("pass", one.at, cut.get(one.chunk, one.at), one.chunk, f"chunk {one.chunk}", one.text)
        for one in times.released
    ]


def grouped(marks: Sequence[Mark], bin_of: Callable[[float], int]) -> Iterator[Mark]:
    """Yield marks, merged where they share a bin. Failures are not merged.

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
    about = f"chunks {min(chunks)} to {max(chunks)}: {said}"
    begin, at = min(mark.begin for mark in marks), max(mark.at for mark in marks)
    return Mark(worst.kind, at, begin, marks[0].chunk, about)


def where_time_went(
    times: AttemptTimes,
    names: Sequence[str],
    lanes: Sequence[Sequence[Mark]],
    released: Sequence[Mark],
    end: float,
) -> list[str]:
    """Return facts about the time of an attempt: the model, the slowest lane, the time after the last delta."""
    said = []
    if len(times.deltas) > 1:
        first, last = times.deltas[0], times.deltas[-1]
        said.append(f"first delta after {seconds(first - times.began)}")
        said.append(f"the model wrote for {seconds(last - first)}")
        said.append(f"{seconds(end - last)} from the last delta to its end")
    busy = [_busy(marks) for marks in lanes]
    if busy and max(busy) > 0:
        slowest = max(range(len(busy)), key=busy.__getitem__)
        said.append(f"slowest lane: {names[slowest][:SHOWN]}, {seconds(busy[slowest])} busy")
    waits = [mark.at - mark.begin for mark in released]
    if all(judged.asked is None for judged in times.judged):
        if times.judged:
            said.append("when lanes were asked is not known (emit_verdicts=True)")
    elif max(waits, default=0) > 0:
        said.append(f"a chunk waited {seconds(max(waits))} at most")
    return said


def _busy(bars: Iterable[Mark]) -> float:
    """Return the seconds that are covered by bars, which may overlap."""
    covered, until = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar.begin):
        covered += max(bar.at - max(bar.begin, until), 0.0)
        until = max(until, bar.at)
    return covered
