"""Whether a validator may take very long by a schema, which can ask for endless work in a few hundred characters.

Our own judge shares equal questions (`streamval.structured.schema_judge`), so its work is bounded. A validator that
asks each branch anew multiplies: by references to references, by choices that contain themselves, and by
`unevaluated…` around parts that it evaluates again.
"""

from __future__ import annotations

from typing import Any

MAX_QUESTIONS = 2_000
"""How many questions a validator may ask about one scalar value."""

_IN_PLACE = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
)
_CHOICES = ("anyOf", "oneOf", "not", "if")


def may_take_long(schema: Any) -> bool:
    """Return whether a validator may ask very many questions by a schema.

    Example:
        >>> tree = {"type": "array", "items": {"$ref": "#"}}
        >>> may_take_long(tree), may_take_long({"anyOf": [tree, {**tree, "minItems": 1}]})
        (False, True)
    """
    return _multiplies(schema) or _questions(schema, schema, {}) > MAX_QUESTIONS


def _questions(root: Any, part: Any, known: dict[int, int]) -> int:
    """Return how many parts are asked about a value, however often each."""
    if not isinstance(part, dict):
        return 1
    if id(part) in known:
        return known[id(part)]
    known[id(part)] = 1  # while it is counted
    count = 1
    for one in _in_place(root, part):
        count += _questions(root, one, known)
    if any(isinstance(one, (dict, list)) for one in part.get("enum", ())):
        count += len(part["enum"])  # each is compared with the value
    if "unevaluatedProperties" in part or "unevaluatedItems" in part:
        count *= 2
    for keyword, one in part.items():  # what is asked about the values within
        for under in _schemas(one) if keyword not in _IN_PLACE else ():
            count = max(count, _questions(root, under, known))
    known[id(part)] = min(count, 10**12)
    return known[id(part)]


def _in_place(root: Any, part: dict[str, Any]) -> list[Any]:
    """Return the schemas that are asked about the same value."""
    found: list[Any] = []
    for keyword in _IN_PLACE:
        one = part.get(keyword)
        if isinstance(one, list):
            found += one
        elif keyword in ("dependentSchemas", "dependencies") and isinstance(one, dict):
            found += one.values()
        elif one is not None:
            found.append(one)
    if isinstance(ref := part.get("$ref"), str):
        found.append(_at(root, ref))
    return found


def _schemas(value: Any) -> list[Any]:
    """Return the objects in a value, which may be schemas, without those in them."""
    if isinstance(value, dict):
        return [value, *(one for one in value.values() if isinstance(one, dict))]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _at(root: Any, ref: str) -> Any:
    """Return the part that a reference leads to within the schema; `None` for others."""
    part = root
    for step in ref.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            part = part.get(name) if isinstance(part, dict) else None
    return part


def _multiplies(root: Any) -> bool:
    """Return whether a choice has several branches that lead back to it: each level asks all of them."""
    led: dict[int, set[int]] = {}
    parts: dict[int, dict[str, Any]] = {}
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and id(part) not in parts:
            parts[id(part)] = part
            target = _at(root, part["$ref"]) if isinstance(part.get("$ref"), str) else None
            below = [*part.values(), target]
            below += [one for value in part.values() if isinstance(value, list) for one in value]
            led[id(part)] = {id(one) for one in below if isinstance(one, (dict, list))}
            waiting += below
        elif isinstance(part, list) and id(part) not in led:
            led[id(part)] = {id(one) for one in part if isinstance(one, (dict, list))}
            waiting += part
    for part in parts.values():
        branches = [
            one for keyword in _CHOICES for one in _in_place(root, {keyword: part.get(keyword)})
        ]
        if len(branches) > 1:
            back = sum(
                id(part) in _reached(id(one), led) for one in branches if isinstance(one, dict)
            )
            if back > 1:
                return True
    return False


def _reached(start: int, led: dict[int, set[int]]) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        new = led.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found
