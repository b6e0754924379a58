"""Tests of `streamval.validation.options`."""

from dataclasses import fields

import pytest

from streamval.errors import UsageError
from streamval.validation.options import MAX_PENDING_CHUNKS, FanOptions, JudgingOptions


def test_the_keyword_arguments_are_the_fields_but_for_the_requirements():
    assert {"requirements", "only", *JudgingOptions.__annotations__} == {
        f.name for f in fields(FanOptions)
    }


def test_nothing_but_the_requirements_need_be_given():
    options = FanOptions(())
    assert (options.max_pending_chunks, options.index, options.start) == (MAX_PENDING_CHUNKS, 0, 0)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(UsageError, match="max_pending_chunks must be at least 1, not 0"):
        FanOptions((), max_pending_chunks=0)
