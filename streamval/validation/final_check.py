"""The final check of an attempt: rejects refusals, then judges the whole output."""

from __future__ import annotations

from collections.abc import Sequence

from streamval.aio.tasks import side_by_side
from streamval.backends.base import Backend
from streamval.requirements.base import Requirement
from streamval.requirements.final import validate_output
from streamval.types.context import Context
from streamval.types.results import Failure
from streamval.types.text import mended
from streamval.types.thunk import GenerationMetadata
from streamval.validation.verdicts import Check, failures_of

REFUSED = {
    "content_filter": "the provider's content filter cut it off",
    "refusal": "the model refused",
}
"""Finish reasons of an answer that was refused, or cut off by the provider."""


async def final_check(
    requirements: Sequence[Requirement],
    backend: Backend | None,
    ctx: Context,
    known: GenerationMetadata,
) -> Check:
    """Judge the output at the end of `ctx` by all requirements concurrently.

    Args:
        requirements: The clones that have judged its chunks without a failure.
        backend: The model that they may ask.
        ctx: The conversation, ending in the output.
        known: The metadata of the generation.

    Returns:
        A check without a chunk, with the result of each requirement; with none for a refusal, which is not judged.

    Raises:
        BaseException: Any exception of a validator.
    """
    if refusal := _refusal(known):
        return Check(None, "fail", failures=(refusal,))
    results = await side_by_side(
        *(validate_output(one, backend, ctx, streamed=True) for one in requirements)
    )
    failures = failures_of(requirements, results)
    return Check(None, "fail" if failures else "pass", tuple(results), failures=failures)


def _refusal(known: GenerationMetadata) -> Failure | None:
    """Return the failure of an answer that the model refused, or that the provider cut off."""
    reason = REFUSED.get(known.finish_reason or "")
    if reason is None:
        return None
    if words := mended(known.refusal.strip()):
        reason = f"{reason}: {words}"
    return Failure("the model answers", reason)
