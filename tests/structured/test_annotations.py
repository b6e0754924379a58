"""Tests of `streamval.structured.annotations`."""

from typing import Annotated, NewType

import pytest
from annotated_types import Ge
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

from streamval.structured.annotations import (
    has_validators,
    is_opaque,
    keys_of,
    looks_around,
    members,
)

Age = NewType("Age", int)


class Plain(BaseModel):
    name: str = Field(alias="Name")


class Both(Plain):
    model_config = ConfigDict(populate_by_name=True)


class Rooted(RootModel[list[int]]):
    pass


class Reshaped(BaseModel):
    n: int

    @model_validator(mode="before")
    @classmethod
    def unpack(cls, value):
        return {"n": value}


class Judged(BaseModel):
    n: int

    @model_validator(mode="after")
    def look(self):
        return self


class Choosing(BaseModel):
    n: int = Field(validation_alias=AliasChoices("n", "number"))


class Cleaned(BaseModel):
    n: int
    m: int

    @field_validator("n", mode="before")
    @classmethod
    def clean(cls, value):
        return value


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        (int, [(int, ())]),
        (int | str, [(int, ()), (str, ())]),
        (int | str | None, [(int, ()), (str, ()), (type(None), ())]),
        (Annotated[int | str, Ge(0)], [(int, (Ge(0),)), (str, (Ge(0),))]),
        (Age, [(int, ())]),
        (Rooted, [(list[int], ())]),
    ],
)
def test_members_of_a_union_with_the_constraints_on_each(annotation, found):
    assert [member[:2] for member in members(annotation, (), {})] == found


@pytest.mark.parametrize(
    ("model", "opaque"), [(Plain, False), (Judged, False), (Reshaped, True), (Choosing, True)]
)
def test_a_model_that_may_make_something_else_of_its_json_is_opaque(model, opaque):
    assert is_opaque(model) is opaque


def test_a_field_comes_under_its_alias_or_also_its_name():
    field = Plain.model_fields["name"]
    assert keys_of("name", field, Plain.model_config) == {"Name"}
    assert keys_of("name", field, Both.model_config) == {"Name", "name"}


def test_validators_that_come_before_the_judgement_are_seen():
    assert has_validators(Cleaned, "n")
    assert not has_validators(Cleaned, "m")


def test_a_validator_that_asks_for_the_fields_beside_it_is_seen():
    assert looks_around(AfterValidator(lambda value, info: value))
    assert not looks_around(AfterValidator(lambda value: value))
    assert not looks_around(BeforeValidator(lambda value: value))
