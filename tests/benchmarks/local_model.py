"""`make bench-local`: what judging while streaming saves, and how good a judge the embedded model is.

Both on the real model: a base model of 270 million parameters. Prints two Markdown tables. Seeded,
so the counts are the same on every machine with the same model.
"""

from __future__ import annotations

import asyncio

import streamval as sv

BUDGET = 8
OPTIONS = {"max_tokens": 150, "temperature": 0.8}

PROMPTS = [
    "The water cycle is",
    "A bicycle is",
    "The history of bread begins",
    "Bees live in",
    "To make good coffee,",
    "The moon is",
    "A library is a place where",
    "In winter the forest",
    "The old lighthouse stood",
    "Learning a language means",
]

RULES = {
    "no sentence twice, no loops": lambda: [sv.requirements.NoRepetition(), sv.NoLoop()],
    "no digits, no questions": lambda: [
        sv.forbidden_pattern(r"\d", "no digits"),
        sv.forbidden_pattern(r"\?", "no questions"),
    ],
    "plain style: no filler words, at most 30 words a sentence": lambda: [
        sv.forbidden_words(["very", "also", "many", "important", "various"]),
        sv.stream_check(lambda text: len(text.split()) <= 30, "short sentences"),
    ],
}

# (requirement, text, what a careful reader says)
CASES = [
    ("The text greets somebody.", "Dear Ann, the train leaves at noon.", True),
    ("The text greets somebody.", "The train leaves at noon.", False),
    ("The text is polite.", "Could you please close the window? Thank you.", True),
    ("The text is polite.", "Shut the window, you idiot.", False),
    ("The text mentions an animal.", "The dog slept by the fire.", True),
    ("The text mentions an animal.", "The engine was cold that morning.", False),
    ("The text is written in English.", "It rained for three days.", True),
    ("The text is written in English.", "Il pleut depuis trois jours.", False),
    ("The text names a colour.", "She wore a red coat.", True),
    ("The text names a colour.", "She wore a long coat.", False),
    ("The text contains a number.", "There were 12 apples on the table.", True),
    ("The text contains a number.", "There were apples on the table.", False),
    ("The text is a question.", "Where does this road go?", True),
    ("The text is a question.", "This road goes to the sea.", False),
    ("The text is about food.", "The soup needs more salt and some onions.", True),
    ("The text is about food.", "The lawyer closed the file and left.", False),
    ("The text has a positive tone.", "What a wonderful, happy day this was!", True),
    ("The text has a positive tone.", "Everything about this day was terrible.", False),
    ("The text gives a reason.", "We stayed at home because it rained.", True),
    ("The text gives a reason.", "We stayed at home.", False),
]


class AtTheEnd(sv.Requirement):
    """Judges sentence by sentence like another requirement, but only when all is there."""

    def __init__(self, inner):
        super().__init__(inner.description, self._judge)
        self.inner = inner

    async def _judge(self, ctx):
        whole = sv.ScriptedBackend(str(ctx.last_output()), token_size=64)
        result = await sv.Pipeline(whole, requirements=[self.inner]).run("judge")
        return sv.ValidationResult(result.success)


async def spent(backend, prompt, rules, seed, mode):
    """(tokens until a valid answer, whether there was one)"""
    requirements = [AtTheEnd(rule) for rule in rules] if mode == "whole" else rules
    retry = sv.Repair(
        loop_budget=BUDGET,
        mode="continue" if mode == "continue" else "restart",
        template="{prompt}",
    )
    pipeline = sv.Pipeline(backend, requirements=requirements, retry=retry)
    result = await pipeline.run(prompt, **OPTIONS, seed=seed)
    return result.usage.completion_tokens, result.success


async def tokens_until_valid(backend):
    print("| rules | whole output, retry | streaming, restart | streaming, continue | ratio |")
    print("|---|---|---|---|---|")
    for name, rules in RULES.items():
        cells, totals = [], []
        for mode in ("whole", "restart", "continue"):
            runs = [await spent(backend, p, rules(), n * 100, mode) for n, p in enumerate(PROMPTS)]
            totals.append(sum(tokens for tokens, _ in runs))
            valid = sum(success for _, success in runs)
            cells.append(f"{totals[-1]:,} ({valid} of {len(PROMPTS)} valid)")
        print(f"| {name} | {' | '.join(cells)} | {totals[2] / totals[0]:.2f} |", flush=True)


async def judge_agreement(backend):
    agreed = nonsense = said_yes = 0
    for description, text, expected in CASES:
        requirement = sv.Requirement(description)
        result = await requirement.validate(backend, sv.types.Context().with_output(text))
        agreed += bool(result) is expected
        nonsense += result.error is not None
        said_yes += bool(result)
    print("\n| 20 cases, 10 of them a yes | agrees | says yes | neither yes nor no |")
    print("|---|---|---|---|")
    print(f"| the embedded model as a judge | {agreed} | {said_yes} | {nonsense} |")


async def main():
    backend = sv.LocalBackend()
    await judge_agreement(backend)
    await tokens_until_valid(backend)


if __name__ == "__main__":
    asyncio.run(main())
