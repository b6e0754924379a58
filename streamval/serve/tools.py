"""Tool calls, judged before anybody could act on them."""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema import SchemaError as JSONSchemaError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry

from streamval.requirements.base import Requirement
from streamval.requirements.whole import judge_whole
from streamval.serve.wire import BadRequestError
from streamval.types.results import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jsonschema.protocols import Validator

    from streamval.backends.base import Backend
    from streamval.serve.upstream import Relay
    from streamval.types.context import Context

MAX_SCHEMA = 64 * 1024
"""Characters of a request's tools, or of the schema of its `response_format`. Checking so many takes about
half a second, once."""

_CONTROLS = re.compile(r"[\x00-\x1f]")

UNJUDGED = frozenset({"patternProperties", "$dynamicRef", "$recursiveRef"})
"""What a schema may not have: it cannot be judged within a time."""

MAX_REFERENCES = 2_000
"""References that are followed in judging one call: a schema that refers to itself twice could else take
for ever."""


MAX_EXPANDED = 20_000
"""Parts of a schema, each reference counted as what it leads to."""


def _pattern(_: object, wanted: str, instance: object, __: object) -> Iterator[Exception]:
    if isinstance(instance, str) and not _matcher(wanted).isinstance_python(instance):
        yield ValidationError(f"it does not match {wanted!r}")


def _reference(validator: Any, ref: str, instance: object, schema: Any) -> Iterator[Exception]:
    left = _left.get() - 1
    _left.set(left)
    if left < 0:
        raise _TooMuchError
    yield from _follow(validator, ref, instance, schema)


class _TooMuchError(Exception):
    """Judging by this schema takes too long."""


_left: ContextVar[int] = ContextVar("streamval_references_left", default=MAX_REFERENCES)
_follow = Draft202012Validator.VALIDATORS["$ref"]
_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern, "$ref": _reference})


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator:
    """Matches by the engine of pydantic (Rust's), which takes linear time and bounds what it compiles."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern))


def check_schema(schema: object) -> None:
    """Refuse a schema that a client could stop the server with.

    Raises:
        ValueError: If it is no schema, or has what cannot be judged within a time.
    """
    _Validator.check_schema(schema)
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if unjudged := UNJUDGED & part.keys():
                message = f"{', '.join(sorted(unjudged))} is not judged"
                raise ValueError(message)
            if isinstance(pattern := part.get("pattern"), str):
                try:
                    _matcher(pattern)
                except SchemaError as error:  # of pydantic
                    message = f"the pattern {pattern[:60]!r} cannot be used"
                    raise ValueError(message) from error
            waiting += part.values()
    if _expanded(schema) > MAX_EXPANDED:
        message = "it is too large, its references followed"
        raise ValueError(message)


def _expanded(schema: object) -> int:
    """How many parts a schema has, each reference counted as what it leads to."""
    sizes: dict[str, int] = {}

    def size(part: object) -> int:
        if isinstance(part, list):
            return 1 + sum(map(size, part))
        if not isinstance(part, dict):
            return 1
        ref = part.get("$ref")
        led = 0
        if isinstance(ref, str) and ref.startswith("#"):
            if ref not in sizes:
                sizes[ref] = 1  # while it is counted: one that refers to itself ends here
                sizes[ref] = size(_at(schema, ref))
            led = sizes[ref]
        return min(1 + led + sum(map(size, part.values())), 10**12)

    # What only references lead to is counted there, and definitions not once more.
    return size(schema)


def _at(schema: object, ref: str) -> object:
    part: Any = schema
    for step in ref.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, dict) else None
    return part


def validators_of(tools: object) -> dict[str, Validator]:
    """What judges the arguments of each of a request's tools, by its name.

    Raises:
        BadRequestError: If they are no tools, or a schema is none.
    """
    if not isinstance(tools, list) or len(json.dumps(tools)) > MAX_SCHEMA:
        message = f"tools must be a list of functions, in {MAX_SCHEMA:,} characters at most"
        raise BadRequestError(message, param="tools")
    validators = {}
    for at, tool in enumerate(tools):
        try:
            function = tool["function"]
            schema = json.dumps(function.get("parameters") or {})
            validators[str(function["name"])] = _validator_of(schema)
        except (TypeError, KeyError, AttributeError):
            message = f"tool {at} is none: it needs type, and function with name and parameters"
            raise BadRequestError(message, param=f"tools[{at}]") from None
        except (ValueError, JSONSchemaError, RecursionError) as error:
            why = str(getattr(error, "message", error))[:200]
            message = f"tool {at} is none: {why}"
            raise BadRequestError(message, param=f"tools[{at}]") from None
    return validators


@lru_cache(maxsize=256)
def _validator_of(schema: str) -> Validator:
    """What judges by a schema, checked once: a program sends the same tools again and again."""
    read = json.loads(schema)
    check_schema(read)
    # Its own registry: references lead nowhere but into the schema itself.
    validator: Validator = _Validator(read, registry=Registry())
    return validator


def valid_tool_calls(
    relay: Relay,
    validators: Mapping[str, Validator],
    rules: Sequence[Requirement],
    judge: Backend,
) -> Requirement:
    """Each tool call names a tool, has arguments of its schema, and meets the other requirements.

    Tool calls are not sent before this has passed. An answer without any passes.

    Args:
        relay: Has the calls of the last attempt.
        validators: What judges the arguments, by the tools' names.
        rules: The other requirements; each judges the arguments of each call as one text.
        judge: Whom those ask that are models.
    """

    async def judged(ctx: Context) -> ValidationResult:
        for call in relay.tool_calls:
            function = call["function"]
            name, arguments = function["name"], function["arguments"]
            why = complaint(validators.get(name), arguments)
            why = why or await _unmet(arguments, rules, judge, ctx)
            if why is not None:
                return ValidationResult(False, reason=f"a call of {name!r}: {why}")
        return ValidationResult(True)

    return Requirement("tool calls are valid", judged)


def complaint(validator: Validator | None, arguments: str) -> str | None:
    """What is wrong with the arguments of a tool call; `None` if nothing is.

    Args:
        validator: What judges them; `None` where there is no such tool.
        arguments: JSON, as the model wrote it.
    """
    if validator is None:
        return "there is no such tool"
    try:
        value = json.loads(arguments, object_pairs_hook=_once, parse_constant=_no_constant)
    except _RepeatedError as repeated:
        return f"its arguments have the key {repeated} twice"
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    try:
        _left.set(MAX_REFERENCES)
        error = next(iter(validator.iter_errors(value)), None)
    except Exception as unresolved:  # a reference that leads nowhere, or to too many others
        return f"its schema cannot be used: {type(unresolved).__name__}"
    if error is None:
        return None
    where = "".join(f"[{part!r}]" for part in error.absolute_path)
    return f"its arguments{where}: {error.message[:300]}"


def meant(rules: Sequence[Requirement], judge: Backend) -> Requirement:
    """JSON meets the other requirements as what it means, too: an escape may hide a word from them.

    Args:
        rules: The other requirements.
        judge: Whom those ask that are models.
    """

    async def judged(ctx: Context) -> ValidationResult:
        written = str(ctx.last_output() or "")
        if "\\" not in written:  # it means what it says
            return ValidationResult(True)
        why = await _unmet(written, rules, judge, ctx)
        return ValidationResult(why is None, reason=why)

    return Requirement("what the JSON means meets the rules", judged)


class _RepeatedError(ValueError):
    """An object has a key twice: its readers do not agree which one counts."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedError(repr(key[:100]))
            seen.add(key)
    return made


def _no_constant(name: str) -> None:
    message = f"{name} is no JSON"
    raise ValueError(message)


def decoded(written: str) -> str:
    r"""JSON without escapes, as far as JSON can be; what is none as it is.

    A line break within a string becomes a space: written as an escape, its letter would stand before the word
    that follows. Of a key that an object repeats each value stays, and a number stays as it was written.

    Raises:
        RecursionError: If it is nested too deeply.

    Example:
        >>> decoded(r'{"a": "\u0062ad", "a": "so\nbad", "n": 1e2}')
        '{"a": "bad", "a": "so bad", "n": 1e2}'
    """
    try:
        read = json.loads(
            written, object_pairs_hook=_Pairs, parse_float=_Written, parse_int=_Written
        )
    except ValueError:
        return written
    return _plain(read)


class _Pairs(list[tuple[str, Any]]):
    """An object, with every pair of it."""


class _Written(str):
    """A number, as it was written."""

    __slots__ = ()


def _plain(value: object) -> str:
    match value:
        case _Pairs():
            return f"{{{', '.join(f'{_plain(key)}: {_plain(one)}' for key, one in value)}}}"
        case list():
            return f"[{', '.join(map(_plain, value))}]"
        case _Written():
            return str(value)
        case str():
            return json.dumps(_CONTROLS.sub(" ", value), ensure_ascii=False)
    return json.dumps(value)


async def _unmet(
    written: str, rules: Sequence[Requirement], judge: Backend, ctx: Context
) -> str | None:
    """Which of the rules a JSON text does not meet, and why: the first."""
    try:
        text = decoded(written)
    except RecursionError:
        return "it is nested too deeply to be judged"
    for rule in rules:
        result = await judge_whole(copy(rule), judge, ctx.with_output(text))
        if not result:
            return f"{rule.name}: {result.reason or result.error or 'not met'}"
    return None
