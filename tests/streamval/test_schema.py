"""A type as a schema: what fails, where, and how early."""

import copy
import json
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

import streamval as sv
from streamval.errors import UsageError
from streamval.schema import Schema, SchemaWatch
from tests.support.sources import Spoken


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=10)
    age: int = Field(ge=0, le=150)
    mood: Literal["good", "bad"] = "good"
    colour: Colour | None = None
    tags: list[str] = Field(default=[], max_length=2)
    friend: Optional["Person"] = None
    born: int = 0
    died: int = 0

    @model_validator(mode="after")
    def in_order(self):
        if self.died and self.died < self.born:
            raise ValueError("died before birth")
        return self


class Team(BaseModel):
    people: list[Person]
    scores: dict[str, Annotated[float, Field(gt=0)]] = {}
    pair: tuple[int, str] | None = None


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
        ("[", "[", "no object"),
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
    if complaint in (None, "no object"):
        # An array is skipped as text around the object that is wanted.
        assert found is None or "tuple" in found or "pair" in found
        return
    assert complaint in found
    assert was_read == read


@pytest.mark.parametrize(
    "text",
    [
        f'{{"people": [{ANN}], "scores": {{"a": 0.5}}, "pair": [1, "x"], "unknown": [{{}}]}}',
        'Sure! Here [it] is:\n```json\n{"people": []}\n```\nGood luck {x}!',
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

    with pytest.raises(UsageError, match="no type that pydantic can check"):
        sv.matches(Unknown)


# As a requirement


@pytest.mark.parametrize("chunking", [None, "word", "sentence", "json", "line"])
async def test_it_takes_chunks_of_any_kind(chunking):
    text = f'{{"people": [{ANN}, {{"name": "Bob Lee. He is. 30", "age": 200}}, {ANN}, {ANN}]}}'
    backend = Spoken(*(text[n : n + 4] for n in range(0, len(text), 4)))
    result = await sv.Pipeline(backend, requirements=[sv.matches(Team)], chunking=chunking).run("x")
    assert not result.success
    assert "$.people[1].name: " in result.failures[0].reason
    good = text.replace("Bob Lee. He is. 30", "Bob  Lee.").replace("200", "20")
    result = await sv.Pipeline(
        sv.ScriptedBackend(good), requirements=[sv.matches(Team)], chunking=chunking
    ).run("x")
    assert result.success, result.failures


async def test_holding_delivers_nothing_before_all_is_right():
    bad = '{"people": [{"name": "Ann", "age": 31}, {"age": "x"}]}'
    requirement = sv.matches(Team, hold=True)
    result = await sv.Pipeline(
        sv.ScriptedBackend(bad), requirements=[requirement], chunking=None
    ).run("x")
    assert result.text == ""


async def test_a_repair_goes_on_inside_the_json():
    first = ['{"people": [', '{"name": "Ann", "age": 31}, ', '{"name": "Bob", "age": ', '"old"']
    backend = Spoken(first, ["7", "}", "]}"], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[sv.matches(Team)], chunking=None, retry=sv.Repair()
    )
    result = await pipeline.run("x")
    assert result.success
    assert Schema(Team).parse(result.text).people[1].age == 7
    assert backend.requests[1].prefix == "".join(first[:3])


async def test_valid_json():
    for text, success in (('{"a": [1, 2]}', True), ('{"a": [1 2]}', False), ("none", False)):
        result = await sv.Pipeline(
            sv.ScriptedBackend(text), requirements=[sv.valid_json()], chunking=None
        ).run("x")
        assert result.success is success
    assert await sv.valid_json().validate(None, sv.Context().with_output("42"))


async def test_json_that_breaks_off_is_found_at_the_end():
    result = await sv.Pipeline(
        sv.ScriptedBackend('{"people": ['), requirements=[sv.matches(Team)], chunking=None
    ).run("x")
    assert "EOF" in result.failures[0].reason
