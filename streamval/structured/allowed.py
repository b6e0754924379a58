"""The values that a type allows at each place of its JSON, for judging a value as soon as it comes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cached_property
from inspect import formatannotation
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from annotated_types import BaseMetadata, MaxLen
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Strict,
    TypeAdapter,
    ValidationError,
    create_model,
)
from typing_extensions import Unpack

from streamval.structured.annotations import (
    constraints,
    has_validators,
    is_opaque,
    keys_of,
    looks_around,
    members,
    own_names,
)
from streamval.structured.json_events import OpenString

JSONKind: TypeAlias = Literal["object", "array", "string", "other"]

_ANY: frozenset[JSONKind] = frozenset({"object", "array", "string", "other"})
_SCALAR_TYPES = (str, int, float, bool, type(None))
_SCALARS: frozenset[JSONKind] = frozenset({"string", "other"})
_OBJECT: frozenset[JSONKind] = frozenset({"object"})
_ARRAY: frozenset[JSONKind] = frozenset({"array"})
# Exactly these types: a subclass may convert its JSON to anything.
_KINDS: dict[type, frozenset[JSONKind]] = {
    **dict.fromkeys((str, int, float, bool), _SCALARS),
    type(None): frozenset({"other"}),
    **dict.fromkeys((dict, Mapping, MutableMapping), _OBJECT),
    **dict.fromkeys((list, set, frozenset, tuple, deque, Sequence, AbstractSet), _ARRAY),
}
# Constraints that judge a value and leave it as it is, or change it once it has been judged.
_PLAIN = (BaseMetadata, AfterValidator, Strict)
_SHOWN = 60
_REMEMBERED = 4096


class ImpossibleError(Exception):
    """No value is allowed at this place."""


class Allowed:
    """The values that are allowed at one place of a JSON text.

    Args:
        types: A value has to match one of these types. There are several where they depend on the
            member of a union that the enclosing object matches.
    """

    def __init__(self, types: tuple[_Type, ...]) -> None:
        self._types = types
        self._places: dict[tuple[_Type, ...], Allowed] = {}
        self._known: dict[str | int, Allowed | None] = {}
        self._takes: dict[JSONKind, bool] = {}

    @classmethod
    def of(cls, annotation: Any) -> Allowed:
        """Return a place for one type."""
        return cls((_Type(annotation, (), ConfigDict()),))

    @property
    def name(self) -> str:
        """The name of the type for messages."""
        return " or ".join(dict.fromkeys(known.name for known in self._types))

    @cached_property
    def _alternatives(self) -> list[_Alternative]:
        return [alternative for known in self._types for alternative in known.alternatives]

    def takes(self, kind: JSONKind) -> bool:
        """Return whether a value of this kind may begin here."""
        if kind not in self._takes:
            self._takes[kind] = any(kind in known.kinds for known in self._alternatives)
        return self._takes[kind]

    def complaint(self, text: str | bytes, path: str) -> str | None:
        """Return why this JSON is not allowed here, or `None`."""
        complaint = None
        for known in self._types:
            complaint = known.complaint(text, path)
            if complaint is None:
                return None
        return complaint

    def string_complaint(self, begun: OpenString) -> str | None:
        """Return why a string with this beginning is not allowed here, or `None`."""
        if begun.escaped:
            return None
        complaints = [known.string_complaint(begun) for known in self._alternatives]
        return complaints[0] if all(complaints) else None

    def child(self, key: str | int) -> Allowed | None:
        """Return the values allowed in a field, or at an index; `None` if all are allowed.

        Raises:
            ImpossibleError: If no value is allowed.
        """
        if key in self._known:
            return self._known[key]
        place = self._child(key)
        if len(self._known) < _REMEMBERED:
            self._known[key] = place
        return place

    def _child(self, key: str | int) -> Allowed | None:
        found: list[_Type] = []
        reason = "it should not be there"
        for alternative in self._alternatives:
            try:
                child = alternative.child(key)
            except ImpossibleError as error:
                reason = str(error) or reason
                continue
            if child is None:
                return None
            found.append(child)
        if not found:
            raise ImpossibleError(reason)
        types = tuple(found)
        place = self._places.get(types)
        if place is None:
            place = self._places[types] = Allowed(types)
        return place


class _Type:
    """A type with the constraints on it."""

    def __init__(self, annotation: Any, metadata: tuple[Any, ...], config: ConfigDict) -> None:
        self._annotation = annotation
        self._metadata = metadata
        self._config = config

    @property
    def name(self) -> str:
        return name_of(self._annotation)

    @cached_property
    def alternatives(self) -> list[_Alternative]:
        return [
            _Alternative(*member)
            for member in members(self._annotation, self._metadata, self._config)
        ]

    def complaint(self, text: str | bytes, path: str) -> str | None:
        judge = self._judge
        if judge is None or self._looks_around:
            return None
        raw = text.encode(errors="replace") if isinstance(text, str) else text
        try:
            judge.validate_json(b'{"v":' + raw + b"}")
        except ValidationError as error:
            return first_error(error, path, skip=1)
        except Exception:  # a validator that needs other fields: judged with the whole object
            return None
        return None

    @cached_property
    def _looks_around(self) -> bool:
        return any(map(looks_around, constraints(self._annotation, self._metadata)))

    @cached_property
    def _judge(self) -> Any:
        # A model with one field, because a model's configuration applies to its fields.
        annotation = self._annotation
        if self._metadata:
            annotation = Annotated[(annotation, *self._metadata)]
        config: Any = {**self._config, "extra": "ignore", "frozen": False}
        config.pop("alias_generator", None)
        try:
            # The default avoids errors about other fields, which a validator may read.
            judge = create_model("Value", __config__=config, v=(annotation, None))
            return TypeAdapter(judge).validator
        except Exception:  # it cannot be judged by itself, only with the value around it
            return None


class _Alternative:
    """One member of a union, or the only type there is."""

    def __init__(self, annotation: Any, metadata: tuple[Any, ...], config: ConfigDict) -> None:
        self._annotation = annotation
        self._origin = get_origin(annotation) or annotation
        self._metadata = metadata
        self._config = config
        self._children: dict[str | int, _Type | None] = {}

    @cached_property
    def kinds(self) -> frozenset[JSONKind]:
        """The kinds of JSON value that can become this type."""
        origin = self._origin
        if not self._is_plain or not isinstance(origin, (type, type(Literal))):
            return _ANY
        if origin is Literal:
            return _SCALARS
        if not isinstance(origin, type) or "__get_pydantic_core_schema__" in own_names(origin):
            return _ANY
        if issubclass(origin, BaseModel):
            return _ANY if is_opaque(origin) else _OBJECT
        if issubclass(origin, Enum):
            plain = all(isinstance(one.value, _SCALAR_TYPES) for one in origin)
            return _SCALARS if plain and not self._makes_of_others else _ANY
        return _KINDS.get(origin, _ANY)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether all constraints judge a value before any of them changes it."""
        return all(isinstance(known, _PLAIN) for known in self._metadata)

    @property
    def _makes_of_others(self) -> bool:
        """Whether this enum converts other values to members."""
        return "_missing_" in own_names(self._origin)

    @cached_property
    def _words(self) -> list[str] | None:
        """The allowed strings, if the type allows only certain strings; else `None`."""
        if self.kinds is _ANY:
            return None
        if self._origin is Literal:
            return [word for word in get_args(self._annotation) if isinstance(word, str)]
        if isinstance(self._origin, type) and issubclass(self._origin, Enum):
            words = [member.value for member in self._origin]
            return words if all(isinstance(word, str) for word in words) else None
        return None

    @cached_property
    def _max_length(self) -> int | None:
        if any(type(known).__module__ != "annotated_types" for known in self._metadata):
            return None  # a validator before the limit may shorten a long string
        limits = [known.max_length for known in self._metadata if isinstance(known, MaxLen)]
        return min(limits, default=None)

    def string_complaint(self, begun: OpenString) -> str | None:
        if "string" not in self.kinds:
            return "it should not be a string"
        if self._words is not None and not any(
            word.startswith(begun.head) and len(word) >= begun.size for word in self._words
        ):
            words = ", ".join(repr(word) for word in self._words)
            return f"it should be one of {words}, not {_shortened(begun.head)}"
        limit = self._max_length
        if limit is None or self._origin is not str or self._config.get("str_strip_whitespace"):
            return None
        if begun.size > limit:
            return f"it should have at most {limit} characters, not {_shortened(begun.head)}"
        return None

    def child(self, key: str | int) -> _Type | None:
        """Return the type of a field or an index; `None` if anything is allowed."""
        if self.kinds is _ANY:
            return None
        if isinstance(key, int):
            if "array" not in self.kinds:
                raise ImpossibleError
            return self._element(key)
        if "object" not in self.kinds:
            raise ImpossibleError
        if not issubclass(self._origin, BaseModel):
            return self._values_of_mapping
        if key not in self._children:
            self._children[key] = self._field(key)
        return self._children[key]

    @cached_property
    def _values_of_mapping(self) -> _Type | None:
        arguments = get_args(self._annotation)
        if len(arguments) != 2:
            return None
        return _Type(arguments[1], (), self._config)

    def _element(self, index: int) -> _Type | None:
        most, is_fixed, is_open = self._elements
        if is_open:
            return None
        if most is not None and index >= most:
            raise ImpossibleError(f"there should be at most {most} items")
        key, arguments = index if is_fixed else 0, get_args(self._annotation)
        if key not in self._children:
            self._children[key] = (
                _Type(arguments[key], (), self._config) if key < len(arguments) else None
            )
        return self._children[key]

    @cached_property
    def _elements(self) -> tuple[int | None, bool, bool]:
        """How many elements there may be, whether each has a type of its own, and whether any may stand anywhere."""
        arguments = get_args(self._annotation)
        is_fixed = self._origin is tuple and bool(arguments) and arguments[-1] is not Ellipsis
        is_open = any(get_origin(argument) is Unpack for argument in arguments)
        if is_fixed:
            return len(arguments), True, is_open
        if self._origin is not list or any(map(_may_leave_out, arguments)):
            return None, False, is_open  # a set counts equal items once
        return self._max_length, False, is_open

    def _field(self, key: str) -> _Type | None:
        model = self._origin
        for name, known in model.model_fields.items():
            keys = keys_of(name, known, model.model_config)
            if key in keys:
                # A value under the name counts only if there is none under the alias.
                if has_validators(model, name) or (len(keys) > 1 and key == name):
                    return None
                return _Type(known.annotation, tuple(known.metadata), model.model_config)
        if model.model_config.get("extra") == "forbid":
            raise ImpossibleError(f"there is no field {key!r}")
        return None


def _may_leave_out(item: Any) -> bool:
    """Return whether a list may leave out items of this type (`OnErrorOmit`)."""
    return any(not isinstance(known, _PLAIN) for known in constraints(item, ()))


def name_of(annotation: Any) -> str:
    """Return the name of a type for messages.

    Example:
        >>> name_of(int), name_of(list[int])
        ('int', 'list[int]')
    """
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return re.sub(r"\b(?:\w+\.)+", "", formatannotation(annotation))


def first_error(error: ValidationError, path: str, skip: int = 0) -> str:
    """Return the first error of pydantic's: its path, the rule, and the value."""
    first = error.errors(include_url=False, include_context=False)[0]
    for step in first["loc"][skip:]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    if first["type"] == "missing":
        return f"{path}: {first['msg']}"
    return f"{path}: {first['msg']}, not {_shortened(first['input'])}"


def _shortened(value: Any) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
