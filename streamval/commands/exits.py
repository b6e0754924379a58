"""How a command ends: our errors in one line, and an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamval.errors import AuthenticationError, StreamvalError, UnknownModelError, UsageError
from streamval.types.text import visible

VALID, INVALID, WRONG_USE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130

errors = Console(stderr=True)

_OF_SERVE = frozenset(
    {*("aiohttp", "prometheus_client"), *("referencing", "starlette", "uvicorn", "yaml")}
)
"""The packages of the extra `serve`."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn our errors into one line and an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _OF_SERVE:
            raise
        _say(f"{missing} is not installed: pip install 'streamval-llm[serve]'")
        raise typer.Exit(WRONG_USE) from None
    except StreamvalError as error:
        _say(str(error))
        raise typer.Exit(status_of(error)) from None


def status_of(error: StreamvalError) -> int:
    """Return the exit status for an error."""
    wrong_use = isinstance(error, (UsageError, AuthenticationError, UnknownModelError))
    return WRONG_USE if wrong_use else BROKEN


def _say(problem: str) -> None:
    # It may quote a server or a file: shown verbatim, never read as markup.
    said = Table.grid(padding=0)
    said.add_row(Text("streamval: ", "bold red"), Text(visible(problem), overflow="fold"))
    errors.print(said)
