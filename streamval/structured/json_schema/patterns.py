"""Patterns of ECMA 262, as `pattern` and `patternProperties` have them, in linear time where that can be.

jsonschema-rs has two engines: one that is linear, and one with lookahead and references, whose steps are limited. What
its syntax does not have, but JavaScript has, is written in another way first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

MAX_PATTERN = 2**20
"""Bytes that a compiled pattern may take."""

MAX_BACKTRACKS = 100_000
"""Steps of a pattern that needs backtracking (a lookahead, a reference), for one string."""

LIMITED = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_PATTERN)

_PART = re.compile(
    r"""(?P<class>\[\^?\]|\[) | (?P<end>\]) | \\k<(?P<name>\w+)> | (?P<group>\((?!\?)|\(\?<(?![=!])(\w+)>) | \\. | \{\d+(?:,\d*)?\} | (?P<literal>[{}]) | .""",
    re.VERBOSE | re.DOTALL,
)
_SETS = {"[]": r"[^\s\S]", "[^]": r"[\s\S]"}
_IN_CLASS = {"[": r"\[", "&": r"\&", "~": r"\~", r"\b": r"\x08", r"\0": r"\x00"}


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Any:
    """Return a matcher of a pattern: its `is_valid` says whether the pattern is found in a string.

    Raises:
        ValueError: If it is no pattern.

    Example:
        >>> matcher(r"^[\\w-\\.]+@").is_valid("a.b@c"), matcher("^(?=.*[0-9])").is_valid("none")
        (True, False)
    """
    error = ValueError()
    for written in (pattern, "".join(_rewritten(pattern))):
        for options in (jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN), LIMITED):
            try:
                return jsonschema_rs.validator_for({"pattern": written}, pattern_options=options)
            except (ValueError, jsonschema_rs.ValidationError) as refused:
                error = refused
    raise ValueError(f"{pattern!r} is no pattern of ECMA 262 that can be judged") from error


def _rewritten(pattern: str) -> Iterator[str]:
    """Yield the parts of a pattern, with JavaScript's own ways replaced by others of the same meaning."""
    in_class, before, groups = False, "", [""]
    for found in _PART.finditer(pattern):
        part, is_literal = found[0], found["literal"]
        if (
            not in_class and found["name"] in groups[1:]
        ):  # a reference by its number, which the engine knows
            yield rf"\{groups.index(found['name'])}"
        elif not in_class:
            in_class = part == "["
            groups += [found[5] or ""] if found["group"] else []
            yield (
                rf"\{part}" if is_literal else _SETS.get(part, r"\x00" if part == r"\0" else part)
            )
        elif part in _SETS:  # within a class, "[]" is a bracket, and the end
            in_class = False
            yield rf"\[{part[1:]}"
        elif found["end"]:
            in_class = False
            yield part
        elif part == "-" and _is_set(before, pattern[found.end() : found.end() + 2]):
            yield r"\-"
        else:
            yield _IN_CLASS.get(part, part)
        before = part


def _is_set(before: str, behind: str) -> bool:
    r"""Return whether a hyphen stands beside ``\w``, ``\d`` or ``\s``, and so is no range."""
    return any(len(one) == 2 and one[0] == "\\" and one[1] in "wWdDsS" for one in (before, behind))
