"""Tests of `streamval.backends.default`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.sources import Spoken


@pytest.mark.parametrize("backend", [7, Spoken, {"x"}])
def test_what_is_no_backend_is_refused(backend):
    with pytest.raises(UsageError, match="backend cannot be"):
        sv.Pipeline(backend)


def test_a_function_is_wrapped_and_a_class_made():
    def answers(prompt):
        return [prompt]

    with pytest.raises(UsageError, match=r"wrap the function: IterableBackend\(answers\)"):
        sv.Pipeline(answers)
    with pytest.raises(UsageError, match="give an instance: ScriptedBackend"):
        sv.Pipeline(sv.ScriptedBackend)
