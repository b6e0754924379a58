"""Random types and JSON for them: the verdicts beside pydantic's.

A type comes with a function that makes values which mostly fit it. A document is such a value, or
what mutations have made of it, written with random whitespace and escapes, and read in random
slices.
"""

from __future__ import annotations

import copy
import enum
import json
import random
import warnings
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice, product
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainValidator,
    RootModel,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    create_model,
    field_validator,
    model_validator,
)
from pydantic import dataclasses as pydantic_dataclasses
from typing_extensions import TypedDict

from streamval.requirements.schema import MatchesSchema
from streamval.structured.schema import Schema
from streamval.types.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = ["red", "green", "r", "reddish", "", "a b", "see [1]", '{"n"', "é€", "12", "null", "\\"]
KEYS = ["a", "b", "ab", "kind", "name", "two words", "x"]


class Members(list):
    """An object of JSON as its pairs, so that a key may come twice."""


@dataclass
class Made:
    """A random type, and how to make values that mostly fit it."""

    annotation: Any
    value: Any

    def __call__(self) -> Any:
        return self.value()


class Types:
    """Makes types of one random generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def some(self, depth: int) -> Made:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return rng.choice(self.scalars)(self)
        return rng.choice(self.nested)(self, depth - 1)

    def named(self) -> str:
        self.count += 1
        return f"T{self.count}"

    # Scalars

    def integer(self) -> Made:
        rng = self.rng
        limits = {
            name: rng.randint(-3, 9) for name in ("ge", "le", "gt", "lt") if rng.random() < 0.2
        }
        if rng.random() < 0.15:
            limits["multiple_of"] = rng.choice([2, 3])
        kind = rng.choice([int, int, float, Decimal])
        annotation = Annotated[kind, Field(**limits)] if limits else kind
        return Made(
            annotation, lambda: rng.choice([rng.randint(-5, 12), rng.random() * 10, "7", 1e400])
        )

    def text(self) -> Made:
        rng = self.rng
        limits: dict[str, Any] = {}
        if rng.random() < 0.4:
            limits["max_length"] = rng.randint(0, 6)
        if rng.random() < 0.2:
            limits["min_length"] = rng.randint(0, 3)
        if rng.random() < 0.15:
            limits["pattern"] = r"^[a-z]*$"
        for name in ("strip_whitespace", "to_lower", "strict"):
            if rng.random() < 0.1:
                limits[name] = True
        annotation = Annotated[str, StringConstraints(**limits)] if limits else str
        return Made(
            annotation, lambda: rng.choice(WORDS) + rng.choice(["", " ", "abc", "ab [1, {"])
        )

    def other(self) -> Made:
        rng = self.rng
        kinds: list[tuple[Any, list[Any]]] = [
            (bool, [True, False, "yes", 1]),
            (type(None), [None]),
            (date, ["2024-01-31", "2024-02-31", 0]),
            (datetime, ["2024-01-31T12:00:00Z", 1700000000, "noon"]),
            (time, ["12:30", "25:00"]),
            (timedelta, ["P1D", 5, "PT1H"]),
            (UUID, ["550e8400-e29b-41d4-a716-446655440000", "no"]),
            (bytes, ["YQ==", "é"]),
            (Any, [1, "a", [1], None]),
            (complex, ["1+2j", 3]),
        ]
        kind, values = rng.choice(kinds)
        return Made(kind, lambda: rng.choice(values))

    def literal(self) -> Made:
        values = tuple(self.rng.sample([*WORDS, 1, 2, True, None], self.rng.randint(1, 4)))
        return Made(Literal[values], lambda: self.rng.choice([*values, "redd"]))

    def enumeration(self) -> Made:
        rng = self.rng
        pools: list[list[Any]] = [
            ["red", "green", "reddish"],
            [1, 2, 3],
            [[1, 2], [3]],
            [{"a": 1}, {"b": 2}],
            ["red", 1, None],
        ]
        pool = rng.choice(pools)
        made: Any = enum.Enum(self.named(), {f"M{n}": value for n, value in enumerate(pool)})
        return Made(made, lambda: rng.choice(pool))

    def as_json(self) -> Made:
        inner = self.some(1)
        return Made(Json[inner.annotation], lambda: json.dumps(plain(inner()), default=str))

    scalars = [integer, integer, text, text, other, literal, enumeration, as_json]

    # What holds others

    def sequence(self, depth: int) -> Made:
        rng, inner = self.rng, self.some(depth)
        limits = {"max_length": rng.randint(0, 3)} if rng.random() < 0.3 else {}
        if rng.random() < 0.2:
            limits["min_length"] = rng.randint(0, 2)
        kind = rng.choice([list, list, tuple, deque])
        annotation = tuple[inner.annotation, ...] if kind is tuple else kind[inner.annotation]  # type: ignore[valid-type]
        if limits:
            annotation = Annotated[annotation, Field(**limits)]
        return Made(annotation, lambda: [inner() for _ in range(rng.randint(0, 4))])

    def of_hashables(self, depth: int) -> Made:
        del depth
        rng = self.rng
        inner = rng.choice([self.integer, self.text, self.literal])()
        kind = rng.choice([set, frozenset])
        annotation: Any = kind[inner.annotation]  # type: ignore[valid-type]
        if rng.random() < 0.4:
            annotation = Annotated[annotation, Field(max_length=rng.randint(0, 3))]
        return Made(annotation, lambda: [inner() for _ in range(rng.randint(0, 4))])

    def fixed(self, depth: int) -> Made:
        inner = [self.some(depth) for _ in range(self.rng.randint(1, 3))]
        annotation = tuple[tuple(one.annotation for one in inner)]  # type: ignore[misc]
        return Made(annotation, lambda: [one() for one in inner])

    def mapping(self, depth: int) -> Made:
        rng, inner = self.rng, self.some(depth)
        keys: list[tuple[Any, Any]] = [
            (str, lambda: rng.choice(KEYS)),
            (int, lambda: str(rng.randint(0, 3))),
            (Literal["a", "b"], lambda: rng.choice("ab")),
            (Annotated[str, Field(max_length=2)], lambda: rng.choice(KEYS)),
        ]
        key, make = rng.choice(keys)
        annotation: Any = dict[key, inner.annotation]
        if rng.random() < 0.2:
            annotation = Annotated[annotation, Field(max_length=rng.randint(0, 2))]
        return Made(
            annotation, lambda: Members((make(), inner()) for _ in range(rng.randint(0, 3)))
        )

    def union(self, depth: int) -> Made:
        rng = self.rng
        inner = [self.some(depth) for _ in range(rng.randint(2, 3))]
        annotation: Any = Union[tuple(one.annotation for one in inner)]  # noqa: UP007
        if rng.random() < 0.2:
            annotation = Annotated[annotation, Field(union_mode="left_to_right")]
        return Made(annotation, lambda: rng.choice(inner)())

    def optional(self, depth: int) -> Made:
        inner = self.some(depth)
        return Made(Optional[inner.annotation], lambda: self.rng.choice([None, inner()]))  # noqa: UP045

    def tagged(self, depth: int) -> Made:
        rng = self.rng
        inner = [
            self.model(depth, kind=tag) for tag in ("red", "green", "blue")[: rng.randint(2, 3)]
        ]
        annotation = Annotated[
            Union[tuple(one.annotation for one in inner)], Field(discriminator="kind")  # noqa: UP007
        ]
        return Made(annotation, lambda: rng.choice(inner)())

    def constrained(self, depth: int) -> Made:
        """With a validator of some mode, a strict one, or a default."""
        rng, inner = self.rng, self.some(depth)
        marks: list[Any] = [
            AfterValidator(lambda value: value),
            AfterValidator(_no_zero),
            BeforeValidator(lambda value: value),
            BeforeValidator(_unwrapped),
            WrapValidator(_forgiving),
            PlainValidator(_string),
            Strict(),
        ]
        return Made(Annotated[inner.annotation, rng.choice(marks)], inner)

    def root_model(self, depth: int) -> Made:
        inner = self.some(depth)
        return Made(create_model(self.named(), __base__=RootModel[inner.annotation]), inner)

    def typed_dict(self, depth: int) -> Made:
        rng = self.rng
        inner = {key: self.some(depth) for key in rng.sample(["a", "b", "x"], rng.randint(1, 3))}
        fields: Any = {key: one.annotation for key, one in inner.items()}
        made = TypedDict(self.named(), fields, total=rng.random() < 0.7)  # type: ignore[misc, operator]
        return Made(made, lambda: Members((key, one()) for key, one in inner.items()))

    def data_class(self, depth: int) -> Made:
        inner = {key: self.some(depth) for key in ("a", "b")}
        body = {"__annotations__": {key: one.annotation for key, one in inner.items()}}
        made = pydantic_dataclasses.dataclass(type(self.named(), (), body))
        return Made(made, lambda: Members((key, one()) for key, one in inner.items()))

    def named_tuple(self, depth: int) -> Made:
        inner = {key: self.some(depth) for key in ("a", "b")}
        made: Any = NamedTuple(self.named(), [(key, one.annotation) for key, one in inner.items()])
        return Made(made, lambda: [one() for one in inner.values()])

    def model(self, depth: int, kind: str | None = None) -> Made:
        rng = self.rng
        config: dict[str, Any] = {}
        if rng.random() < 0.5:
            config["extra"] = rng.choice(["forbid", "allow", "ignore"])
        settings: dict[str, Any] = {
            "populate_by_name": True,
            "strict": True,
            "str_strip_whitespace": True,
            "str_max_length": 4,
            "coerce_numbers_to_str": True,
            "frozen": True,
            "use_enum_values": True,
            "str_to_lower": True,
        }
        config |= {name: value for name, value in settings.items() if rng.random() < 0.1}
        if rng.random() < 0.1:
            config |= {"validate_by_name": True, "validate_by_alias": rng.random() < 0.5}
            config.pop("populate_by_name", None)
        inner = {
            name: self.some(depth)
            for name in rng.sample(["a", "b", "name", "x"], rng.randint(1, 3))
        }
        fields: dict[str, Any] = {}
        keys = {name: name for name in inner}
        for name, one in inner.items():
            options: dict[str, Any] = {}
            if rng.random() < 0.3:
                options["default"] = None
            if rng.random() < 0.25:
                keys[name] = options["alias"] = f"{name}Alias"
            elif rng.random() < 0.1:
                keys[name] = f"{name}Other"
                options["validation_alias"] = AliasChoices(f"{name}Other", name)
            fields[name] = (one.annotation, Field(**options))
        if kind is not None:
            fields["kind"] = (Literal[kind], ...)
            keys["kind"] = "kind"
        if rng.random() < 0.25:
            config.setdefault("title", "T")
        made: Any = create_model(
            self.named(),
            __config__=ConfigDict(**config),
            __validators__=self._validators(next(iter(inner))),
            **fields,
        )

        def value() -> Any:
            pairs = [
                (rng.choice([keys[name]] * 4 + [name]), one())
                for name, one in inner.items()
                if rng.random() < 0.95
            ]
            if kind is not None:
                pairs.insert(rng.randint(0, len(pairs)), ("kind", kind))
            return Members(pairs)

        return Made(made, value)

    def _validators(self, name: str) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.75:
            return {}
        made: list[Any] = [
            field_validator(name, mode="before")(_unwrapped),
            field_validator(name, mode="after")(_no_zero),
            field_validator(name, mode="wrap")(_forgiving),
            field_validator(name, mode="plain")(_string),
            field_validator("*", mode="before")(lambda value: value),
            model_validator(mode="before")(classmethod(lambda cls, data: _from_list(data))),
            model_validator(mode="after")(lambda self: self),
            model_validator(mode="wrap")(classmethod(lambda cls, data, handler: handler(data))),
        ]
        return {"judged": rng.choice(made)}

    nested = [
        *(sequence, of_hashables, fixed, mapping, union, union, optional, tagged, constrained),
        *(constrained, root_model, typed_dict, data_class, named_tuple, model, model, model, model),
    ]


def _no_zero(value: Any) -> Any:
    if value == 0:
        raise ValueError("no zero")
    return value


def _unwrapped(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _forgiving(value: Any, handler: Any) -> Any:
    try:
        return handler(value)
    except ValueError:
        if value is None:
            raise
        return value


def _string(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("no string")
    return value


def _from_list(data: Any) -> Any:
    return {"a": data[0]} if isinstance(data, list) and data else data


# Documents


def plain(value: Any) -> Any:
    """The value with objects as dicts."""
    if isinstance(value, Members):
        return {key: plain(item) for key, item in value}
    return [plain(item) for item in value] if isinstance(value, list) else value


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with something else somewhere in it."""
    junk = [None, True, 0, -1, 2.5, "red", "", "see [1]", [], [1], Members(), Members([("a", 1)])]
    if not isinstance(value, list) or not value or rng.random() < 0.3:
        return copy.deepcopy(rng.choice([*junk, [value], Members([("a", value)])]))
    value = Members(value) if isinstance(value, Members) else list(value)
    at = rng.randrange(len(value))
    match rng.randrange(4):
        case 0:
            del value[at]
        case 1:
            value.insert(at, copy.deepcopy(value[at]))
        case 2 if isinstance(value, Members):
            value.insert(at, (rng.choice([*KEYS, "aAlias"]), rng.choice(junk)))
        case _ if isinstance(value, Members):
            value[at] = (value[at][0], mutated(value[at][1], rng))
        case _:
            value[at] = mutated(value[at], rng)
    return value


def written(value: Any, rng: random.Random) -> str:
    """The value as JSON, in some spelling."""

    def gap() -> str:
        return rng.choice(["", "", "", " ", "\n", "\t "])

    if isinstance(value, dict):
        value = Members(value.items())
    if isinstance(value, Members):
        inner = ",".join(
            f"{gap()}{_string_of(key, rng)}{gap()}:{gap()}{written(item, rng)}{gap()}"
            for key, item in value
        )
        return "{" + (inner or gap()) + "}"
    if isinstance(value, list):
        return (
            "[" + (",".join(f"{gap()}{written(one, rng)}{gap()}" for one in value) or gap()) + "]"
        )
    if isinstance(value, str):
        return _string_of(value, rng)
    if isinstance(value, float) and value > 1e300:
        return "1e400"
    return json.dumps(value)


def _string_of(text: str, rng: random.Random) -> str:
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def has_repeated_keys(value: Any) -> bool:
    """Whether an object in it has a key twice."""
    if isinstance(value, Members):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(has_repeated_keys(item) for _, item in value)
    return isinstance(value, list) and any(map(has_repeated_keys, value))


def with_one_of_each_key(value: Any) -> Iterator[Any]:
    """The values that come of it if each object keeps one of the values under each key."""
    if isinstance(value, Members):
        keys = dict.fromkeys(key for key, _ in value)
        each = [
            [one for key, item in value if key == wanted for one in with_one_of_each_key(item)]
            for wanted in keys
        ]
        for chosen in product(*each):
            yield Members(zip(keys, chosen, strict=True))
    elif isinstance(value, list):
        for items in product(*(list(with_one_of_each_key(item)) for item in value)):
            yield list(items)
    else:
        yield value


def sliced(text: str, rng: random.Random) -> list[str]:
    """The text in random slices."""
    size = rng.choice([1, 2, 5, 20, 1000])
    slices, at = [], 0
    while at < len(text):
        step = rng.randint(1, size)
        slices.append(text[at : at + step])
        at += step
    return slices


# What must hold


@dataclass
class Case:
    """A type, a document, and how it is read."""

    annotation: Any
    document: Any
    text: str
    around: tuple[str, str]
    slices: list[str]

    def __str__(self) -> str:
        return f"{self.annotation!r}\n  {self.text!r} in {self.slices!r}"


AROUND = [("", "")] * 6 + [(" \n", "\n"), ("```json\n", "\n```"), ("```\n", "\n```\n")]


def cases(rng: random.Random, documents: int = 10) -> list[Case]:
    """A random type, with documents for it. None where pydantic refuses the type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = Types(rng).some(3)
            TypeAdapter(made.annotation)
        except Exception:  # whatever it says against the type
            return []
        found = []
        for _ in range(documents):
            document = made()
            for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
                document = mutated(document, rng)
            text = written(document, rng)
            around = rng.choice(AROUND)
            slices = sliced(around[0] + text + around[1], rng)
            found.append(Case(made.annotation, document, text, around, slices))
        return found


async def difference(case: Case) -> str | None:
    """What the verdicts beside pydantic's differ in, or `None`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return await _difference(case)


async def _difference(case: Case) -> str | None:
    schema: Schema[Any] = Schema(case.annotation, text_around=True)
    judge = MatchesSchema(schema, "fuzzed")
    complaint = None
    for piece in case.slices:
        judge = copy.copy(judge)
        verdict = await judge.stream_validate(piece, backend=None, ctx=None)
        if verdict.success == "fail":
            complaint = verdict.reason
            break
    wanted, instance = _pydantic(schema, case.text)
    if complaint is not None:
        if not wanted:
            return None
        if has_repeated_keys(case.document) and not all(
            _pydantic(schema, written(one, random.Random(0)))[0]
            for one in islice(with_one_of_each_key(case.document), 500)
        ):
            return None  # a value under the key was wrong by itself, and may have been shown
        return f"fails, and pydantic accepts: {complaint}"
    whole = "".join(case.slices)
    result = await judge.validate(None, Context().with_output(whole))
    if bool(result) != wanted:
        return f"{'passes' if result else f'fails ({result.reason})'} in the end, unlike pydantic"
    if wanted and repr(judge.instance_in(whole)) != repr(instance):
        return f"makes {judge.instance_in(whole)!r}, and pydantic {instance!r}"
    return None


def _pydantic(schema: Schema[Any], text: str) -> tuple[bool, Any]:
    try:
        return True, schema.adapter.validate_json(text)
    except ValidationError:
        return False, None
