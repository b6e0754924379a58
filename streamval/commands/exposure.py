"""``streamval exposure``: what the clients of a gateway see of planted violations."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamval.commands.exits import one_line_errors
from streamval.errors import StreamBrokenError, UsageError
from streamval.exposure.client import PATHS, Endpoint, Spoken
from streamval.exposure.measure import Row, measured
from streamval.exposure.planted import HARMLESS
from streamval.exposure.upstream import Upstream

OURS = """
upstreams: {main: {}}
models:
  careful:
    upstream: main
    requirements:
      - forbidden_words: [acme, globex, initech, hooli, umbrella-corp, soylent]
      - forbidden_pattern: "(?i)project x-[0-9]+"
      - no_secrets
      - no_personal_data
      - language: en
      - no_repetition
    reasoning: deliver
    repair: {loop_budget: 2}
  typed: {upstream: main, repair: {loop_budget: 2}, release: all}
server: {max_runs: 100}
"""
"""The configuration that is measured where none is given."""

TO_START = 60.0
"""Seconds that the gateway may take to start."""


def exposure(
    config: Annotated[
        Path | None,
        typer.Argument(help="A file of `streamval serve`; by default, six ready rules."),
    ] = None,
    *,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Measure a gateway that already runs.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Its model; by default, the first in CONFIG."),
    ] = None,
    typed: Annotated[
        str | None,
        typer.Option("--typed", help="Its model for JSON by a schema; by default, the same."),
    ] = None,
    api_key: Annotated[
        str, typer.Option("--api-key", envvar="OPENAI_API_KEY", help="The key of that gateway.")
    ] = "none",
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol", help="chat, responses, messages; by default all that it speaks."
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", help="Where the scripted upstream listens.")
    ] = "127.0.0.1:18711",
    pause: Annotated[
        float, typer.Option("--pause", min=0.0, help="Milliseconds between its deltas.")
    ] = 10.0,
    as_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count what clients see of planted violations: words, secrets, numbers, reasoning, arguments of tools, ….

    It starts a scripted upstream that speaks OpenAI's chat completions, and asks the gateway for fifty-six answers with
    a violation and fifteen harmless ones, streamed and not, in each protocol that the gateway speaks. CONFIG is
    served with its upstreams replaced; a gateway that runs already (--base-url) has to have the scripted
    upstream as its own, whose address is printed first.
    """
    with one_line_errors():
        wanted = _protocols(protocol)
        if base_url is not None and (config is not None or model is None):
            raise UsageError("give CONFIG, or --base-url and --model")
        err = Console(stderr=True, highlight=False)
        given = _Given(base_url, model, typed, api_key, config)
        rows = asyncio.run(_run(given, _address(listen), pause / 1000, wanted, err))
        if as_text:
            typer.echo(json.dumps([row.as_json() for row in rows], indent=1))
        else:
            _print(rows)


class _Given(NamedTuple):
    """Which gateway is measured."""

    base_url: str | None
    model: str | None
    typed: str | None
    key: str
    config: Path | None


def _protocols(names: Sequence[str] | None) -> list[Spoken]:
    known = [spoken for spoken in PATHS if not names or spoken in names]
    if names and (wrong := set(names) - set(PATHS)):
        raise UsageError(
            f"--protocol is chat, responses or messages, not {', '.join(sorted(wrong))}"
        )
    return known


def _address(listen: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.+):(\d{1,5})", listen)
    if found is None or int(found[2]) > 65535:
        raise UsageError(f"--listen is HOST:PORT, such as 127.0.0.1:18711, not {listen!r}")
    return found[1], int(found[2])


async def _run(
    given: _Given, address: tuple[str, int], pause: float, wanted: list[Spoken], err: Console
) -> list[Row]:
    upstream = Upstream(pause)
    try:
        async with upstream.listening(*address) as port:
            url = f"http://{address[0]}:{port}/v1"
            err.print(Text(f"The scripted upstream is {url} (chat completions, any model and key)"))

            def note(text: str) -> None:
                err.print(Text(text, "dim"))

            if given.base_url is not None:
                model = str(given.model)
                endpoint = Endpoint(given.base_url, model, given.typed or model, given.key)
                return await measured(upstream, endpoint, pause, wanted=wanted, note=note)
            text = OURS if given.config is None else _text_of(given.config)
            content = with_upstream(text, url)
            model = given.model or next(iter(content["models"]))
            typed = given.typed or ("typed" if given.config is None else model)
            with served(content, given.config) as served_at:
                endpoint = Endpoint(served_at, model, typed)
                return await measured(upstream, endpoint, pause, wanted=wanted, note=note)
    except OSError as error:
        raise UsageError(
            f"the upstream cannot listen at {address[0]}:{address[1]}: {error}"
        ) from None


def _text_of(config: Path) -> str:
    try:
        return config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{config} cannot be read: {error}") from None


def with_upstream(text: str, url: str) -> dict[str, Any]:
    """Return the content of a gateway's file with the scripted upstream in place of each of its own.

    Raises:
        UsageError: If it is not a gateway's file.
    """
    import yaml  # of the extra `serve`

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"the file is not YAML: {error}") from None
    if not isinstance(content, dict) or not content.get("models"):
        raise UsageError("the file has no `models`; see `streamval serve --help`")
    main = {"model": "openai/m", "api_base": url, "api_key": "none", "continues": "message"}
    content["upstreams"] = dict.fromkeys(content.get("upstreams") or {"main": None}, main)
    server = content.get("server") or {}
    content["server"] = {
        name: value for name, value in server.items() if name not in ("keys", "host", "port")
    }
    return content


@contextmanager
def served(content: dict[str, Any], config: Path | None) -> Iterator[str]:
    """Serve the content of a gateway's file in a process of its own; the value is its base URL.

    Args:
        content: What is served.
        config: The file that it comes from: rules of one's own are beside it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = [] if config is None else [str(config.resolve().parent)]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if paths else None
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "gateway.yaml"), Path(folder, "gateway.log")
        path.write_text(json.dumps(content))  # which is YAML as well
        command = [sys.executable, "-m", "streamval.cli", "serve", str(path), "--port", str(port)]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)  # noqa: S603
        try:
            _wait_for(port, process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + TO_START
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise StreamBrokenError(f"the gateway did not start: {log.read_text()[-500:]}")


def _print(rows: Sequence[Row]) -> None:
    out = Console(highlight=False)
    for protocol, streamed in dict.fromkeys((row.protocol, row.streamed) for row in rows):
        table = Table(title=f"{protocol}, {'streamed' if streamed else 'not streamed'}")
        for name in ("violation", "of", "shown", "leaked", "paid", "valid", "ends"):
            table.add_column(name, justify="left" if name in ("violation", "ends") else "right")
        for row in rows:
            if (row.protocol, row.streamed) == (protocol, streamed) and row.kind != HARMLESS:
                figures = (row.cases, row.shown, row.leaked, row.paid, row.valid)
                table.add_row(row.kind, *map(str, figures), ", ".join(row.ends))
        out.print(table)
        for row in rows:
            if (row.protocol, row.streamed) == (protocol, streamed) and row.kind == HARMLESS:
                stopped = row.cases - row.valid
                first = f"first text {row.first_ms:g} ms, " if streamed else ""
                out.print(
                    f"harmless: {row.cases}, {stopped} stopped, {first}{row.added_ms:g} ms added\n"
                )
    out.print(
        "shown: most characters of a violation that a client saw; leaked: cases that showed some; paid: "
        "most deltas\nthat came from the model behind a violation; valid: whole answers without it."
    )
