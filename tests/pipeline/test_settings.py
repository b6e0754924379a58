"""Tests of `streamval.pipeline.settings`."""

from dataclasses import FrozenInstanceError

import pytest
from pydantic import BaseModel

import streamval as sv


class Model(BaseModel):
    n: int


def settings(**options):
    return sv.Pipeline(sv.ScriptedBackend("x"), **options)._settings


def test_they_are_frozen_and_do_not_follow_what_was_given():
    options, judges = {"seed": 1}, [sv.word_limit(at_most=3)]
    checked = settings(options=options, requirements=judges)
    options["seed"] = 2
    judges.clear()
    assert dict(checked.options) == {"seed": 1}
    assert len(checked.requirements) == 1
    with pytest.raises(FrozenInstanceError):
        checked.retry = None
    with pytest.raises(TypeError):
        checked.options["seed"] = 3


def test_a_format_is_one_more_requirement_the_last_one():
    checked = settings(format=Model, requirements=[sv.word_limit(at_most=3)])
    assert checked.schema.type is Model
    assert checked.requirements[-1].schema is checked.schema
    assert settings().schema is None
