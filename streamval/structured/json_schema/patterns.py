"""Patterns of ECMA 262, as `pattern` and `patternProperties` have them, in linear time where that can be.

jsonschema-rs has two engines: one that is linear, and one with lookahead and references, whose steps are limited. What
its syntax does not have, but JavaScript has, is written in another way first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

LARGE, SMALL = 2**21, 2**16
"""Bytes that a compiled pattern may take: one of the first `FEW` of a schema, and any other."""

FEW = 8

MAX_BACKTRACKS, MAX_BACKTRACKED = 100_000, 10_000
"""Steps of a pattern that needs backtracking (a lookahead, a reference), and the characters of a string that it is tried
on: a step may look through all of it."""

_PART = re.compile(
    r"""(?P<class>\[\^?\]|\[) | (?P<end>\]) | \\k<(?P<name>\w+)> | (?P<group>\((?!\?)|\(\?<(?![=!])(\w+)>)
    | (?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})
    | \\. | \{\d+(?:,\d*)?\} | (?P<literal>[{}]) | .""",
    re.VERBOSE | re.DOTALL,
)
_SETS = {"[]": r"[^\s\S]", "[^]": r"[\s\S]"}
_IN_CLASS = {"[": r"\[", "&": r"\&", "~": r"\~", r"\b": r"\x08", r"\0": r"\x00"}
_ESCAPES = {r"\0": r"\x00", r"\<": "<", r"\>": ">"} | {f"\\{one}": one for one in "aehkzAGHKNORXZ8"}
"""Escapes that JavaScript reads as the character itself, and others read in another way, or not at all."""

_ASTRAL = re.compile(r"\[\\u[dD]800-\\u[dD][bB][fF]{2}\]\[\\u[dD][cC]00-\\u[dD][fF]{3}\]")


class Pattern:
    """A pattern that strings are asked about.

    Attributes:
        is_odd: Whether jsonschema-rs would read it in another way, or take very long.
    """

    def __init__(self, engine: Any, *, is_odd: bool, backtracks: bool) -> None:
        self._engine = engine
        self._backtracks = backtracks
        self.is_odd = is_odd or backtracks

    def is_valid(self, value: Any) -> bool:
        """Return whether it is found in a string; other values are valid."""
        if self._backtracks and isinstance(value, str) and len(value) > MAX_BACKTRACKED:
            return False
        valid: bool = self._engine.is_valid(value)
        return valid


@lru_cache(maxsize=128)
def matcher(pattern: str, size: int = LARGE) -> Pattern:
    """Return a matcher of a pattern.

    Args:
        pattern: A pattern of ECMA 262.
        size: Bytes that it may take.

    Raises:
        ValueError: If it is no pattern.

    Example:
        >>> matcher(r"^[\\w-\\.]+@").is_valid("a.b@c"), matcher("^(?=.*[0-9])").is_valid("none")
        (True, False)
    """
    limited = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=size)
    error = ValueError()
    for written in dict.fromkeys(("".join(_rewritten(pattern)), pattern)):
        for options in (jsonschema_rs.RegexOptions(size_limit=size), limited):
            try:
                engine = jsonschema_rs.validator_for({"pattern": written}, pattern_options=options)
            except (ValueError, jsonschema_rs.ValidationError) as refused:
                error = refused
            else:
                return Pattern(engine, is_odd=written != pattern, backtracks=options is limited)
    raise ValueError(
        f"{pattern[:200]!r} is not a pattern of ECMA 262 that can be judged within {size:,} bytes"
    ) from error


def _rewritten(pattern: str) -> Iterator[str]:
    """Yield the parts of a pattern, with JavaScript's own ways replaced by others of the same meaning."""
    in_class, before, groups = False, "", [""]
    for found in _PART.finditer(_ASTRAL.sub(r"[\\x{10000}-\\x{10FFFF}]", pattern)):
        part = found[0]
        if found["pair"]:
            yield json.loads(f'"{part}"')
        elif not in_class and found["name"] in groups[1:]:
            yield rf"\{groups.index(found['name'])}"  # a reference by its number, which the engine knows
        elif not in_class:
            in_class = part == "["
            groups += [found[5] or ""] if found["group"] else []
            yield rf"\{part}" if found["literal"] else _SETS.get(part, _ESCAPES.get(part, part))
        elif part in _SETS:  # within a class, "[]" is a bracket, and the end
            in_class = False
            yield rf"\[{part[1:]}"
        elif found["end"]:
            in_class = False
            yield part
        elif part == "-" and _is_set(before, pattern[found.end() : found.end() + 2]):
            yield r"\-"
        else:
            yield _IN_CLASS.get(part, _ESCAPES.get(part, part))
        before = part


def _is_set(before: str, behind: str) -> bool:
    r"""Return whether a hyphen stands beside ``\w``, ``\d`` or ``\s``, and so is no range."""
    return any(len(one) == 2 and one[0] == "\\" and one[1] in "wWdDsS" for one in (before, behind))
