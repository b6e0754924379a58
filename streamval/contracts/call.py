"""One call of a contract: its stages in order."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from streamval.aio.blocking import call
from streamval.aio.tasks import report
from streamval.contracts.remedy import Question, Remedy, logger
from streamval.contracts.terms import Contract, Owner, Typed
from streamval.errors import ContractViolationError, InputTypeError, OutputTypeError
from streamval.events import BaseEvent, FullValidationEvent, Stage, StageEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.requirements.base import Requirement
from streamval.types.context import Context
from streamval.types.results import ValidationResult

T = TypeVar("T")


class Call:
    """One call of a contracted instance.

    Args:
        contract: The contract.
        owner: The instance.
        given: The input.
        others: Arguments for `act` and `forward`.
    """

    def __init__(
        self, contract: Contract, owner: Owner, given: Any, others: Mapping[str, Any]
    ) -> None:
        self.owner = owner
        self.successful = False
        self.result: Any = None
        self.exception: Exception | None = None
        self.current_input = given
        self._contract = contract
        self._given = given
        self._others = others
        self._run_id = uuid.uuid4().hex
        self._seconds: dict[str, float] = {}

    async def run(self) -> Any:
        """Run the stages, then call `forward` whatever their outcome."""
        contract = self._contract
        complaint = contract.input.complaint(self._given)
        if complaint is not None:
            raise InputTypeError(f"the input is no {contract.input.name}: {complaint}")
        contract.backend_for(self.owner).check_options(contract.options(self._others))
        began = time.perf_counter()
        try:
            await self._check_pre()
            await self._act()
            self.result = await self._output()
            self.successful = True
        except Exception as error:  # `forward` handles it
            logger.info("the contract of %s failed: %s", type(self.owner).__name__, error)
            if not contract.terms.params["graceful"]:
                self.exception = error
        try:
            return await self._forward()
        finally:
            all_seconds = time.perf_counter() - began
            self._seconds["overhead"] = max(all_seconds - sum(self._seconds.values()), 0.0)
            self.owner.perf_stats.add(self._seconds)

    # The stages

    async def _check_pre(self) -> None:
        contract = self._contract
        if contract.stages.pre is None:
            return
        try:
            with self._timed("pre"):
                await self._condition(contract.stages.pre, self._given)
        except Exception as violation:
            why = str(violation) or type(violation).__name__
            await self._tell("pre", "failed", why)
            if not contract.terms.pre_remedy or not contract.terms.params["tries"]:
                raise ContractViolationError(
                    f"the precondition is violated: {why}", "pre"
                ) from violation
            with self._timed("pre"):
                self.current_input = await self._ask(
                    "pre",
                    contract.input,
                    contract.stages.pre,
                    [why],
                    attempts=contract.terms.params["tries"],
                )
        await self._tell("pre", "passed")

    async def _act(self) -> None:
        act, wanted = self._contract.stages.act, self._contract.act_output
        if act is None or wanted is None:
            return
        try:
            with self._timed("act"):
                others = _taken(act, self._others)
                made = await call(act, self.owner, self.current_input, **others)
            if (complaint := wanted.complaint(made)) is not None:
                raise ContractViolationError(f"act returned no {wanted.name}: {complaint}", "act")
        except Exception as error:
            await self._tell("act", "failed", str(error))
            raise
        self.current_input = made
        await self._tell("act", "passed")

    async def _output(self) -> Any:
        contract = self._contract
        tries = contract.terms.params["tries"] if contract.terms.post_remedy else 0
        try:
            with self._timed("output"):
                result = await self._ask(
                    "output", contract.output, contract.stages.post, [], attempts=1 + tries
                )
        finally:
            self._seconds["output"] -= self._seconds.get("post", 0.0)
        await self._tell("output", "passed")
        return result

    async def _forward(self) -> Any:
        contract = self._contract
        given = self.current_input if self.successful else self._given
        with self._timed("forward"):
            others = _taken(contract.forward, self._others)
            returned = await call(contract.forward, self.owner, given, **others)
        if contract.terms.params["graceful"] or (self.successful and returned is self.result):
            return returned
        if (complaint := contract.output.complaint(returned)) is not None:
            raise OutputTypeError(f"forward returned no {contract.output.name}: {complaint}")
        return returned

    # The model

    async def _ask(
        self,
        stage: Stage,
        wanted: Typed[T],
        condition: Callable[..., Any] | None,
        errors: Sequence[str],
        *,
        attempts: int,
    ) -> T:
        """Ask for a value that meets the condition, in at most `attempts` attempts."""
        contract = self._contract
        given = contract.act_output if stage == "output" else None
        question = Question(
            self.owner.prompt,  # type: ignore[attr-defined]
            self.current_input,
            (given or contract.input).json_schema,
            wanted.schema,
            stage,
        )
        remedy = Remedy(
            attempts,
            question=question,
            errors=tuple(errors),
            accumulates=contract.terms.accumulate_errors,
            params=contract.terms.params,
        )
        kept: list[T] = []
        pipeline = Pipeline(
            contract.backend_for(self.owner),
            requirements=[self._holds(stage, wanted, condition, kept)],
            format=wanted.schema,
            retry=remedy,
        )
        prompt = question.asked(errors)
        if contract.terms.verbose:
            logger.info("%s asks: %s", type(self.owner).__name__, prompt)
        run = pipeline.start(prompt, **contract.options(self._others))
        run.subscribe(self._relay(stage))
        try:
            result = await run
        except Exception as error:
            await self._tell(stage, "failed", f"{type(error).__name__}: {error}")
            raise
        if result.success and kept:
            return kept[-1]
        why = "; ".join(failure.for_prompt() for failure in result.failures) or "it was cut short"
        await self._tell(stage, "failed", why)
        what = "the precondition" if stage == "pre" else "the output"
        raise ContractViolationError(
            f"{what} does not hold after {len(result.attempts)} attempts: {why}", stage
        )

    def _holds(
        self, stage: Stage, wanted: Typed[T], condition: Callable[..., Any] | None, kept: list[T]
    ) -> Requirement:
        """Return the condition as a requirement of the whole output; add valid values to `kept`."""

        async def holds(ctx: Context) -> ValidationResult:
            instance = wanted.schema.parse_or_none(str(ctx.last_output() or ""))
            if instance is None:
                return ValidationResult(True)  # the schema reports it
            value = wanted.value_of(instance)
            try:
                with self._timed("post" if stage == "output" else None):
                    if condition is not None:
                        await self._condition(condition, value)
            except Exception as violation:  # it goes into the next prompt
                return ValidationResult(False, reason=str(violation) or type(violation).__name__)
            kept.append(value)
            return ValidationResult(True)

        return Requirement("post" if stage == "output" else "pre", holds, check_only=True)

    def _relay(self, stage: Stage) -> Callable[[BaseEvent], Awaitable[None]]:
        async def relay(event: BaseEvent) -> None:
            of_post = stage == "output" and isinstance(event, FullValidationEvent)
            await self._publish(event.model_copy(update={"stage": "post" if of_post else stage}))

        return relay

    async def _condition(self, condition: Callable[..., Any], value: Any) -> None:
        if (
            await call(condition, self.owner, value) is False
        ):  # None passes: a condition without a `return` returns it
            raise ContractViolationError(f"{condition.__name__} returned False", condition.__name__)

    # Telling

    async def _tell(self, stage: Stage, status: Any, reason: str | None = None) -> None:
        logger.info("%s: %s %s %s", type(self.owner).__name__, stage, status, reason or "")
        event = StageEvent(
            run_id=self._run_id, attempt=1, stage=stage, status=status, reason=reason
        )
        await self._publish(event)

    async def _publish(self, event: BaseEvent) -> None:
        for sink in self.owner.sinks:
            try:
                answer = sink(event)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # an error of a subscriber must not end the call
                report(f"The subscriber {sink!r} of a contract raised; the call continues", error)

    @contextmanager
    def _timed(self, stage: str | None) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            if stage is not None:
                took = time.perf_counter() - began
                self._seconds[stage] = self._seconds.get(stage, 0.0) + took


def _taken(method: Callable[..., Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that a method accepts."""
    parameters = inspect.signature(method).parameters.values()
    if any(known.kind is inspect.Parameter.VAR_KEYWORD for known in parameters):
        return others
    names = {known.name for known in parameters}
    return {name: value for name, value in others.items() if name in names}
