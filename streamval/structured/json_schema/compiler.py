"""JSON Schema, compiled into nodes: what each of its parts demands of a value, by the draft that it is written in.

Only what can be decided while a document is written is in a node. Where a part has a keyword that is not
decided here, the node is `partial`: it can still fail, and its success is left to the validator at the end.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import jsonschema_rs
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import DRAFT202012, specification_with

from streamval.errors import UsageError
from streamval.structured.json_schema.nodes import Group, Node, Switch, written
from streamval.structured.json_schema.patterns import FEW, LARGE, SMALL, Pattern, matcher

MAX_COMPOSED = 64
"""Objects and arrays of an `enum` that are judged while they are written; more are compared at their end."""

_CONTENT = frozenset({"contentEncoding", "contentMediaType"})

NEWER_FORMATS = {
    name: jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid
    for name in ("uuid", "duration")
}
"""Formats that came with draft 2019-09. Who names one in a schema of an older draft means it all the same."""

MANY_PARTS = 100
"""Parts of a branch that are looked at for such a key."""

MANY = 8
"""Branches from which on it pays to choose among them by the value of a key."""

MAX_NODES, MAX_LED = 100_000, 100
"""Parts of a schema, and references that lead to one another and say nothing else."""

_LATE = frozenset({"$dynamicRef", "$recursiveRef"})
"""Keywords that only the validator judges: they depend on the way to this part."""


DRAFTS = {
    uri.partition("://")[2].rstrip("#"): uri
    for uri in (
        *(f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 6, 7)),
        *(f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")),
    )
}
NEWEST = DRAFTS["json-schema.org/draft/2020-12/schema"]


def draft_of(schema: Any) -> str:
    """Return the draft that a schema names, by its address; without a name, the newest.

    Raises:
        UsageError: If it names another dialect.

    Example:
        >>> draft_of({"$schema": "https://json-schema.org/draft-07/schema"}), draft_of({}) == NEWEST
        ('http://json-schema.org/draft-07/schema#', True)
    """
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    if not isinstance(named, str):
        return NEWEST
    known = {**DRAFTS, "json-schema.org/schema": NEWEST}
    if (draft := known.get(named.partition("://")[2].rstrip("#"))) is None:
        raise UsageError(
            f"the JSON Schema names the dialect {named!r}: known are the drafts 4, 6, 7, 2019-09 and 2020-12, and "
            "other documents are not fetched"
        )
    return draft


@lru_cache
def meta(draft: str) -> Any:
    """Return a validator of schemas of a draft. `format` is left to the compiler, which knows more patterns."""
    asked = {"$schema": draft, "$ref": draft}
    return jsonschema_rs.validator_for(asked, offline=True, validate_formats=False)


class Compiler:
    """Compiles a schema into nodes.

    Args:
        schema: The schema.
        formats: Whether `format` is an assertion.

    Attributes:
        root: The node of the whole schema.
        knows_better: Whether the validator does not judge a keyword as its draft says: `contentEncoding`, which it
            asserts in older drafts.

    Raises:
        Unresolvable: If a reference leads nowhere, or to another document.
    """

    def __init__(self, schema: Any, *, formats: bool = False) -> None:
        self._formats = formats
        self._nodes: dict[int, Node] = {}
        self._keep: list[Any] = []  # so that no id is used twice
        self._dialect = draft_of(schema)
        self.knows_better = False
        specification = specification_with(self._dialect, default=DRAFT202012)
        resource: Any = specification.create_resource(schema)
        registry: Any = REGISTRY.with_resource("", resource)
        if resource.id():
            registry = registry.with_resource(resource.id(), resource)
        registry = registry.crawl()  # once: each lookup of an anchor would look through all of it
        self._specification = specification
        self._name = specification.name
        self._is_new = specification.name in ("draft2019-09", "draft2020-12")
        self._waiting: list[tuple[Node, Any, Any]] = []
        self._any = Node(is_leaf=True)
        self._checked = {id(schema)}
        self._late: list[
            tuple[Node, str]
        ] = []  # nodes with a dynamic reference, and the anchor that it names
        self._anchors: dict[str, list[Node]] = {}
        self._patterns: set[str] = set()
        self.root = self._node(schema, registry.resolver_with_root(resource))
        while self._waiting:  # a list and no recursion, as references lead far
            self._fill(*self._waiting.pop())
        for node, name in self._late:
            node.late += self._anchors.get(name, ())
        for node in self._nodes.values():
            for group in (*node.any_of, *node.one_of):
                group.switch = _switch_of(group)

    def _node(self, schema: Any, resolver: Any) -> Node:
        """Return the node of a part, which is filled later; of a reference alone, that of what it refers to."""
        led: list[int] = []
        while id(schema) not in self._nodes:
            self._keep.append(schema)
            if isinstance(schema, Mapping):
                resolver = resolver.in_subresource(self._specification.create_resource(schema))
            if id(schema) in led or not self._only_refers(schema):
                self._nodes[id(schema)] = self._made(schema, resolver, is_circle=id(schema) in led)
                break
            led.append(id(schema))
            if len(led) > MAX_LED:
                raise UsageError(f"a reference leads through more than {MAX_LED} others")
            schema, resolver = self._found(resolver, schema["$ref"])
        node = self._nodes[id(schema)]
        self._nodes.update(dict.fromkeys(led, node))
        return node

    def _made(self, schema: Any, resolver: Any, *, is_circle: bool) -> Node:
        if is_circle or schema is True or schema == {}:
            return self._any
        if len(self._nodes) > MAX_NODES:
            raise UsageError(f"the JSON Schema has more than {MAX_NODES:,} parts")
        node = Node(never=schema is False, is_leaf=True)
        if isinstance(schema, Mapping):
            self._waiting.append((node, schema, resolver))
        return node

    def _found(self, resolver: Any, ref: str) -> tuple[Any, Any]:
        """Return what a reference leads to, which may be a place that the schema of schemas has not seen."""
        found = resolver.lookup(ref)
        if id(found.contents) not in self._checked:
            self._checked.add(id(found.contents))
            self._keep.append(found.contents)
            if not isinstance(found.contents, (Mapping, bool)):
                raise UsageError(f"the JSON Schema refers to {ref!r}, which is not a schema")
            meta(self._dialect).validate(found.contents)
        return found.contents, found.resolver

    def _only_refers(self, schema: Any) -> bool:
        """Return whether a part is a reference and nothing else. In older drafts, its siblings do not count."""
        is_reference = isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)
        return is_reference and (len(schema) == 1 or not self._is_new)

    def _fill(self, node: Node, schema: Mapping[str, Any], resolver: Any) -> None:
        def made(part: Any) -> Node:
            return self._node(part, resolver)

        if self._is_of_another_draft(schema):
            node.partial, node.is_leaf = True, True
            return
        if isinstance(ref := schema.get("$ref"), str):
            node.same.append(self._node(*self._found(resolver, ref)))
        node.partial = not _LATE.isdisjoint(schema)
        self._of_late(node, schema, resolver)
        self._of_any(node, schema)
        node.same += map(made, schema.get("allOf", ()))
        if "anyOf" in schema:
            node.any_of.append(Group(map(made, schema["anyOf"])))
        if "oneOf" in schema:
            node.one_of.append(Group(map(made, schema["oneOf"])))
        if "not" in schema:
            node.nots.append(made(schema["not"]))
        if "if" in schema and self._name not in ("draft-04", "draft-06"):
            then, other = (made(schema[k]) if k in schema else None for k in ("then", "else"))
            node.condition = made(schema["if"]), then, other
        parts = node.same or node.any_of or node.one_of or node.nots or node.condition
        node.is_leaf = not parts
        self._of_scalars(node, schema)
        self._of_objects(node, schema, made)
        self._of_arrays(node, schema, made)

    def _is_of_another_draft(self, schema: Mapping[str, Any]) -> bool:
        """Return whether a part is a document of its own, of another draft: that is left to the validator."""
        if "$schema" not in schema or not ("$id" in schema or "id" in schema):
            return False
        try:
            return draft_of(schema) != self._dialect
        except UsageError:
            return True

    def _of_late(self, node: Node, schema: Mapping[str, Any], resolver: Any) -> None:
        """Note dynamic references, which only the validator follows, and what they may lead to."""
        for keyword in _LATE & schema.keys():
            node.late.append(self._node(*self._found(resolver, schema[keyword])))
            self._late.append((node, schema[keyword].rpartition("#")[2]))
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self._anchors.setdefault(name, []).append(node)
        if schema.get("$recursiveAnchor") is True:
            self._anchors.setdefault("", []).append(node)

    def _matcher(self, pattern: str) -> Pattern:
        self._patterns.add(pattern)
        made = matcher(pattern, LARGE if len(self._patterns) <= FEW else SMALL)
        self.knows_better |= made.is_odd
        return made

    def _of_any(self, node: Node, schema: Mapping[str, Any]) -> None:
        if "type" in schema:
            types = schema["type"]
            node.types = frozenset([types] if isinstance(types, str) else types)
        for keyword, values in (("enum", schema.get("enum", [])), ("const", [schema.get("const")])):
            if keyword in schema and (keyword, self._name) != ("const", "draft-04"):
                _of_choices(node, values)

    def _of_scalars(self, node: Node, schema: Mapping[str, Any]) -> None:
        self.knows_better |= not self._is_new and not _CONTENT.isdisjoint(schema)
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
            node.checks.append(partial(_unless_valid, self._matcher(schema["pattern"]), said))
        if self._formats and isinstance(name := schema.get("format"), str):
            asked = {"$schema": self._dialect, "format": name}
            judge = jsonschema_rs.validator_for(asked, validate_formats=True, formats=NEWER_FORMATS)
            node.checks.append(partial(_unless_valid, judge, f"is not a valid {name}"))

    def _of_objects(
        self, node: Node, schema: Mapping[str, Any], made: Callable[[Any], Node]
    ) -> None:
        node.properties = {key: made(part) for key, part in schema.get("properties", {}).items()}
        node.patterns = [
            (self._matcher(pattern), made(part))
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
            node.contains_evaluates = self._is_new  # in 2019-09 as the validator has it
            if self._is_new:
                node.fewest = schema.get("minContains", 1)
                node.most = schema.get("maxContains")
        if "unevaluatedItems" in schema and self._is_new:
            node.other_items = made(schema["unevaluatedItems"])
        node.fewest_items = schema.get("minItems", 0)
        node.most_items = schema.get("maxItems")
        node.unique = schema.get("uniqueItems") is True


def _of_choices(node: Node, values: list[Any]) -> None:
    """Add the demand that a value is one of these. A few objects and arrays become nodes, which fail within them."""
    composed = [value for value in values if isinstance(value, (dict, list))]
    if not composed or len(composed) > MAX_COMPOSED:
        choices = frozenset(map(written, values))
        node.choices = choices if node.choices is None else node.choices & choices
        node.sorted_choices = sorted(node.choices)
        return
    scalars = Node(is_leaf=True)
    _of_choices(scalars, [value for value in values if not isinstance(value, (dict, list))])
    node.any_of.append(Group([*map(_exactly, composed), scalars]))


def _exactly(value: Any) -> Node:
    """Return a node that only this value meets."""
    node = Node(is_leaf=True, is_constant=True)
    if isinstance(value, dict):
        node.types = frozenset({"object"})
        node.properties = {key: _exactly(one) for key, one in value.items()}
        node.required, node.additional = tuple(value), Node(never=True, is_leaf=True)
    elif isinstance(value, list):
        node.types = frozenset({"array"})
        node.prefix = [_exactly(one) for one in value]
        node.fewest_items, node.items = len(value), Node(never=True, is_leaf=True)
    else:
        _of_choices(node, [value])
    return node


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


def _switch_of(group: Group) -> Switch | None:
    """Return what chooses among many branches: the values that they name for a key, or the keys that they allow."""
    if len(group) < MANY:
        return None
    named, allowed = [_named(branch) for branch in group], [_allowed(branch) for branch in group]
    counts = Counter(key for values in named for key in values)
    key, count = max(counts.items(), key=itemgetter(1), default=(None, 0))
    if 2 * count < len(group):
        key = None
    branches: dict[str, list[Node]] = {}
    closed: dict[str, list[Node]] = {}
    for branch, values, keys in zip(group, named, allowed, strict=True):
        for value in values.get(key, ()) if key is not None else ():
            branches.setdefault(value, []).append(branch)
        for one in keys or ():
            closed.setdefault(one, []).append(branch)
    others = [one for one, values in zip(group, named, strict=True) if key not in values]
    anything = [one for one, keys in zip(group, allowed, strict=True) if keys is None]
    if key is None and 2 * len(anything) > len(group):
        return None
    return Switch(key, branches, others, closed, anything)


def _allowed(branch: Node) -> set[str] | None:
    """Return the keys that a branch allows; `None` if it allows any, or matches them with patterns."""
    for node in _with_same(branch):
        if node.additional is not None and node.additional.never and not node.patterns:
            return set(node.properties)
    return None


def _named(branch: Node) -> dict[str, frozenset[str]]:
    """Return the keys whose values a branch names, with them."""
    named: dict[str, frozenset[str]] = {}
    for node in _with_same(branch):
        for key, value in node.properties.items():
            for one in _with_same(value):
                if one.choices is not None:
                    named[key] = one.choices
    return named


def _with_same(node: Node) -> list[Node]:
    """Return a node and those that the same value must meet; of very many, the first."""
    found, known = [node], {id(node)}
    for one in found:
        if len(found) > MANY_PARTS:
            break
        new = [part for part in one.same if id(part) not in known]
        known.update(map(id, new))
        found += new
    return found[:MANY_PARTS]
