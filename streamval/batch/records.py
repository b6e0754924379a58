"""Makes the stored result of a row from its run, or from the exception that ended it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from streamval.backends.secrets import without_secrets
from streamval.batch.rows import InputRow, carried_in
from streamval.batch.table import Kept, Outcome
from streamval.types.results import StreamResult, Usage

SHOWN = 2000
"""Characters of an exception's message that are kept."""


MAX_TOKENS = 2**40
"""The most tokens of a row. A backend that reports more is wrong, and SQLite could not add them up."""


def token_count(usage: Usage) -> int:
    """Return the tokens that were generated, as far as a backend's report can be believed."""
    count = usage.completion_tokens
    return min(max(count, 0), MAX_TOKENS) if type(count) is int else 0


def kept(row: InputRow, answered: StreamResult[Any] | Exception, spent: int = 0) -> Kept:
    """Return the record that is kept of a row.

    Args:
        row: The row.
        answered: How its run went, or what ended it.
        spent: The tokens that were generated for it, those of runs that broke off included.

    Returns:
        Its result, with the row's own columns.
    """
    record: dict[str, Any] = {"id": row.id, **row.carried}
    outcome: Outcome
    if isinstance(answered, Exception):
        outcome = "error"
        record |= _of_error(answered)
    else:
        outcome = "valid" if answered.success else "failed"
        usage = answered.usage
        record |= {
            "success": answered.success,
            "text": answered.text,
            "parsed": answered.parsed,
            "failures": [
                {"requirement": failure.requirement, "reason": failure.reason}
                for failure in answered.failures
            ],
            "attempts": len(answered.attempts),
            "usage": {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "discarded_tokens": usage.discarded_tokens,
                "reused_tokens": usage.reused_tokens,
            },
            "finish_reason": answered.finish_reason,
            "error": None,
        }
    try:
        return Kept(row, outcome, spent, as_json(record))
    except Exception as error:  # of a value of the user's own type in `parsed`
        plain = {"id": row.id, **row.carried, **_of_error(error)}
        return Kept(row, "error", spent, as_json(plain))


def refused(given: Mapping[str, Any], error: Exception) -> bytes:
    """Return the result of an invalid row, as JSON."""
    return as_json({"id": given.get("id"), **carried_in(given), **_of_error(error)})


def _of_error(error: Exception) -> dict[str, Any]:
    try:
        said = without_secrets(str(error))[:SHOWN]
    except Exception:  # of a user's own exception
        said = "it cannot be shown"
    return {
        "success": False,
        "text": None,
        "parsed": None,
        "failures": [],
        "attempts": 0,
        "usage": None,
        "finish_reason": None,
        "error": f"{type(error).__name__}: {said}",
    }


def as_json(record: dict[str, Any]) -> bytes:
    r"""Return a record as a line of JSON.

    Half a surrogate pair, which no file can hold, becomes ``?``; what is not a JSON number becomes a string.

    Example:
        >>> as_json({"text": "a\nb", "score": float("nan"), "half": "\ud83d"})
        b'{"text":"a\\nb","score":"NaN","half":"?"}'
    """
    try:
        return to_json(record, bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True)
    except (ValueError, UnicodeEncodeError):
        return to_json(
            _mended(record), bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True
        )


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_mended(name): _mended(each) for name, each in value.items()}
        case list() | tuple():
            return [_mended(each) for each in value]
    return value
