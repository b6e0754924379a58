"""What the tests of requirements share."""

import asyncio

import streamval as sv
from streamval.types.context import Context
from tests.support.sources import Spoken


async def run_of(requirement, text, chunking="sentence", size=3):
    backend = Spoken(*(text[n : n + size] for n in range(0, len(text), size)))
    return await sv.Pipeline(backend, requirements=[requirement], chunking=chunking).run("x")


async def judged(requirement, text, *, chunking="sentence", size=3):
    """(success, delivered, reason, characters generated), in deltas of some characters."""
    deltas = [text[n : n + size] for n in range(0, len(text), size)]
    backend = Spoken(*deltas)
    result = await sv.Pipeline(backend, requirements=[requirement], chunking=chunking).run("go")
    reason = result.failures[0].reason if result.failures else None
    return result.success, result.text, reason, len(result.attempts[0].text)


async def failing(requirement, text, **options):
    success, delivered, reason, written = await judged(requirement, text, **options)
    assert not success
    return delivered, reason, written


async def passing(requirement, text, **options):
    success, delivered, reason, _ = await judged(requirement, text, **options)
    assert success, reason
    assert delivered == text.strip()


async def on_the_whole(requirement, text):
    return await requirement.validate(None, sv.types.Context().with_output(text))


async def streamed(requirement, text, *, chunking="sentence"):
    """(success, delivered text, reasons) of a text under one requirement."""
    result = await sv.Pipeline(
        sv.ScriptedBackend(text), requirements=[requirement], chunking=chunking
    ).run("go")
    return result.success, result.text, [failure.reason for failure in result.failures]


def whole(text):
    return Context().with_output(text)


class Answers(sv.Backend):
    """A judge that answers by a function of the judged text; remembers what it was asked."""

    model = "judge"

    def __init__(self, answer, delay=0.0, adapters=None):
        self.answer = answer
        self.delay = delay
        self.asked = []
        self.requests = []
        self.said = 0
        self.at_once = self.most_at_once = 0
        self.adapters = adapters or {}

    async def stream(self, request):
        self.requests.append(request)
        prompt = request.messages[-1].content
        lines = prompt.splitlines()
        markers = [n for n, line in enumerate(lines) if line.startswith("[text ")]
        text = "\n".join(lines[markers[0] + 1 : markers[1]]) if markers else prompt
        self.asked.append(text)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            for piece in self.answer(text):
                if callable(piece):
                    await piece()
                else:
                    self.said += 1
                    yield piece
        finally:
            self.at_once -= 1


@sv.generative
async def letter(name: str) -> str:
    """Write a letter."""
