"""What the beginning of a value already says: whether any value that begins so can meet a node."""

from __future__ import annotations

from functools import partial

from streamval.structured.json_events import OpenLiteral, OpenString
from streamval.structured.json_schema.nodes import Node, written
from streamval.structured.json_schema.scalar import nearest


def impossible(node: Node, beginning: OpenString | OpenLiteral, known: dict[int, str]) -> str:
    """Return why no value with this beginning meets a node; empty if one may.

    Args:
        node: The node.
        beginning: Of a string, a number or a word.
        known: What has been found for nodes, each of which is asked once.
    """
    if id(node) not in known:
        known[id(node)] = ""  # while it is asked: references may lead in a circle
        known[id(node)] = _impossible(node, beginning, known)
    return known[id(node)]


def _impossible(node: Node, beginning: OpenString | OpenLiteral, known: dict[int, str]) -> str:
    if isinstance(beginning, OpenString):
        why = _no_string(node, beginning)
    else:
        why = _no_literal(node, beginning.head)
    if why or node.is_leaf:
        return why
    for part in node.same:
        if why := impossible(part, beginning, known):
            return why
    for group in (*node.any_of, *node.one_of):
        whys = [impossible(part, beginning, known) for part in group]
        if all(whys):
            return nearest(partial(str, one) for one in whys)
    return ""


def may_still_fail(node: Node) -> bool:
    """Return whether more of a string or number may exclude it before it ends."""
    return node.choices is not None or node.longest is not None or not node.is_leaf


def _no_string(node: Node, string: OpenString) -> str:
    if node.never:
        return "no value is allowed here"
    if not node.takes("string"):
        return f"a string is not of type {node.type_names}"
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
        return f"a {word or 'number'} is not of type {node.type_names}"
    if not (node.may_begin(head) if word else node.may_begin_number(head)):
        return f"no allowed {word or 'number'} begins with {head[:60]}"
    return ""


def excluded(node: Node, kind: str) -> str:
    """Return why an object or array (`kind`) cannot meet a node, whatever is in it; empty if it may."""
    if node.never:
        return "no value is allowed here"
    if not node.takes(kind):
        return f"an {kind} is not of type {node.type_names}"
    if not node.may_begin("{" if kind == "object" else "["):
        return f"an {kind} is none of the allowed values"
    return ""
