"""The state that the gateway's endpoints share: models, keys, limiter, metrics."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.scripted import ScriptedBackend
from streamval.errors import RequestError, UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.run import Run
from streamval.requirements.base import Requirement
from streamval.requirements.by_name import requirement_of
from streamval.serve.configuration import Configuration, ServedModel
from streamval.serve.endpoints import Endpoint, OpenAIEndpoint, endpoint_of, known_options
from streamval.serve.kept import Kept
from streamval.serve.limiter import Limiter, draining
from streamval.serve.metrics import Metrics
from streamval.serve.recent import Recent, key_in
from streamval.serve.schemas import as_tools, format_of, meant, tools_of
from streamval.serve.upstream import Relay
from streamval.structured.json_schema.schema import JSONSchema
from streamval.structured.tools import Tool
from streamval.wire.completions import CompletionRequest

Schemas = tuple[JSONSchema | None, tuple[Tool, ...]]
"""The schema of an answer, and the tools."""


class Service:
    """Serves the models of a configuration: checks keys, makes runs, keeps metrics.

    Args:
        configuration: What to serve.
        shared: Whether several processes serve it, and share their metrics.
        metrics: The metrics of the service that this one replaces.

    Attributes:
        limiter: Limits running and waiting requests.
        draining: Whether no new runs are taken.
        recent: The runs that the page shows.
        kept: The conversations of Responses that are kept.
    """

    def __init__(
        self, configuration: Configuration, *, shared: bool = False, metrics: Metrics | None = None
    ) -> None:
        self.configuration = configuration
        settings = configuration.server
        self.metrics = metrics or Metrics(shared=shared)
        self.limiter = Limiter(settings.max_runs, settings.max_waiting, self.metrics.note_limiter)
        self.draining = False
        self._keys = [_digest(key) for key in settings.keys]
        self._endpoints: dict[str, Endpoint] = {
            name: endpoint_of(upstream) for name, upstream in configuration.upstreams.items()
        }
        self._requirements = {
            name: tuple(requirement_of(written) for written in model.requirements)
            for name, model in configuration.models.items()
        }
        self._deciding = {
            name: tuple(rule for rule in rules if rule.enforce)
            for name, rules in self._requirements.items()
        }
        self.kept = Kept(settings.responses, settings.responses_seconds)
        self.recent = Recent(settings.recent, prompts=settings.recent_prompts)

    def drain(self) -> None:
        """Take no new runs: the server is to stop."""
        self.draining = True
        self.limiter.close()
        self.recent.close()

    async def prepare(self) -> None:
        """Load what an endpoint needs before the first request."""
        for endpoint in self._endpoints.values():
            await endpoint.prepare()

    async def retire(self) -> None:
        """Close the connections once the last request has ended: another service has the next ones."""
        try:
            await self.limiter.idle()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the upstreams."""
        for endpoint in self._endpoints.values():
            await endpoint.aclose()

    # Who asks

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Without keys, refuse requests that the page of another site could make a browser send.

        Raises:
            RequestError: With status 415, or 503 while the server drains.
        """
        if self.draining:
            raise draining()
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not self._keys and kind != "application/json":
            raise RequestError("send application/json", status=415)

    def check_key(self, header: str | None, *, by_browser: bool = True) -> None:
        """Refuse a client without a key, where there are keys. In constant time for any key.

        Args:
            header: Its ``Authorization`` header.
            by_browser: Whether to accept ``Basic``, which a browser sends on the request of any page.

        Raises:
            RequestError: With status 401.
        """
        if not self._keys:
            return
        said = (header or "").strip()
        given = _digest(
            (key_in(said) if by_browser or said[:6].lower() == "bearer" else None) or ""
        )
        if not sum(
            hmac.compare_digest(given, key) for key in self._keys
        ):  # always compares all keys
            raise RequestError(
                "this key is not known"
                if said
                else "a key is needed: send it as `Authorization: Bearer …`",
                status=401,
                code="invalid_api_key",
            )

    def owner(self, header: str | None) -> str:
        """Return whose request it is: a digest of the key."""
        return _digest(key_in((header or "").strip()) or "").hex() if self._keys else ""

    def forwarder(self, name: str) -> OpenAIEndpoint:
        """Return the endpoint to which the file passes requests for embeddings or moderations on.

        Raises:
            RequestError: With status 404, if it names none.
        """
        upstream = self.configuration.pass_through.get(name)
        endpoint = self._endpoints.get(upstream or "")
        if not isinstance(endpoint, OpenAIEndpoint):
            raise RequestError(
                f"{name} are not served here: `pass_through: {{{name}: UPSTREAM}}` in the file serves them",
                status=404,
            )
        return endpoint

    async def passes(self, name: str, text: str) -> bool:
        """Return whether a text that no model of ours wrote meets the rules of a model: an upstream's message.

        One that would be masked does not.
        """
        model = self.configuration.models[name]
        judge = self._judge_of(model)
        judging = Pipeline(
            ScriptedBackend(text), requirements=self._deciding[name], validation_backend=judge
        )
        result = await judging.run("What did the upstream answer?")
        return result.success and result.full_text == text

    # A run

    def model_of(self, request: CompletionRequest) -> ServedModel:
        """Return the model that a request names.

        Raises:
            RequestError: With status 404, if there is none.
        """
        model = self.configuration.models.get(request.model)
        if model is None:
            known = ", ".join(self.configuration.models)
            raise RequestError(
                f"there is no model {request.model!r}; there are {known}",
                status=404,
                code="model_not_found",
                param="model",
            )
        return model

    def schemas_of(self, request: CompletionRequest) -> Schemas:
        """Return the schema of the answer, and those of tools. Large ones take seconds the first time.

        Raises:
            RequestError: If they are no schemas, or there is no such model.
        """
        model = self.model_of(request)
        upstream, formats = self.configuration.upstreams[model.upstream[0]], model.assert_formats
        options = upstream.limited(request.options)
        tools = options.get("tools", upstream.defaults.get("tools")) or as_tools(
            options.get("functions")
        )
        return (
            format_of(options.get("response_format"), assert_formats=formats),
            tools_of([] if request.kind == "text" else tools, assert_formats=formats),
        )

    def _judge_of(self, model: ServedModel) -> Backend:
        """Return the backend that the judges of a model ask."""
        if model.judge_upstream is not None:
            return self._endpoints[model.judge_upstream].judge()
        judges = [self._endpoints[name].judge() for name in model.upstream]
        now = asyncio.get_running_loop().time() if len(judges) > 1 else 0.0
        return min(judges, key=lambda judge: judge.breaker.wait(now))

    def _speakers_of(
        self, model: ServedModel, request: CompletionRequest, *, judged: bool
    ) -> list[Backend]:
        """Return the backends for a request: those of the model's upstreams that can serve it.

        Raises:
            UsageError: If none can.
        """
        speakers, refused = [], None
        for name in model.upstream:
            try:
                speakers.append(self._endpoints[name].relay(request, judged=judged))
            except UsageError as error:
                refused = refused or error
        if refused is not None and not speakers:
            raise refused
        return speakers

    def decides(self, model: str) -> bool:
        """Return whether a model has rules that decide: others only observe."""
        return bool(self._deciding[model])

    def run_for(self, request: CompletionRequest, schemas: Schemas) -> tuple[Run[Any], ServedModel]:
        """Return the run that answers a request, not started yet.

        Raises:
            RequestError: If it cannot be served.
        """
        model = self.model_of(request)
        wanted, offered = schemas
        rules, deciding = self._requirements[request.model], self._deciding[request.model]
        if not deciding:  # each delta is sent at once, and observed in the chunks of the model
            rules = tuple(in_chunks(rule, model.chunking) for rule in rules)
        upstream = self.configuration.upstreams[model.upstream[0]]
        options = upstream.limited(request.options)
        shows = self.configuration.server.recent > 0
        judge = self._judge_of(model)
        more = [] if wanted is None else [meant(deciding, judge)]
        try:
            speakers = self._speakers_of(model, request, judged=bool(deciding))
            relayed = isinstance(speakers[0], Relay)
            pipeline: Pipeline[Any] = Pipeline(
                speakers,
                requirements=[*rules, *more],
                chunking=model.chunking if deciding else None,
                retry=None if model.repair is None else model.repair.repair(),
                validation_backend=judge,
                format=wanted,
                tools=offered if relayed else None,
                reasoning=model.reasoning,
                emit_tokens=shows,
                emit_verdicts=shows,
                stall_timeout=upstream.stall_timeout,
            )
            if relayed:
                generation = GenerationRequest(request.turns, options=options)
            else:  # such a backend adds its own default options
                generation = speakers[0].request(request.turns, **known_options(options))
        except RequestError:
            raise
        except UsageError as error:
            raise RequestError(str(error)) from None
        return pipeline.start_request(generation), model


@asynccontextmanager
async def pipeline_of(configuration: Configuration, name: str) -> AsyncIterator[Pipeline[Any]]:
    """Open a model of the file as a pipeline, without the gateway.

    Yields:
        The pipeline. Its connections are closed afterwards.

    Raises:
        UsageError: If the file has no such model.
    """
    model = configuration.models.get(name)
    if model is None:
        raise UsageError(
            f"there is no model {name!r} in the file; there are {', '.join(configuration.models)}"
        )
    speaking = [endpoint_of(configuration.upstreams[name]) for name in model.upstream]
    judges = endpoint_of(configuration.upstreams[model.judge_upstream or model.upstream[0]])
    try:
        yield Pipeline(
            [endpoint.judge() for endpoint in speaking],
            requirements=[requirement_of(written) for written in model.requirements],
            chunking=model.chunking,
            retry=None if model.repair is None else model.repair.repair(),
            validation_backend=judges.judge(),
            stall_timeout=configuration.upstreams[model.upstream[0]].stall_timeout,
        )
    finally:
        for endpoint in (*speaking, judges):
            await endpoint.aclose()


def in_chunks(rule: Requirement, chunking: Any) -> Requirement:
    """Return a rule that observes deltas in chunks of its own."""
    if rule.chunking is not None:
        return rule
    twin = copy(rule)
    twin.chunking = chunking
    return twin


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
