"""Whether a validator may take very long by a schema, which can ask for endless work in a few hundred characters.

Our own judge shares equal questions (`streamval.structured.json_schema.judge`), so its work is bounded. A validator that
asks each branch anew multiplies: by references to references, by choices that contain themselves, and by
`unevaluated…` around parts that it evaluates again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from streamval.structured.json_schema.nodes import Node

MAX_QUESTIONS = 2_000
"""How many questions a validator may ask about one scalar value."""


def branching(root: Node) -> float:
    """Return by how much a validator's work may grow with each level of a document; 1 if it does not.

    Infinity where it may ask very many questions about a single value. The cost of this is linear.

    Example:
        >>> from streamval.structured.json_schema.compiler import Compiler
        >>> tree = {"type": "array", "items": {"$ref": "#"}}
        >>> twice = {"anyOf": [tree, {**tree, "minItems": 1}]}
        >>> [branching(Compiler(schema).root) for schema in (tree, twice)]
        [1, 2]
    """
    questions: dict[int, int] = {}  # that are asked about a value, or about one within it
    most: float = 1
    for circle in _circles(root):
        members = {id(node) for node in circle}
        for node in circle:
            # Each level of nesting asks these branches.
            most = max(most, sum(id(branch) in members for branch in _choices(node)))
            count = 1 + sum(questions.get(id(one), 1) for one in _in_place(node))
            if node.choices is not None and (node.may_begin("{") or node.may_begin("[")):
                count += len(node.choices)  # each is compared with the value
            if node.other_keys is not None or node.other_items is not None:
                count *= 2
            within = (questions.get(id(one), 1) for one in _within(node))
            questions[id(node)] = max(count, *within, 0)
            if questions[id(node)] > MAX_QUESTIONS:
                return math.inf
    return most


def _choices(node: Node) -> Iterator[Node]:
    """Yield the parts that a value may meet or not."""
    for group in (*node.any_of, *node.one_of):
        yield from group
    yield from node.nots
    if node.condition is not None:
        yield node.condition[0]


def _in_place(node: Node) -> Iterator[Node]:
    """Yield the parts that are asked about the same value."""
    yield from _choices(node)
    yield from node.same
    yield from node.dependent.values()
    yield from node.late
    yield from (one for one in (node.condition or ())[1:] if one is not None)


def _within(node: Node) -> Iterator[Node]:
    """Yield the parts that are asked about the values in an object or array, and about its keys."""
    yield from node.properties.values()
    yield from (one for _, one in node.patterns)
    yield from node.prefix
    others = (
        node.additional,
        node.names,
        node.items,
        node.contains,
        node.other_keys,
        node.other_items,
    )
    yield from (one for one in others if one is not None)


def _circles(root: Node) -> Iterator[list[Node]]:
    """Yield groups of nodes that lead to each other, after those that they lead to (Tarjan's algorithm)."""
    found = {id(root): 0}  # when each node was found
    lowest = {id(root): 0}  # the first node that it leads back to
    path, open_nodes = [(root, _parts(root))], [root]
    done: set[int] = set()
    while path:
        node, parts = path[-1]
        part = next(parts, None)
        if part is None:
            path.pop()
            if path:
                around = id(path[-1][0])
                lowest[around] = min(lowest[around], lowest[id(node)])
            if lowest[id(node)] == found[id(node)]:
                circle = [open_nodes.pop()]
                while circle[-1] is not node:
                    circle.append(open_nodes.pop())
                done.update(map(id, circle))
                yield circle
        elif id(part) not in found:
            found[id(part)] = lowest[id(part)] = len(found)
            path.append((part, _parts(part)))
            open_nodes.append(part)
        elif id(part) not in done:
            lowest[id(node)] = min(lowest[id(node)], found[id(part)])


def _parts(node: Node) -> Iterator[Node]:
    yield from _in_place(node)
    yield from _within(node)
