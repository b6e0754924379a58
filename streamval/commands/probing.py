"""Finds out what a model's endpoint can do, by trying: what a document or a list of models says may be out of date."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from aiostream import streamcontext

from streamval.backends.base import Backend, GenerationRequest
from streamval.errors import StreamvalError
from streamval.pipeline.repair import Repair
from streamval.pipeline.seam import Seam, split_word
from streamval.structured.json_schema.schema import schema_of
from streamval.types.deltas import Delta
from streamval.types.messages import Message
from streamval.types.results import Usage

PATIENCE = 60.0
"""Seconds that one trial may take."""

TO_CONTINUE = (
    (
        "Count from one to twelve in English words, on one line, separated by commas.",
        "one, two, three, four, five, six,",
        r"[\s,]*seven\b",
    ),
    (
        "Write the days of the week from Monday on, on one line, separated by commas.",
        "Monday, Tuesday, Wednesday,",
        r"[\s,]*Thursday\b",
    ),
)
"""What is asked, how the answer begins, and how it has to go on: a model that begins anew does not."""

TAGS = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
SHORT, LONG, STORY = 40, 400, 200
"""Tokens of a short answer, of a long one, and of the one that is broken off."""

SHARE = 0.3
"""The share of a long answer's time from which on a request has waited for it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a trial has shown.

    Attributes:
        name: What was tried.
        can: Whether the endpoint can do it; `None` where that could not be told.
        why: What was seen.
    """

    name: str
    can: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way to ask an endpoint.

    Attributes:
        name: In words.
        backend: Asks in this way.
        python: How to write that in Python.
        file: The same for the gateway's file, if there is a way.
        in_words: Whether the model is asked in words to go on.
    """

    name: str
    backend: Backend
    python: str
    file: str | None = None
    in_words: bool = False


@dataclass(slots=True)
class _Answer:
    text: str = ""
    reasoning: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None
    calls: str = ""


def _asked(prompt: str, **more: Any) -> GenerationRequest:
    options = {"temperature": 0, "max_tokens": more.pop("max_tokens", SHORT)}
    return GenerationRequest((Message("user", prompt),), options=options, **more)


async def _deltas(backend: Backend, request: GenerationRequest) -> AsyncIterator[str | Delta]:
    options = {**backend.options, **request.options}
    async with streamcontext(backend.deltas(replace(request, options=options))) as deltas:
        async for delta in deltas:
            yield delta


async def _answer(backend: Backend, request: GenerationRequest) -> _Answer:
    """Return a whole answer.

    Raises:
        StreamvalError: If the endpoint fails, or takes longer than `PATIENCE`.
    """
    answer = _Answer()
    async with asyncio.timeout(PATIENCE), streamcontext(_deltas(backend, request)) as deltas:
        async for delta in deltas:
            if isinstance(delta, str):
                answer.text += delta
                continue
            answer.text += delta.text
            answer.reasoning += delta.reasoning
            answer.usage = delta.usage or answer.usage
            answer.finish_reason = delta.finish_reason or answer.finish_reason
            if delta.tool_call is not None:
                answer.calls += f"{delta.tool_call.name or ''}{delta.tool_call.arguments}"
    return answer


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not isinstance(error, StreamvalError):
        return f"no answer within {PATIENCE:g} seconds"
    return str(error)


def _shown(text: str, most: int = 60) -> str:
    said = " ".join(text.split())
    return repr(said if len(said) <= most else f"{said[: most - 1]}…")


async def continues(way: Way) -> Finding:
    """Return whether the model goes on from the beginning of an answer: two answers are tried."""
    right, seen = 0, ""
    for prompt, begun, wanted in TO_CONTINUE:
        request = replace(_asked(prompt), prefix=begun)
        seam = None
        if way.in_words:
            request, seam = (
                Repair().asked(replace(request, prefix=split_word(begun)[0])),
                Seam(begun),
            )
        try:
            said = (await _answer(way.backend, request)).text
        except (StreamvalError, TimeoutError) as error:
            return Finding(way.name, False, _why(error))
        if seam is not None:
            said = seam.feed(said) + seam.flush()
        if re.match(wanted, said):
            right += 1
        else:
            seen = seen or f"to {_shown(begun)} it wrote {_shown(said)}"
    if right == len(TO_CONTINUE):
        return Finding(way.name, True, f"{right} of {right} answers went on where they were")
    return Finding(way.name, None if right else False, seen)


async def reasons(backend: Backend) -> tuple[list[Finding], tuple[str, str] | None]:
    """Return where the model's reasoning is, and whether the endpoint counts tokens and says why it ended.

    Returns:
        The findings, and the tags between which the reasoning is in the text, if it is there.
    """
    tags = None
    try:
        answer = await _answer(
            backend, _asked("What is 17 + 25? Think before you answer.", max_tokens=LONG)
        )
    except (StreamvalError, TimeoutError) as error:
        return [Finding("answers", False, _why(error))], None
    if found := TAGS.match(answer.text):
        tags = (f"<{found[1]}>", f"</{found[1]}>")
        thought = Finding("reasoning", True, f"in the text, between {tags[0]} and {tags[1]}")
    elif answer.reasoning:
        thought = Finding("reasoning", True, "in a field of its own")
    else:
        thought = Finding("reasoning", False, "none was seen")
    usage = answer.usage
    counts = (
        "no usage was reported" if usage is None else f"{usage.completion_tokens} tokens reported"
    )
    ends = answer.finish_reason
    return [
        thought,
        Finding("usage", usage is not None, counts),
        Finding("finish reason", ends is not None, ends or "it does not say why it ended"),
    ], tags


async def calls_tools(backend: Backend) -> Finding:
    """Return whether the model calls a tool, with arguments that are JSON."""
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    function = {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": parameters,
    }
    request = _asked(
        "What is the weather in Rome? Call the tool.",
        tools=({"type": "function", "function": function},),
        max_tokens=LONG,
    )
    try:
        backend.check_request(request)
        answer = await _answer(backend, request)
    except (StreamvalError, TimeoutError) as error:
        return Finding("tools", False, _why(error))
    if not answer.calls:
        return Finding("tools", False, f"it wrote {_shown(answer.text)}")
    name, arguments = answer.calls[:7], answer.calls[7:]
    try:
        good = name == "weather" and isinstance(json.loads(arguments)["city"], str)
    except (ValueError, KeyError, TypeError):
        good = False
    return Finding("tools", good, f"it called {_shown(answer.calls)}")


SCHEMA = {
    "type": "object",
    "properties": {"lines": {"type": "integer"}, "title": {"enum": ["sea", "land"]}},
    "required": ["lines", "title"],
    "additionalProperties": False,
}


async def keeps_schema(backend: Backend) -> Finding:
    """Return whether an answer is held to a JSON Schema, although the prompt says nothing of JSON."""
    request = _asked("Write a short poem about the sea.", format=SCHEMA, max_tokens=LONG)
    try:
        answer = await _answer(backend, request)
    except (StreamvalError, TimeoutError) as error:
        return Finding("schema", False, _why(error))
    wrong = schema_of(SCHEMA).complaint(answer.text)
    return Finding("schema", wrong is None, f"it wrote {_shown(answer.text)}")


async def stops(backend: Backend) -> Finding:
    """Return whether the server stops generating when its client goes.

    A server that answers one request at a time lets the next one wait, if it goes on.
    """
    long = _asked("Tell a long story about the sea, in many sentences.", max_tokens=STORY)
    short = _asked("Say yes.", max_tokens=1)
    try:
        async with asyncio.timeout(3 * PATIENCE):
            idle = await _seconds(backend, short)
            story = asyncio.ensure_future(_begun(backend, long, close=False))
            await asyncio.sleep(idle)
            busy = await _seconds(backend, short)
            await story
            if not await _begun(backend, long, close=True):
                return Finding("stops", None, "its answers are too short to tell")
            after = await _seconds(backend, short)
    except (StreamvalError, TimeoutError) as error:
        return Finding("stops", None, _why(error))
    if busy - idle < max(3 * idle, 0.2):
        return Finding("stops", None, "it answers several requests at once: not seen from outside")
    waited = (after - idle) / (busy - idle)
    said = (
        f"the next answer took {after:.2f} s, behind a whole one {busy:.2f} s, alone {idle:.2f} s"
    )
    return Finding("stops", waited < SHARE, said)


async def _seconds(backend: Backend, request: GenerationRequest) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await _answer(backend, request)
    return loop.time() - began


async def _begun(backend: Backend, request: GenerationRequest, *, close: bool) -> bool:
    """Read an answer, or its beginning. Return whether there was more of it."""
    read = 0
    async with streamcontext(_deltas(backend, request)) as deltas:
        async for _ in deltas:
            read += 1
            if close and read == 3:
                return True
    return False


async def probe(
    ways: Sequence[Way], note: Callable[[Finding], object]
) -> tuple[Way | None, Mapping[str, Finding], tuple[str, str] | None]:
    """Try all ways, then everything else in the first way.

    Args:
        ways: The ways to continue an answer, the best first.
        note: Called with each finding as it comes.

    Returns:
        The first way that continues, all findings by name, and the tags of reasoning in the text.
    """
    found: dict[str, Finding] = {}

    def keep(finding: Finding) -> None:
        found[finding.name] = finding
        note(finding)

    said, tags = await reasons(ways[0].backend)
    for finding in said:
        keep(finding)
    if "answers" in found:
        return None, found, None
    for way in ways:
        keep(await continues(way))
    for trial in (calls_tools, keeps_schema, stops):
        keep(await trial(ways[0].backend))
    best = next((way for way in ways if found[way.name].can), None)
    return best, found, tags


def as_json(best: Way | None, found: Mapping[str, Finding], line: str) -> str:
    """Return findings as JSON."""
    shown = {"way": best and best.name, "configuration": line}
    return json.dumps({**shown, "findings": [asdict(one) for one in found.values()]}, indent=2)
