"""What the endpoints of the gateway share: its models and keys, and the runs that answer."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from streamval.aio.places import STOPPING, Places
from streamval.backends.base import GenerationRequest
from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.serve.configuration import requirement_of
from streamval.serve.endpoints import endpoint_of, known_options
from streamval.serve.metrics import Metrics
from streamval.serve.recent import Recent, key_in
from streamval.serve.schemas import format_of
from streamval.serve.tools import meant, valid_tool_calls, validators_of
from streamval.serve.upstream import Relay
from streamval.serve.wire import BadRequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from streamval.pipeline.run import Run
    from streamval.serve.configuration import Configuration, ServedModel
    from streamval.serve.endpoints import Endpoint
    from streamval.serve.wire import Asked


class Service:
    """Serves the models of a configuration: who may ask, which run answers, and what is counted.

    Args:
        configuration: What to serve.
        shared: Whether several processes serve it, and share their metrics.

    Attributes:
        places: Who runs and waits.
        draining: Whether no new runs are taken.
        recent: The runs that the page shows.
    """

    def __init__(self, configuration: Configuration, *, shared: bool = False) -> None:
        self.configuration = configuration
        settings = configuration.server
        self.places = Places(settings.max_runs, settings.max_waiting)
        self.metrics = Metrics(self.places, shared=shared)
        self.draining = False
        self._keys = [_digest(key) for key in settings.keys]
        self._endpoints: dict[str, Endpoint] = {
            name: endpoint_of(upstream) for name, upstream in configuration.upstreams.items()
        }
        self._requirements = {
            name: tuple(requirement_of(written) for written in model.requirements)
            for name, model in configuration.models.items()
        }
        self.recent = Recent(settings.recent)

    def drain(self) -> None:
        """Take no new runs: the server is to stop."""
        self.draining = True
        self.places.close()
        self.recent.close()

    async def aclose(self) -> None:
        """Close the connections to the upstreams."""
        for endpoint in self._endpoints.values():
            await endpoint.aclose()

    # Who asks

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse what the page of another site may make a browser send, where no key says who asks.

        Raises:
            BadRequestError: With status 415, or 503 while the server drains.
        """
        if self.draining:
            raise BadRequestError(STOPPING, status=503, code="draining")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not self._keys and kind != "application/json":
            message = "send application/json"
            raise BadRequestError(message, status=415)

    def check_key(self, header: str | None, *, by_browser: bool = True) -> None:
        """Refuse a client without a key, where there are keys. In constant time for any key.

        Args:
            header: What it says of itself.
            by_browser: Whether a browser may say it (``Basic``), which it does for any page that asks.

        Raises:
            BadRequestError: With status 401.
        """
        if not self._keys:
            return
        said = (header or "").strip()
        given = _digest(
            (key_in(said) if by_browser or said[:6].lower() == "bearer" else None) or ""
        )
        if not sum(hmac.compare_digest(given, key) for key in self._keys):  # all of them, always
            message = "a key is needed: send it as `Authorization: Bearer …`"
            raise BadRequestError(message, status=401, code="invalid_api_key")

    # A run

    def run_for(self, asking: Asked) -> tuple[Run[Any], Relay | None, ServedModel]:
        """The run that answers a request, not started yet.

        Raises:
            BadRequestError: If it cannot be served.
        """
        model = self.configuration.models.get(asking.model)
        if model is None:
            known = ", ".join(self.configuration.models)
            message = f"there is no model {asking.model!r}; there are {known}"
            raise BadRequestError(message, status=404, code="model_not_found", param="model")
        endpoint = self._endpoints[model.upstream]
        backend = endpoint.relay(asking)
        relay = backend if isinstance(backend, Relay) else None
        rules = self._requirements[asking.model]
        options = dict(asking.options)
        wanted = format_of(options.get("response_format"))
        shows = self.configuration.server.recent > 0
        upstream = self.configuration.upstreams[model.upstream]
        judge = self._endpoints[model.judge_upstream or model.upstream].judge()
        more = []
        if relay is not None:  # without tools, no call is valid
            tools = validators_of(options.get("tools", upstream.options.get("tools", [])))
            more.append(valid_tool_calls(relay, tools, rules, judge))
        if wanted is not None:
            more.append(meant(rules, judge))
        try:
            pipeline: Pipeline[Any] = Pipeline(
                backend,
                requirements=[*rules, *more],
                chunking=model.chunking,
                retry=None if model.repair is None else model.repair.repair(),
                validation_backend=judge,
                format=wanted,
                emit_tokens=shows,
                emit_verdicts=shows,
                stall_timeout=upstream.stall_timeout,
            )
            if relay is None:  # such a backend asks for a type itself, and has defaults of its own
                request = backend.request(asking.turns, **known_options(options))
            else:
                request = GenerationRequest(asking.turns, options=options)
        except BadRequestError:
            raise
        except UsageError as error:
            raise BadRequestError(str(error)) from None
        return pipeline.start_request(request), relay, model


@asynccontextmanager
async def pipeline_of(configuration: Configuration, name: str) -> AsyncIterator[Pipeline[Any]]:
    """A model of the file as a pipeline, without a gateway before it.

    Yields:
        The pipeline. Its connections are closed afterwards.

    Raises:
        UsageError: If the file has no such model.
    """
    model = configuration.models.get(name)
    if model is None:
        message = (
            f"there is no model {name!r} in the file; there are {', '.join(configuration.models)}"
        )
        raise UsageError(message)
    speaks = endpoint_of(configuration.upstreams[model.upstream])
    judges = endpoint_of(configuration.upstreams[model.judge_upstream or model.upstream])
    try:
        yield Pipeline(
            speaks.judge(),
            requirements=[requirement_of(written) for written in model.requirements],
            chunking=model.chunking,
            retry=None if model.repair is None else model.repair.repair(),
            validation_backend=judges.judge(),
            stall_timeout=configuration.upstreams[model.upstream].stall_timeout,
        )
    finally:
        await speaks.aclose()
        await judges.aclose()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
