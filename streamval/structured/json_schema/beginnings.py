"""What the beginning of a value already says: whether any value that begins so can meet a node."""

from __future__ import annotations

from functools import partial

from streamval.structured.json_events import OpenLiteral, OpenString
from streamval.structured.json_schema.nodes import Node, written
from streamval.structured.json_schema.scalar import nearest


def impossible(node: Node, beginning: OpenString | OpenLiteral, asked: set[int]) -> str:
    """Return why no value with this beginning meets a node; empty if one may."""
    if id(node) in asked:
        return ""
    asked.add(id(node))
    why = (
        _no_string(node, beginning)
        if isinstance(beginning, OpenString)
        else _no_literal(node, beginning.head)
    )
    if node.is_leaf:
        return why
    for part in node.same:
        why = why or impossible(part, beginning, asked)
    for group in (*node.any_of, *node.one_of):
        if not why:
            # Each with its own memory, as a node that was asked about before may have excluded the value.
            whys = [impossible(part, beginning, {id(node)}) for part in group]
            why = nearest(partial(str, one) for one in whys) if all(whys) else ""
    return why


def may_still_fail(node: Node) -> bool:
    """Return whether more of a string or number may exclude it before it ends."""
    return node.choices is not None or node.longest is not None or not node.is_leaf


def _no_string(node: Node, string: OpenString) -> str:
    if node.never:
        return "no value is allowed here"
    if not node.takes("string"):
        return f"a string is not of type {_types(node)}"
    if string.escaped:  # an escape may stand for any character
        return ""
    if node.longest is not None and string.size > node.longest:
        return f"the string has more than {node.longest} characters"
    if node.choices is not None and not node.may_begin(head := written(string.head)[:-1]):
        return f"no allowed string begins with {head[:60]}"
    return ""


_WORDS = {"t": "boolean", "f": "boolean", "n": "null"}


def _no_literal(node: Node, head: str) -> str:
    """Return why no number or word with this beginning meets a node."""
    if node.never:
        return "no value is allowed here"
    word = _WORDS.get(head[0])
    if not node.takes(word or "integer"):
        return f"a {word or 'number'} is not of type {_types(node)}"
    if not (node.may_begin(head) if word else node.may_begin_number(head)):
        return f"no allowed {word or 'number'} begins with {head[:60]}"
    return ""


def _types(node: Node) -> str:
    return " or ".join(sorted(node.types or ()))


def excluded(node: Node, kind: str) -> str:
    """Return why an object or array (`kind`) cannot meet a node, whatever is in it; empty if it may."""
    if node.never:
        return "no value is allowed here"
    if not node.takes(kind):
        return f"an {kind} is not of type {_types(node)}"
    if not node.may_begin("{" if kind == "object" else "["):
        return f"an {kind} is none of the allowed values"
    return ""
