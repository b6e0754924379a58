"""Judging a whole output: at the end of a stream, or without a stream."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any

from streamval.aio.tasks import side_by_side
from streamval.errors import ValidatorError, ValidatorTimeoutError
from streamval.requirements.base import judges_chunks_only
from streamval.types.results import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamval.backends.base import Backend
    from streamval.requirements.base import Requirement
    from streamval.types.context import Context


async def judge_whole(
    requirement: Requirement,
    backend: Backend | None,
    ctx: Context,
    *,
    model_options: Mapping[str, Any] | None = None,
    streamed: bool = False,
) -> ValidationResult:
    """Let a requirement judge a whole output, within its `timeout`, under its `on_error`.

    Args:
        requirement: Who judges: a copy, as it may keep state.
        backend: Whom it may ask.
        ctx: The conversation, ending in the output.
        model_options: For a judge that is a model.
        streamed: Whether it has judged all chunks, and failed none.

    Raises:
        Exception: What the validator raises, where its `on_error` is `"raise"`.
    """
    try:
        async with asyncio.timeout(requirement.timeout) as limit:
            if requirement.judge_whole is False and judges_chunks_only(requirement):
                result = await _as_its_chunks(requirement, backend, ctx, streamed=streamed)
            else:
                result = await requirement.validate(backend, ctx, model_options=model_options)
        if not isinstance(result, ValidationResult):
            message = (
                f"validate of {requirement.name!r} returned {type(result).__name__}; return a "
                "ValidationResult"
            )
            raise ValidatorError(message)
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            message = (
                f"requirement {requirement.name!r} did not judge the whole output within "
                f"{requirement.timeout:g} seconds; raise its timeout, or say what that means with "
                "on_error='fail' or 'pass'"
            )
            error = ValidatorTimeoutError(message)
        if requirement.on_error == "raise":
            raise error from None
        if requirement.on_error == "pass":
            reason = f"could not judge the whole output: {type(error).__name__}: {error}"
            return ValidationResult(True, reason=reason)
        error_name = f"{type(error).__name__}: {error}"
        return ValidationResult(False, reason="could not judge the whole output", error=error_name)
    return result


async def _as_its_chunks(
    requirement: Requirement, backend: Backend | None, ctx: Context, *, streamed: bool
) -> ValidationResult:
    """What the chunks said is the verdict; an output that was not streamed is one chunk."""
    output = str(ctx.last_output() or "")
    if streamed or not output.strip():
        return ValidationResult(True)
    verdict = await requirement.stream_validate(output, backend=backend, ctx=ctx)
    return ValidationResult(verdict.success != "fail", reason=verdict.reason, score=verdict.score)


async def judge_all(
    requirements: Sequence[Requirement],
    backend: Backend | None,
    ctx: Context,
    *,
    model_options: Mapping[str, Any] | None = None,
) -> list[ValidationResult]:
    """Let copies of all requirements judge a whole output, beside each other."""
    return await side_by_side(
        *(
            judge_whole(copy(requirement), backend, ctx, model_options=model_options)
            for requirement in requirements
        )
    )
