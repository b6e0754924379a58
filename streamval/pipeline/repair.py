"""`Repair`: how many attempts, from where, and with which prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from streamval.backends.base import GenerationRequest
from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.types.messages import Message
from streamval.types.results import Failure

Mode: TypeAlias = Literal["continue", "restart", "ask"]
Template: TypeAlias = "str | Callable[[str, Sequence[Failure]], str]"

TEMPLATE = """\
(An earlier answer was rejected. This was required, and this was wrong with it:
{failures}
The next answer must not have these faults.)

{prompt}"""
"""The prompt of a new attempt. The text before the prompt is a message of its own. The original prompt stays last,
because a base model only continues text."""

ASK = """\
(That is good so far, and it is not finished. Go on from its last words: "{last_words}"
Write only what comes next. Repeat nothing, and do not say that you go on.)"""
"""The request to a chat model to continue from the kept text."""

LAST_WORDS = 80
"""Characters at the end of the kept text that are quoted in it."""

RAISED_TEMPERATURE = 0.7
"""Replaces a temperature of 0, at which most models would write the same text again."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Try again after a failure.

    Args:
        loop_budget: Attempts in all, the first included.
        mode: `"continue"` keeps the delivered chunks, hands them to the backend as a prefix and
            generates only what follows; requirements resume from their state after the last kept
            chunk. `"restart"` begins anew. `"ask"`, for chat models that cannot continue a prefix,
            keeps the chunks as `"continue"` does, and asks the model in words to continue from them;
            repetitions and announcements are dropped. `None`: continue where the backend can, else
            restart. A failed final validation always restarts, as it does not name a failed chunk.
        template: The prompt of a new attempt: a string with ``{prompt}`` and ``{failures}`` (a
            line each), or a function of the prompt and the failures. The text before and behind the prompt goes
            to the model as messages of their own.
        requirements: Replace the requirements of the pipeline or instruction.
        refusals: Whether to try again where the model refused to answer, or its provider's filter cut it off.
        resume: How often a stream that broke off is resumed: a reset connection, a stall, a 429 or a 5xx. What was
            delivered stands; the backend continues from there, or is asked to. Such attempts are not counted by
            `loop_budget`. Of a pipeline with several backends, each is tried before anything is delivered.

    Raises:
        UsageError: If an argument cannot work.

    Example:
        >>> Repair(loop_budget=3, mode="restart")
        Repair(loop_budget=3, mode='restart')
    """

    loop_budget: int = 2
    mode: Mode | None = None
    template: Template | None = None
    requirements: Sequence[Requirement | str] | None = field(default=None, kw_only=True)
    refusals: bool = field(default=False, kw_only=True)
    resume: int = field(default=2, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.resume, int) or self.resume < 0:
            raise UsageError(f"resume counts attempts and must be at least 0, not {self.resume!r}")
        if not isinstance(self.loop_budget, int) or self.loop_budget < 1:
            raise UsageError(
                f"loop_budget counts attempts in all and must be at least 1, not {self.loop_budget!r}"
            )
        if self.mode not in (None, "continue", "restart", "ask"):
            raise UsageError(
                f"mode must be 'continue', 'restart', 'ask' or None, not {self.mode!r}"
            )
        if isinstance(self.template, str) and "{prompt}" not in self.template:
            raise UsageError("the template must contain {prompt}, and should contain {failures}")

    def __repr__(self) -> str:
        template = "" if self.template is None else f", template={self.template!r}"
        return f"Repair(loop_budget={self.loop_budget}, mode={self.mode!r}{template})"

    def continues(self, *, supports_prefix: bool) -> bool:
        """Return whether a failure in mid-stream continues from the last good chunk."""
        return self.mode == "ask" or (supports_prefix and self.mode != "restart")

    def asked(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request with its prefix as a turn, for a backend that is asked in words to go on from there."""
        if request.prefix is None:
            return request
        last_words = request.prefix[-LAST_WORDS:].strip()
        return replace(
            request,
            prefix=None,
            messages=(
                *request.messages,
                Message("assistant", request.prefix),
                Message("user", ASK.format(last_words=last_words)),
            ),
        )

    def request(
        self,
        first: GenerationRequest,
        last: GenerationRequest,
        failures: Sequence[Failure],
        *,
        prefix: str | None = None,
        kept_tokens: int = 0,
        text: str = "",
    ) -> GenerationRequest:
        """Return the request for a new attempt.

        Args:
            first: The request of the first attempt.
            last: The request of the failed attempt.
            failures: Why it was rejected.
            prefix: The kept text that the output begins with.
            kept_tokens: The number of its tokens.
            text: The whole text of the failed attempt.

        Returns:
            The first request with `messages` of the new attempt, and other options: the seed is
            one higher for each attempt, and a temperature of 0 is raised. A limit on tokens is
            lowered by the tokens that are kept, as it limits the output and not an attempt.
        """
        attempt = last.attempt + 1
        return replace(
            first,
            messages=self.messages(first, last, failures, text),
            prefix=prefix or None,
            options=_changed(first.options, attempt, kept_tokens),
            attempt=attempt,
        )

    def messages(
        self,
        first: GenerationRequest,
        last: GenerationRequest,
        failures: Sequence[Failure],
        text: str,
    ) -> tuple[Message, ...]:
        """Return the conversation of a new attempt: the first one, and a message with the failures.

        The message precedes the last one, which stays as it is. Behind the result of a tool, it comes last, as
        results have to follow their calls. Override it to ask in another way; the arguments are those of `request`.
        """
        *turns, asked = first.messages
        if callable(self.template):
            prompt = self.prompt(asked.content, failures)
            before, found, behind = (
                prompt.partition(asked.content) if asked.content else (prompt, "", "")
            )
        else:  # filled in around the prompt: its words may also be in the template
            prompt, mark = "", "{prompt}"
            before, found, behind = (self.template or TEMPLATE).partition(mark)
            behind = behind.replace(mark, "")
            before, behind = (
                _filled(one, {"failures": listed(failures)}) for one in (before, behind)
            )
        if asked.content and not found and asked.is_plain and asked.role == "user":
            return (*turns, Message("user", prompt))  # a template that writes the prompt anew
        words = [Message("user", said) for said in (before.strip(), behind.strip()) if said]
        if asked.role in ("tool", "function"):
            return (*first.messages, *words)
        # Behind the beginning of an answer, the model would not continue it.
        preceding = len(words) if asked.role == "assistant" else bool(before.strip())
        return (*turns, *words[:preceding], asked, *words[preceding:])

    def pause(self, attempt: int) -> float:
        """Return the seconds before an attempt (2 or later) begins: 0, unless a subclass overrides this."""
        return 0.0

    def prompt(self, prompt: str, failures: Sequence[Failure]) -> str:
        """Return the prompt with the failures filled in."""
        if callable(self.template):
            return self.template(prompt, failures)
        template = self.template or TEMPLATE
        # Not str.format: a template and the inserted text may have other braces.
        values = {"prompt": prompt, "failures": listed(failures)}
        return _filled(template, values)


def _filled(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(prompt|failures)\}", lambda name: values.get(name[1], name[0]), template)


def listed(failures: Sequence[Failure]) -> str:
    """Return the failures for a prompt, a line each.

    Example:
        >>> from streamval.types import Failure
        >>> print(listed([Failure("be brief", "12 words"), Failure("be kind")]))
        - be brief: 12 words
        - be kind
    """
    return "\n".join(f"- {failure.for_prompt()}" for failure in failures)


def _changed(options: Mapping[str, Any], attempt: int, kept_tokens: int) -> dict[str, Any]:
    changed = dict(options)
    if isinstance(changed.get("seed"), int):
        changed["seed"] += attempt - 1
    if changed.get("temperature") == 0:
        changed["temperature"] = RAISED_TEMPERATURE
    return lowered(changed, kept_tokens)


def lowered(options: Mapping[str, Any], kept_tokens: int) -> dict[str, Any]:
    """Return options whose limit of tokens is lowered by those that are kept.

    Example:
        >>> lowered({"max_tokens": 100, "seed": 1}, 40)
        {'max_tokens': 60, 'seed': 1}
    """
    changed = dict(options)
    for limit in ("max_tokens", "max_completion_tokens"):
        if isinstance(changed.get(limit), int):
            changed[limit] = max(changed[limit] - kept_tokens, 1)
    return changed
