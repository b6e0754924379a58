"""The final check of an attempt: rejects refusals, then judges the whole output."""

from __future__ import annotations

from collections.abc import Mapping

from streamval.aio.tasks import side_by_side
from streamval.backends.base import Backend
from streamval.requirements.final import validate_output
from streamval.structured.as_read import decoded, unescaped
from streamval.types.channels import CHANNELS, Channel
from streamval.types.context import Context
from streamval.types.messages import ToolCall
from streamval.types.results import Failure, ValidationResult
from streamval.types.text import mended
from streamval.types.thunk import GenerationMetadata
from streamval.validation.options import Clones
from streamval.validation.verdicts import Check, failure_of

REFUSED = {
    "content_filter": "the provider's content filter cut it off",
    "refusal": "the model refused",
}
"""Finish reasons of an answer that was refused, or cut off by the provider."""


async def final_check(
    clones: Clones,
    backend: Backend | None,
    ctx: Context,
    written: Mapping[Channel, str],
    known: GenerationMetadata,
) -> Check:
    """Judge the whole output of each channel by all requirements concurrently.

    Args:
        clones: The clones that have judged its chunks without a failure.
        backend: The model that they may ask.
        ctx: The conversation before the output.
        written: The output of each channel. A channel on which nothing was written is not judged.
        known: The metadata of the generation.

    Returns:
        A check without a chunk, with the result of each requirement; with none for a refusal, which is not judged.

    Raises:
        BaseException: Any exception of a validator.
    """
    if refusal := _refusal(known):
        return Check(None, "fail", failures=(refusal,))
    spoken = {channel for channel, text in written.items() if text.strip()}
    if "tool" not in spoken:  # an answer of calls alone says nothing; an empty one is judged
        spoken.add("text")
    judged = [
        (position, channel, clone)
        for channel in CHANNELS
        if channel in spoken
        for position, clone in enumerate(clones[channel])
        if clone is not None
    ]
    ctxs = {channel: ctx.with_output(written[channel], known) for channel in spoken}
    answers = await side_by_side(
        *(validate_output(one, backend, ctxs[channel], streamed=True) for _, channel, one in judged)
    )
    results: list[ValidationResult | None] = [None] * len(clones["text"])
    failures: list[Failure] = []
    for (position, channel, clone), answer in zip(judged, answers, strict=True):
        if position == len(results):  # that no tools were offered has been judged by each chunk
            continue
        failed = failure_of(clone, answer, position, channel)
        if failed is not None and clone.enforce:
            failures.append(failed)
        if results[position] is None or (failed is not None and results[position]):
            results[position] = answer
    # Without an answer, nothing was written on the channels that a requirement judges.
    whole = tuple(ValidationResult(True) if one is None else one for one in results)
    return Check(None, "fail" if failures else "pass", whole, failures=tuple(failures))


def as_read_by_rules(call: ToolCall) -> str:
    r"""Return a call of a tool as the requirements judge it as a whole: a line, unescaped.

    Example:
        >>> as_read_by_rules(ToolCall(0, "c1", "say", None, r'{"word": "\u0062ad"}'))
        'say {"word": "bad"}\n'
    """
    try:
        return f"{call.name} {decoded(call.raw)}\n"
    except RecursionError:
        return f"{call.name} {unescaped(call.raw)}\n"


def _refusal(known: GenerationMetadata) -> Failure | None:
    """Return the failure of an answer that the model refused, or that the provider cut off."""
    reason = REFUSED.get(known.finish_reason or "")
    if reason is None:
        return None
    if words := mended(known.refusal.strip()):
        reason = f"{reason}: {words}"
    return Failure("the model answers", reason)
