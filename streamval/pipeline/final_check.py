"""The final check of an attempt: rejects refusals, then judges the whole output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamval.aio.tasks import side_by_side
from streamval.backends.base import Backend
from streamval.requirements.base import Requirement
from streamval.requirements.final import validate_output
from streamval.types.context import Context
from streamval.types.results import Failure, PartialValidationResult, ValidationResult
from streamval.types.text import mended
from streamval.types.thunk import GenerationMetadata

REFUSED = {
    "content_filter": "the provider's content filter cut it off",
    "refusal": "the model refused",
}
"""Finish reasons of an answer that was refused, or cut off by the provider."""


class FinalCheck(NamedTuple):
    """The verdict on a whole output.

    Attributes:
        failures: The requirements that failed, and why.
        validations: The result of each requirement; `None` for a refusal, which is not judged.
    """

    failures: tuple[Failure, ...]
    validations: tuple[ValidationResult, ...] | None


async def final_check(
    requirements: Sequence[Requirement], backend: Backend, ctx: Context, known: GenerationMetadata
) -> FinalCheck:
    """Judge the output at the end of `ctx` by all requirements concurrently.

    Args:
        requirements: The clones that have judged its chunks without a failure.
        backend: The model that they may ask.
        ctx: The conversation, ending in the output.
        known: The metadata of the generation.

    Raises:
        BaseException: Any exception of a validator.
    """
    if refusal := _refusal(known):
        return FinalCheck((refusal,), None)
    results = await side_by_side(
        *(validate_output(one, backend, ctx, streamed=True) for one in requirements)
    )
    return FinalCheck(failures_of(requirements, results), tuple(results))


def failures_of(
    requirements: Sequence[Requirement],
    results: Sequence[PartialValidationResult | ValidationResult | None],
    chunk_index: int | None = None,
) -> tuple[Failure, ...]:
    """Return a `Failure` for each requirement that failed.

    Args:
        requirements: In the order of their lanes.
        results: The result of each lane, for a chunk or the output; `None` for a lane that was cut off.
        chunk_index: The chunk; `None` for the whole output.
    """
    return tuple(
        Failure(requirement.name, _why(result), chunk_index, lane, requirement.check_only)
        for lane, (requirement, result) in enumerate(zip(requirements, results, strict=True))
        if result is not None and _has_failed(result)
    )


def _has_failed(result: PartialValidationResult | ValidationResult) -> bool:
    if isinstance(result, PartialValidationResult):
        return result.success == "fail"
    return not result


def _why(result: PartialValidationResult | ValidationResult) -> str | None:
    error = getattr(result, "error", None)
    if result.reason and error:
        return f"{result.reason} ({error})"
    return result.reason or error


def _refusal(known: GenerationMetadata) -> Failure | None:
    """Return the failure of an answer that the model refused, or that the provider cut off."""
    reason = REFUSED.get(known.finish_reason or "")
    if reason is None:
        return None
    if words := mended(known.refusal.strip()):
        reason = f"{reason}: {words}"
    return Failure("the model answers", reason)
