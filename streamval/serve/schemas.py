"""`response_format` as a JSON Schema: so that JSON is judged while it is written."""

from __future__ import annotations

import json
from functools import lru_cache

from streamval.errors import RequestError, UsageError
from streamval.structured.json_schema.schema import JSONSchema


def format_of(response_format: object, *, assert_formats: bool = True) -> JSONSchema | None:
    """Return the schema that a request's `response_format` asks for.

    Args:
        response_format: As clients send it.
        assert_formats: Whether a schema's `format` is an assertion.

    Returns:
        The schema of ``json_schema``; for ``json_object``, that of any object; `None` for text.

    Raises:
        RequestError: If it is none, or the schema cannot be judged.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> wanted = format_of({"type": "json_schema", "json_schema": {"name": "N", "schema": schema}})
        >>> wanted.complaint('{"n": "3"}')
        '$.n: "3" is not of type integer'
    """
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        written = '{"type": "object"}'
    elif kind == "json_schema":
        try:
            written = json.dumps(response_format["json_schema"]["schema"])  # type: ignore[index]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise RequestError(
                "response_format needs json_schema with a schema", param="response_format"
            ) from None
    else:
        raise RequestError(
            "response_format must be of type text, json_object or json_schema",
            param="response_format",
        )
    schema = json_schema(written, assert_formats)
    if isinstance(schema, str):
        message = f"the schema of response_format cannot be used: {schema}"
        raise RequestError(message[:500], param="response_format")
    return schema


SMALL_SCHEMA = 16 * 1024
"""Characters of a schema up to which many are kept: one of 100,000 parts takes 170 MB."""


def json_schema(written: str, assert_formats: bool) -> JSONSchema | str:
    """Return a schema, or why it cannot be used; made once, as clients send the same again and again."""
    return (_small if len(written) <= SMALL_SCHEMA else _large)(written, assert_formats)


def _made(written: str, assert_formats: bool) -> JSONSchema | str:
    try:
        return JSONSchema(json.loads(written), assert_formats=assert_formats)
    except (UsageError, ValueError, RecursionError) as error:
        return str(error) or "it is nested too deeply"


_small, _large = lru_cache(maxsize=64)(_made), lru_cache(maxsize=4)(_made)
