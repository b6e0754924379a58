"""Tests of `streamval.structured.allowed`."""

from streamval.structured.schema import Schema, SchemaWatch


async def test_one_judge_for_all_values_of_a_mapping():
    schema = Schema(dict[str, int])
    watch = SchemaWatch(schema)
    text = "{" + ", ".join(f'"key {n}": {n}' for n in range(300)) + "}"
    assert watch.feed(text) is None
    (alternative,) = schema.place._alternatives
    assert alternative._children == {}
    assert watch.complete
