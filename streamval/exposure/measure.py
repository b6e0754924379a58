"""Asks for all cases, and counts what was seen of them."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from streamval.errors import StreamBrokenError
from streamval.exposure.client import GOOD_ENDS, PATHS, Endpoint, Seen, Spoken, ask
from streamval.exposure.planted import HARMLESS, Case, all_cases, words
from streamval.exposure.upstream import Upstream

AT_ONCE = 10
"""Violations that are asked for at once. Harmless texts are asked for one after another, for their times."""

PATIENCE = 60.0
"""Seconds that an endpoint may be silent."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen of the cases of one kind, in one protocol.

    Attributes:
        protocol: ``chat``, ``responses`` or ``messages``.
        streamed: Whether the client has asked for a stream.
        kind: The kind of violation.
        cases: How many there were.
        shown: The most characters of a violation that a client saw.
        leaked: How many cases showed something of their violation.
        paid: The most deltas that the upstream sent behind a violation.
        valid: How many ended as a whole answer that shows nothing of the violation.
        ends: How the answers ended.
        first_ms: Of harmless texts, the median time of the first text, from the upstream's delta behind the first
            sentence: negative if text was sent before the sentence was complete.
        added_ms: Of harmless texts, the median time of an answer beyond that of the upstream.
    """

    protocol: str
    streamed: bool
    kind: str
    cases: int
    shown: int
    leaked: int
    paid: int
    valid: int
    ends: tuple[str, ...]
    first_ms: float | None = None
    added_ms: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return asdict(self)


def counted(
    seen: Mapping[int, Seen],
    sent: Mapping[int, int],
    pause: float,
    *,
    protocol: str,
    streamed: bool,
) -> list[Row]:
    """Return a row for each kind of violation, and one for the harmless texts."""
    kinds: dict[str, list[int]] = {}
    for number in seen:
        kinds.setdefault(all_cases()[number].kind, []).append(number)
    return [
        _row(numbers, seen, sent, pause, protocol, streamed=streamed) for numbers in kinds.values()
    ]


def _row(
    numbers: Sequence[int],
    seen: Mapping[int, Seen],
    sent: Mapping[int, int],
    pause: float,
    protocol: str,
    *,
    streamed: bool,
) -> Row:
    cases = [all_cases()[number] for number in numbers]
    saw = [seen[number] for number in numbers]
    shown = [case.shown(one.text) if case.bad else 0 for case, one in zip(cases, saw, strict=True)]
    paid = [
        max(sent.get(number, 0) - len(case.before) - len(case.violation), 0)
        for number, case in zip(numbers, cases, strict=True)
    ]
    good = [one.end in GOOD_ENDS for one in saw]
    times: dict[str, float] = {}
    if cases[0].kind == HARMLESS:
        paid = [0]
        pairs = list(zip(cases, saw, strict=True))
        behind = [one.first - _first_sentence(case) * pause for case, one in pairs]
        added = [one.seconds - (len(case.pieces) - 1) * pause for case, one in pairs]
        times = {"first_ms": _median_ms(behind), "added_ms": _median_ms(added)}
    return Row(
        protocol=protocol,
        streamed=streamed,
        kind=cases[0].kind,
        cases=len(cases),
        shown=max(shown),
        leaked=sum(map(bool, shown)),
        paid=max(paid),
        valid=sum(fine and not some for fine, some in zip(good, shown, strict=True)),
        ends=tuple(sorted({one.end for one in saw})),
        **times,
    )


def _first_sentence(case: Case) -> int:
    """Return how many deltas the first sentence has."""
    text = "".join(case.pieces)
    return len(words(text[: text.index(". ") + 1]))


def _median_ms(seconds: Iterable[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)


async def spoken_by(
    client: httpx.AsyncClient, endpoint: Endpoint, wanted: Iterable[Spoken]
) -> tuple[list[Spoken], dict[Spoken, str]]:
    """Try the protocols with a harmless case. Return those that the endpoint speaks, and how the others ended."""
    harmless = next(n for n, case in enumerate(all_cases()) if case.kind == HARMLESS)
    speaks: list[Spoken] = []
    silent: dict[Spoken, str] = {}
    for spoken in wanted:
        seen = await ask(client, endpoint, spoken, harmless, streamed=True)
        if seen.end in GOOD_ENDS and seen.text:
            speaks.append(spoken)
        else:
            silent[spoken] = seen.end
    return speaks, silent


async def measured(
    upstream: Upstream,
    endpoint: Endpoint,
    pause: float,
    *,
    wanted: Sequence[Spoken] = tuple(PATHS),
    note: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure an endpoint whose upstream is the scripted one.

    Args:
        upstream: The upstream, which listens.
        endpoint: What to measure.
        pause: Seconds between the upstream's deltas.
        wanted: The protocols to try.
        note: Called with what is being done.

    Raises:
        StreamBrokenError: If the endpoint cannot be reached, or speaks none of the protocols.
    """
    rows: list[Row] = []
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        speaks, silent = await spoken_by(client, endpoint, wanted)
        for spoken, end in silent.items():
            note(f"{spoken}: not spoken ({end})")
        if not speaks:
            raise StreamBrokenError(
                f"{endpoint.url} answered a harmless prompt in no protocol: "
                + ", ".join(f"{spoken} {end}" for spoken, end in silent.items())
            )
        if not upstream.asked:
            raise StreamBrokenError(
                f"{endpoint.url} answered, but has not asked the scripted upstream: "
                "set its upstream to the address above"
            )
        for spoken in speaks:
            for streamed in (True, False):
                note(f"{spoken}, {'streamed' if streamed else 'whole'}")
                upstream.sent.clear()
                seen = await _all(client, endpoint, spoken, streamed=streamed)
                rows += counted(seen, upstream.sent, pause, protocol=spoken, streamed=streamed)
    return rows


async def _all(
    client: httpx.AsyncClient, endpoint: Endpoint, spoken: Spoken, *, streamed: bool
) -> dict[int, Seen]:
    slots = asyncio.Semaphore(AT_ONCE)
    bad = [n for n, case in enumerate(all_cases()) if case.kind != HARMLESS]

    async def one(number: int) -> Seen:
        async with slots:
            return await ask(client, endpoint, spoken, number, streamed=streamed)

    seen = dict(zip(bad, await asyncio.gather(*map(one, bad)), strict=True))
    for number in range(len(bad), len(all_cases())):
        seen[number] = await one(number)
    return seen
