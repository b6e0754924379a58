"""The settings of a pipeline in a few words each: what tells that a job goes on with another one."""

from __future__ import annotations

import enum
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic_core import to_json

if TYPE_CHECKING:
    from streamval.backends.base import Backend
    from streamval.pipeline.pipeline import Pipeline

_LIVE = re.compile(
    r"key|secret|password|authorization|headers|session|client|lock|task|loop|_ready"
)
"""Attributes that say nothing of what is answered: how somebody is let in, and what is open at the moment."""

DEPTH = 8
"""How deep an object is looked into."""


def fingerprint(pipeline: Pipeline[Any]) -> dict[str, str]:
    """What of a pipeline decides about its results, each part with a digest. No key is in it.

    A backend counts by its class, its model and its options, and not by its address; a requirement by all it was made
    with; a function by its source, where that is there. What an object keeps in an extension's memory is not seen.

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
    settings = pipeline._settings  # noqa: SLF001  what a pipeline was given is nobody else's business
    judge = settings.validation_backend
    parts: dict[str, tuple[str, Any]] = {
        "the backend": (repr(settings.backend), _speaker(settings.backend)),
        "the judge": ("none" if judge is None else repr(judge), judge and _speaker(judge)),
        "the chunking": (_short(settings.chunking), settings.chunking),
        "the repair": (_short(settings.retry), settings.retry),
        "the format": (
            "none" if settings.schema is None else _short(settings.schema.type),
            None if settings.schema is None else settings.schema.type,
        ),
        "the options": (f"{len(settings.options)} options", dict(settings.options)),
        "the operators": (
            f"{len(settings.delta_operators) + len(settings.chunk_operators)} operators",
            [settings.delta_operators, settings.chunk_operators],
        ),
    }
    # With a format, the last one is the format's own, whose objects say less than the type does.
    judges = settings.requirements[: -1 if settings.schema else None]
    for number, requirement in enumerate(judges, 1):
        parts[f"requirement {number}"] = (repr(requirement.name), requirement)
    return {name: f"{label} #{_digest(value)}" for name, (label, value) in parts.items()}


def _speaker(backend: Backend) -> list[Any]:
    """Who speaks, and how it is asked. What else a backend holds may change from run to run."""
    return [type(backend).__qualname__, backend.model, dict(backend.options)]


def _short(value: object) -> str:
    said = value.__name__ if isinstance(value, type) else str(value)
    return re.sub(r" at 0x[0-9a-f]+", "", said)[:80]


def _digest(value: Any) -> str:
    said = to_json(_told(value, DEPTH), serialize_unknown=True)
    return hashlib.blake2b(said, digest_size=6).hexdigest()


def _told(value: Any, depth: int) -> Any:
    """A value as JSON that is the same in each process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth == 0:
        return type(value).__qualname__
    for kind, tell in _KINDS:
        if isinstance(value, kind):
            return tell(value, depth - 1)
    return [type(value).__qualname__, _told(_attributes(value), depth - 1)]


def _of_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    told = ([str(name), _told(each, depth)] for name, each in value.items() if not _is_live(name))
    return sorted(told, key=str)


def _of_function(value: FunctionType, depth: int) -> Any:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    given = [value.__defaults__, value.__kwdefaults__, cells]
    return [value.__qualname__, _code(value.__code__), _told(given, depth)]


def _of_type(value: type, _: int) -> Any:
    try:
        return [value.__qualname__, TypeAdapter(value).json_schema()]
    except Exception:  # not every class is one that pydantic knows
        return value.__qualname__


def _code(code: CodeType) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):  # typed in, or made: its code is the same in this Python only
        return hashlib.blake2b(code.co_code + repr(code.co_consts).encode()).hexdigest()


def _attributes(value: object) -> dict[str, Any]:
    names = [
        *getattr(value, "__dict__", ()),
        *(name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())),
    ]
    return {name: getattr(value, name, None) for name in names if name != "__weakref__"}


_KINDS: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (bytes, lambda value, _: hashlib.blake2b(value, digest_size=6).hexdigest()),
    (re.Pattern, lambda value, _: [value.pattern, value.flags]),
    (enum.Enum, lambda value, _: f"{type(value).__qualname__}.{value.name}"),
    (Mapping, _of_mapping),
    (AbstractSet, lambda value, depth: sorted((_told(each, depth) for each in value), key=str)),
    (Sequence, lambda value, depth: [_told(each, depth) for each in value]),
    (type, _of_type),
    (partial, lambda value, depth: _told([value.func, value.args, value.keywords], depth)),
    (MethodType, lambda value, depth: _told([value.__func__, value.__self__], depth)),
    (FunctionType, _of_function),
    (BuiltinFunctionType | MethodDescriptorType, lambda value, _: value.__qualname__),
)
"""What is told of a value of a kind, and how."""


def _is_live(name: object) -> bool:
    return isinstance(name, str) and bool(_LIVE.search(name.lower()))
