"""What the gateway's file may say, and what of it cannot work; `reading` reads it."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamval.chunkers.chunking import check_chunking
from streamval.errors import UsageError
from streamval.pipeline.repair import Repair
from streamval.requirements.base import Requirement
from streamval.requirements.function import stream_check
from streamval.requirements.llm_judge import LLMaJRequirement
from streamval.requirements.named import requirement_named
from streamval.serve.endpoints import endpoint_of
from streamval.serve.tools import validators_of
from streamval.serve.upstream import Upstream
from streamval.serve.wire import OWN, REFUSED, BadRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEY = r"^[!-~]{8,}$"
"""A key: eight characters or more, of those that a header takes."""

Place: TypeAlias = tuple[str | int, ...]
"""Where in the file something stands: its names and indices, from the outside."""

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False, strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RepairSettings(_Strict):
    """What follows a failure."""

    loop_budget: Positive = 2
    mode: Literal["continue", "restart", "ask"] | None = None

    def repair(self) -> Repair:
        """The same, for a pipeline."""
        return Repair(self.loop_budget, self.mode)


class ServedModel(_Strict):
    """What clients ask for by its name.

    Attributes:
        upstream: Who speaks.
        chunking: How its text is cut.
        requirements: Who judges: names of ready requirements, or one of ``NAME: arguments``,
            ``judge: TEXT``, ``python: MODULE:NAME``.
        judge_upstream: Whom judges ask; by default who speaks.
        repair: What follows a failure; nothing, without it.
        release: ``chunk``: each as soon as it has passed. ``all``: nothing before all of it is valid.
        on_failure: ``refusal``: what was good stands, then the finish reason ``content_filter``.
            ``error``: an error.
    """

    upstream: str
    chunking: Literal["sentence", "word", "line", "paragraph", "markdown"] | None = "sentence"
    requirements: list[str | dict[str, Any]] = Field(default_factory=list)
    judge_upstream: str | None = None
    repair: RepairSettings | None = None
    release: Literal["chunk", "all"] = "chunk"
    on_failure: Literal["refusal", "error"] = "refusal"


class ServerSettings(_Strict):
    """Where and how much is served.

    Attributes:
        keys: Of which a client must send one; none asks for none.
        max_runs: Runs at once.
        max_waiting: Requests that may wait for a place; more are refused with 429.
        max_body_bytes: Of a request.
        drain_seconds: How long running requests have, once the server is told to stop.
        run_seconds: How long a run may take, with its repairs and with waiting for its client to read. It
            ends an upstream that says nothing for ever, which a stall does not show.
        ping_seconds: After how long a client whose network has vanished is noticed. On Linux it is also
            how long a client may read nothing at all, once what lies between is full.
        recent: How many runs the page shows, to whoever has a key: with their text, and with what was
            withheld of it. 0 for no page.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    keys: list[Annotated[str, Field(pattern=KEY)]] = Field(default_factory=list, repr=False)
    max_runs: Positive = 256
    max_waiting: Annotated[int, Field(ge=0)] = 512
    max_body_bytes: Positive = 4 * 1024 * 1024
    drain_seconds: Seconds = 20.0
    run_seconds: Seconds = 600.0
    ping_seconds: Seconds = 15.0
    recent: Annotated[int, Field(ge=0, le=100)] = 0

    @model_validator(mode="after")
    def _is_guarded(self) -> ServerSettings:
        if not self.keys and self.host not in ("127.0.0.1", "localhost", "::1"):
            message = f"without keys it serves loopback only, and not {self.host}: set keys"
            raise ValueError(message)
        return self


class Configuration(_Strict):
    """The whole file."""

    upstreams: Annotated[dict[str, Upstream], Field(min_length=1)]
    models: Annotated[dict[str, ServedModel], Field(min_length=1)]
    server: ServerSettings = ServerSettings()


def requirement_of(written: str | Mapping[str, Any]) -> Requirement:
    """A requirement as the file writes it.

    Raises:
        UsageError: If it is none.

    Example:
        >>> requirement_of({"forbidden_words": {"words": ["acme"]}}).description
        'never say "acme"'
    """
    if isinstance(written, str):
        return requirement_named(written)
    if len(written) != 1:
        message = "write one requirement an entry: `- name`, or `- name: arguments`"
        raise UsageError(message)
    ((name, given),) = written.items()
    if name == "judge":
        if not isinstance(given, str) or not given.strip():
            message = "judge: needs a text that says what is required"
            raise UsageError(message)
        return LLMaJRequirement(given, streaming=True)
    if name == "python":
        return _imported(given)
    return requirement_named(name, given)


def _imported(place: object) -> Requirement:
    """A user's own requirement, by ``MODULE:NAME``: a `Requirement`, its class, or a plain function."""
    module, _, name = str(place).partition(":")
    if not module or not name:
        message = f"python: needs MODULE:NAME, not {place!r}"
        raise UsageError(message)
    try:
        found: Any = getattr(import_module(module), name)
        if isinstance(found, type) and issubclass(found, Requirement):
            found = found()
    except Exception as error:  # of the user's own module
        message = f"{place} cannot be had: {type(error).__name__}: {error}"
        raise UsageError(message) from None
    if isinstance(found, Requirement):
        return found
    if callable(found):
        return stream_check(found, name)
    message = f"{place} is neither a Requirement nor a function, but {type(found).__name__}"
    raise UsageError(message)


def problems_in(configuration: Configuration) -> Iterator[tuple[Place, str]]:
    """What is well written and cannot work: where, and why."""
    upstreams = configuration.upstreams
    for name, upstream in upstreams.items():
        try:
            endpoint_of(upstream)
        except Exception as error:  # of whatever package speaks to it
            yield ("upstreams", name), str(error)
        if upstream.model.startswith("openai/"):
            yield from _wrong_options(("upstreams", name, "options"), upstream.options)
    for name, model in configuration.models.items():
        yield from _wrong_model(("models", name), model, upstreams)


def _wrong_model(
    place: Place, model: ServedModel, upstreams: Mapping[str, Upstream]
) -> Iterator[tuple[Place, str]]:
    for field in ("upstream", "judge_upstream"):
        wanted = getattr(model, field)
        if wanted is not None and wanted not in upstreams:
            known = ", ".join(upstreams)
            yield (*place, field), f"{wanted!r} is no upstream; there are {known}"
    for at, written in enumerate(model.requirements):
        try:
            if requirement_of(written).judges is bytes:
                yield (*place, "requirements", at), "it judges sound, and text is served"
        except Exception as error:  # of a user's own requirement
            yield (*place, "requirements", at), str(error)
    if model.upstream in upstreams and _takes_back(model, upstreams[model.upstream]):
        yield (
            (*place, "release"),
            (
                "its upstream cannot continue, so a repair takes back what was sent: write "
                "`release: all`, `repair: {mode: ask}`, or say how the upstream continues"
            ),
        )
    if model.chunking is None and model.requirements and model.release == "chunk":
        yield (
            (*place, "chunking"),
            "without it each delta is judged by itself: write `sentence`, or `release: all`",
        )
    check_chunking(model.chunking)


def _wrong_options(place: Place, options: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What of an upstream's options would make each of its requests fail, or its answers unjudged."""
    for option, value in options.items():
        if option in OWN | REFUSED.keys() | {"response_format"}:
            yield (*place, option), "is not sent with every request: leave it out"
            continue
        try:
            json.dumps(value, allow_nan=False)
            if option == "tools":
                validators_of(value)
        except BadRequestError as error:
            yield (*place, option), str(error)
        except (TypeError, ValueError) as error:
            yield (*place, option), f"cannot be sent as JSON: {error}"


def _takes_back(model: ServedModel, upstream: Upstream) -> bool:
    repair = model.repair
    if repair is None or repair.loop_budget == 1 or model.release == "all":
        return False
    if repair.mode == "restart":
        return True
    return repair.mode != "ask" and not upstream.can_continue
