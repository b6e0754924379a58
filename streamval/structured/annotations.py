"""Inspects a type before a value arrives: its members, keys and validators."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from enum import Enum
from inspect import signature
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    PydanticUserError,
    RootModel,
    TypeAdapter,
)
from pydantic.fields import FieldInfo


class Member(NamedTuple):
    """A member of a union, or the only type there is.

    Attributes:
        annotation: The type.
        metadata: The constraints on it.
        config: The configuration of the model around it.
    """

    annotation: Any
    metadata: tuple[Any, ...]
    config: ConfigDict


def members(annotation: Any, metadata: tuple[Any, ...], config: ConfigDict) -> Iterator[Member]:
    """Yield the members of a union with their constraints; for any other type, the type itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from members(inner, (*metadata, *more), config)
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from members(member, metadata, config)
    elif hasattr(annotation, "__supertype__"):  # a NewType
        yield from members(annotation.__supertype__, metadata, config)
    elif hasattr(annotation, "__value__"):  # a type alias
        yield from members(annotation.__value__, metadata, config)
    elif isinstance(annotation, type) and issubclass(annotation, RootModel):
        own = annotation.model_config  # the enclosing model's configuration does not apply
        if is_opaque(annotation) or has_validators(annotation, "root") or own:
            yield Member(Any, metadata, config)
        else:
            root = annotation.model_fields["root"]
            yield from members(root.annotation, (*metadata, *root.metadata), own)
    else:
        yield Member(annotation, metadata, config)


def is_opaque(model: type[BaseModel]) -> bool:
    """Return whether a model may change its JSON before it judges it."""
    around = list(_around_fields(model))
    return (
        not around
        or any(_changes(schema) or schema.get("custom_init") for schema in around)
        or "__get_pydantic_core_schema__" in own_names(model)
        or any(
            isinstance(known.validation_alias, (AliasPath, AliasChoices))
            for known in model.model_fields.values()
        )
    )


def has_validators(model: type[BaseModel], name: str) -> bool:
    """Return whether a field has validators, beside those in its annotation, that may change its value."""
    known = model.model_fields[name]
    annotation: Any = known.annotation
    if known.metadata:
        annotation = Annotated[(annotation, *known.metadata)]
    *_, inner = _around_fields(model)
    field = inner["fields"][name]["schema"] if "fields" in inner else inner["schema"]
    whole: Any = TypeAdapter(model).core_schema
    try:
        alone = _functions(TypeAdapter(annotation).core_schema)
    except PydanticUserError:  # it refers to a name that is not defined yet
        alone = []
    return _functions(field, whole.get("definitions", ())) != alone


def _around_fields(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield pydantic's schemas around the fields of a model, the outermost first, then that of the fields.

    See https://docs.pydantic.dev/latest/api/pydantic_core_schema. Yield nothing for an incomplete model,
    whose schema pydantic may build, or refuse, only when it is read.
    """
    try:
        layers = list(_layers(TypeAdapter(model).core_schema))
    except PydanticUserError:
        return
    for layer in layers:
        yield layer
        if layer["type"] == "model-fields" or layer.get("root_model"):
            return


def _functions(schema: Any, known: Iterable[dict[str, Any]] = ()) -> list[tuple[str, object]]:
    """Return the functions that a schema calls before it judges a value: the type and the name of each."""
    return [
        (layer["type"], getattr(layer["function"]["function"], "__qualname__", None))
        for layer in _layers(schema, known)
        if _changes(layer)
    ]


def _layers(schema: Any, known: Iterable[dict[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """Yield a schema, and the schemas inside it for the same value. `known` are definitions around it."""
    definitions: dict[str, Any] = {one["ref"]: one for one in known}
    while schema:
        definitions |= {one["ref"]: one for one in schema.get("definitions", ())}
        if schema["type"] == "definition-ref":
            schema = definitions.get(schema["schema_ref"], {})
            continue
        yield schema
        schema = schema.get("schema", {})


def _changes(schema: dict[str, Any]) -> bool:
    """Return whether a schema calls a function before it judges, and so may change the value."""
    return schema["type"] in ("function-before", "function-wrap", "function-plain")


def own_names(cls: type) -> set[str]:
    """Return the names that a class and its bases define, except those of pydantic and Python."""
    known = (BaseModel, RootModel, Enum, object)
    return {name for base in cls.__mro__ if base not in known for name in vars(base)}


def looks_around(constraint: object) -> bool:
    """Return whether a validator asks for the fields beside its own (the `info` of pydantic)."""
    if not isinstance(constraint, AfterValidator):
        return False
    try:
        return len(signature(constraint.func).parameters) > 1
    except ValueError:  # a builtin
        return False


def constraints(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the constraints on a type and on the types inside it, except inside models."""
    yield from metadata
    for name in ("__value__", "__supertype__"):  # a type alias, a NewType
        if hasattr(annotation, name):
            yield from constraints(getattr(annotation, name), ())
    inner, more = get_args(annotation), ()
    if get_origin(annotation) is Annotated:
        inner, more = inner[:1], inner[1:]
    yield from more
    for one in inner:
        if not isinstance(one, (str, bytes, list)):
            yield from constraints(one, ())


def keys_of(name: str, known: FieldInfo, config: ConfigDict) -> set[str]:
    """Return the keys that a field may have."""
    alias = known.validation_alias if known.validation_alias is not None else known.alias
    if not isinstance(alias, str):
        return {name}
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    return ({alias} if by_alias else set()) | ({name} if by_name else set())
