"""The ready requirements by name, as a command line and a configuration file give them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from streamval.errors import UsageError

if TYPE_CHECKING:
    from streamval.requirements.base import Requirement

_MODULES = {
    "limits": {
        "word_limit": "with the chunk that goes over; too few are found at the end",
        "sentence_limit": "with the chunk that goes over; too few are found at the end",
        "char_limit": "with the chunk that goes over; too few are found at the end",
        "finished": "at the end, where the limit on tokens has cut the answer off",
    },
    "words": {
        "forbidden_words": "with the chunk that says one",
        "forbidden_pattern": "with the chunk that matches",
        "required_words": "at the end",
        "required_pattern": "at the end",
        "language": "once another language is certain",
    },
    "repetition": {
        "NoRepetition": "with the sentence that comes again",
        "NoLoop": "with the third turn of a loop",
    },
    "privacy": {
        "no_secrets": "with the word that completes a key; it holds back what may become one",
        "no_personal_data": "with the word that completes it; it holds back what may become it",
        "allowed_hosts": "with the link that leads elsewhere",
    },
    "schema": {
        "valid_json": "at the first character of the JSON that is none; prose alone, at the end"
    },
    "structure": {
        "valid_python": "when the code fence closes",
        "readable_markdown": "with the line that breaks a list or table",
    },
}


class Ready(NamedTuple):
    """A ready requirement.

    Attributes:
        name: What a command line or a file calls it.
        make: Makes one.
        fails: When it fails.
    """

    name: str
    make: Callable[..., Requirement]
    fails: str

    @property
    def summary(self) -> str:
        """What it requires, in a line."""
        return (inspect.getdoc(self.make) or "").splitlines()[0]

    @property
    def arguments(self) -> dict[str, inspect.Parameter]:
        """What it takes, `options` of every requirement left out."""
        return {
            name: parameter
            for name, parameter in inspect.signature(self.make).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }


@cache
def ready_requirements() -> dict[str, Ready]:
    """All that there are, by name.

    Example:
        >>> ready_requirements()["word_limit"].summary
        'At least and at most so many words (runs of characters without whitespace).'
    """
    found = {}
    for module, names in _MODULES.items():
        package = import_module(f"streamval.requirements.{module}")
        for public, fails in names.items():
            name = {"NoRepetition": "no_repetition", "NoLoop": "no_loop"}.get(public, public)
            found[name] = Ready(name, getattr(package, public), fails)
    return found


def requirement_named(name: str, given: Any = None) -> Requirement:
    """A ready requirement, by its name and arguments.

    Args:
        name: Such as ``"word_limit"``.
        given: Its arguments: a mapping of names to values, or one value, which is the first.

    Raises:
        UsageError: If there is none of that name, or it does not take the arguments.

    Example:
        >>> requirement_named("word_limit", {"at_most": 80}).description
        'at most 80 words'
        >>> requirement_named("forbidden_words", ["acme"]).description
        'never say "acme"'
    """
    known = ready_requirements()
    if name not in known:
        message = f"no ready requirement is called {name!r}; there are {', '.join(known)}"
        raise UsageError(message)
    ready = known[name]
    named = dict(given) if isinstance(given, Mapping) else {}
    positional = () if given is None or isinstance(given, Mapping) else (given,)
    try:
        inspect.signature(ready.make).bind(*positional, **named)
        return ready.make(*positional, **named)
    except TypeError as error:
        takes = ", ".join(str(parameter) for parameter in ready.arguments.values()) or "nothing"
        message = f"{name} cannot be made so: {error}; it takes {takes}"
        raise UsageError(message) from None


def requirement_written(text: str) -> Requirement:
    """A ready requirement as a command line writes it: ``NAME``, or ``NAME=JSON``.

    Raises:
        UsageError: As `requirement_named`, and if what is behind the ``=`` is no JSON.

    Example:
        >>> requirement_written('word_limit={"at_most": 80}').description
        'at most 80 words'
    """
    name, equals, written = text.partition("=")
    try:
        given = json.loads(written) if equals else None
    except ValueError:
        message = (
            f'what follows {name}= must be JSON, such as {name}={{"at_most": 80}} or {name}="en", '
            f"not {written!r}"
        )
        raise UsageError(message) from None
    return requirement_named(name.strip(), given)
