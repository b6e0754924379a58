"""The prompts of a contract: the question, and the question with the failures."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel

from streamval.backends.base import GenerationRequest
from streamval.contracts.terms import RetryParams, as_json
from streamval.events import Stage
from streamval.pipeline.repair import Repair
from streamval.structured.schema import Schema
from streamval.types.messages import Message
from streamval.types.results import Failure

logger = logging.getLogger("streamval.contracts")

_PROMPT = """\
{prompt}

Input:
{input}
{of_input}
{task} one JSON object that fits this JSON schema:
{schema}
{errors}
JSON:
"""


_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _filled_in(prompt: str, given: object) -> str:
    """Return the prompt with the input's fields in place of their names. Other braces stay."""
    if not isinstance(given, BaseModel):
        return prompt
    values = {name: str(value) for name, value in given}
    return _NAME.sub(lambda found: values.get(found[1], found[0]), prompt)


class Question(NamedTuple):
    """A question to the model."""

    prompt: str
    input: Any
    of_input: Mapping[str, Any]
    schema: Schema[Any]
    stage: Stage

    def asked(self, errors: Sequence[str]) -> str:
        """Return the prompt with the failures so far."""
        prompt = _filled_in(self.prompt, self.input)
        complaint = "".join(f"\n- {error}" for error in errors)
        if complaint and self.stage == "pre":
            complaint = f"\nThe input above is not acceptable. Mend it:{complaint}\n"
        elif complaint:
            complaint = f"\nAn earlier answer was not acceptable:{complaint}\n"
        described = json.dumps(self.of_input, ensure_ascii=False) if self.of_input else ""
        return _PROMPT.format(
            prompt=prompt,
            input=as_json(self.input),
            of_input=f"It fits this JSON schema:\n{described}\n" if described else "",
            task="Answer with" if self.stage == "output" else "Answer with a better input,",
            schema=json.dumps(self.schema.json_schema, ensure_ascii=False),
            errors=complaint,
        )


@dataclass(frozen=True)
class Remedy(Repair):
    """Asks again after a pause, with the failures of the last answer, or of all answers."""

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
        """Return the question with the failures."""
        if not self.accumulates:
            self.known.clear()
        elif not self.known:
            self.known.extend(self.errors)
        self.known.extend(failure.for_prompt() for failure in failures)
        asked = self.question.asked(self.known)
        logger.info("asks again: %s", asked)
        return (Message("user", asked),)

    def pause(self, attempt: int) -> float:
        """Return an exponential backoff up to a limit, with jitter."""
        params = self.params
        backoff = params["delay"] * params["backoff"] ** (attempt - 2)
        return min(backoff, params["max_delay"]) + random.uniform(  # noqa: S311  no secret
            0, params["jitter"] * params["delay"]
        )
