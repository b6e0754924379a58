"""The final validation: requirements judge a whole output, streamed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from streamval.aio.tasks import side_by_side
from streamval.backends.base import Backend
from streamval.backends.secrets import without_secrets
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.requirements.base import NEVER_PASSED, Requirement, whole_result
from streamval.types.context import Context
from streamval.types.results import ValidationResult


async def validate_output(
    requirement: Requirement,
    backend: Backend | None,
    ctx: Context,
    *,
    model_options: Mapping[str, Any] | None = None,
    streamed: bool = False,
) -> ValidationResult:
    """Let a requirement judge a whole output, within its `timeout` and under its `on_error`.

    Args:
        requirement: A copy, as it may change its state.
        backend: The model that it may ask.
        ctx: The conversation, ending in the output.
        model_options: Options for that model.
        streamed: Whether it has judged all chunks without a failure.

    Raises:
        Exception: Any exception of the validator, if its `on_error` is `"raise"`.
    """
    if requirement.observed is not None:
        return whole_result(requirement.observed)
    if streamed and requirement.chunks_decide:
        return NEVER_PASSED if requirement.holds_back else ValidationResult(True)
    try:
        async with asyncio.timeout(requirement.timeout) as limit:
            result = await requirement.validate(backend, ctx, model_options=model_options)
        if not isinstance(result, ValidationResult):
            raise ValidatorError(
                f"validate of {requirement.name!r} returned {type(result).__name__}; return a "
                "ValidationResult"
            )
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            error = ValidatorTimeoutError(
                f"requirement {requirement.name!r} did not judge the whole output within "
                f"{requirement.timeout:g} seconds; raise its timeout, or set on_error='fail' or "
                "'pass'"
            )
        return _despite(error, requirement)
    return result


def _despite(error: Exception, requirement: Requirement) -> ValidationResult:
    """Return the verdict that `on_error` makes of an exception, or raise it."""
    named = without_secrets(f"{type(error).__name__}: {error}")
    match requirement.on_error if requirement.enforce else "fail":
        case "pass":
            return ValidationResult(True, reason=f"could not judge the whole output: {named}")
        case "fail":
            return ValidationResult(False, reason="could not judge the whole output", error=named)
    raise error from None


async def validate_outputs(
    requirements: Sequence[Requirement],
    backend: Backend | None,
    ctx: Context,
    *,
    model_options: Mapping[str, Any] | None = None,
) -> list[ValidationResult]:
    """Let copies of all requirements judge a whole output concurrently."""
    return await side_by_side(
        *(
            validate_output(copy(requirement), backend, ctx, model_options=model_options)
            for requirement in requirements
        )
    )
