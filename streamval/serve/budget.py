"""Judging by a client's JSON Schema within a budget: a small schema can ask for endless work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from math import log
from time import monotonic
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry

from streamval.chunkers.json import JSONDelta
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.structured.reader import JSONReader
from streamval.types.results import PASS, PartialValidationResult

MAX_SCHEMA = 64 * 1024
"""Characters of a request's tools, or of the schema of its `response_format`."""

MAX_PATTERN = 2**20
"""Bytes that a compiled pattern may take."""

MAX_PATTERNS = 64
"""Different patterns of a schema. The largest takes six milliseconds to compile."""

UNJUDGED = frozenset({"patternProperties", "$dynamicRef", "$recursiveRef"})
"""Keywords that a schema may not have, because they cannot be judged in bounded time."""

MAX_EXPANDED = 20_000
"""Parts of the largest schema; definitions are counted where they are referenced."""

MAX_STEPS = 100_000
"""Steps to judge one value: a keyword, and each item that it has or looks at, is one. About half a second."""

MAX_SECONDS = 5.0
"""The longest time to judge one value, whatever its steps cost."""

MAX_CHOICES = 20_000
"""Ways through the recursive choices of a schema that are tried for one answer."""


class TooMuchError(Exception):
    """Judging by this schema takes too long."""


class _Budget:
    """The steps and the time that are left."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._until = monotonic() + MAX_SECONDS

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            TooMuchError: If there are none left.
        """
        self._steps -= steps
        if self._steps < 0 or monotonic() > self._until:
            raise TooMuchError


_left: ContextVar[_Budget] = ContextVar("streamval_budget_left")


def _size(value: object) -> int:
    return len(value) if isinstance(value, (dict, list)) else 0


def _counted(judge: Callable[..., Any]) -> Callable[..., Iterator[Exception]]:
    """Return the judge of a keyword that takes its steps from the budget."""

    def judged(
        validator: Any, wanted: object, instance: object, schema: object
    ) -> Iterator[Exception]:
        _left.get().spend(1 + _size(wanted) + _size(instance))
        yield from judge(validator, wanted, instance, schema) or ()

    return judged


def _pattern(_: object, wanted: str, instance: object, __: object) -> Iterator[Exception]:
    if isinstance(instance, str) and not _matcher(wanted).is_valid(instance):
        yield ValidationError(f"it does not match {wanted!r}")


def _unique(_: object, wanted: object, instance: object, __: object) -> Iterator[Exception]:
    """Judge `uniqueItems` in linear time; jsonschema compares each item with each other."""
    if wanted and isinstance(instance, list):
        known = {json.dumps(_comparable(one), sort_keys=True) for one in instance}
        if len(known) < len(instance):
            yield ValidationError("it has an item twice")


def _comparable(value: Any) -> Any:
    """Return a value whose JSON is the same for equal values: 1.0 is 1 (JSON Schema Core, 4.2.2)."""
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    if isinstance(value, dict):
        return {key: _comparable(one) for key, one in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


_KEYWORDS = {**Draft202012Validator.VALIDATORS, "pattern": _pattern, "uniqueItems": _unique}
_Validator: Any = extend(
    Draft202012Validator, {name: _counted(judge) for name, judge in _KEYWORDS.items()}
)


def first_error(validator: Validator, value: object) -> ValidationError | None:
    """Return the first error of a value, or `None`.

    Raises:
        TooMuchError: If the budget does not suffice.
        Exception: If a reference of the schema leads nowhere.
    """
    _left.set(_Budget())
    return next(iter(validator.iter_errors(value)), None)


@lru_cache(maxsize=256)
def validator_of(schema: str) -> Validator:
    """Return the validator of a schema. Cached, as a program sends the same tools again and again.

    Raises:
        ValueError: If the schema is invalid, or cannot be judged in bounded time.
        RecursionError: If it is nested too deeply.
    """
    read = json.loads(schema)
    check_schema(read)
    # An empty registry: references resolve only within the schema.
    validator: Validator = _Validator(read, registry=Registry())
    return validator


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> jsonschema_rs.Validator:
    """Return a matcher that runs in linear time and bounded memory (Rust's `regex`).

    Raises:
        jsonschema_rs.ValidationError: If the pattern is invalid, or needs backtracking.
    """
    options = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN)
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)


def check_schema(schema: Any) -> None:
    """Refuse a schema that could block the server.

    Raises:
        ValueError: If the schema is invalid, or cannot be judged in bounded time.
    """
    if isinstance(schema, dict):  # by the one dialect that is judged here
        schema = {**schema, "$schema": Draft202012Validator.META_SCHEMA["$schema"]}
    jsonschema_rs.meta.validate(schema)
    waiting = [schema]
    patterns: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if unjudged := UNJUDGED & part.keys():
                raise ValueError(f"{', '.join(sorted(unjudged))} is not judged")
            if isinstance(pattern := part.get("pattern"), str):
                patterns.add(pattern)
                if len(patterns) > MAX_PATTERNS:
                    raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
                try:
                    _matcher(pattern)
                except jsonschema_rs.ValidationError as error:
                    raise ValueError(f"the pattern {pattern[:60]!r} cannot be used") from error
            waiting += part.values()
    if _expanded(schema) > MAX_EXPANDED:
        raise ValueError("it is too large once its references are expanded")


def _expanded(schema: object) -> int:
    """Return the number of parts of a schema. Definitions are counted where they are referenced."""
    sizes: dict[int, int] = {}  # by the part that is referenced, which has many spellings

    def size(part: object) -> int:
        if isinstance(part, list):
            return 1 + sum(map(size, part))
        if not isinstance(part, dict):
            return 1
        ref = part.get("$ref")
        led = 0
        if isinstance(ref, str) and ref.startswith("#"):
            target = _at(schema, ref)
            if id(target) not in sizes:
                sizes[id(target)] = 1  # while it is counted: one that refers to itself ends here
                sizes[id(target)] = size(target)
            led = sizes[id(target)]
        return min(1 + led + sum(map(size, part.values())), 10**12)

    # Definitions are counted where they are referenced.
    return size(schema)


def _at(schema: object, ref: str) -> object:
    part: Any = schema
    for step in ref.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, dict) else None
    return part


class NestsAtMost(ChunkRule):
    """Limits how deep JSON nests, for a schema whose choices multiply with each level."""

    judges = str
    verbatim = True
    reads_json = True

    def __init__(self, deepest: int) -> None:
        super().__init__(f"the JSON nests {deepest} objects and arrays at most", check_only=True)
        self._deepest = deepest
        self._depth = 0
        self._reader = JSONReader()

    def check(self, chunk: str | JSONDelta) -> PartialValidationResult:
        """Count the brackets of the next chunk."""
        if isinstance(chunk, str):
            self._reader = copy(self._reader)
            events = self._reader.feed(chunk)
        else:
            events = chunk.reading.events if chunk.reading is not None else []
        for event in events:
            if event.kind in ("start_object", "start_array"):
                self._depth += 1
            elif event.kind == "end":
                self._depth -= 1
            if self._depth > self._deepest:
                return failed("by a schema with choices that contain themselves, it nests too deep")
        return PASS


def deepest_answer(schema: Any) -> int | None:
    """Return how deep an answer may nest; `None` if the schema has no choices that multiply.

    A choice (`anyOf`, `oneOf`) of which several branches lead back to it is tried that many times for each
    level of an answer.

    Example:
        >>> tree = {"type": "array", "items": {"$ref": "#"}}
        >>> deepest_answer(tree), deepest_answer({"anyOf": [tree, {**tree, "minItems": 1}]})
        (None, 14)
    """
    parts, waiting = {"#": schema}, list(_references(schema))
    while waiting:
        if (ref := waiting.pop()) not in parts:
            parts[ref] = _at(schema, ref)
            waiting += _references(parts[ref])
    led = {ref: _references(part) for ref, part in parts.items()}
    choices = 0
    for ref, part in parts.items():
        for branches in _choices(part):
            back = sum(ref in _closure(_references(branch), led) for branch in branches)
            choices += back if back > 1 else 0
    return int(log(MAX_CHOICES) / log(choices)) if choices else None


def _closure(refs: set[str], led: dict[str, set[str]]) -> set[str]:
    found, waiting = set(refs), list(refs)
    while waiting:
        new = led.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _parts(part: object) -> Iterator[dict[str, Any]]:
    """Yield the objects in a schema."""
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _references(part: object) -> set[str]:
    refs = {one["$ref"] for one in _parts(part) if isinstance(one.get("$ref"), str)}
    return {ref for ref in refs if ref.startswith("#")}


def _choices(part: object) -> Iterator[list[Any]]:
    for one in _parts(part):
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := one.get(keyword), list):
                yield branches
