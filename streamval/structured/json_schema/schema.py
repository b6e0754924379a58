"""A JSON Schema as a schema for a stream: judged by its specification, and early where that is certain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jsonschema_rs
from referencing.exceptions import Unresolvable

from streamval.errors import UsageError
from streamval.structured.json_events import JSONEvent, OpenLiteral, OpenString, Root, path_of
from streamval.structured.json_schema.beginnings import excluded
from streamval.structured.json_schema.compiler import NEWER_FORMATS, Compiler, draft_of, meta
from streamval.structured.json_schema.cost import branching
from streamval.structured.json_schema.judge import SchemaJudge
from streamval.structured.json_schema.nodes import Node
from streamval.structured.json_schema.patterns import LARGE
from streamval.structured.reader import JSONReader
from streamval.structured.schema import Schema, SchemaWatch

MAX_WORK = 10**6
"""Characters, multiplied by the branches of each level: how much a validator is given that asks branches anew."""

MAX_EXPLAINED = 20_000
"""Characters of the longest document whose failure the validator is asked to explain."""

MAX_SCHEMA = 4 * 2**20
"""Characters of the largest schema."""


class JSONSchema(Schema[Any]):
    """A JSON Schema that an output should meet: draft 4, 6, 7, 2019-09 or 2020-12, by its `$schema`.

    The final verdict is that of jsonschema-rs, which passes the JSON Schema Test Suite. No remote reference is
    fetched. Before the end, only that fails which no continuation could make valid.

    Args:
        wanted: The schema: a mapping or a boolean.
        assert_formats: Whether `format` is an assertion; by default it is an annotation, as the drafts say.
        text_around: Whether text before and behind the JSON, such as a code fence, is skipped.

    Raises:
        UsageError: If it is not a JSON Schema, refers to another document, or is too large to be judged.

    Example:
        >>> people = JSONSchema({"type": "array", "items": {"type": "string", "maxLength": 5}})
        >>> people.complaint('["Ann", "Bernadette"]')
        '$[1]: "Bernadette" has more than 5 characters'
    """

    def __init__(
        self,
        wanted: Mapping[str, Any] | bool,
        *,
        assert_formats: bool = False,
        text_around: bool = False,
    ) -> None:
        self.type: Any = wanted
        self.text_around = text_around
        self.asserts_formats = assert_formats
        try:
            written = json.dumps(wanted)
            if len(written) > MAX_SCHEMA:
                raise UsageError(f"the JSON Schema is longer than {MAX_SCHEMA:,} characters")
            read = json.loads(written)  # a copy that the caller cannot change
            draft = draft_of(read)
            meta(draft).validate(read)
            compiler = Compiler(read, formats=assert_formats)
        except Unresolvable as error:
            named = getattr(error, "anchor", None) or error.ref
            raise UsageError(
                f"the JSON Schema refers to {named!r}, which is not in it; other documents are not fetched"
            ) from None
        except RecursionError:
            raise UsageError("the JSON Schema is nested too deeply") from None
        except UsageError:
            raise
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise _no_schema(error) from None
        self.node: Node = compiler.root
        self._branching = branching(self.node)
        self._knows_better = compiler.knows_better
        self._validator = _validator_for(read, draft, assert_formats)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether it is neither an object nor an array: then all of the text is its JSON."""
        return not ({"object", "array"} & self._kinds)

    @property
    def name(self) -> str:
        """Its title, or words for messages."""
        title = self.type.get("title") if isinstance(self.type, Mapping) else None
        return str(title)[:100] if title else "a JSON Schema"

    @cached_property
    def root(self) -> Root | None:
        """Whether it is an object or an array; `None` where it may be either, or a scalar."""
        kinds = self._kinds & {"object", "array"}
        if len(kinds) != 1:
            return None
        return "object" if "object" in kinds else "array"

    @cached_property
    def openings(self) -> str:
        """The characters with which its JSON may begin."""
        return "".join(_OPENINGS[kind] for kind in self._kinds)

    @cached_property
    def _kinds(self) -> set[str]:
        kinds = {"object", "array", "string", "number", "integer", "boolean", "null"}
        waiting, known = [self.node], set()
        while waiting:
            node = waiting.pop()
            if id(node) not in known:
                known.add(id(node))
                kinds = {kind for kind in kinds if _may_be(node, kind)}
                waiting += node.same
        return kinds

    @property
    def written(self) -> str:
        """The schema as JSON that is the same for equal schemas."""
        return json.dumps(self.type, sort_keys=True)

    def no_place_for(self, kind: Root) -> str:
        """Return why the JSON can be no object, or no array."""
        return excluded(self.node, kind) or f"an {kind} is not allowed"

    def parse(self, text: str) -> Any:
        """Return the value in a text.

        Raises:
            ValueError: If there is none that meets the schema.
        """
        text = self.json_in(text)
        value = json.loads(text, parse_constant=_no_number)
        if "\\ud" in text.lower() and _has_lone_surrogate(value):
            raise ValueError("$: an escape is half of a surrogate pair")
        if self._judges_itself:
            judged = SchemaJudge(self.node)
            _judge_value(judged, text)
            self._trust(judged, value, text)
        else:
            self._ask_validator(value, text)
        return value

    def settled(self, judged: SchemaJudge, text: str) -> Any:
        """Return the value of a JSON document that has come to its end.

        Args:
            judged: Our own judge, which decides by a schema by which the validator could take very long, or that the
                validator does not judge as its draft says.
            text: The document.

        Raises:
            ValueError: If it does not meet the schema, or cannot be judged.
        """
        if not self._judges_itself:
            return self.parse(text)
        value = json.loads(text, parse_constant=_no_number)
        self._trust(judged, value, text)
        return value

    @property
    def _judges_itself(self) -> bool:
        return self._validator is None or self._knows_better or self._branching > 1

    def _trust(self, judged: SchemaJudge, value: Any, text: str) -> None:
        """Take the verdict of our own judge; where it has none, that of the validator, if that cannot take long."""
        if judged.verdict:
            return
        is_short = self._branching ** (_depth(text) + 1) * len(text) <= MAX_WORK
        if judged.complaint is None and self._validator is not None and is_short:
            self._ask_validator(value, text)
            return
        raise ValueError(
            judged.complaint or "$: the JSON Schema asks for too much work to judge this"
        )

    def _ask_validator(self, value: Any, text: str) -> None:
        if not self._validator.is_valid(value):
            raise ValueError(_why_not(self._validator, value, len(text)))

    def parse_or_none(self, text: str) -> Any:
        """Return the value in a text, or `None`."""
        try:
            return self.parse(text)
        except (ValueError, RecursionError):
            return None

    @property
    def json_schema(self) -> Any:
        """The JSON schema to ask a backend for."""
        return self.type

    def complaint(self, text: str) -> str | None:
        """Return why a text does not meet the schema, or `None`."""
        watch = JSONSchemaWatch(self)
        if (why := watch.feed(text)) is not None:
            return why
        try:
            self.parse(text)
        except json.JSONDecodeError as error:
            return f"no valid JSON: {error.msg} at {error.pos}"
        except RecursionError:
            return "the JSON is nested too deeply"
        except ValueError as error:
            return str(error)
        return None

    def watch(self) -> SchemaWatch:
        """Return a watch over JSON that is being written."""
        return JSONSchemaWatch(self)


_BRACKETS = re.compile(r"[\[\]{}]")
_OPENINGS = {
    "object": "{",
    "array": "[",
    "string": '"',
    "boolean": "tf",
    "null": "n",
    **dict.fromkeys(("number", "integer"), "-0123456789"),
}


def _no_schema(error: Exception) -> UsageError:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if said == "Recursion limit reached":  # the validator's; from 3.12 on Python's is higher
        return UsageError("the JSON Schema is nested too deeply")
    return UsageError(f"this is not a JSON Schema: {said[:300]}")


def _validator_for(schema: Any, draft: str, formats: bool) -> Any:
    """Return the validator that has the last word; `None` if it does not know a pattern that JavaScript has."""
    if isinstance(schema, dict):
        schema = {**schema, "$schema": draft}
    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=formats,
            formats=NEWER_FORMATS,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGE),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        if "regex" in str(error) or "Resource" in str(error):  # of a part that nothing refers to
            return None
        raise _no_schema(error) from None


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _depth(text: str) -> int:
    """Return how deep brackets are nested, those in strings included."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _may_be(node: Node, kind: str) -> bool:
    begins = node.choices is None or any(one[0] in _OPENINGS[kind] for one in node.choices)
    return begins and node.takes(kind)


def _judge_value(judged: SchemaJudge, text: str) -> None:
    """Judge a whole document, which may be a scalar."""
    reader = JSONReader(only_json=True)
    _, *events = reader.feed(f"[{text}]")  # a scalar has no events of its own
    for event in events[:-1]:
        judged.take(event._replace(path=f"${event.path[4:]}"))


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _why_not(validator: Any, value: Any, size: int) -> str:
    """Return the validator's reason, which it makes of all branches: of a short document only."""
    if size > MAX_EXPLAINED:
        return "$: it does not meet the JSON Schema"
    error = next(validator.iter_errors(value))
    path = "$"
    for step in error.instance_path:
        path = path_of(path, step)
    return f"{path}: {str(error.message)[:300]}"


class JSONSchemaWatch(SchemaWatch):
    """Watches JSON as it is written, by a JSON Schema; as `SchemaWatch` does by a type."""

    _schema: Any

    def __init__(self, schema: JSONSchema) -> None:
        super().__init__(schema)
        self._judged = SchemaJudge(schema.node)

    def _feed_scalar(self, text: str) -> str | None:
        """Judge a scalar as the item of an array, which has events."""
        self._text.write(text)
        self._size += len(text)
        if (why := super()._feed_scalar(text)) is not None or self._schema.text_around:
            return why
        if self._reader is None:
            self._reader = JSONReader(only_json=True)
            self._reader.feed("[")
        for event in self._reader.feed(text):
            if event.kind != "value" or self._ended:
                return "$: there is text after the JSON"
            self._ended = self._size
            if (why := self._judged.take(event._replace(path="$"))) is not None:
                return why
        if self._reader.error is not None:
            return "$: there is text after the JSON" if self._ended else "$: no valid JSON"
        begun = self._reader.begun
        return self._judged.begun(begun) if begun and not self._ended else None

    def _part_from_original(self) -> None:
        super()._part_from_original()
        self._judged = SchemaJudge(self._schema.node)
        reader = JSONReader(root=self._schema.root, only_json=not self._schema.text_around)
        for event in reader.feed(self.text):
            self._judged.take(event)

    def _catch_up(self) -> None:
        self._judged = SchemaJudge(self._schema.node)
        super()._catch_up()

    def _judge(self, event: JSONEvent) -> str | None:
        if (why := self._judged.take(event)) is not None:
            return why
        if event.kind != "end" or self._judged.is_open:
            return None
        try:
            json_text = self.text[event.start : event.end]
            self.instance = self._schema.settled(self._judged, json_text)
        except (ValueError, RecursionError) as error:
            return str(error)
        self.complete, self._ended = True, event.end
        return None

    def _begun_complaint(self, begun: OpenString | OpenLiteral) -> str | None:
        return self._judged.begun(begun)


def schema_of(
    wanted: Any, *, assert_formats: bool = False, text_around: bool = False
) -> Schema[Any]:
    """Return the schema of a type that pydantic knows, or of a JSON Schema (a mapping or a boolean).

    Raises:
        UsageError: If it is neither.
    """
    if isinstance(wanted, Schema):
        return wanted
    if isinstance(wanted, (Mapping, bool)):
        return JSONSchema(wanted, assert_formats=assert_formats, text_around=text_around)
    return Schema(wanted, text_around=text_around)
