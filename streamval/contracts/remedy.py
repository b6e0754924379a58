"""The prompts of a contract: the question, and the same with what was wrong."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel
from tenacity import AsyncRetrying, RetryCallState, wait_exponential, wait_random

from streamval.contracts.terms import as_json
from streamval.pipeline.repair import Repair
from streamval.types.context import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamval.backends.base import GenerationRequest
    from streamval.contracts.terms import RetryParams
    from streamval.events import Stage
    from streamval.structured.schema import Schema
    from streamval.types.results import Failure

logger = logging.getLogger("streamval.contracts")

_PROMPT = """\
{prompt}

Input:
{input}

{task} one JSON object that fits this JSON schema:
{schema}
{errors}
JSON:
"""


_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _filled_in(prompt: str, given: object) -> str:
    """The prompt with the input's fields in place of their names; other braces stay as they are."""
    if not isinstance(given, BaseModel):
        return prompt
    values = {name: str(value) for name, value in given}
    return _NAME.sub(lambda found: values.get(found[1], found[0]), prompt)


class Question(NamedTuple):
    """What the model is asked."""

    prompt: str
    input: Any
    schema: Schema[Any]
    stage: Stage

    def asked(self, errors: Sequence[str]) -> str:
        """The prompt, given what was wrong so far."""
        prompt = _filled_in(self.prompt, self.input)
        complaint = "".join(f"\n- {error}" for error in errors)
        if complaint and self.stage == "pre":
            complaint = f"\nThe input above is not acceptable. Mend it:{complaint}\n"
        elif complaint:
            complaint = f"\nAn earlier answer was not acceptable:{complaint}\n"
        return _PROMPT.format(
            prompt=prompt,
            input=as_json(self.input),
            task="Answer with" if self.stage == "output" else "Answer with a better input,",
            schema=json.dumps(self.schema.json_schema, ensure_ascii=False),
            errors=complaint,
        )


@dataclass(frozen=True)
class Remedy(Repair):
    """Asks again after a pause, with what was wrong with the last answer, or with all answers."""

    question: Question = field(kw_only=True)
    errors: tuple[str, ...] = field(kw_only=True)
    accumulates: bool = field(kw_only=True)
    params: RetryParams = field(kw_only=True)
    # Of this call alone, which is why a frozen object may hold them.
    known: list[str] = field(default_factory=list, kw_only=True)

    def messages(
        self,
        first: GenerationRequest,
        last: GenerationRequest,
        failures: Sequence[Failure],
        text: str,
    ) -> tuple[Message, ...]:
        """The question once more, with what was wrong."""
        del first, last, text
        if not self.accumulates:
            self.known.clear()
        elif not self.known:
            self.known.extend(self.errors)
        self.known.extend(failure.for_prompt() for failure in failures)
        asked = self.question.asked(self.known)
        logger.info("asks again: %s", asked)
        return (Message("user", asked),)

    def pause(self, attempt: int) -> float:
        """Ever longer, up to a limit, and a little by chance."""
        params = self.params
        wait = wait_exponential(
            multiplier=params["delay"], max=params["max_delay"], exp_base=params["backoff"]
        ) + wait_random(0, params["jitter"] * params["delay"])
        state = RetryCallState(AsyncRetrying(), None, (), {})
        state.attempt_number = attempt - 1
        return wait(state)
