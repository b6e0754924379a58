"""`response_format` as a type: so that JSON is judged while it is written."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from json_schema_to_pydantic import create_model

from streamval.errors import RequestError, UsageError
from streamval.requirements.base import Requirement
from streamval.serve.budget import MAX_SCHEMA, NestsAtMost, check_schema, deepest_answer


def format_of(response_format: object) -> type[Any] | None:
    """Return the type that a request's `response_format` asks for.

    Args:
        response_format: As clients send it.

    Returns:
        A pydantic model for ``json_schema``, a mapping for ``json_object``, `None` for text.

    Raises:
        RequestError: If the schema is invalid, or cannot be judged.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> made = format_of({"type": "json_schema", "json_schema": {"name": "N", "schema": schema}})
        >>> made.model_validate({"n": 3}).n
        3
    """
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return dict[str, Any]
    if kind != "json_schema":
        raise RequestError(
            "response_format must be of type text, json_object or json_schema",
            param="response_format",
        )
    try:
        written = json.dumps(response_format["json_schema"]["schema"])  # type: ignore[index]
        if len(written) > MAX_SCHEMA:
            raise UsageError(f"it is longer than {MAX_SCHEMA:,} characters")
        return _model_of(written)
    except Exception as error:  # of the conversion of a client's schema
        message = f"the schema of response_format cannot be used: {error}"
        raise RequestError(message[:500], param="response_format") from None


def nesting_limit(response_format: Any) -> Requirement | None:
    """Return a limit for answers to a schema whose choices multiply, once `format_of` has accepted it."""
    if response_format["type"] != "json_schema":
        return None
    deepest = deepest_answer(response_format["json_schema"]["schema"])
    return None if deepest is None else NestsAtMost(deepest)


@lru_cache(maxsize=64)
def _model_of(schema: str) -> type[Any]:
    """Return the model of a schema, made once: clients ask for the same again and again."""
    read = json.loads(schema)
    check_schema(read)
    made: type[Any] = create_model(read)
    return made
