"""Starting the gateway, draining it, and stopping it."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import uvicorn

from streamval.errors import UsageError
from streamval.serve.gateway import Gateway
from streamval.serve.reading import read_configuration

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette

    from streamval.serve.configuration import Configuration

_FILE = "STREAMVAL_SERVE_FILE"
"""How a worker learns which file it serves."""


def serve(path: str | Path | None = None, *, workers: int = 1, port: int | None = None) -> None:
    """Serve until the process is told to stop: then running requests have their time, and no more.

    Args:
        path: The gateway's file; without one, the embedded model with a few ready rules.
        workers: Processes behind the one address.
        port: Where to listen, in place of what the file says.

    Raises:
        ConfigurationError: If the file cannot be served.
        UsageError: If something else listens there.
    """
    configuration = read_configuration(path)  # in this process: every mistake is told once
    settings = configuration.server
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    try:
        listening = listen(settings.host, settings.port, settings.ping_seconds)
    except OSError as error:
        message = (
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "set server.port in the file, or --port"
        )
        raise UsageError(message) from None
    log_to(sys.stderr)
    said = {
        "serving": f"http://{settings.host}:{settings.port}/v1",
        "models": list(configuration.models),
    }
    print(json.dumps(said), file=sys.stderr, flush=True)  # noqa: T201  a line of the log
    if workers == 1:
        gateway = Gateway(configuration)
        Server(gateway, config_for(gateway.app, configuration)).run([listening])
        return
    os.environ[_FILE] = "" if path is None else str(path)
    with tempfile.TemporaryDirectory(prefix="streamval-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        uvicorn.run(
            "streamval.serve.server:worker",
            factory=True,
            workers=workers,
            fd=listening.fileno(),
            **_options(configuration),
        )


def worker() -> Starlette:
    """The application of one of several processes."""
    log_to(sys.stderr)
    return Gateway(read_configuration(os.environ[_FILE] or None), shared=True).app


def listen(host: str, port: int, ping_seconds: float) -> socket.socket:
    """A listening socket, whose connections notice a network that has vanished.

    Without a FIN nothing tells that a client is gone. Probes are sent to one that is silent, and what is not
    acknowledged within `ping_seconds` ends the connection (RFC 5482; Linux).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=2048)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    every = max(int(ping_seconds / 3), 1)
    for name, value in (
        (
            "TCP_NODELAY",
            1,
        ),  # asyncio sets it only where it knows the family: not where a worker gets a number
        ("TCP_KEEPIDLE", every),
        ("TCP_KEEPINTVL", every),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", int(ping_seconds * 1000)),
    ):
        if hasattr(socket, name):  # connections inherit them
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listening


def config_for(app: Any, configuration: Configuration) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(app, **_options(configuration))


def _options(configuration: Configuration) -> dict[str, Any]:
    return {
        "log_level": "warning",
        "access_log": False,  # one line a request is ours
        "server_header": False,
        "ws": "none",
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": round(configuration.server.drain_seconds),
    }


class Server(uvicorn.Server):
    """Says that it is not ready as soon as it is told to stop."""

    def __init__(self, gateway: Gateway, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Drain; a second Ctrl-C stops at once."""
        self._gateway.drain()
        super().handle_exit(sig, frame)


def log_to(stream: Any) -> None:
    """Write the log's lines to a stream, one line of JSON a request."""
    log = logging.getLogger("streamval.serve")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
