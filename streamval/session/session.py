"""`Session`: instruct, validate and repair, in a conversation that is remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, TypeAlias, overload

from streamval.aio.blocking import wait_for
from streamval.backends.base import Backend
from streamval.backends.default import as_backend
from streamval.backends.options import stall_timeout_of
from streamval.chunkers.chunking import Chunking
from streamval.errors import UsageError
from streamval.events import BaseEvent, CompletedEvent
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.pipeline.run import Run
from streamval.requirements.base import Requirement, as_requirements
from streamval.requirements.final import validate_outputs
from streamval.session.sampling import RepairTemplateStrategy, SamplingResult, sampled
from streamval.types.components import CBlock, Component, Instruction, fill_in, render
from streamval.types.context import Context, SimpleContext
from streamval.types.messages import Message
from streamval.types.results import ValidationResult
from streamval.types.thunk import ModelOutputThunk

_STRATEGY = RepairTemplateStrategy(loop_budget=2)

Action: TypeAlias = "str | CBlock | Component"


class Session:
    """A backend and a conversation. Make one with `start_session`.

    `instruct`, `chat` and `validate` run on an event loop in a thread of their own, so they
    work in a script and in Jupyter alike; their async twins, with an `a` in front, run on yours.

    `instruct` and `chat` add their prompt and answer to `ctx` when they end. Calls at the same
    time each see the conversation as it was when they began; `ctx` keeps only the last call to end.

    Attributes:
        backend: The backend that generates.
        ctx: The conversation so far.

    Example:
        >>> from streamval import ScriptedBackend, start_session
        >>> m = start_session(ScriptedBackend("Dear Ann, come at noon."))
        >>> str(m.instruct("Write to {{name}}.", user_variables={"name": "Ann"}))
        'Dear Ann, come at noon.'
    """

    def __init__(self, backend: Backend | str | None = None, ctx: Context | None = None) -> None:
        self.backend = as_backend(backend)
        self.ctx: Context = SimpleContext() if ctx is None else ctx
        self._last_messages: Callable[[], Sequence[Message]] | None = None

    def last_prompt(self) -> list[dict[str, Any]] | None:
        """Return the messages that a model was last asked with, a repair's included; `None` before that.

        Example:
            >>> from streamval import ScriptedBackend, start_session
            >>> m = start_session(ScriptedBackend("Hello."))
            >>> _ = m.instruct("Greet Ann.")
            >>> m.last_prompt()
            [{'role': 'user', 'content': 'Greet Ann.'}]
        """
        if self._last_messages is None:
            return None
        return [{"role": turn.role, "content": turn.content} for turn in self._last_messages()]

    # Instruct

    def stream_instruct(
        self,
        description: str | CBlock,
        *,
        requirements: Sequence[Requirement | str] | None = None,
        user_variables: Mapping[str, Any] | None = None,
        strategy: Repair | None = _STRATEGY,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
        chunking: Chunking = "sentence",
        validation_backend: Backend | str | None = None,
    ) -> Run:
        """Give an instruction, and get the answer while it is written and judged.

        Args:
            description: The task. ``{{name}}`` is filled in from `user_variables`; a block stays as it is.
            requirements: Their descriptions go into the prompt, except of those that are
                `check_only`. Their descriptions may hold ``{{name}}`` as well.
            user_variables: The values to fill in. `None`: braces stay as they are.
            strategy: What follows a failure: by default a second attempt, which is given what failed and why;
                `None` for one attempt.
            format: A pydantic model that the answer should be an instance of.
            model_options: For this generation: `temperature`, `seed`, `max_tokens` and what else
                the backend knows; and `stall_timeout`, in seconds.
            chunking: How the answer is cut.
            validation_backend: The backend that requirements ask, if not the session's.

        Returns:
            A run, not started yet: ``async for`` over it gives events, over its `chunks()` the
            validated chunks; ``await`` gives its result. Retries happen inside.

        Raises:
            UsageError: If an argument cannot work; nothing was started then.
        """
        run, asked = self._instruction(
            description,
            requirements=requirements,
            user_variables=user_variables,
            strategy=strategy,
            format=format,
            model_options=model_options,
            chunking=chunking,
            validation_backend=validation_backend,
        )

        def remember(event: BaseEvent) -> None:
            if isinstance(event, CompletedEvent) and (event.success or event.full_text):
                self.ctx = asked.with_output(event.full_text)

        run.subscribe(remember)
        return run

    @overload
    async def ainstruct(
        self,
        description: str | CBlock,
        *,
        return_sampling_results: Literal[False] = False,
        **options: Any,
    ) -> ModelOutputThunk: ...
    @overload
    async def ainstruct(
        self, description: str | CBlock, *, return_sampling_results: Literal[True], **options: Any
    ) -> SamplingResult: ...
    async def ainstruct(
        self, description: str | CBlock, *, return_sampling_results: bool = False, **options: Any
    ) -> ModelOutputThunk | SamplingResult:
        """Give an instruction, and wait for the answer.

        Args:
            description: The task.
            return_sampling_results: Return everything that was sampled, with `success`; otherwise the
                answer alone, which is the best one if none was valid.
            **options: As for `stream_instruct`.

        Returns:
            The answer, computed, or a `SamplingResult`.

        Raises:
            UsageError: If an argument cannot work.
            Exception: What a broken backend or validator raises.
        """
        samples = await self._samples(*self._instruction(description, **options))
        return samples if return_sampling_results else samples.result

    async def _samples(self, run: Run, asked: Context) -> SamplingResult:
        samples = sampled(await run, run.requirements)
        self.ctx = asked.add(samples.result)
        return samples

    @overload
    def instruct(
        self,
        description: str | CBlock,
        *,
        return_sampling_results: Literal[False] = False,
        **options: Any,
    ) -> ModelOutputThunk: ...
    @overload
    def instruct(
        self, description: str | CBlock, *, return_sampling_results: Literal[True], **options: Any
    ) -> SamplingResult: ...
    def instruct(
        self, description: str | CBlock, **options: Any
    ) -> ModelOutputThunk | SamplingResult:
        """Call `ainstruct` and wait for the answer."""

        async def call() -> ModelOutputThunk | SamplingResult:
            answer: ModelOutputThunk | SamplingResult
            answer = await self.ainstruct(description, **options)
            return answer

        return wait_for(call)

    async def aact(
        self, action: Action, *, return_sampling_results: bool = False, **options: Any
    ) -> ModelOutputThunk | SamplingResult:
        """Ask with a component or a block as it is, and wait for the answer.

        Args:
            action: What to ask: its text is the whole prompt, so nothing in it says what is required.
            return_sampling_results: As for `ainstruct`.
            **options: As for `stream_instruct`, except for `user_variables`.

        Returns:
            As `ainstruct`.
        """
        samples = await self._samples(*self._run(action, **options))
        return samples if return_sampling_results else samples.result

    def act(self, action: Action, **options: Any) -> ModelOutputThunk | SamplingResult:
        """Call `aact` and wait for the answer."""
        return wait_for(lambda: self.aact(action, **options))

    # Chat

    async def achat(
        self, content: str, *, role: Literal["user", "system"] = "user", **model_options: Any
    ) -> Message:
        """Say something, and wait for the answer, which is not judged.

        Start the session with a `ChatContext` for a model that sees the conversation.

        Args:
            content: The message.
            role: The role of its author.
            **model_options: For this generation.

        Returns:
            The answer.
        """
        message = Message(role, content)
        messages = (*self.ctx.history(), message)
        self._last_messages = lambda: messages
        thunk, ctx = await self.backend.generate_from_context(
            message, self.ctx, model_options=model_options
        )
        answer = await thunk.avalue()
        self.ctx = ctx
        return Message("assistant", answer)

    def chat(self, content: str, **options: Any) -> Message:
        """Call `achat` and wait for the answer."""
        return wait_for(lambda: self.achat(content, **options))

    # Validate

    async def avalidate(
        self,
        requirements: Sequence[Requirement | str] | Requirement | str,
        *,
        output: ModelOutputThunk | str | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> list[ValidationResult]:
        """Judge the last output, or another one, as a whole.

        Args:
            requirements: The requirements that judge.
            output: The output to judge; by default the last one.
            model_options: For judges that are models.

        Returns:
            A result for each requirement, in order.

        Raises:
            UsageError: If there is no output yet.
        """
        ctx = self.ctx
        if output is not None:
            text = await output.avalue() if isinstance(output, ModelOutputThunk) else output
            ctx = replace(ctx, output=ModelOutputThunk(text))
        if ctx.last_output() is None:
            raise UsageError("there is no output to validate yet; instruct first, or pass output=")
        if isinstance(requirements, (str, Requirement)):
            requirements = [requirements]
        judges = as_requirements(requirements)
        return await validate_outputs(judges, self.backend, ctx, model_options=model_options)

    def validate(
        self, requirements: Sequence[Requirement | str] | Requirement | str, **options: Any
    ) -> list[ValidationResult]:
        """Call `avalidate` and wait for the results."""
        return wait_for(lambda: self.avalidate(requirements, **options))

    def _instruction(
        self,
        description: str | CBlock,
        *,
        requirements: Sequence[Requirement | str] | None = None,
        user_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> tuple[Run, Context]:
        """Return a run, and the conversation with the instruction at its end."""
        judges = tuple(_filled_in(r, user_variables) for r in as_requirements(requirements))
        descriptions = [
            judge.description for judge in judges if judge.description and not judge.check_only
        ]
        task = str(description)
        if user_variables is not None and isinstance(description, str):
            task = fill_in(task, user_variables)
        return self._run(Instruction(task, descriptions), requirements=judges, **options)

    def _run(
        self,
        action: Action,
        *,
        requirements: Sequence[Requirement | str] | None = None,
        strategy: Repair | None = _STRATEGY,
        model_options: Mapping[str, Any] | None = None,
        **pipeline: Any,
    ) -> tuple[Run, Context]:
        """Return a run, and the conversation with the action at its end."""
        if strategy is not None and strategy.requirements is not None:
            requirements, strategy = strategy.requirements, replace(strategy, requirements=None)
        message = Message("user", render(action))
        timeout, options = stall_timeout_of(model_options or {})
        run = Pipeline(
            self.backend,
            requirements=requirements,
            retry=strategy,
            stall_timeout=timeout,
            **pipeline,
        ).start([*self.ctx.history(), message], **options)
        self._last_messages = lambda: run.request.messages
        return run, self.ctx.add(message)


def _filled_in(requirement: Requirement, variables: Mapping[str, Any] | None) -> Requirement:
    if variables is None or requirement.description is None:
        return requirement
    twin = copy(requirement)
    twin.description = fill_in(requirement.description, variables)
    return twin


def start_session(backend: Backend | str | None = None, ctx: Context | None = None) -> Session:
    """Start a session.

    Args:
        backend: A `Backend`, or a LiteLLM model name. `None` for
            ``$STREAMVAL_MODEL``, else the embedded model.
        ctx: The context: by default a `SimpleContext`, in which each instruction
            stands alone.

    Returns:
        The session.

    Raises:
        UsageError: If `backend` is neither a backend nor a model name.
    """
    return Session(backend, ctx)
