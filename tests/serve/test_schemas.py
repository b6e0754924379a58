"""Tests of `streamval.serve.schemas`."""

import json

import openai
import pytest

from streamval.errors import RequestError
from streamval.serve.schemas import format_of
from tests.support.gateway import gateway
from tests.support.upstream import upstream

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "City", "schema": CITY}}


def pieces(text):
    return [text[at : at + 4] for at in range(0, len(text), 4)]


async def test_json_of_a_schema_is_judged_while_it_is_written():
    def script(body, before):
        assert body["response_format"] == FORMAT
        wrong = pieces('{"people": "many", "name": "Rome"')
        return [*wrong, "STALL"] if not before else pieces('{"people": 3, "name": "Rome"}')

    async with upstream(script) as behind, gateway(behind.url) as serving:
        client = openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x", max_retries=0)
        async with client:
            whole = await client.chat.completions.create(
                model="whole",
                messages=[{"role": "user", "content": "A city."}],
                response_format=FORMAT,
            )
    assert json.loads(whole.choices[0].message.content) == {"people": 3, "name": "Rome"}
    assert behind.requests[0].gone.is_set()  # cut at the first wrong value


def test_what_is_no_format_is_refused():
    assert format_of({"type": "text"}) is None
    assert format_of({"type": "json_object"}).complaint("[]") is not None
    assert format_of({"type": "json_object"}).complaint('{"a": [1]}') is None
    for wrong in (
        7,
        {},
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"schema": 7}},
    ):
        with pytest.raises(RequestError):
            format_of(wrong)
