"""`response_format` as a JSON Schema: so that JSON is judged while it is written."""

from __future__ import annotations

import json
from functools import lru_cache

from streamval.errors import RequestError, UsageError
from streamval.structured.json_schema import JSONSchema


def format_of(response_format: object) -> JSONSchema | None:
    """Return the schema that a request's `response_format` asks for.

    Args:
        response_format: As clients send it.

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
        return json_schema('{"type": "object"}')
    if kind != "json_schema":
        raise RequestError(
            "response_format must be of type text, json_object or json_schema",
            param="response_format",
        )
    try:
        written = json.dumps(response_format["json_schema"]["schema"])  # type: ignore[index]
        return json_schema(written)
    except (UsageError, ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"the schema of response_format cannot be used: {error}"
        raise RequestError(message[:500], param="response_format") from None


@lru_cache(maxsize=256)
def json_schema(written: str) -> JSONSchema:
    """Return a schema, made once: clients send the same again and again.

    Raises:
        UsageError: If it cannot be judged.
    """
    return JSONSchema(json.loads(written), assert_formats=True)
