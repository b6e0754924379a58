"""Requirements by name, for a command line and a configuration file.

Ready requirements have a name; a user's objects are named by module or file.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from copy import copy
from difflib import get_close_matches
from functools import cache
from importlib import import_module  # noqa: TID251  for the user's own modules
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import streamval.requirements as ready_ones
from streamval.errors import UsageError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import stream_check
from streamval.requirements.llm_judge import LLMaJRequirement
from streamval.requirements.schema import MatchesSchema
from streamval.structured.json_schema.schema import JSONSchema

_FAILS = {
    "word_limit": "with the chunk that exceeds it; too few are found at the end",
    "sentence_limit": "with the chunk that exceeds it; too few are found at the end",
    "char_limit": "with the chunk that exceeds it; too few are found at the end",
    "finished": "at the end, if the token limit cut the answer off",
    "forbidden_words": "with the chunk that contains one",
    "forbidden_pattern": "with the chunk that matches",
    "required_words": "at the end",
    "required_pattern": "at the end",
    "language": "once another language is certain",
    "no_repetition": "with the sentence that is repeated",
    "reasoning_limit": "with the word of reasoning that exceeds it",
    "no_loop": "with the third turn of a loop",
    "no_secrets": "with the word that completes a key; holds back text that may become a key",
    "no_personal_data": "with the word that completes it; holds back text that may become it",
    "allowed_hosts": "with the link to another host",
    "valid_json": "at the first character of the JSON that is invalid; prose alone, at the end",
    "valid_python": "when the code fence closes",
    "readable_markdown": "with the line that breaks a list or table",
}


class Ready(NamedTuple):
    """A ready requirement.

    Attributes:
        name: Its name in a command line or a file.
        make: The function that makes it.
        fails: When it fails.
    """

    name: str
    make: Callable[..., Requirement]
    fails: str

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.make) or "").splitlines()[0]

    @property
    def arguments(self) -> dict[str, inspect.Parameter]:
        """Its own arguments, without the options that all requirements have."""
        return {
            name: parameter
            for name, parameter in inspect.signature(self.make).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }


@cache
def ready_requirements() -> dict[str, Ready]:
    """Return all ready requirements by name.

    Example:
        >>> ready_requirements()["word_limit"].summary
        'Limit the number of words (runs of characters without whitespace).'
    """
    return {name: Ready(name, getattr(ready_ones, name), fails) for name, fails in _FAILS.items()}


_OPTIONS = inspect.signature(Requirement.__init__).parameters.keys() - {"self", "validation_fn"}


def requirement_named(name: str, given: Any = None) -> Requirement:
    """Make a ready requirement.

    Args:
        name: Its name, such as ``"word_limit"``.
        given: Its arguments: a mapping of names to values, or one value for the first argument. `on` in it is
            the channel, or a list of channels, that it judges.

    Raises:
        UsageError: If no requirement has that name, or it does not take the arguments.

    Example:
        >>> requirement_named("word_limit", {"at_most": 80}).description
        'at most 80 words'
        >>> requirement_named("forbidden_words", ["acme"]).description
        'never say "acme"'
        >>> requirement_named("no_loop", {"on": "reasoning"}).listens
        ('reasoning',)
    """
    known = ready_requirements()
    if name not in known:
        raise UsageError(f"no ready requirement is called {name!r}; there are {', '.join(known)}")
    ready = known[name]
    named = dict(given) if isinstance(given, Mapping) else {}
    channels = named.pop("on", named.pop(True, None))  # YAML reads the key `on` as true
    positional = () if given is None or isinstance(given, Mapping) else (given,)
    own = list(ready.arguments)
    takes = f"it takes {', '.join(own)}" if own else "it takes no arguments"
    for unknown in named.keys() - {*own, *_OPTIONS}:
        close = get_close_matches(unknown, [*own, *_OPTIONS], 1)
        hint = f"did you mean {close[0]!r}?" if close else takes
        raise UsageError(f"{name} has no argument {unknown!r}; {hint}")
    try:
        inspect.signature(ready.make).bind(*positional, **named)
        made = ready.make(*positional, **named)
    except TypeError as error:
        raise UsageError(f"{name} cannot be made with these arguments: {error}; {takes}") from None
    if channels is None:
        return made
    return made.on(*([channels] if isinstance(channels, str) else channels))


def requirement_of(written: str | Mapping[str, Any]) -> Requirement:
    """Return a requirement as a configuration file writes it: ``NAME``, or ``NAME: arguments``.

    ``judge: TEXT`` asks a model about each chunk and the whole, ``judge_whole: TEXT`` about the whole only.
    ``schema: {…}``, or the name of a file with it, demands JSON by a JSON Schema. ``python: MODULE:NAME`` is a
    user's own. With ``enforce: false`` beside it, any of them only observes.

    Raises:
        UsageError: If it is not a requirement.

    Example:
        >>> requirement_of({"forbidden_words": {"words": ["acme"]}}).description
        'never say "acme"'
        >>> requirement_of({"judge": "Be polite.", "enforce": False}).enforce
        False
    """
    if isinstance(written, str):
        return requirement_named(written)
    forms = {name: given for name, given in written.items() if name != "enforce"}
    if len(forms) != 1:
        raise UsageError("write one requirement per entry: `- name`, or `- name: arguments`")
    ((name, given),) = forms.items()
    made = _of_form(name, given)
    enforce = written.get("enforce", made.enforce)
    if not isinstance(enforce, bool):
        raise UsageError(f"enforce: must be true or false, not {enforce!r}")
    if enforce is not made.enforce:
        made = copy(made)  # a user's own may be in other places, too
        made.enforce = enforce
    return made


def _of_form(name: str, given: Any) -> Requirement:
    if name in ("judge", "judge_whole"):
        if not isinstance(given, str) or not given.strip():
            raise UsageError(f"{name}: needs a text that says what is required")
        return LLMaJRequirement(given, streaming=name == "judge")
    if name == "schema":
        return MatchesSchema(_schema_in(given), "the output is JSON by its schema")
    if name == "python":
        return _imported(given)
    return requirement_named(name, given)


def _schema_in(given: object) -> JSONSchema:
    """Return a JSON Schema, written out or in a file."""
    if isinstance(given, str):
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"schema: cannot read {given!r}: {error}") from None
    if not isinstance(given, (dict, bool)):
        raise UsageError("schema: needs a JSON Schema, or the name of a file with one")
    return JSONSchema(given)


def _imported(place: object) -> Requirement:
    """Return a user's own requirement: a `Requirement`, its class, or a plain function."""
    module, _, name = str(place).partition(":")
    if not module or not name:
        raise UsageError(f"python: needs MODULE:NAME, not {place!r}")
    found = object_in(str(place))
    if isinstance(found, type) and issubclass(found, Requirement):
        try:
            found = found()
        except Exception as error:  # of the user's own class
            raise UsageError(f"{place}() raised {type(error).__name__}: {error}") from None
    if isinstance(found, Requirement):
        return found
    if callable(found):
        return stream_check(found, name)
    raise UsageError(f"{place} is neither a Requirement nor a function, but {type(found).__name__}")


def requirement_written(text: str) -> Requirement:
    """Make a ready requirement from its form on a command line: ``NAME``, or ``NAME=JSON``.

    Raises:
        UsageError: As `requirement_named`, and if the part behind the ``=`` is not JSON.

    Example:
        >>> requirement_written('word_limit={"at_most": 80}').description
        'at most 80 words'
    """
    name, equals, written = text.partition("=")
    try:
        given = json.loads(written) if equals else None
    except ValueError:
        raise UsageError(
            f'the part after {name}= must be JSON, such as {name}={{"at_most": 80}} or {name}="en", '
            f"not {written!r}"
        ) from None
    try:
        return requirement_named(name.strip(), given)
    except UsageError as error:
        raise UsageError(f'{error}; write it as NAME=JSON: word_limit={{"at_most": 80}}') from None


def object_in(place: str) -> Any:
    """Return the object that ``MODULE:NAME`` or ``FILE.py:NAME`` names.

    Modules are searched on `sys.path`; `search_here` adds a folder to it.

    Raises:
        UsageError: If there is no such object, or the module cannot be imported.

    Example:
        >>> object_in("math:pi")
        3.141592653589793
    """
    source, _, name = place.rpartition(":")
    if not source or not name:
        raise UsageError(f"{place!r} names nothing: write MODULE:NAME, or FILE.py:NAME")
    try:
        is_file = source.endswith(".py")
        module = _module_of_file(Path(source)) if is_file else import_module(source)
    except Exception as error:  # of the user's own code
        raise UsageError(f"{source} cannot be imported: {type(error).__name__}: {error}") from None
    found = getattr(module, name, None)
    if found is None:
        raise UsageError(f"there is no {name!r} in {source}")
    return found


def search_here(folder: str | Path = "") -> None:
    """Let Python find modules in a folder, behind all others: none there replaces one of the program's own.

    It changes `sys.path` for the whole process, so only the command line and the gateway's workers
    call it, once, when they start.

    Args:
        folder: The folder; by default the working directory, whatever it is at the time.
    """
    entry = str(Path(folder).resolve()) if folder else ""
    if entry not in sys.path:
        sys.path.append(entry)


def _module_of_file(file: Path) -> ModuleType:
    spec = spec_from_file_location(f"streamval_imported_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where pydantic looks up the names in its annotations
    spec.loader.exec_module(module)
    return module
