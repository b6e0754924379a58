"""Reads the gateway's file and checks all of it: each mistake is reported with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from streamval.errors import ConfigurationError
from streamval.serve.configuration import Configuration, Location, problems_in

_VARIABLE = re.compile(r"\$\{(\w+)\}")

MAX_PLACES = 20_000
"""Entries of the largest file. An alias counts as all that it stands for: nine of them can stand for 10⁹."""

DEFAULT = """
upstreams:
  local: {model: local, options: {max_tokens: 120, stop: ["\\n"]}}
models:
  careful:
    upstream: local
    requirements:
      - no_repetition
      - sentence_limit: {at_most: 12}
      - forbidden_words: [as an AI, basically]
    repair: {loop_budget: 4}
server: {recent: 20}
"""
"""The configuration without a file."""


def read_configuration(path: str | Path | None = None) -> Configuration:
    """Read the gateway's file and check all of it.

    Args:
        path: The file; without one, the embedded model is served with a few ready rules.

    Returns:
        The configuration, with variables of the environment filled in.

    Raises:
        ConfigurationError: With every mistake, each at its line.
    """
    if path is None:
        return parse_configuration(DEFAULT, "the default configuration", os.environ)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from None
    return parse_configuration(text, str(path), os.environ)


def parse_configuration(text: str, name: str, environment: Mapping[str, str]) -> Configuration:
    """Read the text of a file.

    Args:
        text: YAML.
        name: The name of the file in messages.
        environment: Where ``${NAME}`` is looked up.

    Raises:
        ConfigurationError: With every mistake, each at its line.

    Example:
        >>> parse_configuration("upstreams: {a: {modle: local}}", "a.yaml", {})
        Traceback (most recent call last):
        streamval.errors.ConfigurationError: a.yaml cannot be served:
          line 1: upstreams.a.model: is missing
          line 1: upstreams.a.modle: is not known here
          line 1: models: is missing
    """
    try:
        document = yaml.compose(text, yaml.SafeLoader)
        problems: list[str] = []
        lines: dict[Location, int] = {}
        for place, line in _lines(document, (), problems) if document is not None else ():
            lines[place] = line
            if len(lines) > MAX_PLACES:
                raise _refused(name, [f"the file: it has more than {MAX_PLACES:,} entries"])
        plain = yaml.safe_load(text)
    except RecursionError:
        raise _refused(name, ["the file: it contains itself"]) from None
    except (ValueError, TypeError) as error:
        raise _refused(name, [f"the file: a value cannot be read: {error}"]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "the file"
        raise _refused(name, [f"{where}: is no YAML: {getattr(error, 'problem', error)}"]) from None
    if problems:  # duplicate keys
        raise _refused(name, problems)
    value = _filled(plain, (), environment, lines, problems)
    configuration = None
    try:
        configuration = Configuration.model_validate(value)
    except ValidationError as error:
        problems += [_said(found, lines) for found in error.errors()]
    if configuration is not None:
        problems += [f"{_line(lines, place)}: {why}" for place, why in problems_in(configuration)]
    if problems or configuration is None:
        raise _refused(name, problems)
    return configuration


def _lines(node: yaml.Node, place: Location, problems: list[str]) -> Iterator[tuple[Location, int]]:
    """Yield the line of each place in a document."""
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problems.append(f"line {key.start_mark.line + 1}: a name must be a word")
                continue
            if key.value in seen:
                where = ".".join(map(str, (*place, key.value)))
                problems.append(f"line {key.start_mark.line + 1}: {where}: is there twice")
            seen.add(key.value)
            yield from _lines(value, (*place, key.value), problems)
            yield (*place, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from _lines(value, (*place, at), problems)


def _filled(
    value: Any,
    place: Location,
    environment: Mapping[str, str],
    lines: Mapping[Location, int],
    problems: list[str],
) -> Any:
    """Return the value with ``${NAME}`` replaced by variables of the environment."""
    if isinstance(value, dict):
        return {
            name: _filled(inner, (*place, str(name)), environment, lines, problems)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _filled(inner, (*place, at), environment, lines, problems)
            for at, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found[1] not in environment:
            problems.append(f"{_line(lines, place)}: the variable {found[1]} is not set")
        return environment.get(found[1], "")

    return _VARIABLE.sub(replaced, value)


_WORDS = {"missing": "is missing", "extra_forbidden": "is not known here"}


def _said(found: Any, lines: Mapping[Location, int]) -> str:
    why = _WORDS.get(found["type"], found["msg"].removeprefix("Value error, "))
    return f"{_line(lines, found['loc'])}: {why}"


def _line(lines: Mapping[Location, int], place: Sequence[str | int]) -> str:
    """Return a location with its line, or with the line of the nearest enclosing location."""
    around = tuple(place)
    while around and around not in lines:
        around = around[:-1]
    return f"line {lines.get(around, 1)}: {'.'.join(map(str, place)) or 'the file'}"


def _refused(name: str, problems: Sequence[str]) -> ConfigurationError:
    return ConfigurationError("\n  ".join([f"{name} cannot be served:", *problems]))
