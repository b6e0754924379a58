"""``streamval probe``: what a model's endpoint can do, tried."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamval.backends.default import default_backend
from streamval.backends.openai import OpenAIBackend
from streamval.commands.exits import BROKEN, one_line_errors
from streamval.commands.probing import Finding, Way, as_json
from streamval.commands.probing import probe as tried
from streamval.errors import UsageError
from streamval.types.text import visible

SIGNS = {True: ("yes", "green"), False: ("no", "red"), None: ("not told", "yellow")}


def probe(
    model: Annotated[
        str | None, typer.Argument(help="local, or a LiteLLM model name; not with --base-url.")
    ] = None,
    *,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="The server's URL, such as http://localhost:8000/v1."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--model", "-m", help="The model's name, as that server knows it.")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", envvar="OPENAI_API_KEY", help="The key of that server."),
    ] = None,
    as_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try what an endpoint can do: continue an answer and in which way, reasoning, tools, a schema, usage, stopping.

    It sends about twelve small requests, and two of four hundred tokens. Nothing is looked up: only what the
    endpoint did counts. At the end it prints the line that configures it.
    """
    with one_line_errors():
        if (base_url is None) != (name is None) or (base_url is None) == (model is None):
            raise UsageError("give a MODEL, or --base-url and --model")
        ways = (
            _ways_of_model(str(model))
            if base_url is None
            else _ways_of(base_url, str(name), api_key)
        )
        out, err = Console(highlight=False), Console(stderr=True, highlight=False)

        def note(finding: Finding) -> None:
            if not as_text:
                sign, colour = SIGNS[finding.can]
                row = Table.grid(padding=(0, 2))
                row.add_column(width=26)
                row.add_column(width=8)
                row.add_row(finding.name, Text(sign, colour), Text(visible(finding.why), "dim"))
                out.print(row)

        best, found, tags = asyncio.run(tried(ways, note))
        line = _line(best or ways[0], tags)
        if as_text:
            typer.echo(as_json(best, found, line))
        elif "answers" not in found:
            out.print(Text.assemble("\n", (visible(line), "bold")), soft_wrap=True)
        if "answers" in found:
            err.print(Text(f"it does not answer: {visible(found['answers'].why)}", "red"))
            raise typer.Exit(BROKEN)


def _ways_of_model(model: str) -> list[Way]:
    backend = default_backend(None if model == "local" else model)
    written = "LocalBackend()" if model == "local" else f"LiteLLMBackend({model!r})"
    file = f"{{model: {model}}}"
    ways = [Way("asked in words", backend, written, file, in_words=True)]
    if backend.supports_prefix:
        ways.insert(0, Way("continues a prefix", backend, written, file))
    return ways


def _ways_of(base_url: str, name: str, api_key: str | None) -> list[Way]:
    def way(said: str, in_words: bool = False, **options: Any) -> Way:
        made = OpenAIBackend(name, base_url=base_url, api_key=api_key, **options)
        python = "".join(f", {option}={value!r}" for option, value in options.items())
        file = "".join(
            f", {option.replace('api', 'completion')}: {value}" for option, value in options.items()
        )
        return Way(
            said,
            made,
            f"OpenAIBackend({name!r}, base_url={base_url!r}{python})",
            f'{{model: openai/{name}, api_base: "{base_url}"{file}}}',
            in_words,
        )

    return [
        way("chat, as it is", continues="message"),
        way("chat, with a flag", continues="flag"),
        way("chat, by vLLM's field", continues="vllm"),
        way("text completion", api="text"),
        way("chat, asked in words", in_words=True),
    ]


def _line(way: Way, tags: tuple[str, str] | None) -> str:
    """Return the configuration of an endpoint, in Python and in the gateway's file."""
    python = way.python
    if tags is not None and python.startswith("OpenAIBackend"):
        python = f"{python[:-1]}, reasoning_tags={tags!r})"
    repair = ', retry=Repair(mode="ask")' if way.in_words else ""
    file = f"\nupstreams: {{main: {way.file}}}" if way.file else ""
    return f"Pipeline({python}{repair}){file}" + (
        "\nrepair: {mode: ask}" if way.in_words and way.file else ""
    )
