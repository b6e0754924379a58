"""The programs of the pages on agents run, before scripted providers on real sockets."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.providers import ANSWER, FAULTS, provider

DOCS = Path(__file__).parents[1] / "docs"
CALL = 'I need the weather in Rome first. → {"city": "Rome"}'


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)


PROGRAMS = {
    "loop": ("deepseek", blocks("reasoning-and-tools")[0], "It is far. → Take the bus.\nreasoning"),
    "twice": ("deepseek", blocks("reasoning-and-tools")[1], "Done. ['ann@example.org']"),
    "langchain": ("deepseek", *blocks("langchain"), ANSWER),
    "pydantic-ai": ("vllm", *blocks("pydantic-ai"), ANSWER),
    "openai-agents": ("openai", *blocks("openai-agents"), ANSWER),
    "openai": ("openai", blocks("provider-sdks")[0], CALL),
    "anthropic": ("anthropic", blocks("provider-sdks")[1], CALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
async def test_it_runs_and_its_repair_is_valid(program):
    name, code, says = PROGRAMS[program]
    async with provider(name, fault=FAULTS["wrong argument"]) as one:
        address = one.url.removesuffix("/v1")
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": one.url,
            "ANTHROPIC_BASE_URL": address,
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_API_KEY": "none",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    assert says in said.decode()
    assert one.refused == []


@pytest.mark.parametrize("page", ["masking", "streams-that-break"])
def test_what_a_page_prints_is_what_it_says(page, capsys):
    text = (DOCS / f"{page}.md").read_text()
    for code in blocks(page):
        exec(compile(code, page, "exec"), {})
        printed = capsys.readouterr().out.strip()
        said = re.findall(r"# (.+)$", code, re.MULTILINE)
        assert printed == said[-1]
    assert "```python" in text
