"""Judges scalar values (null, booleans, numbers, strings) by the nodes of a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from streamval.structured.json_schema.nodes import Node, Verdict, kind_of, written

Known: TypeAlias = "dict[int, Verdict]"
"""What nodes have said of one value: each is asked once, also where references lead in a circle."""


def scalar(node: Node, value: Any, known: Known) -> Verdict:
    """Judge a scalar value (`None`, a boolean, a number or a string) by a node; `why_not` says why it fails."""
    if id(node) not in known:
        known[id(node)] = True  # while it is asked
        known[id(node)] = _scalar(node, value, known)
    return known[id(node)]


def _scalar(node: Node, value: Any, known: Known) -> Verdict:
    if _is_wrong(node, value):
        return False
    verdict = _sure(node, value)
    if node.is_leaf:
        return verdict
    for said, _ in _parts(node, value, known, {}):
        if said is False:
            return False
        verdict = verdict and said
    return verdict


def _sure(node: Node, value: Any) -> Verdict:
    """Return `True`, or `None` where the node, or a number too large for a float, is left to the validator."""
    is_huge = isinstance(value, float) and not -1e308 < value < 1e308
    return None if node.partial or is_huge else True


def _is_wrong(node: Node, value: Any) -> bool:
    """Return whether a scalar does not meet what a node itself demands."""
    if node.types is not None and not node.takes(kind_of(value)):
        return True
    if node.choices is not None and written(value) not in node.choices:
        return True
    if node.longest is not None and isinstance(value, str) and len(value) > node.longest:
        return True
    return node.never or any(check(value) for check in node.checks)


Reason: TypeAlias = Callable[[], str]
"""Says why something failed. It is asked of the one that counts: most branches of a choice fail."""


def why_not(node: Node, value: Any, known: Known, whys: dict[int, str] | None = None) -> str:
    """Return why a scalar fails by a node; empty if it does not.

    Args:
        node: The node.
        value: The scalar.
        known: That of the call of `scalar`.
        whys: What has been found for nodes, each of which is asked once.
    """
    whys = {} if whys is None else whys
    if id(node) not in whys:
        whys[id(node)] = ""  # while it is asked
        parts = _parts(node, value, known, whys)
        whys[id(node)] = _wrong(node, value) or next(
            (reason() for said, reason in parts if said is False), ""
        )
    return whys[id(node)]


def _wrong(node: Node, value: Any) -> str:
    """Return why a scalar does not meet what a node itself demands; empty if it does."""
    if node.never:
        return "no value is allowed here"
    wrong: str | None = None
    if not node.takes(kind_of(value)):
        wrong = f"is not of type {node.type_names}"
    elif node.choices is not None and written(value) not in node.choices:
        wrong = f"is none of {_choices(node)}"
    elif node.longest is not None and isinstance(value, str) and len(value) > node.longest:
        wrong = f"has more than {node.longest} characters"
    else:
        wrong = next(filter(None, (check(value) for check in node.checks)), None)
    return f"{_shown(value)} {wrong}" if wrong else ""


def _parts(
    node: Node, value: Any, known: Known, whys: dict[int, str]
) -> Iterator[tuple[Verdict, Reason]]:
    """Yield what the parts of a node say of a scalar, each of which must not be false."""

    def why(part: Node) -> Reason:
        return partial(why_not, part, value, known, whys)

    for part in node.same:
        yield scalar(part, value, known), why(part)
    for group in node.any_of:
        said = [scalar(part, value, known) for part in group]
        yield any_of(said), partial(nearest, map(why, group))
    for group in node.one_of:
        said = [scalar(part, value, known) for part in group]
        yield one_of(said), partial(why_not_one, said, _shown(value), map(why, group))
    for part in node.nots:
        verdict = scalar(part, value, known)
        excluded = None if verdict is None else not verdict
        yield excluded, lambda: f"{_shown(value)} is what `not` excludes"
    if node.condition is not None:
        condition, then, other = node.condition
        verdict = scalar(condition, value, known)
        if verdict is None:
            yield None, str
        elif (chosen := then if verdict else other) is not None:
            yield scalar(chosen, value, known), why(chosen)


def any_of(said: Iterable[Verdict]) -> Verdict:
    """Return what a group says of which one must be met."""
    unsure = False
    for verdict in said:
        if verdict:
            return True
        unsure |= verdict is None
    return None if unsure else False


def one_of(said: list[Verdict]) -> Verdict:
    """Return what a group says of which exactly one must be met."""
    if (met := said.count(True)) > 1:
        return False
    return None if None in said else met == 1


def why_not_one(said: list[Verdict], shown: str, whys: Iterable[Reason]) -> str:
    """Return why `one_of` is false: too many branches are met, or none."""
    met = said.count(True)
    return f"{shown} meets {met} parts of oneOf, and must meet one" if met else nearest(whys)


def nearest(whys: Iterable[Reason]) -> str:
    """Return the reason of the branch that came farthest: the last with the longest path."""
    longest = ""
    for why in (reason() for reason in whys):
        if len(why.partition(": ")[0]) >= len(longest.partition(": ")[0]):
            longest = why
    return longest or "nothing is allowed here"


def _choices(node: Node) -> str:
    shown, more = node.sorted_choices[:5], len(node.sorted_choices) - 5
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _shown(value: Any) -> str:
    text = json.dumps(value[:80] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
