"""What displays say of a snapshot, in words: the same in the terminal, in a notebook and on the page."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from streamval.types.thunk import CUT_OFF
from streamval.view.run_view import AttemptView, RunView, Snapshot

WENT_ON = {
    "continue": "went on from there",
    "ask": "was asked to go on from there",
    "restart": "began again",
    "resume": "was resumed from there",
}
"""What came after an attempt that failed, by the repair's mode."""

CUT = {
    **dict.fromkeys(CUT_OFF, "cut off at {tokens} tokens (finished() refuses that)"),
    "content_filter": "cut off by the provider's content filter",
    "refusal": "the model refused",
}
"""The finish reasons that displays show."""

STATES = {
    "waiting": "waiting",
    "running": "running",
    "valid": "valid",
    "invalid": "not valid",
    "error": "broken off",
    "cut short": "cut short",
}
"""The states of a run, in words."""


class Words(NamedTuple):
    """A part of a line with its mood: good, bad, a warning, or plain."""

    text: str
    kind: Literal["good", "bad", "warning", "plain"] = "plain"


def outcome(shown: Snapshot) -> list[Words]:
    """Return how a run ended, and its cost.

    Example:
        >>> from streamval.view.run_view import RunView
        >>> outcome(RunView().snapshot())
        [Words(text='waiting', kind='plain')]
    """
    state, usage = shown["state"], shown["usage"]
    if usage is None:
        running = state == "running"
        return [Words(f"attempt {shown['attempts'][-1]['number']}" if running else STATES[state])]
    kinds: dict[str, Literal["good", "bad", "warning"]] = {"valid": "good", "cut short": "warning"}
    count = len(shown["attempts"])
    attempts = "1 attempt" if count == 1 else f"{count} attempts"
    said = [
        Words(STATES[state], kinds.get(state, "bad")),
        Words(f" after {attempts} · {usage['completion_tokens']} tokens spent"),
    ]
    if cut := CUT.get(shown["finish_reason"] or ""):
        last = usage["completion_tokens"] - usage["discarded_tokens"]
        said.append(Words(f" · {cut.format(tokens=last)}", "warning"))
    if usage["discarded_tokens"]:
        said.append(Words(f" · {usage['discarded_tokens']} thrown away", "warning"))
    if usage["reused_tokens"] and count > 1:
        said.append(Words(f" · {usage['reused_tokens']} saved from rejected attempts", "good"))
    return said


def page_snapshot(view: RunView) -> dict[str, Any]:
    """Return what a page shows of a run, as JSON: its snapshot, and what it says of it in words, as pairs of text and kind.

    Example:
        >>> from streamval.view.run_view import RunView
        >>> page_snapshot(RunView())["outcome"]
        [['waiting', 'plain']]
    """
    shown = view.snapshot()
    return {
        **shown,
        "outcome": [list(words) for words in outcome(shown)],
        "called": [list(words) for words in called(shown)],
        "thought": thinking(shown),
    }


def what_became_of(attempt: AttemptView) -> str:
    """Return what followed a failed attempt; empty if nothing did."""
    return "" if attempt["mode"] is None else WENT_ON.get(attempt["mode"], attempt["mode"])


def taken_back(shown: Snapshot) -> list[bool]:
    """Return for each segment of the text whether it was taken back."""
    gone = [False] * len(shown["text"])
    for attempt in shown["attempts"]:
        start, end = attempt["taken_back"] or (0, 0)
        gone[start:end] = [True] * (end - start)
    return gone


def rejected_texts(shown: Snapshot) -> dict[int, dict[int, str]]:
    """Return for each attempt the text from the failed chunk on, by the index of that chunk."""
    texts: dict[int, dict[int, str]] = {}
    for attempt in shown["attempts"]:
        for segment in shown["text"][slice(*(attempt["taken_back"] or (0, 0)))]:
            if segment["verdict"] == "fail" and segment["chunk"] is not None:
                texts.setdefault(attempt["number"], {})[segment["chunk"]] = segment["text"]
    return texts


def thinking(shown: Snapshot) -> str:
    """Return the line above the reasoning.

    Example:
        >>> from streamval.view.run_view import RunView
        >>> thinking(RunView().snapshot())
        'reasoning, 0 words'
    """
    thought = shown["reasoning"]
    words = len((thought["text"] + thought["pending"]).split())
    return f"thinking…, {words} words" if shown["thinking"] else f"reasoning, {words} words"


def called(shown: Snapshot) -> list[Words]:
    """Return the calls of tools: good those that stand, bad those that were taken back, plain the one being written.

    Example:
        >>> from streamval.view.run_view import RunView
        >>> called(RunView().snapshot())
        []
    """
    calls = [
        Words(f"{call['name']}({call['raw']})", "good" if call["stands"] else "bad")
        for call in shown["calls"]
    ]
    return calls + ([Words(shown["calling"])] if shown["calling"] else [])


def standing(shown: Snapshot) -> tuple[str, str]:
    """Return the text that stands, and the last rejected text if nothing came after it.

    Example:
        >>> from streamval.view.run_view import RunView
        >>> standing(RunView().snapshot())
        ('', '')
    """
    segments, gone = shown["text"], taken_back(shown)
    stands = "".join(
        [segment["text"] for segment, is_gone in zip(segments, gone, strict=True) if not is_gone]
    )
    rejected = ""
    for attempt in shown["attempts"]:
        start, end = attempt["taken_back"] or (0, 0)
        if end == len(segments) and not shown["pending"]:
            rejected = "".join(segment["text"] for segment in segments[start:end])
    return stands, rejected


def seconds(value: float) -> str:
    """Return a duration, as short as it may be.

    Example:
        >>> seconds(0.0), seconds(0.00042), seconds(0.25), seconds(12.3456), seconds(1250.0)
        ('0 s', '0.42 ms', '250 ms', '12.3 s', '1250 s')
    """
    if value <= 0:
        return "0 s"
    unit, value = ("s", value) if value >= 1 else ("ms", value * 1000)
    digits = 3 if value >= 1 else 2
    return f"{float(f'{value:.{digits}g}'):g} {unit}"
