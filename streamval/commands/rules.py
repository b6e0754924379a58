"""``streamval rules``: the ready requirements."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from streamval.requirements import ready_requirements


def rules() -> None:
    """List the ready requirements for --rule: what each does, what it takes, and when it fails."""
    out = Console(highlight=False)
    for ready in ready_requirements().values():
        takes = ", ".join(
            name if parameter.default is parameter.empty else f"{name}={parameter.default}"
            for name, parameter in ready.arguments.items()
        )
        out.print(Text.assemble((ready.name, "bold cyan"), (f"  {takes}", "dim")))
        out.print(Padding(Text(f"{ready.summary}\nFails {ready.fails}."), (0, 0, 0, 4)))
