"""Tests of `streamval.batch.events`."""

import pytest

from streamval.batch import BatchProgress, BatchResult, Counts
from streamval.batch.rows import row_of
from streamval.batch.table import Kept

ROW = row_of(1, "row", {"prompt": "Hi"})


def test_each_result_is_counted_once():
    progress = BatchProgress(total=3, earlier=2)
    for seconds, outcome in enumerate(("valid", "failed", "error"), 1):
        progress = progress.with_one_more(Kept(ROW, outcome, 5, b"{}"), seconds)
    assert progress == BatchProgress(3, 2, valid=1, failed=1, errors=1, tokens=15, seconds=3)
    assert progress.done == 3


@pytest.mark.parametrize(
    ("ended", "counts", "success"),
    [
        ("done", Counts(rows=2, valid=2), True),
        ("done", Counts(rows=2, valid=1, failed=1), False),
        ("done", Counts(rows=2, valid=1), False),
        ("limit", Counts(rows=2, valid=2), False),
    ],
)
def test_a_job_succeeds_where_every_row_has_a_valid_result(ended, counts, success):
    assert BatchResult(ended, BatchProgress(), counts).success is success
