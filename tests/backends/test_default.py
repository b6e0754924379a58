"""Tests of `streamval.backends.default`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from tests.support.sources import Spoken


@pytest.mark.parametrize("backend", [7, Spoken, ["x"]])
def test_what_is_no_backend_is_refused(backend):
    with pytest.raises(UsageError, match="backend cannot be"):
        sv.Pipeline(backend)
