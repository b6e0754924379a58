"""Digests of a pipeline's settings: they detect that a job was resumed with changed settings."""

from __future__ import annotations

import dis
import enum
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any, Union
from uuid import UUID

import regex
from pydantic import TypeAdapter
from pydantic_core import to_json

from streamval.backends.base import Backend
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.requirements.base import Requirement
from streamval.structured.json_schema.schema import JSONSchema
from streamval.structured.schema import Schema

_LIVE = re.compile(
    r"(^|_)(api_key|secret|password|authorization|headers|session|client|lock|task|loop)$"
)
"""Names of options and attributes that do not affect results: credentials and open resources."""

DEPTH = 8
"""How deep a value is looked into."""

_OURS = ("streamval", "pydantic", "builtins", "typing")


def fingerprint(pipeline: Pipeline[Any]) -> dict[str, str]:
    """Return the parts of a pipeline that decide its results, each with a digest. No key is in them.

    A backend counts by its class, its model and its options, and not by its address; a requirement by its class and
    the plain values, functions and types that it was made with; your own functions and classes by their source, where
    that is available, and the globals that they refer to: plain values, and what their own module defines. Other
    objects count by their class alone, as their content may change from run to run.

    Args:
        pipeline: The pipeline.

    Returns:
        The parts by their names.

    Example:
        >>> from streamval import Pipeline, ScriptedBackend, word_limit
        >>> one, other = (
        ...     fingerprint(Pipeline(ScriptedBackend("Hi."), requirements=[word_limit(at_most=n)]))
        ...     for n in (10, 20)
        ... )
        >>> [name for name in one if one[name] != other[name]]
        ['requirement 1']
    """
    settings = pipeline._settings  # noqa: SLF001  no other module needs what a pipeline was given
    judge = settings.validation_backend
    parts: dict[str, tuple[str, Any]] = {
        "the backend": (
            ", then ".join(map(repr, settings.backends)),
            _speaker(settings.backend) + [_speaker(one) for one in settings.backends[1:]],
        ),
        "the judge": ("none" if judge is None else repr(judge), judge and _speaker(judge)),
        "the chunking": (_short(settings.chunking), settings.chunking),
        "the repair": (_short(settings.retry), settings.retry),
        "the format": (
            "none" if settings.schema is None else _short(settings.schema.type),
            settings.schema,
        ),
        "the options": (f"{len(settings.options)} options", _options(settings.options)),
        "the operators": (
            f"{len(settings.delta_operators) + len(settings.chunk_operators)} operators",
            [settings.delta_operators, settings.chunk_operators],
        ),
    }
    # With a format, the last requirement is the format's own; `settings.schema` describes it better.
    judges = settings.requirements[: -1 if settings.schema else None]
    for number, requirement in enumerate(judges, 1):
        parts[f"requirement {number}"] = (repr(requirement.name), requirement)
    return {name: f"{label} #{_digest(value)}" for name, (label, value) in parts.items()}


def _speaker(backend: Backend) -> list[Any]:
    """Return the class, model and options of a backend. Its other content may change from run to run."""
    return [type(backend).__qualname__, backend.model, _options(backend.options)]


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if not _LIVE.search(name)}


def _short(value: object) -> str:
    said = value.__name__ if isinstance(value, type) else str(value)
    return re.sub(r" at 0x[0-9a-f]+", "", said)[:80]


def _digest(value: Any) -> str:
    written = to_json(_plain(value, DEPTH), serialize_unknown=True)
    return hashlib.blake2b(written, digest_size=6).hexdigest()


def _plain(value: Any, depth: int) -> Any:
    """Return a value as JSON that does not depend on the process, or on a run."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value) if isinstance(value, int) else value
    if depth == 0:
        return type(value).__qualname__
    for kind, reduce in _KINDS:
        if isinstance(value, kind):
            return reduce(value, depth - 1)
    return type(value).__qualname__


def _of_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    return sorted(([_plain(k, depth), _plain(v, depth)] for k, v in value.items()), key=str)


def _of_attributes(value: object, depth: int) -> Any:
    """Return the attributes of a requirement or a dataclass."""
    names = {
        *getattr(value, "__dict__", ()),
        *(name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())),
    }
    plain = {
        name: _plain(getattr(value, name, None), depth) for name in names if not _LIVE.search(name)
    }
    return [_of_class(type(value), depth), sorted(plain.items())]


def _of_class(value: type, depth: int) -> Any:
    """Return a class by its name; of a user's class, its source and what that refers to as well."""
    if value.__module__.partition(".")[0] in _OURS:
        return value.__qualname__
    methods = [one for one in vars(value).values() if isinstance(one, FunctionType)]
    referred = [_referred(one, depth) for one in methods]
    try:
        return [value.__qualname__, inspect.getsource(value), referred]
    except (OSError, TypeError):  # typed in, or made
        return [value.__qualname__, referred]


def _of_type(value: Any, depth: int) -> Any:
    """Return a class, or what `typing` makes of classes."""
    try:
        schema = TypeAdapter(value).json_schema()
    except Exception:  # not every class is one that pydantic knows
        schema = None
    return [_of_class(value, depth) if isinstance(value, type) else str(value), schema]


def _of_function(value: FunctionType, depth: int) -> Any:
    cells = []
    for cell in value.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # a name that is bound later
            cells.append("nothing yet")
    given = [value.__defaults__, value.__kwdefaults__, cells]
    return [value.__qualname__, _source(value), _plain(given, depth), _referred(value, depth)]


def _referred(value: FunctionType, depth: int) -> Any:
    """Return the globals that a function refers to: a limit or a list of words is often one of them."""
    if depth <= 0 or value.__module__.partition(".")[0] in _OURS:
        return []
    known = value.__globals__
    found = {name: known[name] for name in value.__code__.co_names if name in known}
    return [
        # What another module defines counts by its name: it may lead through a whole package.
        [name, one.__qualname__ if _is_of_another(one, value) else _plain(one, depth - 1)]
        for name, one in sorted(found.items())
        if not _LIVE.search(name)
    ]


def _is_of_another(one: object, value: FunctionType) -> bool:
    return isinstance(one, (FunctionType, type)) and one.__module__ != value.__module__


def _source(value: FunctionType) -> Any:
    if value.__code__.co_filename == "<string>":
        # Every `exec` and `eval` shares this name, and from Python 3.13 `python -c` keeps its source under it.
        return _instructions(value.__code__)
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):  # typed in, or made: the instructions of this Python stand for it
        return _instructions(value.__code__)


def _instructions(code: CodeType) -> Any:
    return [
        [one.opname, _instructions(one.argval)]
        if isinstance(one.argval, CodeType)
        else [one.opname, _plain(one.argval, DEPTH)]
        for one in dis.get_instructions(code)
    ]


_KINDS: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (bytes, lambda value, _: value.hex()),
    ((re.Pattern, regex.Pattern), lambda value, _: [value.pattern, value.flags]),
    (enum.Enum, lambda value, _: f"{type(value).__qualname__}.{value.name}"),
    ((PurePath, Decimal, date, time, timedelta, UUID), lambda value, _: str(value)),
    (ModuleType, lambda value, _: value.__name__),
    (JSONSchema, lambda value, _: [value.written, value.asserts_formats, value.text_around]),
    (Schema, lambda value, depth: [_of_type(value.type, depth), value.text_around]),
    ((type, GenericAlias, UnionType, type(Union[int, str])), _of_type),  # noqa: UP007  typing's own
    (Mapping, _of_mapping),
    (AbstractSet, lambda value, depth: sorted((_plain(each, depth) for each in value), key=str)),
    (Sequence, lambda value, depth: [_plain(each, depth) for each in value]),
    (partial, lambda value, depth: _plain([value.func, value.args, value.keywords], depth)),
    (MethodType, lambda value, depth: _plain([value.__func__, value.__self__], depth)),
    (FunctionType, _of_function),
    (BuiltinFunctionType | MethodDescriptorType, lambda value, _: value.__qualname__),
    ((Requirement, Repair), _of_attributes),
)
"""How a value of each type is written as JSON."""
