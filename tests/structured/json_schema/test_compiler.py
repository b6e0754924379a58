"""Tests of `streamval.structured.json_schema.compiler`; what it makes of schemas is tried in `test_judge.py`."""

import pytest
from referencing.exceptions import Unresolvable

from streamval.errors import UsageError
from streamval.structured.json_schema.compiler import NEWEST, Compiler, draft_of, meta


def test_no_other_document_is_fetched():
    for schema in (
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$dynamicRef": "http://127.0.0.1:1/x"},
    ):
        with pytest.raises(Unresolvable):
            Compiler(schema)
    with pytest.raises(UsageError, match="names the dialect"):
        draft_of({"$schema": "http://127.0.0.1:1/dialect"})


def test_references_alone_are_what_they_refer_to():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}}}
    root = Compiler(schema).root
    assert root.same[0].types == {"null"}  # the root has a sibling of its reference
    assert root.same[0].is_leaf
    circle = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert Compiler({**circle, "allOf": [{"$ref": "#/$defs/a"}]}).root.same[0].types is None


def test_a_schema_is_judged_by_the_schema_of_its_draft():
    assert meta(NEWEST).is_valid({"pattern": "[^]"})
    assert not meta(NEWEST).is_valid({"type": "strin"})
