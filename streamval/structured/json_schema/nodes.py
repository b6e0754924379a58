"""What the parts of a JSON Schema demand of a value, as nodes: each is one place of the schema."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from streamval.structured.json_events import OpenString

Verdict: TypeAlias = "bool | None"
"""Whether a value is valid; `None` where that is not decided here."""

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """What a part of a schema demands. Each is one place of the schema, so a recursive schema has finitely many.

    Attributes:
        never: Whether nothing is valid (the schema `false`).
        partial: Whether it has keywords that are not decided here.
        types: The allowed types; `None` for all.
        choices: The allowed values of `enum` and `const`, as JSON; `None` for all.
        same: Nodes that the same value must meet: `allOf`, `$ref`.
        any_of: Groups of nodes of which the value must meet one.
        one_of: Groups of nodes of which it must meet exactly one.
        nots: Nodes that it must not meet.
        condition: `if`, `then` and `else`.
        checks: Checks of a scalar value: each returns what is wrong, or `None`.
        longest: The most characters of a string.
        other_keys: What the values of keys must meet that nothing else has evaluated (`unevaluatedProperties`).
        other_items: The same for items.
        late: What a dynamic reference may lead to.
        is_leaf: Whether it has no parts that are asked about the same value.
        is_constant: Whether it is a value of `enum` or `const`, which evaluates nothing within it.
        known_keys: For each key of `properties`, the nodes for its value.
        last_key: The key that was matched with `patterns` last, and the nodes for its value.
        sorted_choices: `choices` in order, to find those with a beginning.
    """

    never: bool = False
    partial: bool = False
    types: frozenset[str] | None = None
    choices: frozenset[str] | None = None
    same: list[Node] = field(default_factory=list)
    any_of: list[Group] = field(default_factory=list)
    one_of: list[Group] = field(default_factory=list)
    nots: list[Node] = field(default_factory=list)
    condition: tuple[Node, Node | None, Node | None] | None = None
    checks: list[Callable[[Any], Any]] = field(default_factory=list)
    longest: int | None = None
    properties: dict[str, Node] = field(default_factory=dict)
    patterns: list[tuple[Any, Node]] = field(default_factory=list)
    additional: Node | None = None
    names: Node | None = None
    required: tuple[str, ...] = ()
    fewest_keys: int = 0
    most_keys: int | None = None
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dependent: dict[str, Node] = field(default_factory=dict)
    prefix: list[Node] = field(default_factory=list)
    items: Node | None = None
    contains: Node | None = None
    fewest: int = 1
    most: int | None = None
    fewest_items: int = 0
    most_items: int | None = None
    unique: bool = False
    contains_evaluates: bool = False
    other_keys: Node | None = None
    other_items: Node | None = None
    late: list[Node] = field(default_factory=list)
    is_leaf: bool = False
    is_constant: bool = False
    known_keys: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    sorted_choices: list[str] = field(default_factory=list)
    last_key: tuple[str, tuple[Node, ...]] = ("", ())

    @property
    def type_names(self) -> str:
        """The types that may be valid, for a message."""
        return " or ".join(sorted(self.types or TYPES))

    def takes(self, kind: str) -> bool:
        """Return whether a value of this type may be valid."""
        if self.types is None:
            return True
        return kind in self.types or (kind == "integer" and "number" in self.types)

    def under(self, key: str) -> tuple[Node, ...]:
        """Return the nodes for the value of a key."""
        if (nodes := self.known_keys.get(key)) is not None:
            return nodes
        if not self.patterns:
            nodes = ()
        elif self.last_key[1] and self.last_key[0] == key:
            return self.last_key[1]
        else:
            nodes = tuple(node for pattern, node in self.patterns if pattern.is_valid(key))
        if (known := self.properties.get(key)) is not None:
            nodes = self.known_keys[key] = (known, *nodes)
        elif not nodes and self.additional is not None:
            nodes = (self.additional,)
        self.last_key = key, nodes
        return nodes

    def at(self, index: int) -> tuple[Node, ...]:
        """Return the node for an item, if there is one."""
        node = self.prefix[index] if index < len(self.prefix) else self.items
        return () if node is None else (node,)

    def may_begin(self, head: str) -> bool:
        """Return whether a choice begins with a text, which is the beginning of a string or word as JSON."""
        if self.choices is None:
            return True
        at = bisect_left(self.sorted_choices, head)
        return self.sorted_choices[at : at + 1] != [] and self.sorted_choices[at].startswith(head)

    def may_begin_number(self, head: str) -> bool:
        """Return whether a choice is a number whose digits begin like those of a text.

        A number counts as it is written, so 2.999 can be continued to no 3.
        """
        return self.choices is None or any(
            _goes_on_to(head, one) for one in self.sorted_choices if one[0] in "-0123456789"
        )


def _goes_on_to(head: str, number: str) -> bool:
    begun, _, exponent = head.lower().partition("e")
    wanted = _digits(number.partition("e")[0])
    if not wanted:  # zero, of either sign
        return not _digits(begun)
    digits = _digits(begun)[:15]  # as many as any float has
    is_prefix = wanted.ljust(len(digits), "0").startswith(digits)
    whole = not exponent or digits.rstrip("0") == wanted.rstrip("0")
    return is_prefix and whole and head.startswith("-") == number.startswith("-")


def _digits(number: str) -> str:
    """Return the digits of a number that count, from the first that is not zero."""
    return number.lstrip("-").replace(".", "").lstrip("0")


class Group(list[Node]):
    """The branches of `anyOf` or `oneOf`. Where there are many, the first key of an object chooses among them."""

    switch: Switch | None = None


@dataclass(frozen=True)
class Switch:
    """Chooses branches of a group by the first key of an object, as most of them would fail there.

    Attributes:
        key: The key whose values most branches name, such as `kind`; `None` without one.
        branches: For each of its values, as JSON, the branches that name it.
        others: The branches that do not name its values.
        closed: For each key, the branches with `additionalProperties: false` that allow it.
        open: The branches that allow any key.
    """

    key: str | None
    branches: dict[str, list[Node]]
    others: list[Node]
    closed: dict[str, list[Node]]
    open: list[Node]

    def allowing(self, key: str) -> list[Node]:
        """Return the branches that allow a key."""
        return [*self.closed.get(key, ()), *self.open]

    def chosen(self, value: Any) -> list[Node]:
        """Return the branches that allow a scalar value of `key`."""
        return [*self.branches.get(written(value), ()), *self.others]

    def may_begin(self, string: OpenString) -> bool:
        """Return whether a branch may allow a string with this beginning."""
        if self.others or string.escaped:
            return True
        head = written(string.head)[:-1]
        at = bisect_left(self._sorted, head)
        return any(one.startswith(head) for one in self._sorted[at : at + 1])

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.branches)


MAX_EXACT = 2**53
"""Integers up to here are floats without loss; larger ones are compared as floats."""


def written(value: Any) -> str:
    """Return a value as JSON that is the same for equal values (JSON Schema Core, 4.2.2).

    Example:
        >>> written({"b": 1.0, "a": [True]}) == written({"a": [True], "b": 1})
        True
    """
    return json.dumps(_comparable(value), sort_keys=True)


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    if isinstance(value, dict):
        return {key: _comparable(one) for key, one in value.items()}
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        return int(value)
    return float(value) if isinstance(value, int) and MAX_EXACT < abs(value) < 10**308 else value


def kind_of(value: Any) -> str:
    """Return the type of a scalar by the names of JSON Schema; of 1.0, integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "integer" if isinstance(value, int) or value.is_integer() else "number"
