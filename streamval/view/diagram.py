"""The picture of a pipeline: the way of the deltas, with its own lanes."""

from __future__ import annotations

from collections.abc import Sequence

from streamval.view.escaping import escaped

WIDTH, ROW = 900, 34
LANES = 12
"""The most lanes that are drawn; the rest are shown as a number."""

STYLE = (
    "<style>svg{color:#1f2328;background:#ffffff}"
    "@media screen and (prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)

# Where the columns begin, and how wide they are.
BACKEND, CHUNK, LANE, MERGE, RELEASE, EVENTS = (
    (4, 130),
    (166, 110),
    (324, 240),
    (612, 60),
    (704, 66),
    (802, 94),
)


def pipeline_diagram(model: str, chunking: str, lanes: Sequence[str], repair: str | None) -> str:
    """Return a diagram from the backend through the chunker and the lanes to the subscribers, and back.

    Args:
        model: The name of the model.
        chunking: How the stream is cut.
        lanes: The requirements.
        repair: What follows a failure; `None` for nothing.

    Returns:
        A self-contained SVG, for a light and a dark page.
    """
    shown = list(lanes[:LANES])
    if len(lanes) > LANES:
        shown.append(f"and {len(lanes) - LANES} more")
    rows = max(len(shown), 1)
    middle = 20 + rows * ROW / 2
    bottom = 40 + rows * ROW
    parts = [
        _box(BACKEND, middle, model, 16),
        _box(CHUNK, middle, chunking, 13),
        _box(MERGE, middle, "merge", 8),
        _box(RELEASE, middle, "release", 8),
        _box(EVENTS, middle, "subscribers", 12, frame=False),
        _arrow(BACKEND, middle, CHUNK, middle),
        _arrow(MERGE, middle, RELEASE, middle),
        _arrow(RELEASE, middle, EVENTS, middle),
    ]
    for n, name in enumerate(shown):
        y = 20 + ROW / 2 + n * ROW
        parts += [_box(LANE, y, name, 34), _arrow(CHUNK, middle, LANE, y)]
        parts.append(_arrow(LANE, y, MERGE, middle))
    if not shown:
        parts.append(_arrow(CHUNK, middle, MERGE, middle))
    start, end = MERGE[0] + MERGE[1] / 2, BACKEND[0] + BACKEND[1] / 2
    what = "fail: cancel" + (f", then {repair}" if repair else "")
    parts.append(
        f'<path d="M{start} {middle + 14}V{bottom}H{end}V{middle + 17}" stroke="currentColor" '
        'fill="none" stroke-dasharray="4 3" marker-end="url(#sv-tip)"/>'
        f'<text x="{end + 10}" y="{bottom + 15}">{escaped(what, 100)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="currentColor">{STYLE}<defs><marker id="sv-tip" viewBox="0 0 8 8" '
        'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8Z"/>'
        f"</marker></defs>{''.join(parts)}</svg>"
    )


def _box(column: tuple[int, int], y: float, text: str, limit: int, *, frame: bool = True) -> str:
    x, width = column
    said = (
        f'<text x="{x + width / 2}" y="{y + 4}" text-anchor="middle">{escaped(text, limit)}'
        f"<title>{escaped(text, 500)}</title></text>"
    )
    if not frame:
        return said
    return (
        f'<rect x="{x}" y="{y - 13}" width="{width}" height="26" rx="6" fill="none" '
        f'stroke="currentColor" stroke-opacity=".5"/>{said}'
    )


def _arrow(start: tuple[int, int], y1: float, end: tuple[int, int], y2: float) -> str:
    x1, x2 = start[0] + start[1] + 2, end[0] - 3
    bend = (x1 + x2) / 2
    return (
        f'<path d="M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}" fill="none" '
        'stroke="currentColor" stroke-opacity=".6" marker-end="url(#sv-tip)"/>'
    )
