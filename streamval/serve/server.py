"""Starts, drains and stops the gateway."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.request import ProxyHandler, build_opener

import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors.multiprocess import Multiprocess

from streamval.errors import ConfigurationError, UsageError
from streamval.requirements.by_name import search_here
from streamval.serve.config_file import read_configuration
from streamval.serve.configuration import Configuration
from streamval.serve.connections import Connection, most_connections
from streamval.serve.gateway import Gateway

BACKLOG = 2048
"""Connections that wait to be accepted."""

HEALTHCHECK_SECONDS = 30
"""Seconds after which a worker that gives no sign of life is replaced. A busy machine takes long to start one."""

_FILE = "STREAMVAL_SERVE_FILE"
"""The environment variable that names the file for workers."""


def serve(path: str | Path | None = None, *, workers: int = 1, port: int | None = None) -> None:
    """Serve until the process is stopped; then running requests get the drain timeout.

    Args:
        path: The gateway's file; without one, the embedded model with a few ready rules.
        workers: Processes behind the one address.
        port: The port, in place of the file's.

    Raises:
        ConfigurationError: If the file cannot be served.
        UsageError: If something else listens there.
    """
    configuration = read_configuration(path)  # in this process, so that mistakes are reported once
    settings = configuration.server
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    try:
        listening = listen(settings.host, settings.port, settings.ping_seconds)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "set server.port in the file, or --port"
        ) from None
    with log_to(sys.stderr):
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{settings.port}"
        started: dict[str, Any] = {"serving": f"{address}/v1", "models": list(configuration.models)}
        if settings.recent:
            started["page"] = f"{address}/"
        ready = threading.Thread(target=_say_when_ready, args=(address, started), daemon=True)
        ready.start()
        if workers == 1:
            gateway = Gateway(configuration)
            server = Server(gateway, config_for(gateway.app, configuration), path)
            _keep_what_is_loaded()
            server.run([listening])
        else:
            _run_workers(path, configuration, listening, workers)


def _keep_what_is_loaded() -> None:
    """Let the garbage collector leave out what is loaded by now: a request takes a sixth less of the CPU."""
    gc.collect()
    gc.freeze()


def _say_when_ready(address: str, started: dict[str, Any]) -> None:
    """Print what is served as soon as a request would be answered: the embedded model takes seconds to load."""
    with suppress(OSError), build_opener(ProxyHandler({})).open(f"{address}/readyz"):
        _say(started)


def _run_workers(
    path: str | Path | None, configuration: Configuration, listening: socket.socket, workers: int
) -> None:
    os.environ[_FILE] = "" if path is None else str(path)
    with tempfile.TemporaryDirectory(prefix="streamval-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        config = uvicorn.Config(
            "streamval.serve.server:worker",
            factory=True,
            workers=workers,
            fd=listening.fileno(),
            timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
            **_options(configuration),
        )
        _Workers(config, sockets=[config.bind_socket()]).run()


class _Workers(Multiprocess):
    """The processes behind the one address."""

    def init_processes(self) -> None:
        """Start all workers."""
        with _sighup_waits():
            super().init_processes()

    def keep_subprocess_alive(self) -> None:
        """Start a worker anew where one has died."""
        with _sighup_waits():
            super().keep_subprocess_alive()

    def handle_hup(self) -> None:
        """Let each worker read the file again. A new process would cut the streams of an old one."""
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


@contextmanager
def _sighup_waits() -> Iterator[None]:
    """Block SIGHUP inside the block, and in processes that start there until they unblock it.

    A signal would end a worker that has not installed its handler yet.
    """
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def worker() -> Starlette:
    """Return the application of one of several processes."""
    log_to(sys.stderr).__enter__()  # for as long as the process lives
    file = os.environ[_FILE]
    if file:
        search_here(Path(file).parent)
    Connection.most = most_connections()  # of this process
    gateway = Gateway(read_configuration(file or None), shared=True)
    _keep_what_is_loaded()
    for number in (signal.SIGTERM, signal.SIGINT):
        _drain_at(number, gateway)
    if hasattr(signal, "SIGHUP"):
        again = partial(_read_again, gateway, file or None)
        signal.signal(
            signal.SIGHUP, lambda *_: asyncio.get_running_loop().call_soon_threadsafe(again)
        )
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see `_sighup_waits`
    return gateway.app


def _read_again(gateway: Gateway, path: str | Path | None) -> None:
    """Serve what the file says now. One that cannot be served is logged, and the last one stays."""
    try:
        gateway.reload(read_configuration(path))
    except ConfigurationError as error:
        said = {"error": "the file was not read again", "why": str(error)}
    else:
        said = {"reloaded": str(path or "the default configuration")}
    _say(said)


def _say(said: dict[str, Any]) -> None:
    """Write a line of JSON to stderr in one piece: `print` writes two where Python does not buffer.

    The lines of two workers would be joined.
    """
    sys.stderr.write(f"{json.dumps(said)}\n")
    sys.stderr.flush()


def _drain_at(number: int, gateway: Gateway) -> None:
    """Drain at a signal, before uvicorn's own handler, which is there already, waits for the connections."""
    ends = signal.getsignal(number)

    def drain(number: int, frame: Any) -> None:
        gateway.drain()
        if callable(ends):
            ends(number, frame)

    signal.signal(number, drain)


def listen(host: str, port: int, ping_seconds: float) -> socket.socket:
    """Return a listening socket, whose connections notice a network that has vanished.

    Without a FIN a vanished client goes unnoticed. Probes are sent to silent connections, and data that is not
    acknowledged within `ping_seconds` ends the connection (RFC 5482; Linux).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
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
    """Return the configuration of uvicorn for an application."""
    return uvicorn.Config(app, **_options(configuration))


def _options(configuration: Configuration) -> dict[str, Any]:
    Connection.most = most_connections()
    return {
        "http": Connection,
        # So many are accepted before the first of them is looked at.
        "backlog": min(max(Connection.most // 4, 1), BACKLOG),
        "log_level": "warning",
        "access_log": False,  # the gateway writes its own line for each request
        "server_header": False,
        "ws": "none",
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": round(configuration.server.drain_seconds),
    }


class Server(uvicorn.Server):
    """Drains the gateway as soon as a signal asks it to stop. SIGHUP reads the file again.

    While running requests have their time to end, others still hear that the server drains: ``/readyz`` with 503.

    Args:
        gateway: The gateway.
        config: Of uvicorn.
        path: The gateway's file.
    """

    def __init__(
        self, gateway: Gateway, config: uvicorn.Config, path: str | Path | None = None
    ) -> None:
        super().__init__(config)
        self._gateway, self._path = gateway, path
        self._stops_at: float | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes."""
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)
        await super().serve(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close the sockets: once no request runs, or its time to end is over."""
        should_exit = await super().on_tick(counter)
        if not should_exit or self.force_exit or not self._gateway.draining:
            return should_exit
        now, left = asyncio.get_running_loop().time(), self.config.timeout_graceful_shutdown or 0
        if self._stops_at is None:
            self._stops_at = now + left
        self.config.timeout_graceful_shutdown = max(round(self._stops_at - now), 0)
        return not self._gateway.limiter.running or now >= self._stops_at

    def reload(self) -> None:
        """Read the file again."""
        _read_again(self._gateway, self._path)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Drain; a second Ctrl-C stops at once."""
        self._gateway.drain()
        super().handle_exit(sig, frame)


@contextmanager
def log_to(stream: TextIO) -> Iterator[None]:
    """Write the gateway's log to a stream inside the block: one line of JSON a request."""
    log = logging.getLogger("streamval.serve")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate
