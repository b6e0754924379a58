"""Tests of `streamval.errors`."""

import inspect

import pytest

import streamval as sv
from streamval import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
]


@pytest.mark.parametrize("error", CLASSES)
def test_each_is_in_the_tree_and_in_the_drawing(error):
    assert issubclass(error, sv.StreamvalError)
    assert error.__name__ in errors.__doc__


def test_the_warning_is_a_users_and_in_the_drawing():
    assert issubclass(sv.errors.SharedStateWarning, UserWarning)
    assert "SharedStateWarning" in errors.__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.UsageError, ValueError),
        (errors.RunError, RuntimeError),
        (errors.StallError, TimeoutError),
        (errors.ValidatorTimeoutError, TimeoutError),
        (errors.DeltaTypeError, TypeError),
    ],
)
def test_what_python_calls_it_catches_it(error, builtin):
    assert issubclass(error, builtin)


def test_a_refused_input_says_by_what():
    refused = [sv.ValidationResult(False, reason="too short")]
    assert errors.PreconditionException("too short", refused).validation == refused
    assert errors.ContractViolationError("no", "pre").stage == "pre"
