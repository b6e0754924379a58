"""JSON Schema, compiled into nodes: what each of its parts demands of a value, by the draft that it is written in.

Only what can be decided while a document is written is in a node. Where a part has a keyword that is not
decided here, the node is `partial`: it can still fail, and its success is left to the validator at the end.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias

import jsonschema_rs
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import DRAFT202012, specification_with

Verdict: TypeAlias = "bool | None"
"""Whether a value is valid; `None` where that is not decided here."""

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

MAX_PATTERN = 2**20
"""Bytes that a compiled pattern may take."""

MAX_BACKTRACKS = 100_000
"""Steps of a pattern that needs backtracking (a lookahead, a reference), for one string."""

_LATE = frozenset({"$dynamicRef", "$recursiveRef"})
"""Keywords that only the validator judges: they depend on the way to this part."""


@dataclass(eq=False, slots=True)
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
    """

    never: bool = False
    partial: bool = False
    types: frozenset[str] | None = None
    choices: frozenset[str] | None = None
    same: list[Node] = field(default_factory=list)
    any_of: list[list[Node]] = field(default_factory=list)
    one_of: list[list[Node]] = field(default_factory=list)
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

    def takes(self, kind: str) -> bool:
        """Return whether a value of this type may be valid."""
        if self.types is None:
            return True
        return kind in self.types or (kind == "integer" and "number" in self.types)

    def under(self, key: str) -> Iterable[Node]:
        """Yield the nodes for the value of a key."""
        known = False
        if (node := self.properties.get(key)) is not None:
            known = True
            yield node
        for pattern, node in self.patterns:
            if pattern.is_valid(key):
                known = True
                yield node
        if not known and self.additional is not None:
            yield self.additional

    def at(self, index: int) -> Iterable[Node]:
        """Yield the node for an item, if there is one."""
        node = self.prefix[index] if index < len(self.prefix) else self.items
        if node is not None:
            yield node


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Any:
    """Return a matcher of a pattern of ECMA 262: in linear time, or where it needs backtracking, with a limit.

    Raises:
        jsonschema_rs.ValidationError: If it is no pattern.
    """
    schema = {"pattern": pattern}
    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN)
        )
    except jsonschema_rs.ValidationError:
        limits = jsonschema_rs.FancyRegexOptions(
            backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_PATTERN
        )
        return jsonschema_rs.validator_for(schema, pattern_options=limits)


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
    return int(value) if isinstance(value, float) and value.is_integer() else value


def kind_of(value: Any) -> str:
    """Return the type of a scalar by the names of JSON Schema; of 1.0, integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "integer" if isinstance(value, int) or value.is_integer() else "number"


class Compiler:
    """Compiles a schema into nodes.

    Args:
        schema: The schema.
        formats: Whether `format` is an assertion.

    Raises:
        Unresolvable: If a reference leads nowhere, or to another document.
    """

    def __init__(self, schema: Any, *, formats: bool = False) -> None:
        self._formats = formats
        self._nodes: dict[int, Node] = {}
        self._keep: list[Any] = []  # so that no id is used twice
        self._dialect = "https://json-schema.org/draft/2020-12/schema"
        if isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str):
            self._dialect = schema["$schema"]
        specification = specification_with(self._dialect, default=DRAFT202012)
        resource: Any = specification.create_resource(schema)
        registry: Any = REGISTRY.with_resource("", resource)
        if resource.id():
            registry = registry.with_resource(resource.id(), resource)
        self._specification = specification
        self._name = specification.name
        self._is_new = specification.name in ("draft2019-09", "draft2020-12")
        self.root = self._node(schema, registry.resolver_with_root(resource))

    def _node(self, schema: Any, resolver: Any) -> Node:
        if isinstance(schema, Mapping):
            resource = self._specification.create_resource(schema)
            resolver = resolver.in_subresource(resource)
        if id(schema) in self._nodes:
            return self._nodes[id(schema)]
        node = self._nodes[id(schema)] = Node()
        self._keep.append(schema)
        if schema is False:
            node.never = True
        elif isinstance(schema, Mapping):
            self._fill(node, schema, resolver)
        return node

    def _fill(self, node: Node, schema: Mapping[str, Any], resolver: Any) -> None:
        def made(part: Any) -> Node:
            return self._node(part, resolver)

        if isinstance(ref := schema.get("$ref"), str):
            found = resolver.lookup(ref)
            node.same.append(self._node(found.contents, found.resolver))
            if not self._is_new:  # its siblings do not count
                return
        node.partial = not _LATE.isdisjoint(schema)
        self._of_any(node, schema)
        node.same += map(made, schema.get("allOf", ()))
        if "anyOf" in schema:
            node.any_of.append([made(part) for part in schema["anyOf"]])
        if "oneOf" in schema:
            node.one_of.append([made(part) for part in schema["oneOf"]])
        if "not" in schema:
            node.nots.append(made(schema["not"]))
        if "if" in schema and self._name not in ("draft-04", "draft-06"):
            then, other = (made(schema[k]) if k in schema else None for k in ("then", "else"))
            node.condition = made(schema["if"]), then, other
        self._of_scalars(node, schema)
        self._of_objects(node, schema, made)
        self._of_arrays(node, schema, made)

    def _of_any(self, node: Node, schema: Mapping[str, Any]) -> None:
        if "type" in schema:
            types = schema["type"]
            node.types = frozenset([types] if isinstance(types, str) else types)
        if "enum" in schema:
            node.choices = frozenset(map(written, schema["enum"]))
        if "const" in schema and self._name != "draft-04":
            const = frozenset([written(schema["const"])])
            node.choices = const if node.choices is None else node.choices & const

    def _of_scalars(self, node: Node, schema: Mapping[str, Any]) -> None:
        node.checks += _bounds(schema)
        if "multipleOf" in schema:  # decimal fractions are the validator's business
            of = schema["multipleOf"]
            multiple = jsonschema_rs.validator_for({"multipleOf": of})
            node.checks.append(partial(_unless_valid, multiple, f"is no multiple of {of}"))
        if "minLength" in schema:
            node.checks.append(partial(_too_short, schema["minLength"]))
        if "maxLength" in schema:
            node.longest = int(schema["maxLength"])
        if "pattern" in schema:
            said = f"does not match {schema['pattern']!r}"
            node.checks.append(partial(_unless_valid, matcher(schema["pattern"]), said))
        if self._formats and isinstance(name := schema.get("format"), str):
            asked = {"$schema": self._dialect, "format": name}
            judge = jsonschema_rs.validator_for(asked, validate_formats=True)
            node.checks.append(partial(_unless_valid, judge, f"is no {name}"))

    def _of_objects(
        self, node: Node, schema: Mapping[str, Any], made: Callable[[Any], Node]
    ) -> None:
        node.properties = {key: made(part) for key, part in schema.get("properties", {}).items()}
        node.patterns = [
            (matcher(pattern), made(part))
            for pattern, part in schema.get("patternProperties", {}).items()
        ]
        if "additionalProperties" in schema:
            node.additional = made(schema["additionalProperties"])
        if "propertyNames" in schema and self._name != "draft-04":
            node.names = made(schema["propertyNames"])
        if "unevaluatedProperties" in schema and self._is_new:
            node.other_keys = made(schema["unevaluatedProperties"])
        node.required = tuple(schema.get("required", ()))
        node.fewest_keys = schema.get("minProperties", 0)
        node.most_keys = schema.get("maxProperties")
        if self._is_new:
            node.needs = {k: tuple(v) for k, v in schema.get("dependentRequired", {}).items()}
            node.dependent = {k: made(v) for k, v in schema.get("dependentSchemas", {}).items()}
        for key, part in schema.get("dependencies", {}).items():
            if isinstance(part, list):
                node.needs[key] = tuple(part)
            else:
                node.dependent[key] = made(part)

    def _of_arrays(
        self, node: Node, schema: Mapping[str, Any], made: Callable[[Any], Node]
    ) -> None:
        items = schema.get("items")
        if self._specification is DRAFT202012:
            node.prefix = [made(part) for part in schema.get("prefixItems", ())]
            if items is not None:
                node.items = made(items)
        elif isinstance(items, list):
            node.prefix = [made(part) for part in items]
            if "additionalItems" in schema:
                node.items = made(schema["additionalItems"])
        elif items is not None:
            node.items = made(items)
        if "contains" in schema and self._name != "draft-04":
            node.contains = made(schema["contains"])
            node.contains_evaluates = self._specification is DRAFT202012
            if self._is_new:
                node.fewest = schema.get("minContains", 1)
                node.most = schema.get("maxContains")
        if "unevaluatedItems" in schema and self._is_new:
            node.other_items = made(schema["unevaluatedItems"])
        node.fewest_items = schema.get("minItems", 0)
        node.most_items = schema.get("maxItems")
        node.unique = schema.get("uniqueItems") is True


def _unless_valid(judge: Any, said: str, value: Any) -> str | None:
    return None if judge.is_valid(value) else said


def _too_short(fewest: int, value: Any) -> str | None:
    short = isinstance(value, str) and len(value) < fewest
    return f"has fewer than {fewest} characters" if short else None


_BOUNDS = (
    ("minimum", operator.lt, "is less than the minimum of"),
    ("maximum", operator.gt, "is more than the maximum of"),
    ("exclusiveMinimum", operator.le, "must be more than"),
    ("exclusiveMaximum", operator.ge, "must be less than"),
)


def _bounds(schema: Mapping[str, Any]) -> Iterator[Callable[[Any], str | None]]:
    for name, is_beyond, said in _BOUNDS:
        bound = schema.get(name)
        if isinstance(bound, bool):  # in draft 4, whether the other bound is exclusive
            bound = schema.get(name.removeprefix("exclusive").lower()) if bound else None
        if bound is not None:
            yield partial(_beyond, is_beyond, bound, f"{said} {bound}")


def _beyond(
    is_beyond: Callable[[Any, Any], bool], bound: float, said: str, value: Any
) -> str | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return said if is_number and is_beyond(value, bound) else None


Known: TypeAlias = "dict[int, tuple[Verdict, str]]"


def scalar(node: Node, value: Any, known: Known | None = None) -> tuple[Verdict, str]:
    """Judge a scalar value by a node; returns the verdict, and why it fails.

    Args:
        node: The node.
        value: `None`, a boolean, a number or a string.
        known: What nodes have said of this value: each is asked once, also where references lead in a circle.
    """
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = True, ""  # while it is asked
        known[id(node)] = _scalar(node, value, known)
    return known[id(node)]


def _scalar(node: Node, value: Any, known: Known) -> tuple[Verdict, str]:
    if why := _wrong(node, value):
        return False, why
    is_huge = isinstance(value, float) and not -1e308 < value < 1e308
    verdict: Verdict = None if node.partial or is_huge else True
    for said, why in _parts(node, value, known):
        if said is False:
            return False, why
        verdict = verdict and said
    return verdict, ""


def _wrong(node: Node, value: Any) -> str:
    """Return why a scalar does not meet what a node itself demands; empty if it does."""
    if node.never:
        return "no value is allowed here"
    wrong: str | None = None
    if not node.takes(kind_of(value)):
        wrong = f"is not of type {_types(node)}"
    elif node.choices is not None and written(value) not in node.choices:
        wrong = f"is none of {_choices(node)}"
    elif node.longest is not None and isinstance(value, str) and len(value) > node.longest:
        wrong = f"has more than {node.longest} characters"
    else:
        wrong = next(filter(None, (check(value) for check in node.checks)), None)
    return f"{_shown(value)} {wrong}" if wrong else ""


def _parts(node: Node, value: Any, known: Known) -> Iterator[tuple[Verdict, str]]:
    """Yield what the parts of a node say of a scalar, each of which must not be false."""
    for part in node.same:
        yield scalar(part, value, known)
    for group in node.any_of:
        yield any_of([scalar(part, value, known) for part in group])
    for group in node.one_of:
        yield one_of([scalar(part, value, known) for part in group], _shown(value))
    for part in node.nots:
        said, _ = scalar(part, value, known)
        yield None if said is None else not said, f"{_shown(value)} is what `not` excludes"
    if node.condition is not None:
        condition, then, other = node.condition
        said, _ = scalar(condition, value, known)
        if said is None:
            yield None, ""
        elif (chosen := then if said else other) is not None:
            yield scalar(chosen, value, known)


def any_of(said: list[tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """Return what a group says of which one must be met; of the branches that failed, the nearest."""
    verdicts = [verdict for verdict, _ in said]
    if True in verdicts:
        return True, ""
    if None in verdicts:
        return None, ""
    return False, nearest([why for _, why in said])


def one_of(said: list[tuple[Verdict, str]], shown: str) -> tuple[Verdict, str]:
    """Return what a group says of which exactly one must be met."""
    verdicts = [verdict for verdict, _ in said]
    if (met := verdicts.count(True)) > 1:
        return False, f"{shown} meets {met} parts of oneOf, and must meet one"
    return any_of(said) if None not in verdicts else (None, "")


def nearest(whys: list[str]) -> str:
    """Return the reason of the branch that came farthest: the one with the longest path."""
    by_path = sorted(whys, key=lambda why: len(why.partition(": ")[0]))
    return by_path[-1] if by_path else "nothing is allowed here"


def _types(node: Node) -> str:
    return " or ".join(sorted(node.types or TYPES))


def _choices(node: Node) -> str:
    shown = sorted(node.choices or ())
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
