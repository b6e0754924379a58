"""The texts of the errors in the code, as patterns."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def messages():
    """Each string of the shipped code that has a blank in it, with `{}` where something is put in."""
    for folder in ("streamval", "chunkers", "operators", "sinks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(
                        one.value if isinstance(one, ast.Constant) else "{}" for one in node.values
                    )


def plain(text):
    """A text without what differs: quotation marks, and what is put in."""
    return re.sub(r"…|\{[^{}]*\}", "{}", text.replace("`", "'"))
