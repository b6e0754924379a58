"""The schema of the gateway's file, and checks across its parts. `config_file` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from streamval.backends.options import check_options
from streamval.chunkers.chunking import check_chunking
from streamval.errors import UsageError
from streamval.pipeline.repair import Repair
from streamval.requirements.by_name import requirement_of
from streamval.serve.endpoints import endpoint_of
from streamval.serve.schemas import tools_of
from streamval.serve.upstream import Upstream
from streamval.wire.completions import NOT_SERVED, OWN

KEY = r"^[!-~]{8,}$"
"""A key: at least eight characters that are valid in a header."""

Location: TypeAlias = tuple[str | int, ...]
"""A location in the file: names and indices, from the outside in."""

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False, strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RepairSettings(_Strict):
    """The repair after a failure, and after a stream that broke off; see `Repair`."""

    loop_budget: Positive = 2
    mode: Literal["continue", "restart", "ask"] | None = None
    resume: Annotated[int, Field(ge=0)] = 2

    def repair(self) -> Repair:
        """Return these settings as a pipeline's `Repair`."""
        return Repair(self.loop_budget, self.mode, resume=self.resume)


class FailureText(_Strict):
    """What a client gets as text behind the valid chunks, in place of a refusal, which many clients do not show."""

    text: Annotated[str, Field(min_length=1)]


class ServedModel(_Strict):
    """A model that clients name.

    Attributes:
        upstream: The upstream that generates; of several in a list, the next one takes over where one refuses to
            start or breaks off.
        chunking: The chunking of its text.
        requirements: Names of ready requirements, or one of ``NAME: arguments``,
            ``judge: TEXT``, ``python: MODULE:NAME``.
        judge_upstream: The upstream that judges ask; by default the first of `upstream` that has not just failed.
        repair: The repair after a failure; by default there is one attempt.
        release: ``chunk``: send each chunk once it has passed. ``all``: send nothing before the answer is valid.
        on_failure: ``refusal``: keep the valid chunks, end with the finish reason ``content_filter``.
            ``error``: an error. ``{text: …}``: the same as ``refusal``, with these words as text.
        reasoning: ``drop``: send none of it. ``deliver``: send it once it was judged by the rules that listen to it.
        assert_formats: Whether a `format` in a client's JSON Schema is an assertion, or an annotation.
    """

    upstream: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
        Field(min_length=1),
    ]
    chunking: Literal["sentence", "word", "line", "paragraph", "markdown"] | None = "sentence"
    requirements: list[str | dict[str, Any]] = Field(default_factory=list)
    judge_upstream: str | None = None
    repair: RepairSettings | None = None
    release: Literal["chunk", "all"] = "chunk"
    on_failure: Literal["refusal", "error"] | FailureText = "refusal"
    reasoning: Literal["drop", "deliver"] = "drop"
    assert_formats: bool = True


class ServerSettings(_Strict):
    """The address, the keys and the limits of the server.

    Attributes:
        keys: A client must send one of them; an empty list means that no key is needed.
        max_runs: Runs at once.
        max_waiting: Requests that may wait for a slot; more are refused with 429.
        max_body_bytes: The largest body of a request.
        drain_seconds: The drain timeout of running requests when the server stops.
        run_seconds: How long a run may take, with its repairs and with waiting for its client to read. It
            ends an upstream that keeps sending empty deltas, which is not a stall.
        ping_seconds: Seconds until a client without a network is noticed. On Linux it is also the longest
            time that a client may read nothing once the network buffers are full.
        headers_after: The longest time that the status of a streamed answer waits for its first good chunk, so that
            an upstream that fails early gives a real status.
        cors_origins: The origins whose pages may use the gateway, such as ``https://app.example.org``.
        responses: How many answers of Responses are kept in memory for `previous_response_id`, each for the key that
            asked for it (several workers keep their own). 0 for none: then a client sends the whole conversation.
        responses_seconds: For how long.
        recent: How many runs the page shows to clients with a key, including their text and the text that was
            withheld of it. 0 for no page.
        recent_prompts: Whether that page shows the last message of each request, too.
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
    headers_after: Seconds = 5.0
    cors_origins: list[Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]] = Field(
        default_factory=list
    )
    responses: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    responses_seconds: Seconds = 3600.0
    recent: Annotated[int, Field(ge=0, le=100)] = 0
    recent_prompts: bool = False

    @model_validator(mode="after")
    def _is_guarded(self) -> ServerSettings:
        if not self.keys and self.host not in ("127.0.0.1", "localhost", "::1"):
            raise ValueError(f"without keys it serves loopback only, and not {self.host}: set keys")
        return self


class Configuration(_Strict):
    """The whole file.

    Attributes:
        upstreams: The upstreams, by the names that the file gives them.
        models: The models, by the names that clients use.
        pass_through: The ``openai/`` upstreams that get requests for ``embeddings`` and ``moderations``, which are not judged.
    """

    upstreams: Annotated[dict[str, Upstream], Field(min_length=1)]
    models: Annotated[dict[str, ServedModel], Field(min_length=1)]
    pass_through: dict[str, str] = Field(default_factory=dict)
    server: ServerSettings = ServerSettings()


def problems_in(configuration: Configuration) -> Iterator[tuple[Location, str]]:
    """Yield the mistakes that the schema does not find: location and message."""
    upstreams = configuration.upstreams
    for name, upstream in upstreams.items():
        try:
            endpoint_of(upstream)
        except Exception as error:  # of the package behind it
            yield ("upstreams", name), str(error)
        if upstream.is_relayed:
            yield from _wrong_options(("upstreams", name, "options"), upstream.defaults)
    for name, wanted in configuration.pass_through.items():
        if name not in ("embeddings", "moderations"):
            yield ("pass_through", name), "only embeddings and moderations are passed through"
        elif wanted not in upstreams or not upstreams[wanted].model.startswith("openai/"):
            yield ("pass_through", name), f"{wanted!r} is no `openai/` upstream of this file"
    for name, model in configuration.models.items():
        yield from _wrong_model(("models", name), model, upstreams)


def _wrong_model(
    place: Location, model: ServedModel, upstreams: Mapping[str, Upstream]
) -> Iterator[tuple[Location, str]]:
    judges = () if model.judge_upstream is None else (model.judge_upstream,)
    for field, names in (("upstream", model.upstream), ("judge_upstream", judges)):
        for wanted in names:
            if wanted not in upstreams:
                known = ", ".join(upstreams)
                yield (*place, field), f"{wanted!r} is no upstream; there are {known}"
    speak = [upstreams[name] for name in model.upstream if name in upstreams]
    if len({upstream.is_relayed for upstream in speak}) > 1:
        yield (
            (*place, "upstream"),
            "an endpoint that gets requests as they come and one by LiteLLM cannot take over from each other",
        )
    for at, written in enumerate(model.requirements):
        try:
            if requirement_of(written).judges is bytes:
                yield (*place, "requirements", at), "it judges sound, and text is served"
        except Exception as error:  # of a user's own requirement
            yield (*place, "requirements", at), str(error)
    if any(_takes_back(model, upstream) for upstream in speak):
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


def _wrong_options(place: Location, options: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield the options of an upstream that would break its requests, or leave answers unjudged."""
    for option, value in options.items():
        if option in OWN | NOT_SERVED.keys() | {"response_format"}:
            yield (*place, option), "is not sent with every request: leave it out"
            continue
        try:
            check_options({option: value})
            json.dumps(value, allow_nan=False)
            if option == "tools":
                for tool in tools_of(value):
                    if isinstance(tool.schema, str):
                        yield (*place, option), f"{tool.name}: {tool.schema}"
        except UsageError as error:
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
