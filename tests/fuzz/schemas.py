"""Random JSON Schemas and documents: the verdict is jsonschema-rs's, and no failure comes before the oracle's.

A document mostly follows its schema, and often has one thing changed; it is written in some spelling, and read in
random slices.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import jsonschema_rs

from streamval.errors import UsageError
from streamval.structured.json_schema import compiler
from streamval.structured.json_schema.schema import JSONSchema
from tests.fuzz.typed import sliced, written
from tests.support.oracle import SCALARS as SMALL
from tests.support.oracle import Oracle, failed_after

KEYS = ["a", "b", "c"]
STRINGS = ["", "x", "xy", "abc", "é", "k1", "k11", 'a"b', "1", "null", "x" * 140]
NUMBERS = [-3, -1, 0, 1, 2, 3, 5, 12, 120, 0.5, 1.0, 2.5, 12.25, -0.5, 1e16, 1e-7]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
PATTERNS = ["^x", "y$", "^$", "b", "^(?=.*x)", "^[a-z]{2}$"]
KEY_PATTERNS = ["^[ab]", "c", "^(?!a)"]
IN_PLACE = ["allOf", "anyOf", "oneOf"]
UNDER_ONE = ["not", "items", "contains", "propertyNames"]
OTHERS = ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"]
DRAFTS = [f"http://json-schema.org/draft-0{n}/schema#" for n in (6, 7)]
DRAFTS += [f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12")]
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|-?\d[\d.eE+-]*')
INTEGER = re.compile(r"-?\d+")
TREE = {"type": ["object", "integer"], "properties": {"a": {"$ref": "#/$defs/tree"}}}
DOCUMENTS, SMALL_DOCUMENTS = 4, 12
"""Documents of a schema, and how many of the oracle's."""


class Maker:
    """Makes schemas and documents of one random generator.

    Args:
        rng: The generator.
        small: Whether to prefer values of the oracle's domain.
    """

    def __init__(self, rng: random.Random, *, small: bool = False) -> None:
        self.rng = rng
        self.scalars = [*SMALL, 1, "x"] if small else [None, True, False, *NUMBERS, *STRINGS]
        self.keys = KEYS[:2] if small else KEYS
        self.names = ["tree"]

    def root(self) -> dict[str, Any]:
        """A schema with definitions, mostly of the newest draft."""
        rng = self.rng
        definitions: dict[str, Any] = {"tree": TREE}
        for name in ("one", "two"):  # a reference in place to itself would mean nothing
            self.names = list(definitions)
            definitions[name] = self.schema(2)
        self.names = list(definitions)
        made: dict[str, Any] = {"$defs": definitions, "allOf": [self.schema(4)]}
        if rng.random() < 0.5 and isinstance(made["allOf"][0], dict):
            made = {"$defs": definitions, **made["allOf"][0]}
        if rng.random() < 0.25:
            made["$schema"] = rng.choice(DRAFTS)
        return made

    def schema(self, depth: int) -> Any:
        """A schema of at most this depth."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.2:
            return self._plain()

        def part() -> Any:
            return self.schema(depth - 1)

        return rng.choice(
            [
                lambda: {rng.choice(IN_PLACE): self._some(depth)},
                lambda: {rng.choice(IN_PLACE): self._some(depth)},
                lambda: {rng.choice(UNDER_ONE): part()},
                lambda: {"prefixItems": self._some(depth)},
                lambda: {"prefixItems": self._some(depth), "items": part()},
                lambda: self._object(depth),
                lambda: self._object(depth),
                lambda: {"patternProperties": {rng.choice(KEY_PATTERNS): part()}},
                lambda: {"dependentSchemas": {rng.choice(self.keys): part()}},
                lambda: {"dependentRequired": {rng.choice(self.keys): [rng.choice(self.keys)]}},
                lambda: {"if": part(), rng.choice(["then", "else"]): part()},
                lambda: {"if": part(), "then": part(), "else": part()},
                lambda: {
                    "contains": part(),
                    "minContains": rng.randint(0, 2),
                    "maxContains": rng.randint(1, 2),
                },
                lambda: self._discriminated(depth) if rng.random() < 0.5 else self._object(depth),
                lambda: {rng.choice(OTHERS): part(), **self._mapping(depth - 1)},
                lambda: {**self._mapping(depth - 1), **self._mapping(depth - 1)},
            ]
        )()

    def _object(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        keys = rng.sample(self.keys, rng.randint(1, len(self.keys)))
        made: dict[str, Any] = {"properties": {key: self.schema(depth - 1) for key in keys}}
        if rng.random() < 0.5:
            made |= {"type": "object", "required": keys[:1]}
        if rng.random() < 0.5:
            made["additionalProperties"] = False
        return made

    def _mapping(self, depth: int) -> dict[str, Any]:
        made = self.schema(depth)
        return made if isinstance(made, dict) else {}

    def _some(self, depth: int) -> list[Any]:
        return [self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))]

    def _plain(self) -> Any:
        rng = self.rng
        low, high = rng.randint(0, 2), rng.randint(1, 3)
        return rng.choice(
            [
                lambda: rng.random() < 0.7,
                lambda: {"type": rng.choice(TYPES)},
                lambda: {"type": rng.sample(TYPES, rng.randint(1, 3))},
                lambda: {"enum": self._unlike([self.document(1) for _ in range(3)])},
                lambda: {"enum": self._unlike(rng.choices(self.scalars, k=rng.randint(2, 6)))},
                lambda: {"const": self.document(2)},
                lambda: {"const": {key: rng.choice(self.scalars) for key in self.keys[:2]}},
                lambda: {"minimum": low - 1, "exclusiveMaximum": rng.choice([3, 4.5, 100])},
                lambda: {"minLength": low, "maxLength": high},
                lambda: {"multipleOf": rng.choice([1, 2, 0.5])},
                lambda: {"pattern": rng.choice(PATTERNS)},
                lambda: {"minItems": low, "maxItems": high},
                lambda: {"minProperties": low, "maxProperties": high},
                lambda: {"required": rng.sample(self.keys, rng.randint(1, 2))},
                lambda: {"uniqueItems": True},
                lambda: {"$ref": "#/$defs/" + rng.choice(self.names)},
            ]
        )()

    def _unlike(self, values: list[Any]) -> list[Any]:
        """The values without those that equal another: 1, 1.0 and true are equal in Python."""
        return list({json.dumps(one): one for one in values}.values())

    def _discriminated(self, depth: int) -> dict[str, Any]:
        """A choice among eight branches or more, by a key's value or by the keys themselves."""
        rng = self.rng
        key, branches = rng.choice(self.keys), []
        values = rng.sample([*range(4), None, True, "x", "xy", "k", "k1", "k11", "k2", "é"], 9)
        for value in values:
            named = {"enum": [value, "x"]} if rng.random() < 0.1 else {"const": value}
            parts = {key: named, rng.choice(self.keys): self.schema(depth - 2)}
            branch: dict[str, Any] = {"properties": parts}
            if rng.random() < 0.8:
                branch["required"] = [key]
            if rng.random() < 0.3:
                branch["additionalProperties"] = False
            branches.append(branch)
        if rng.random() < 0.3:
            branches[rng.randrange(9)] = self.schema(depth - 2)
        return {rng.choice(["oneOf", "oneOf", "anyOf"]): branches}

    def document(self, depth: int) -> Any:
        """A document that knows of no schema."""
        rng = self.rng
        kind = rng.random() if depth > 0 else 0
        if kind < 0.4:
            return rng.choice(self.scalars)
        if kind < 0.65:
            return [self.document(depth - 1) for _ in range(rng.randint(0, 3))]
        keys = rng.sample(self.keys, rng.randint(0, len(self.keys)))
        return {key: self.document(depth - 1) for key in keys}

    def fitting(self, root: Any, schema: Any, depth: int = 5) -> Any:
        """A document that follows some of the keywords of a schema."""
        rng = self.rng
        if not isinstance(schema, dict) or depth <= 0 or rng.random() < 0.05:
            return self.document(2)

        def like(part: Any) -> Any:
            return self.fitting(root, part, depth - 1)

        keyword = rng.choice([one for one in schema if one != "$defs"] or ["none"])
        value, made = schema.get(keyword), None
        if keyword == "$ref":
            made = like(root["$defs"][value.rpartition("/")[2]])
        elif keyword in ("enum", "const"):
            made = copy.deepcopy(rng.choice(value) if keyword == "enum" else value)
        elif keyword in IN_PLACE:
            made = like(rng.choice(value))
        elif keyword in ("if", "then", "else"):
            made = like(value)
        elif keyword in ("prefixItems", "items", "contains", "unevaluatedItems"):
            parts = schema.get("prefixItems", [])[: rng.randint(0, 3)]
            rest = schema.get("items") if keyword == "prefixItems" else value
            made = [like(one) for one in (*parts, *[rest] * rng.randint(0, 2))]
        elif keyword == "type" and "object" not in value:
            is_valid = jsonschema_rs.validator_for({"type": value}).is_valid
            made = next((one for _ in range(8) if is_valid(one := self.document(1))), None)
        elif keyword in ("properties", "required", "additionalProperties", "type"):
            known = schema.get("properties", {})
            keys = [key for key in {**known, "c": 0} if rng.random() < 0.8]
            rng.shuffle(keys)
            made = {key: like(known.get(key, schema.get("additionalProperties"))) for key in keys}
        else:
            made = self.document(2)
        return made

    def near(self, schema: Any, is_valid: Any) -> Any:
        """A document that is mostly valid, or nearly."""
        rng = self.rng
        attempts = [self.fitting(schema, schema) for _ in range(6)]
        made = next(filter(is_valid, attempts), attempts[0]) if rng.random() < 0.7 else attempts[0]
        return self._changed(made) if rng.random() < 0.5 else made

    def _changed(self, value: Any) -> Any:
        """The document with one thing changed, added or removed."""
        rng = self.rng
        if not isinstance(value, (list, dict)) or not value or rng.random() < 0.2:
            return self.document(1)
        if isinstance(value, list):
            at = rng.randrange(len(value))
            changed = rng.choice([[], [value[at]] * 2, [self._changed(value[at])]])
            return [*value[:at], *changed, *value[at + 1 :]]
        key = rng.choice([*value, *self.keys])
        if key in value and rng.random() < 0.3:
            return {one: part for one, part in value.items() if one != key}
        return {**value, key: self._changed(value.get(key))}

    def text(self, value: Any) -> str:
        """The document as JSON, in some spelling of it and of its integers."""
        return TOKEN.sub(self._spelling, written(value, self.rng))

    def _spelling(self, found: re.Match[str]) -> str:
        """A number in some spelling; a string as it is."""
        if not INTEGER.fullmatch(found[0]):
            return found[0]
        return found[0] + self.rng.choice(["", "", "", ".0", "e0", ".00E+0"])


def schema_difference(rng: random.Random) -> str | None:
    """A document by which a `JSONSchema` differs from jsonschema-rs or from the oracle, or `None`."""
    maker = Maker(rng, small=rng.random() < 0.3)
    schema = maker.root()
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except ValueError:
        validator = None
    try:
        with patch.object(compiler, "MANY", rng.choice([2, compiler.MANY])):
            made = JSONSchema(schema)
    except UsageError as error:
        return f"{json.dumps(schema)} is refused: {error}" if validator else None
    if validator is None:
        return f"{json.dumps(schema)} is not refused"
    for _ in range(DOCUMENTS):
        text = maker.text(maker.near(schema, validator.is_valid))
        slices = sliced(text, rng)
        if found := _verdict_difference(made, validator, text, slices):
            return f"{json.dumps(schema)}\n  {text!r} in {slices!r}: {found}"
    for text, found in too_early(made, rng, SMALL_DOCUMENTS, size=2):
        return f"{json.dumps(schema)}\n  {text!r}: {found}"
    return None


def _verdict_difference(
    made: JSONSchema, validator: Any, text: str, slices: list[str]
) -> str | None:
    valid = validator.is_valid(json.loads(text))
    failed, why = failed_after(made, slices), made.complaint(text)
    if (why is None) != valid:
        return f"jsonschema-rs says {valid}, and our complaint is {why!r}"
    if valid and failed is not None:
        return f"it is valid, and the watch failed after {failed} characters"
    if not valid and failed is None and not made.is_scalar and text.lstrip()[0] in "{[":
        return "it is invalid, and the watch did not fail"
    return None


def too_early(
    made: JSONSchema, rng: random.Random, count: int, size: int
) -> Iterator[tuple[str, str]]:
    """Yield each document of the oracle's domain that fails before the oracle's, and what differs."""
    oracle = Oracle(made.type, size)
    some = [rng.sample(texts, min(count, len(texts))) for texts in (oracle.valid, oracle.invalid)]
    for text in [*some[0], *some[1]]:
        failed, earliest = failed_after(made, text), oracle.earliest(text)
        if failed is not None and (earliest is None or failed < earliest):
            yield text, f"failed after {failed} characters, the oracle after {earliest}"
