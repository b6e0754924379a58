"""`make bench-loops`: tokens that are saved where a model that thinks goes round in circles.

Prints two Markdown tables: planted loops on a scripted server that writes until its client goes, at 500 tokens a
second, and the loops that the embedded model falls into by itself, with its reasoning between tags. Seeded.
"""

from __future__ import annotations

import asyncio
import random

import streamval as sv
from tests.support.upstream import upstream

LIMIT = 4_000
"""Tokens of a thinking model's budget: without a rule, a loop uses all of it."""
WORDS = [
    f"{first}{last}" for first in "bdfgklmnprst" for last in ("and", "ell", "ing", "ove", "urn")
]
RULES = [sv.no_loop().on("reasoning")]

QUESTIONS = [
    "How many legs do three dogs have?",
    "Why is the sky blue?",
    "What weighs more, a kilo of iron or a kilo of feathers?",
    "Is 91 a prime number?",
    "How many hours are there in a week?",
    "Why do leaves fall in autumn?",
    "What is half of a quarter?",
    "Which month comes before June?",
    "How do birds find their way?",
    "What is the next number after 1, 2, 4, 8?",
]
LOCAL = {"max_tokens": 200, "stop": ["\n\n"]}


def planted(number: int) -> tuple[list[dict[str, object]], int]:
    """A reasoning that turns into a loop: its frames, and the token at which the loop begins."""
    rng = random.Random(number)
    begins = rng.randrange(50, 1_000)
    turn = rng.choices(WORDS, k=rng.randrange(3, 20))
    tokens = rng.choices(WORDS, k=begins)
    while len(tokens) < LIMIT:
        tokens += turn
    # A sentence ends now and then, at places that have nothing to do with the loop.
    said = [f"{token}. " if rng.random() < 0.1 else f"{token} " for token in tokens[:LIMIT]]
    return [_frame({"reasoning_content": token}) for token in said], begins


def _frame(delta: dict[str, str], reason: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def paced(frames: list[dict[str, object]]) -> list[object]:
    """Put a pause before each frame."""
    return [part for frame in frames for part in (0.002, frame)]


async def scripted(count: int = 20) -> None:
    """Measure planted loops, and as many thoughts without one."""
    written, late, valid, cut = 0, [], 0, 0
    for number in range(count):
        loop, begins = planted(number)
        answer = [_frame({"reasoning_content": "Short. "}), _frame({"content": "42."}, "stop")]
        harmless = [*loop[:begins], *answer]
        script = [paced(loop), answer]
        async with upstream(lambda body, asked, script=script: script[asked]) as server:
            result = await _asked(server, retry=sv.Repair())
            first = server.requests[0]
            await asyncio.wait_for(first.gone.wait(), 60)
            tokens = result.attempts[0].usage.completion_tokens
            written += first.sent
            late.append(tokens - begins)
            valid += result.success
        async with upstream(lambda body, asked, answer=harmless: answer) as server:
            result = await _asked(server)
            cut += not result.success
    median = sorted(late)[count // 2]
    print(
        "| planted loops | budget | tokens that the server wrote | saved | after the loop began, median | valid after the repair | cut without a loop |"
    )
    print("|---|---|---|---|---|---|---|")
    saved = 1 - written / (count * LIMIT)
    print(
        f"| {count} | {count * LIMIT:,} | {written:,} | {saved:.0%} | {median} | {valid} | {cut} of {count} |"
    )


async def _asked(server, retry=None):
    backend = sv.OpenAIBackend("m", base_url=server.url, api_key="-")
    return await sv.Pipeline(backend, requirements=RULES, retry=retry).run("Think.")


async def embedded() -> None:
    """Measure loops of the embedded model."""
    backend = sv.LocalBackend(chat=False, reasoning_tags=("", "</think>"))
    print("\n| embedded model, 10 questions | tokens | answers |")
    print("|---|---|---|")
    for name, options in {
        "no rule": {},
        '`no_loop().on("reasoning")`, a repair closes the thinking': {
            "requirements": RULES,
            "retry": sv.Repair(loop_budget=3, template="{prompt}"),
        },
    }.items():
        pipeline = sv.Pipeline(backend, **options)
        prompts = [f"Question: {question}\n<think>\n" for question in QUESTIONS]
        results = [await pipeline.run(prompt, **LOCAL) for prompt in prompts]
        tokens = sum(result.usage.completion_tokens for result in results)
        answers = sum(bool(result.text.strip()) for result in results)
        print(f"| {name} | {tokens:,} | {answers} of {len(QUESTIONS)} |", flush=True)


async def main() -> None:
    await scripted()
    await embedded()


if __name__ == "__main__":
    asyncio.run(main())
