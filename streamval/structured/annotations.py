"""What a type says before a value of it has come: its members, its keys, its validators."""

from __future__ import annotations

import types
from enum import Enum
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import AfterValidator, AliasChoices, AliasPath, BaseModel, RootModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ConfigDict
    from pydantic.fields import FieldInfo


class Member(NamedTuple):
    """A member of a union, or the only type there is.

    Attributes:
        annotation: The type.
        metadata: The constraints on it.
        config: What the model around it says.
    """

    annotation: Any
    metadata: tuple[Any, ...]
    config: ConfigDict


def members(annotation: Any, metadata: tuple[Any, ...], config: ConfigDict) -> Iterator[Member]:
    """The members of a union, each with the constraints on it; the type itself if it is none."""
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
        own = annotation.model_config  # that of the model around it ends here
        if is_opaque(annotation) or has_validators(annotation, "root") or own:
            yield Member(Any, metadata, config)
        else:
            root = annotation.model_fields["root"]
            yield from members(root.annotation, (*metadata, *root.metadata), own)
    else:
        yield Member(annotation, metadata, config)


def is_opaque(model: type[BaseModel]) -> bool:
    """Whether a model may make something else of its JSON before it judges it."""
    decorators = model.__pydantic_decorators__
    return (
        any(known.info.mode != "after" for known in decorators.model_validators.values())
        or model.__init__ not in (BaseModel.__init__, RootModel.__init__)
        or bool(decorators.root_validators)
        or "__get_pydantic_core_schema__" in own_names(model)
        or any(
            isinstance(known.validation_alias, (AliasPath, AliasChoices))
            for known in model.model_fields.values()
        )
    )


def own_names(cls: type) -> set[str]:
    """What a class and its bases define, those of pydantic and Python left out."""
    known = (BaseModel, RootModel, Enum, object)
    return {name for base in cls.__mro__ if base not in known for name in vars(base)}


def looks_around(constraint: object) -> bool:
    """Whether a validator asks for the fields beside its own (the `info` of pydantic)."""
    if not isinstance(constraint, AfterValidator):
        return False
    try:
        return len(signature(constraint.func).parameters) > 1
    except ValueError:  # a builtin
        return False


def constraints(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[Any]:
    """The constraints on a type and on all that it is made of, models left out."""
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


def has_validators(model: type[BaseModel], name: str) -> bool:
    """Whether a field has validators that may change its value before it is judged."""
    return any(
        known.info.mode != "after" and (name in known.info.fields or "*" in known.info.fields)
        for known in model.__pydantic_decorators__.field_validators.values()
    )


def keys_of(name: str, known: FieldInfo, config: ConfigDict) -> set[str]:
    """The keys under which a field may come."""
    alias = known.validation_alias if known.validation_alias is not None else known.alias
    if not isinstance(alias, str):
        return {name}
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    return ({alias} if by_alias else set()) | ({name} if by_name else set())
