"""Sampling strategies: how often a session asks and with which prompts; sampling results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamval.backends.base import GenerationRequest
from streamval.pipeline.repair import Mode, Repair, listed
from streamval.requirements.base import Requirement
from streamval.types.messages import Message
from streamval.types.results import AttemptResult, Failure, StreamResult, ValidationResult
from streamval.types.thunk import ModelOutputThunk


@dataclass(frozen=True)
class RejectionSamplingStrategy(Repair):
    """Ask the same again, with another seed, until an answer is valid.

    Like every strategy here it is a `Repair`, so a `Pipeline` takes it as its `retry`; and a
    session takes any `Repair` as its strategy, one that continues from the last good chunk
    included.

    Args:
        loop_budget: Attempts in all, the first included.
        mode: Each attempt begins anew.
        template: Not used.
        requirements: Judge by these, in place of those given with the instruction.

    Example:
        >>> RejectionSamplingStrategy(loop_budget=3).loop_budget
        3
    """

    mode: Mode | None = "restart"

    def prompt(self, prompt: str, failures: Sequence[Failure]) -> str:
        """Return the prompt as it is."""
        return prompt


@dataclass(frozen=True)
class RepairTemplateStrategy(RejectionSamplingStrategy):
    """Ask again, and say which requirements the last answer failed, and why.

    Args:
        loop_budget: Attempts in all, the first included.
        mode: Each attempt begins anew.
        template: As for `Repair`.
        requirements: Judge by these, in place of those given with the instruction.

    Example:
        >>> from streamval.types import Failure
        >>> print(RepairTemplateStrategy().prompt("Say hello.", [Failure("be kind", "it is rude")]))
        (An earlier answer was rejected. This was required, and this was wrong with it:
        - be kind: it is rude
        The next answer must not have these faults.)
        <BLANKLINE>
        Say hello.
    """

    def prompt(self, prompt: str, failures: Sequence[Failure]) -> str:
        """Return the prompt with the failures."""
        return Repair.prompt(self, prompt, failures)


@dataclass(frozen=True)
class MultiTurnStrategy(RejectionSamplingStrategy):
    """Continues the conversation: it keeps each rejected answer and the reasons.

    Args:
        loop_budget: Attempts in all, the first included.
        mode: Each attempt is a new answer.
        template: Not used.
        requirements: Judge by these, in place of those given with the instruction.
    """

    def messages(
        self,
        first: GenerationRequest,
        last: GenerationRequest,
        failures: Sequence[Failure],
        text: str,
    ) -> tuple[Message, ...]:
        """Return the conversation so far, the rejected answer, and why it was rejected."""
        complaint = (
            "That answer was rejected. This was required, and this was wrong with it:\n"
            f"{listed(failures)}\nAnswer again, without these faults."
        )
        return (*last.messages, Message("assistant", text), Message("user", complaint))


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """Everything that a strategy sampled.

    Attributes:
        success: Whether `result` met every requirement.
        result: The answer: the valid one, else the sample with the fewest failures, the latest
            of those.
        sample_generations: The text that the model wrote in each attempt. For an attempt that failed early,
            the text that it had written by then.
        sample_validations: For each attempt the requirements that judged the whole output, with
            the result. An attempt that failed early has only the requirements that it failed.
        result_validations: The same for `result`.
        result_index: Which sample `result` is.
        stream: The run behind it, with usage and failures.
    """

    success: bool
    result: ModelOutputThunk
    sample_generations: list[ModelOutputThunk]
    sample_validations: list[list[tuple[Requirement, ValidationResult]]]
    result_index: int
    stream: StreamResult

    @property
    def value(self) -> str | None:
        """The text of `result`."""
        return self.result.value

    @property
    def result_validations(self) -> list[tuple[Requirement, ValidationResult]]:
        """The validations of `result`."""
        return self.sample_validations[self.result_index]


def sampled(result: StreamResult, requirements: Sequence[Requirement]) -> SamplingResult:
    """Return a run as the samples of a strategy."""
    samples = result.attempts
    if result.success:
        chosen = len(samples) - 1
    else:
        chosen = min(range(len(samples)), key=lambda index: (len(samples[index].failures), -index))
    generations = [_computed(sample) for sample in samples]
    if result.success:
        generations[chosen] = _computed(samples[chosen], result.text)
    return SamplingResult(
        success=result.success,
        result=generations[chosen],
        sample_generations=generations,
        sample_validations=[_validations(sample, requirements) for sample in samples],
        result_index=chosen,
        stream=result,
    )


def _computed(sample: AttemptResult, text: str | None = None) -> ModelOutputThunk:
    thunk = ModelOutputThunk(sample.text if text is None else text)
    thunk.generation.usage = sample.usage
    thunk.generation.cancelled = any(f.chunk_index is not None for f in sample.failures)
    return thunk


def _validations(
    sample: AttemptResult, requirements: Sequence[Requirement]
) -> list[tuple[Requirement, ValidationResult]]:
    if sample.validations:
        return list(zip(requirements, sample.validations, strict=True))
    found: list[tuple[Requirement, Any]] = [
        (requirements[failure.lane], ValidationResult(False, reason=failure.reason))
        for failure in sample.failures
        if failure.lane is not None and failure.lane < len(requirements)
    ]
    return found
