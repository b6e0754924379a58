"""The gateway's file: checked as a whole at the start, every mistake named at its line."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from streamval.chunkers.chunking import check_chunking
from streamval.errors import UsageError
from streamval.pipeline.repair import Repair
from streamval.requirements.base import Requirement
from streamval.requirements.function import stream_check
from streamval.requirements.llm_judge import LLMaJRequirement
from streamval.requirements.named import requirement_named
from streamval.serve.endpoints import endpoint_of
from streamval.serve.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_VARIABLE = re.compile(r"\$\{(\w+)\}")

KEY = r"^[!-~]{8,}$"
"""A key: eight characters or more, of those that a header takes."""

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class ConfigurationError(UsageError):
    """The file cannot be served. The message names every mistake, each at its line."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RepairSettings(_Strict):
    """What follows a failure."""

    loop_budget: Positive = 2
    mode: Literal["continue", "restart", "ask"] | None = None

    def repair(self) -> Repair:
        """The same, for a pipeline."""
        return Repair(self.loop_budget, self.mode)


class ServedModel(_Strict):
    """What clients ask for by its name.

    Attributes:
        upstream: Who speaks.
        chunking: How its text is cut.
        requirements: Who judges: names of ready requirements, or one of ``NAME: arguments``,
            ``judge: TEXT``, ``python: MODULE:NAME``.
        judge_upstream: Whom judges ask; by default who speaks.
        repair: What follows a failure; nothing, without it.
        release: ``chunk``: each as soon as it has passed. ``all``: nothing before all of it is valid.
        on_failure: ``refusal``: what was good stands, then the finish reason ``content_filter``.
            ``error``: an error.
    """

    upstream: str
    chunking: Literal["sentence", "word", "line", "paragraph", "markdown"] | None = "sentence"
    requirements: list[str | dict[str, Any]] = Field(default_factory=list)
    judge_upstream: str | None = None
    repair: RepairSettings | None = None
    release: Literal["chunk", "all"] = "chunk"
    on_failure: Literal["refusal", "error"] = "refusal"


class ServerSettings(_Strict):
    """Where and how much is served.

    Attributes:
        keys: Of which a client must send one; none asks for none.
        max_runs: Runs at once.
        max_waiting: Requests that may wait for a place; more are refused with 429.
        max_body_bytes: Of a request.
        drain_seconds: How long running requests have, once the server is told to stop.
        run_seconds: How long a run may take, with its repairs and with waiting for its client to read. It
            ends an upstream that says nothing for ever, which a stall does not show.
        ping_seconds: After how long a client whose network has vanished is noticed. On Linux it is also
            how long a client may read nothing at all, once what lies between is full.
        recent: How many runs the page shows, to whoever has a key: with their text, and with what was
            withheld of it. 0 for no page.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    keys: list[Annotated[str, Field(pattern=KEY)]] = Field(default_factory=list, repr=False)
    max_runs: Positive = 256
    max_waiting: Annotated[int, Field(ge=0)] = 512
    max_body_bytes: Positive = 4 * 1024 * 1024
    drain_seconds: Seconds = 20.0
    run_seconds: Seconds = 600.0
    ping_seconds: Seconds = 15.0
    recent: Annotated[int, Field(ge=0, le=100)] = 0

    @model_validator(mode="after")
    def _is_guarded(self) -> ServerSettings:
        if not self.keys and self.host not in ("127.0.0.1", "localhost", "::1"):
            message = f"without keys it serves loopback only, and not {self.host}: set keys"
            raise ValueError(message)
        return self


class Configuration(_Strict):
    """The whole file."""

    upstreams: Annotated[dict[str, Upstream], Field(min_length=1)]
    models: Annotated[dict[str, ServedModel], Field(min_length=1)]
    server: ServerSettings = ServerSettings()


DEFAULT = """
upstreams:
  local: {model: local, options: {max_tokens: 120, stop: ["\\n"]}}
models:
  careful:
    upstream: local
    requirements:
      - no_repetition
      - sentence_limit: {at_most: 12}
      - forbidden_words: [as an AI, basically]
    repair: {loop_budget: 4}
server: {recent: 20}
"""
"""What is served without a file."""


def read_configuration(path: str | Path | None = None) -> Configuration:
    """Read the gateway's file, and check all of it.

    Args:
        path: The file; without one, the embedded model is served with a few ready rules.

    Returns:
        What it says, with variables of the environment filled in.

    Raises:
        ConfigurationError: With every mistake, each at its line.
    """
    if path is None:
        return parse_configuration(DEFAULT, "the default configuration", os.environ)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read {path}: {error}"
        raise ConfigurationError(message) from None
    sys.path.insert(0, str(Path(path).resolve().parent))  # where `python:` rules are looked for
    try:
        return parse_configuration(text, str(path), os.environ)
    finally:
        sys.path.pop(0)


def parse_configuration(text: str, name: str, environment: Mapping[str, str]) -> Configuration:
    """Read the text of a file.

    Args:
        text: YAML.
        name: What messages call it.
        environment: Where ``${NAME}`` is looked up.

    Raises:
        ConfigurationError: With every mistake, each at its line.

    Example:
        >>> parse_configuration("upstreams: {a: {modle: local}}", "a.yaml", {})
        Traceback (most recent call last):
        streamval.serve.configuration.ConfigurationError: a.yaml cannot be served:
          line 1: upstreams.a.model: is missing
          line 1: upstreams.a.modle: is not known here
          line 1: models: is missing
    """
    try:
        document = yaml.compose(text, yaml.SafeLoader)
        problems: list[str] = []
        lines = dict(_lines(document, (), problems)) if document is not None else {}
        plain = yaml.safe_load(text)
    except RecursionError:
        raise _refused(name, ["the file: it contains itself"]) from None
    except (ValueError, TypeError) as error:
        raise _refused(name, [f"the file: a value cannot be read: {error}"]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "the file"
        raise _refused(name, [f"{where}: is no YAML: {getattr(error, 'problem', error)}"]) from None
    if problems:  # a key that is there twice
        raise _refused(name, problems)
    value = _filled(plain, (), environment, lines, problems)
    configuration = None
    try:
        configuration = Configuration.model_validate(value)
    except ValidationError as error:
        problems += [_said(found, lines) for found in error.errors()]
    if configuration is not None:
        problems += [f"{_line(lines, place)}: {why}" for place, why in _wrong(configuration)]
    if problems or configuration is None:
        raise _refused(name, problems)
    return configuration


def requirement_of(written: str | Mapping[str, Any]) -> Requirement:
    """A requirement as the file writes it.

    Raises:
        UsageError: If it is none.

    Example:
        >>> requirement_of({"forbidden_words": {"words": ["acme"]}}).description
        'never say "acme"'
    """
    if isinstance(written, str):
        return requirement_named(written)
    if len(written) != 1:
        message = "write one requirement an entry: `- name`, or `- name: arguments`"
        raise UsageError(message)
    ((name, given),) = written.items()
    if name == "judge":
        if not isinstance(given, str) or not given.strip():
            message = "judge: needs a text that says what is required"
            raise UsageError(message)
        return LLMaJRequirement(given, streaming=True)
    if name == "python":
        return _imported(given)
    return requirement_named(name, given)


def _imported(place: object) -> Requirement:
    """A user's own requirement, by ``MODULE:NAME``: a `Requirement`, its class, or a plain function."""
    module, _, name = str(place).partition(":")
    if not module or not name:
        message = f"python: needs MODULE:NAME, not {place!r}"
        raise UsageError(message)
    try:
        found: Any = getattr(import_module(module), name)
        if isinstance(found, type) and issubclass(found, Requirement):
            found = found()
    except Exception as error:  # of the user's own module
        message = f"{place} cannot be had: {type(error).__name__}: {error}"
        raise UsageError(message) from None
    if isinstance(found, Requirement):
        return found
    if callable(found):
        return stream_check(found, name)
    message = f"{place} is neither a Requirement nor a function, but {type(found).__name__}"
    raise UsageError(message)


_Place = tuple[str | int, ...]


def _wrong(configuration: Configuration) -> Iterator[tuple[_Place, str]]:
    """What is well written and cannot work, and where."""
    upstreams = configuration.upstreams
    for name, upstream in upstreams.items():
        try:
            endpoint_of(upstream)
        except Exception as error:  # of whatever package speaks to it
            yield ("upstreams", name), str(error)
    for name, model in configuration.models.items():
        place: _Place = ("models", name)
        for field in ("upstream", "judge_upstream"):
            wanted = getattr(model, field)
            if wanted is not None and wanted not in upstreams:
                known = ", ".join(upstreams)
                yield (*place, field), f"{wanted!r} is no upstream; there are {known}"
        for at, written in enumerate(model.requirements):
            try:
                if requirement_of(written).judges is bytes:
                    yield (*place, "requirements", at), "it judges sound, and text is served"
            except Exception as error:  # of a user's own requirement
                yield (*place, "requirements", at), str(error)
        if model.upstream in upstreams and _takes_back(model, upstreams[model.upstream]):
            yield (
                (*place, "release"),
                (
                    "its upstream cannot continue, so a repair takes back what was sent: write "
                    "`release: all`, `repair: {mode: ask}`, or say how the upstream continues"
                ),
            )
        check_chunking(model.chunking)


def _takes_back(model: ServedModel, upstream: Upstream) -> bool:
    repair = model.repair
    if repair is None or repair.loop_budget == 1 or model.release == "all":
        return False
    if repair.mode == "restart":
        return True
    return repair.mode != "ask" and not upstream.can_continue


def _lines(node: yaml.Node, place: _Place, problems: list[str]) -> Iterator[tuple[_Place, int]]:
    """The line of each place in a document."""
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problems.append(f"line {key.start_mark.line + 1}: a name must be a word")
                continue
            if key.value in seen:
                where = ".".join(map(str, (*place, key.value)))
                problems.append(f"line {key.start_mark.line + 1}: {where}: is there twice")
            seen.add(key.value)
            yield from _lines(value, (*place, key.value), problems)
            yield (*place, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from _lines(value, (*place, at), problems)


def _filled(
    value: Any,
    place: _Place,
    environment: Mapping[str, str],
    lines: Mapping[_Place, int],
    problems: list[str],
) -> Any:
    """The value with ``${NAME}`` replaced by variables of the environment."""
    if isinstance(value, dict):
        return {
            name: _filled(inner, (*place, str(name)), environment, lines, problems)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _filled(inner, (*place, at), environment, lines, problems)
            for at, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found[1] not in environment:
            problems.append(f"{_line(lines, place)}: the variable {found[1]} is not set")
        return environment.get(found[1], "")

    return _VARIABLE.sub(replaced, value)


_WORDS = {"missing": "is missing", "extra_forbidden": "is not known here"}


def _said(found: Any, lines: Mapping[_Place, int]) -> str:
    why = _WORDS.get(found["type"], found["msg"].removeprefix("Value error, "))
    return f"{_line(lines, found['loc'])}: {why}"


def _line(lines: Mapping[_Place, int], place: Sequence[str | int]) -> str:
    """The line of a place, or of the nearest one around it, and the place."""
    around = tuple(place)
    while around and around not in lines:
        around = around[:-1]
    return f"line {lines.get(around, 1)}: {'.'.join(map(str, place)) or 'the file'}"


def _refused(name: str, problems: Sequence[str]) -> ConfigurationError:
    return ConfigurationError("\n  ".join([f"{name} cannot be served:", *problems]))
