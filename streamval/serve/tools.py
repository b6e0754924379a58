"""Tool calls, judged before anybody could act on them."""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any

import regex
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import extend
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

PATTERN_SECONDS = 0.1
"""How long a pattern of a client's schema may take. One that backtracks for ever would stop us all."""

MAX_SCHEMA = 256 * 1024
"""Characters of the schemas of a request's tools."""


def _pattern(_: object, wanted: str, instance: object, __: object) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if isinstance(instance, str):
        try:
            found = regex.search(wanted, instance, timeout=PATTERN_SECONDS)
        except (regex.error, TimeoutError):
            yield ValidationError(f"the pattern {wanted!r} cannot be matched")
            return
        if not found:
            yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _no_pattern(_: object, __: object, ___: object, ____: object) -> Iterator[Exception]:
    yield from ()


# Patterns as names of properties are left out: they cannot be matched within a time.
_Validator: Any = extend(
    Draft202012Validator, {"pattern": _pattern, "patternProperties": _no_pattern}
)


def validators_of(tools: object) -> dict[str, Validator]:
    """What judges the arguments of each of a request's tools, by its name.

    Raises:
        BadRequestError: If they are no tools, or a schema is none.
    """
    if not isinstance(tools, list) or len(json.dumps(tools)) > MAX_SCHEMA:
        message = "tools must be a list of functions, and no longer than 256 kB"
        raise BadRequestError(message, param="tools")
    validators = {}
    for at, tool in enumerate(tools):
        try:
            function = tool["function"]
            name, schema = function["name"], function.get("parameters") or {}
            _Validator.check_schema(schema)
            # Its own registry: references lead nowhere but into the schema itself.
            validators[str(name)] = _Validator(schema, registry=Registry())
        except (TypeError, KeyError, SchemaError, RecursionError) as error:
            why = getattr(error, "message", "it needs type, and function with name and parameters")
            message = f"tool {at} is none: {why}"
            raise BadRequestError(message, param=f"tools[{at}]") from None
    return validators


class ValidToolCalls(Requirement):
    """Each tool call names a tool, has arguments of its schema, and meets the other requirements.

    Tool calls are not sent before this has passed.

    Args:
        relay: Has the calls of the last attempt.
        validators: What judges the arguments, by the tools' names.
        rules: The other requirements; each judges the arguments of each call as one text.
    """

    def __init__(
        self, relay: Relay, validators: Mapping[str, Validator], rules: Sequence[Requirement]
    ) -> None:
        super().__init__("tool calls are valid")
        self._relay = relay
        self._validators = validators
        self._rules = tuple(rules)

    async def validate(
        self,
        backend: Backend | None,
        ctx: Context,
        *,
        format: type[Any] | None = None,
        model_options: Mapping[str, Any] | None = None,
    ) -> ValidationResult:
        """Judge the calls; an answer without any passes."""
        del format, model_options
        for call in self._relay.tool_calls:
            function = call["function"]
            name, arguments = function["name"], function["arguments"]
            why = self._complaint(name, arguments)
            if why is not None:
                return ValidationResult(False, reason=why)
            for rule in self._rules:
                judged = ctx.with_output(arguments)
                result = await judge_whole(copy(rule), backend, judged, streamed=False)
                if not result:
                    why = result.reason or result.error or "not met"
                    return ValidationResult(
                        False, reason=f"the arguments of {name}: {rule.name}: {why}"
                    )
        return ValidationResult(True)

    def _complaint(self, name: str, arguments: str) -> str | None:
        validator = self._validators.get(name)
        if validator is None:
            return f"there is no tool {name!r}"
        try:
            value = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return f"the arguments of {name} are no JSON"
        try:
            error = next(iter(validator.iter_errors(value)), None)
        except Exception as unresolved:  # a reference that leads nowhere
            return f"the schema of {name} cannot be used: {type(unresolved).__name__}"
        if error is None:
            return None
        where = "".join(f"[{part!r}]" for part in error.absolute_path)
        return f"the arguments of {name}{where}: {error.message[:300]}"
