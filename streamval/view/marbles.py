"""Marble diagrams: the times of a run as SVG.

Time runs to the right, attempts stand below each other. Each attempt has a row of deltas, one of
chunks, one a lane, and one of released chunks; one of reasoning and one of calls of tools, if there are any.

Positions along the time axis are percentages and everything else is in pixels, so a picture is as wide as
the place that it is put in and its letters stay readable. Verdicts differ by shape as well as by colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from textwrap import wrap

from streamval.types.channels import Channel
from streamval.view import marks as marked
from streamval.view.escaping import escaped
from streamval.view.labels import outcome, rejected_texts, seconds
from streamval.view.marks import Mark
from streamval.view.run_view import RunView
from streamval.view.timeline import AttemptTimes

LEFT, RIGHT = 1.5, 98.5
"""Where the time axis begins and ends, in percent of the width."""

ROW, LINE, NUMBER, TEXT, GAP, AXIS = 40, 27, 8, 16, 20, 80
"""Heights in pixels: a row, the line in a row, the chunk numbers below a row, a line of text, the gap
between attempts, and the space below them for the axis and the legend."""

SHORTEST_RUN = 1e-4
"""Seconds that the time axis shows at least."""

NARROW = 64
"""Characters of a line above an attempt: as many as fit on a telephone."""

GROUP_ABOVE = 120
"""With more marks than that in a row, those that are close to each other are drawn as one."""

BINS = 160
"""How many marks a row has at most when they are grouped; failures are drawn one by one."""

DELTA_BINS = 800
"""How many ticks the row of deltas has at most."""

SHORTEST_BAR = 0.04
"""Percent of the width: a judgement that took less is a mark without a bar."""

NUMBERED, NUMBER_WIDTH = 30, 1.5
"""The most marks in a row with chunk numbers, and the least distance between numbers in percent."""

BESIDE: dict[Channel, str] = {"reasoning": "reasoning", "tool": "calls of tools"}
"""The rows of the other channels."""

STYLE = """
.sv-marbles{--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--bg:#ffffff;--pass:#1a7f37;--unknown:#9a6700;--fail:#cf222e;
--model:#0969da;font:12px system-ui,sans-serif}
.sv-marbles text{fill:var(--fg)}.sv-marbles .soft{fill:var(--soft);font-size:11px}.sv-marbles .bg{fill:var(--bg)}
.sv-marbles .head{font-weight:600}.sv-marbles .bad{fill:var(--fail);font-weight:600}
.sv-marbles .row{stroke:var(--line)}.sv-marbles .grid{stroke:var(--line);stroke-dasharray:2 4}
.sv-marbles .delta{stroke:var(--model)}.sv-marbles .cut{pointer-events:none;fill:none;stroke:var(--fail);stroke-width:3}
.sv-marbles .bar{opacity:.4}.sv-marbles .wait{fill:var(--soft);opacity:.3}
.sv-marbles .kept{fill:var(--pass);opacity:.18}.sv-marbles .gone{fill:var(--fail);opacity:.16}
.sv-marbles .pass{fill:var(--pass)}.sv-marbles rect.unknown{fill:var(--unknown)}.sv-marbles rect.fail{fill:var(--fail)}
.sv-marbles use.unknown{fill:var(--bg);stroke:var(--unknown);stroke-width:2}
.sv-marbles use.fail{fill:none;stroke:var(--fail);stroke-width:3}
.sv-marbles use.chunk{fill:var(--bg);stroke:var(--fg)}.sv-marbles .number{font-size:10px;text-anchor:middle}
"""
_DARK = """{--fg:#e6edf3;--soft:#9198a1;--line:#3d444d;--bg:#0d1117;--pass:#3fb950;--unknown:#d29922;--fail:#ff7b72;
--model:#58a6ff}"""
THEMES = (
    f"@media screen and (prefers-color-scheme:dark){{.sv-marbles{_DARK}}}"
    f'@media screen{{[data-jp-theme-light="false"] .sv-marbles{_DARK}'
    '[data-jp-theme-light="true"] .sv-marbles{--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--bg:#ffffff;'
    "--pass:#1a7f37;--unknown:#9a6700;--fail:#cf222e;--model:#0969da}}"
)

STYLED = f"<style>{STYLE}{THEMES}</style>"

# A filled circle, a hollow diamond, a cross: they differ without colour. Their colours come from the
# class of the `use`, as the styles of a page do not apply inside it.
SHAPES = (
    '<circle id="sv-pass" r="5"/><path id="sv-unknown" d="M0-6 6 0 0 6-6 0Z"/>'
    '<path id="sv-fail" d="M-6-6 6 6M6-6-6 6"/>'
    '<rect id="sv-chunk" x="-4" y="-6" width="8" height="12" rx="2"/>'
)


def marbles(view: RunView, *, detail: bool = False, styled: bool = True) -> str:
    """Return the times of a run as a self-contained SVG.

    Args:
        view: A run that was folded with ``timeline=True``.
        detail: Draw every mark, however many there are, for a page that can zoom. Marks name their chunk
            (``data-c="attempt-chunk"``), and have no titles of their own.
        styled: With its style inside; without, for a page that has it.

    Returns:
        The SVG. It is as wide as its place, and as high as its attempts and lanes need.
    """
    shown = view.snapshot()
    names = [row["name"] for row in shown["rows"]]
    attempts = view.timeline.attempts if view.timeline else []
    took = view.timeline.seconds if view.timeline else 0.0
    drawing = _Drawing(took, names, rejected_texts(shown), detail=detail)
    for line in _packed("".join(words.text for words in outcome(shown)).split(" · ")):
        drawing.line(line, "head")
    drawing.y += GAP // 2
    for number, times in enumerate(attempts):
        drawing.attempt(times, attempts[number - 1] if number else None)
    count = _counted(len(attempts), "attempt")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sv-marbles" width="100%" '
        f'height="{drawing.y + AXIS}" role="img" '
        f'aria-label="Marble diagram of a run: {count} in {seconds(took)}">'
        f"{STYLED if styled else ''}<defs>{SHAPES}</defs>"
        f'<rect class="bg" width="100%" height="100%"/>{drawing.axis()}'
        f"{''.join(drawing.parts)}{drawing.legend()}</svg>"
    )


class _Drawing:
    """Draws attempts below each other, on one time axis.

    Attributes:
        y: Where the next row begins.
        parts: What has been drawn.
    """

    def __init__(
        self,
        took: float,
        names: Sequence[str],
        rejected: Mapping[int, Mapping[int, str]],
        *,
        detail: bool,
    ) -> None:
        self.y = 4
        self._rejected = rejected
        self.parts: list[str] = []
        self._took = max(took, SHORTEST_RUN)
        self._names = names
        self._detail = detail

    def attempt(self, times: AttemptTimes, before: AttemptTimes | None) -> None:
        """Add an attempt: its heading and its rows. `before` is the attempt before it."""
        end = self._took if times.ended is None else times.ended
        cut = marked.cut_times(times)
        lanes = marked.lane_marks(times, self._names)
        released = marked.released_marks(times, cut)
        self._heading(times, marked.where_time_went(times, self._names, lanes, released, end), end)
        top = self.y
        self._deltas(times, end)
        rejected = self._rejected.get(times.number, {})
        self._row(times, "chunks", marked.chunk_marks(times, cut, rejected), end)
        self.y += NUMBER
        for name, marks in zip(self._names, lanes, strict=True):
            self._row(times, name, marks, end)
        self._released(times, before, released, end)
        for channel, name in BESIDE.items():
            self._row(times, name, marked.beside_marks(times, channel), end, titled=True)
        if times.failed_at is not None:
            x = self._x(times.failed_at)
            begins = (
                top + 14 if times.cut_after is not None else top + ROW
            )  # start at the source's cross, if there is one
            self._add(
                f'<line class="cut" x1="{x}" x2="{x}" y1="{begins}" y2="{self.y - 4}" '
                'stroke-opacity=".3"/>'
            )
        self.y += GAP

    def axis(self) -> str:
        """Return lines and labels at round times, over the whole height, to be drawn behind the rest."""
        step = _round_step(self._took / 6)
        parts = []
        for n in range(int(self._took / step) + 1):
            x, anchor = self._x(n * step), "middle" if n else "start"
            if n:  # the first one would run through the labels
                parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{self.y}"/>')
            parts.append(
                f'<text class="soft" x="{x}" y="{self.y + 12}" text-anchor="{anchor}">'
                f"{seconds(n * step)}</text>"
            )
        return "".join(parts)

    def legend(self) -> str:
        """Return the legend of the shapes and bars, which is narrower than a telephone."""
        parts = [
            f'<use class="{kind}" href="#sv-{kind}" x="{6 + n * 76}"/>'
            f'<text class="soft" x="{18 + n * 76}" y="4">{said}</text>'
            for n, (kind, said) in enumerate(
                (("pass", "pass"), ("unknown", "unknown"), ("fail", "fail"), ("chunk", "chunk cut"))
            )
        ]
        bars = (
            ("bar pass", "a lane at work"),
            ("wait", "a chunk waits"),
            ("kept", "kept"),
            ("gone", "taken back"),
        )
        for n, (style, said) in enumerate(bars):
            parts.append(
                f'<rect class="{style}" x="{n % 2 * 152}" y="{16 + n // 2 * 16}" width="14" height="10"/>'
                f'<text class="soft" x="{18 + n % 2 * 152}" y="{25 + n // 2 * 16}">{said}</text>'
            )
        return f'<svg class="side" x="{LEFT}%" y="{self.y + 30}" overflow="visible">{"".join(parts)}</svg>'

    # Parts of an attempt

    def _heading(self, times: AttemptTimes, where: Sequence[str], end: float) -> None:
        """Add lines with the attempt's number, why it failed, and where its time went. SVG does not wrap."""
        # A run that goes on has no clock here: the time of its last event would stand still.
        took = "running" if times.ended is None else seconds(end - times.began)
        self.line(f"attempt {times.number} · {took}", "head")
        why = (times.reason or self._failures(times))[: 4 * NARROW]
        for line in wrap(why, NARROW, max_lines=2, placeholder=" …"):
            self.line(line, "bad")
        for line in _packed(where):
            self.line(line, "soft")
        self.y += GAP // 2

    def line(self, said: str, style: str) -> None:
        """Add a line of text."""
        self.y += TEXT
        self._add(
            f'<text class="{style} side" x="{LEFT}%" y="{self.y}">{escaped(said, 2 * NARROW)}</text>'
        )

    def _failures(self, times: AttemptTimes) -> str:
        """Return why the last attempt failed."""
        failed = [one for one in times.judged if one.verdict == "fail"][:3]
        named = [
            (self._names[one.lane], one.reason[:NARROW])
            for one in failed
            if one.lane < len(self._names)
        ]
        return "; ".join(f"{name}: {why}" if why else name for name, why in named)

    def _deltas(self, times: AttemptTimes, end: float) -> None:
        """Add a tick for each delta, and a cross where the source was closed because a chunk failed."""
        if not times.deltas and times.cut_after is None:
            return
        what = "the source" if not times.deltas else _counted(len(times.deltas), "delta")
        self._label(times, what, end)
        y = self.y + LINE
        for at in sorted({int(at / self._took * DELTA_BINS) for at in times.deltas}):
            x = self._x((at + 0.5) / DELTA_BINS * self._took)
            self._add(f'<line class="delta" x1="{x}" x2="{x}" y1="{y - 6}" y2="{y + 6}"/>')
        if times.cut_after is not None and times.closed is not None:
            after = seconds(times.cut_after)
            side = ' x="-12" text-anchor="end"' if times.closed > self._took * 0.5 else ' x="12"'
            self._add(
                f'<svg x="{self._x(times.closed)}" y="{y}" overflow="visible">'
                f'<path class="cut" d="M-8-8 8 8M8-8-8 8"/>'
                f'<text class="bad"{side} y="-15">closed {after} after ✕</text></svg>'
            )
        elif times.done is not None:  # it came to its end by itself
            x = self._x(times.deltas[-1])
            self._add(
                f'<line class="delta" x1="{x}" x2="{x}" y1="{y - 10}" y2="{y + 10}" stroke-width="3"/>'
            )
        self.y += ROW

    def _released(
        self, times: AttemptTimes, before: AttemptTimes | None, marks: Sequence[Mark], end: float
    ) -> None:
        name, y = f"{len(times.released)} released", self.y + LINE
        if before is not None and before.kept is not None:
            name += f", {before.kept or 'nothing'} kept from before"
            if before.kept:
                width = self._width(0.0, times.began)
                self._add(
                    f'<rect class="kept" x="{LEFT}%" y="{y - 6}" width="{width}%" height="12"/>'
                )
        if times.kept == 0 and times.released:
            name += ", all of it taken back"
            x, width = self._x(times.released[0].at), self._width(times.released[0].at, end)
            self._add(f'<rect class="gone" x="{x}" y="{y - 9}" width="{width}%" height="18"/>')
        self._row(times, name, marks, end, bar="wait")

    def _row(
        self,
        times: AttemptTimes,
        name: str,
        marks: Sequence[Mark],
        end: float,
        bar: str = "bar",
        *,
        titled: bool = False,
    ) -> None:
        """Add a row of marks, each with its bar. Failures are drawn last, on top."""
        if not marks and bar == "bar":  # a lane that was never asked
            return
        self._label(times, name, end)
        y = self.y + LINE
        shown = sorted(self._shown(marks), key=lambda mark: mark.kind == "fail")
        numbered = -self._took  # where the last number stands, in seconds
        for mark in shown:
            linked = self._detail and not titled
            link = f' data-c="{times.number}-{mark.chunk}"' if linked else ""
            title = "" if linked else f"<title>{escaped(mark.title)}</title>"
            width = self._width(mark.begin, mark.at)
            if width >= SHORTEST_BAR:
                style = f"bar {mark.kind}" if bar == "bar" else bar
                self._add(
                    f'<rect class="{style}" x="{self._x(mark.begin)}" y="{y - 5}" '
                    f'width="{width}%" height="10"{link}/>'
                )
            self._add(
                f'<use class="{mark.kind}" href="#sv-{mark.kind}" x="{self._x(mark.at)}" y="{y}"{link}>'
                f"{title}</use>"
            )
            if (
                mark.kind == "chunk"
                and len(shown) <= NUMBERED
                and self._width(numbered, mark.at) >= NUMBER_WIDTH
            ):
                x, numbered = self._x(mark.at), mark.at
                self._add(f'<text class="number" x="{x}" y="{y + 17}">{mark.chunk}</text>')
        self.y += ROW

    def _label(self, times: AttemptTimes, name: str, end: float) -> None:
        y = self.y + LINE
        self._add(
            f'<text class="soft side" x="{LEFT}%" y="{self.y + 10}">{escaped(name, NARROW)}</text><line '
            f'class="row" x1="{self._x(times.began)}" x2="{self._x(end)}" y1="{y}" y2="{y}"/>'
        )

    def _shown(self, marks: Sequence[Mark]) -> Sequence[Mark]:
        if self._detail or len(marks) <= GROUP_ABOVE:
            return marks
        return list(marked.grouped(marks, lambda at: int(at / self._took * BINS)))

    # Positions

    def _x(self, at: float) -> str:
        return f"{LEFT + (RIGHT - LEFT) * at / self._took:.3f}%"

    def _width(self, begin: float, end: float) -> float:
        """Return a width in percent."""
        return round((RIGHT - LEFT) * (end - begin) / self._took, 3)

    def _add(self, part: str) -> None:
        self.parts.append(part)


def _packed(facts: Sequence[str]) -> list[str]:
    """Return facts in lines, as many a line as fit."""
    lines: list[str] = []
    for fact in facts:
        if lines and len(lines[-1]) + len(fact) + 3 <= NARROW:
            lines[-1] += f" · {fact}"
        else:
            lines.append(fact)
    return lines


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least `about`."""
    power = 10.0 ** floor(log10(about))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= about)
