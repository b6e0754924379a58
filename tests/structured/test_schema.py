"""Tests of `streamval.structured.schema`."""

import copy
import enum
import json
import random
from typing import Annotated, Any, Counter, Generic, NamedTuple, Optional, TypeVar, Union  # noqa: UP035

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    JsonValue,
    OnErrorOmit,
    RootModel,
    SkipValidation,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticUseDefault
from typing_extensions import TypeAliasType, TypedDict

import streamval as sv
from streamval.errors import UsageError
from streamval.structured.schema import Schema, SchemaWatch
from tests.fuzz.typed import cases, difference
from tests.support.people import Person, Team
from tests.support.sources import Spoken

T = TypeVar("T")


def run(wanted, *texts, size=4, prefix=False, **options):
    backend = Spoken(
        *([text[n : n + size] for n in range(0, len(text), size)] for text in texts),
        supports_prefix=prefix,
    )
    return sv.Pipeline(backend, format=wanted, **options).run("x"), backend


class Generic2(TypedDict, Generic[T]):
    a: T
    b: str


class Point(NamedTuple):
    a: int
    b: str


class Split(RootModel[list[str]]):
    @field_validator("root", mode="before")
    @classmethod
    def split(cls, value):
        return value.split(",") if isinstance(value, str) else value


class Lenient(RootModel[list[str]]):
    model_config = {"coerce_numbers_to_str": True}


class Own(BaseModel):
    tags: list[str]

    def __init__(self, **data: Any) -> None:
        if isinstance(data.get("tags"), str):
            data["tags"] = data["tags"].split(",")
        super().__init__(**data)


class Stripped(BaseModel):
    name: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(max_length=3)
    other: Annotated[str, AfterValidator(str.strip), Field(max_length=9)] = ""


class LooksAround(BaseModel):
    a: int
    b: Annotated[int, AfterValidator(lambda v, info: v if v > info.data["a"] else 0)]


class Paint(str, enum.Enum):  # noqa: UP042
    RED = "red"

    @classmethod
    def _missing_(cls, value):
        return cls.RED if value == "rot" else None


class Field_(BaseModel):
    value: Any
    split: Split | None = None
    skipped: Annotated[list[int], SkipValidation] = []


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (list[str], '["' + "word " * 20 + '"]'),
        (list[list[str]], '[["' + "word " * 20 + '"]]'),
        (tuple[str, int], '["' + "word " * 20 + '", 7]'),
        (dict[str, JsonValue], '{"data": {"a": [1]}}'),
        (Generic2[int], '{"a": 1, "b": "x"}'),
        (Counter[str], '{"a": 1}'),
        (list[Point], '[[1, "x"], {"a": 1, "b": "x"}]'),
        (Field_, '{"value": 1, "split": "a,b", "skipped": "no"}'),
        (list[Lenient], "[[1, 2]]"),
        (list[Own], '[{"tags": "a,b"}]'),
        (Stripped, '{"name": "  abc  ", "other": "       x         "}'),
        (LooksAround, '{"a": 1, "b": 2}'),
        (list[Json[list[int]]], '["[1, 2]"]'),
        (dict[str, Annotated[set[int], Field(max_length=2)]], '{"a": [1, 1, 1, 2]}'),
        (list[Paint], '["rot"]'),
        (str, '"see [1]"'),
    ],
)
async def test_what_pydantic_takes_is_taken(wanted, text, size):
    assert Schema(wanted).complaint(text) is None
    going, _ = run(wanted, text, size=size)
    result = await going
    assert result.success, result.failures


@pytest.mark.parametrize(
    ("wanted", "text", "success"),
    [
        (list, "[" * 250 + "]" * 250, None),
        (list, r'[["\ud800"], 1]', False),
        (list[int], "[" + "1" * 5000 + "]", False),
        (list[float], "[1, NaN]", False),
    ],
)
async def test_odd_json_raises_nothing(wanted, text, success):
    going, _ = run(wanted, text)
    result = await going
    assert success is None or result.success is success


def read_until_fail(wanted, text):
    """(complaint, how much of the text had been read), a character at a time."""
    watch = SchemaWatch(Schema(wanted))
    for at, char in enumerate(text, 1):
        complaint = watch.feed(char)
        if complaint is not None:
            return complaint, text[:at]
    return None, text


ANN = '{"name": "Ann", "age": 31}'


@pytest.mark.parametrize(
    ("text", "read", "complaint"),
    [
        # wrong types
        ('{"people": {', '{"people": {', "$.people: it should be list[Person], not an object"),
        ("[", "[", "not an array"),
        ('{"people": "no', '{"people": "', "$.people: it should not be a string"),
        ('{"people": [3, 4', '{"people": [3,', "$.people[0]: Input should be an object, not 3"),
        ('{"people": [[', '{"people": [[', "$.people[0]: it should be Person, not an array"),
        ('{"people": [{"age": "old", ', '{"people": [{"age": "old"', "valid integer"),
        ('{"people": [{"age": {"x', '{"people": [{"age": {', "$.people[0].age: it should be int"),
        (
            '{"people": null, "',
            '{"people": null',
            "$.people: Input should be a valid array, not null",
        ),
        # constraints
        ('{"people": [{"age": 999, "x', '{"people": [{"age": 999,', "less than or equal to 150"),
        ('{"people": [{"name": "Bartholomew"', '{"people": [{"name": "Bartholomew', "at most 10"),
        (
            '{"scores": {"a": 1, "b": -1}',
            '{"scores": {"a": 1, "b": -1}',
            "$.scores.b: Input should",
        ),
        # fields that are not allowed, and that are missing
        ('{"people": [{"hair": ', '{"people": [{"hair"', "$.people[0].hair: there is no field"),
        (
            '{"people": [{"name": "Ann"}, ',
            '{"people": [{"name": "Ann"}',
            "$.people[0].age: Field req",
        ),
        ('{"scores": {}} and', '{"scores": {}}', "$.people: Field required"),
        # words that cannot be meant any more
        (
            '{"people": [{"mood": "bo',
            '{"people": [{"mood": "bo',
            "one of 'good', 'bad', not \"bo\"",
        ),
        ('{"people": [{"colour": "rev', '{"people": [{"colour": "rev', "one of 'red', 'green'"),
        # too many
        (
            '{"people": [{"tags": ["a", "b", "c"',
            '{"people": [{"tags": ["a", "b", "',
            "at most 2 items",
        ),
        ('{"pair": [1, "a", 2', '{"pair": [1, "a", 2]', None),
        # what does not fit together
        (
            '{"people": [{"name": "A", "age": 1, "born": 1950, "died": 1900}, ',
            '{"people": [{"name": "A", "age": 1, "born": 1950, "died": 1900}',
            "died before birth",
        ),
        # deep down
        (
            f'{{"people": [{ANN}, {{"friend": {{"age": -1, ',
            f'{{"people": [{ANN}, {{"friend": {{"age": -1,',
            "$.people[1].friend.age: Input should be greater than or equal to 0, not -1",
        ),
        # no JSON
        ('{"people": [,', '{"people": [,', "no valid JSON at $.people[0]"),
        ('{"people": [{name', '{"people": [{na', "no valid JSON at $.people[0]"),
        ('{"people" [', '{"people" [', "no valid JSON at $.people"),
    ],
)
def test_it_fails_at_the_first_value_that_cannot_be(text, read, complaint):
    found, was_read = read_until_fail(Team, text)
    if complaint is None:
        assert found is None or "tuple" in found or "pair" in found
        return
    assert complaint in found
    assert was_read == read


@pytest.mark.parametrize(
    "text",
    [
        f'{{"people": [{ANN}], "scores": {{"a": 0.5}}, "pair": [1, "x"], "unknown": [{{}}]}}',
        '{"people": [{"name": "Jos\\u00e9", "age": "7", "mood": "ba\\u0064", "colour": null}]}',
    ],
)
def test_what_is_right_passes(text):
    assert read_until_fail(Team, text) == (None, text)
    assert isinstance(Schema(Team).parse(text), Team)
    assert Schema(Team).complaint(text) is None


class Doubling(BaseModel):
    """Makes something else of its JSON before it judges it."""

    n: int

    @model_validator(mode="before")
    @classmethod
    def from_list(cls, data):
        return {"n": data[0]} if isinstance(data, list) else data


class Cleaned(BaseModel):
    n: int
    m: Annotated[int, BeforeValidator(len)] = 0

    @field_validator("n", mode="before")
    @classmethod
    def clean(cls, value):
        return value.strip(" €") if isinstance(value, str) else value


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    the_name: str = Field(alias="theName")
    other: int = Field(default=0, validation_alias=AliasChoices("o", "other"))


class Loose(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    name: str
    child: Optional["Loose"] = None


class Rooted(RootModel[list[int]]):
    pass


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (list[Doubling], [[1], {"n": 2}]),
        (Cleaned, {"n": " 12 €", "m": [1, 2]}),
        (Named, {"theName": "x", "o": 1}),
        (Loose, {"name": 3, "child": {"name": 4}}),
        (Rooted, [1, 2]),
        (list[Rooted], [[1], [2]]),
        (dict[str, list[int]], {"a": [1], "b c": []}),
        (Union[list[int], dict[str, int]], {"a": 1}),  # noqa: UP007  both spellings
        (list[Person | Cleaned], [{"n": 1}, {"name": "A", "age": 1}]),
        (list[tuple[int, ...]], [[1, 2, 3]]),
        (Any, {"x": [None, {"y": True}]}),
        (dict, {"x": [1]}),
        (list, [{}]),
        (Optional[Person], {"name": "A", "age": 1}),  # noqa: UP045
        (list[bytes], ["YQ=="]),
    ],
)
def test_what_pydantic_takes_is_never_refused(wanted, value):
    text = json.dumps(value)
    assert read_until_fail(wanted, text)[0] is None
    assert Schema(wanted).complaint(text) is None


def test_a_union_fails_when_no_member_is_left():
    wanted = list[Person | dict[str, int]]
    assert read_until_fail(wanted, '[{"x": 1}, {"y": 2}]')[0] is None
    complaint, read = read_until_fail(wanted, '[{"x": "one", "y')
    assert "$[0].x: Input should be a valid integer" in complaint
    assert read.endswith('"one"')


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 200), st.text('ab{"\\é', max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "age", "tags", "people", "friend"]), inner, max_size=4
        ),
    ),
    max_leaves=8,
)


@given(value=values, ascii=st.booleans())
@settings(max_examples=300, deadline=None)
@pytest.mark.parametrize("wanted", [Team, Person, Cleaned, list[Person], dict[str, Person], Any])
def test_it_never_refuses_what_pydantic_takes_and_finds_in_the_end_what_it_does_not(
    wanted, value, ascii
):
    text = json.dumps(value, ensure_ascii=ascii)
    if not text.startswith(("{", "[")):
        return
    schema = Schema(wanted)
    if {"object": "[", "array": "{"}.get(schema.root) == text[0]:
        return  # text around, not the JSON
    watch = SchemaWatch(schema)
    complaints = []
    for char in text:
        watch = copy.copy(watch)
        complaints.append(watch.feed(char))
        if complaints[-1]:
            break
    valid = schema.complaint(text) is None
    assert valid is (complaints[-1] is None)
    assert valid is watch.complete


def test_a_copy_goes_on_by_itself():
    watch = SchemaWatch(Schema(list[int]))
    watch.feed("[1, ")
    twin = copy.copy(watch)
    assert watch.feed("2]") is None
    assert '"x"' in twin.feed('"x"]')
    assert watch.complete
    assert not twin.complete


def test_a_type_that_pydantic_does_not_know():
    class Unknown:
        pass

    with pytest.raises(UsageError, match="pydantic cannot check the type"):
        sv.matches(Unknown)


class Name(BaseModel):
    name: str = Field(alias="theName")


class ByName(Name):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)


class ByBoth(Name):
    model_config = ConfigDict(populate_by_name=True)


class InRoot(RootModel[dict[str, str]]):
    """What the model around it says of strings is not said of these."""


class AroundRoot(BaseModel):
    model_config = ConfigDict(str_max_length=4)
    inner: InRoot
    outer: str = ""


def needs_on(value, info):
    if not info.data.get("on"):
        raise ValueError("off")
    return value


OnlyOn = TypeAliasType("OnlyOn", Annotated[int, AfterValidator(needs_on)])


class Needing(BaseModel):
    on: bool
    n: Annotated[int, AfterValidator(needs_on)] | None = None
    items: list[OnlyOn] = []


def default_for_nothing(value):
    if not value:
        raise PydanticUseDefault
    return value


class Defaulting(BaseModel):
    n: Annotated[int, BeforeValidator(default_for_nothing)] = 3
    items: list[Annotated[int, AfterValidator(default_for_nothing)]] = [1]


class Wide(enum.Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value):
        return cls.A


class Widely(BaseModel):
    e: Wide
    es: list[Wide] = []


class Omitting(BaseModel):
    tags: Annotated[list[OnErrorOmit[int]], Field(max_length=1)]


class Pair(enum.Enum):
    ONE = [1, 2]
    TWO = [3]


@pytest.mark.parametrize(
    ("wanted", "text", "accepted"),
    [
        (ByName, '{"name": "Ann", "theName": 5}', True),
        (ByBoth, '{"name": 5, "theName": "Ann"}', True),
        (ByBoth, '{"theName": "Ann", "name": 5}', True),
        (ByBoth, '{"name": "Ann"}', True),
        (ByBoth, '{"name": 5}', False),
        (dict[str, int], '{"a": 1, "a": 2}', True),
        (AroundRoot, '{"inner": {"a": "more than four"}}', True),
        (AroundRoot, '{"inner": {"a": "x"}, "outer": "more than four"}', False),
        (Needing, '{"on": true, "n": 1, "items": [1]}', True),
        (Needing, '{"on": false, "n": 1}', False),
        (Defaulting, '{"n": null, "items": [0]}', True),
        (Widely, '{"e": [1], "es": [{"a": 1}, "x"]}', True),
        (Omitting, '{"tags": ["x", 1]}', True),
        (Omitting, '{"tags": [2, 1]}', False),
        (Pair, "[1, 2]", True),
        (list[Pair], "[[1, 2], [3]]", True),
        (list[Pair], "[[1, 3]]", False),
        (str | list[int], '"see [1]"', True),
        (str | list[int], '```json\n"see [1]"\n```', True),
        (Any, '"{"', True),
        (int, "```\n6\n```", True),
        (Person, '[{"name": "A", "age": 1}]', False),
        (Person, '```json\n[{"name": "A", "age": 1}]\n```', False),
        (list[int], '{"a": [1]}', False),
        (list[int], "Sure: [1]", True),
        (list[int], "In {braces}: [1]", True),
        (Person, 'As in [1]: {"name": "A", "age": 1}', True),
        (Person, '[Note] {"name": "A", "age": 1}', True),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_the_json_is_what_the_text_begins_with(wanted, text, accepted, size):
    going, _ = run(sv.matches(wanted, text_around=True), text, size=size)
    assert (await going).success is accepted
    assert (Schema(wanted, text_around=True).complaint(text) is None) is accepted


async def test_an_object_where_a_list_is_due_fails_at_its_bracket():
    going, backend = run(list[int], '{"a": [1], "b": [2], "c": 3}', size=1)
    result = await going
    assert "it should be list[int], not an object" in result.failures[0].reason
    assert backend.said < 8


@pytest.mark.parametrize("batch", range(8))
@pytest.mark.slow
async def test_fuzzed_types_and_documents_are_judged_as_pydantic_judges_them(batch):
    judged = 0
    for seed in range(batch * 270, (batch + 1) * 270):
        for case in cases(random.Random(seed)):
            assert await difference(case) is None, f"seed {seed}: {case}"
            judged += 1
    assert judged > 2500


class Counted(BaseModel):
    n: int

    @model_validator(mode="before")
    @classmethod
    def keep(cls, value):
        return value


class ReplacedByAValidator(BaseModel):
    """The validator of the field replaces those of its type."""

    item: Counted

    @field_validator("item", mode="plain")
    @classmethod
    def anything(cls, value):
        return value


async def test_a_plain_validator_replaces_those_of_the_type():
    backend = sv.ScriptedBackend('{"item": "abc"}', token_size=2)
    result = await sv.Pipeline(backend, format=ReplacedByAValidator).run("x")
    assert result.success, result.failures


async def test_a_type_that_refers_to_itself_by_a_late_name():
    backend = sv.ScriptedBackend('{"v": 1, "next": {"v": 2, "next": null}}', token_size=2)
    result = await sv.Pipeline(backend, format=Late[int]).run("x")
    assert result.success, result.failures


T_late = TypeVar("T_late")


class Late(BaseModel, Generic[T_late]):
    v: T_late
    next: "Late[T_late] | None" = None
