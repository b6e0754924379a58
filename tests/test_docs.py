"""The programs, commands and files on the pages of `docs/` run, and say what the pages say they do."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from streamval.cli import app
from streamval.serve.config_file import parse_configuration
from tests.support.messages import messages, plain
from tests.support.providers import ANSWER, FAULTS, provider

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"contributing", "changelog", "security", "not-found"}
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


NEEDS_A_PROVIDER = {
    "reasoning-and-tools",
    "langchain",
    "pydantic-ai",
    "openai-agents",
    "provider-sdks",
}
WITH_THE_MODEL = {"quick-start"}
PAGES = sorted(
    path.stem
    for path in DOCS.glob("*.md")
    if path.stem not in NEEDS_A_PROVIDER and blocks(path.stem)
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.local_model] if page in WITH_THE_MODEL else [])
        for page in PAGES
    ],
)
def test_the_programs_of_a_page_run_in_one_session_and_print_what_it_says(page):
    code = blocks(page)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", "\n".join(code)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # Not all of stderr: where the machine is slow, asyncio's debug mode says so there.
    assert "Warning" not in done.stderr
    for said in re.findall(r"print\(.*\)  # (.+)$", "\n".join(code), re.MULTILINE):
        for part in re.split(r", then |[.:] Then: | …|: the first| / ", said):
            assert part.strip() in done.stdout, (said, done.stdout)


def test_every_page_is_in_the_navigation_and_every_page_of_it_is_there():
    named = re.findall(r'"([\w/-]+)\.md"', (ROOT / "tests/support/site.py").read_text())
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages <= set(named)
    assert {name for name in named if "/" not in name} <= pages | MADE


def test_troubleshooting_has_the_texts_of_the_code():
    known = [re.sub(r"\s+", " ", plain(one)) for one in messages()]
    rows = re.findall(r"^\| `(.+?)` \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(rows) > 35
    for row in rows:
        pattern = re.escape(plain(row)).replace(r"\{\}", "(?:.*)")
        assert any(re.fullmatch(pattern, one) for one in known), row


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=str)
def test_the_commands_of_a_page_are_there_and_have_the_options_that_they_are_given(path):
    commands = typer.main.get_command(app).commands
    for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.startswith("streamval ") else []
            if not words or words[1].startswith("-"):
                continue
            command = commands[words[1]]
            known = {
                name for param in command.params for name in (*param.opts, *param.secondary_opts)
            }
            given = {word.partition("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)}
            assert given <= known, line


def test_the_gateways_files_on_the_pages_can_be_served(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "STREAMVAL_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-testing")
    (tmp_path / "my_rules.py").write_text("def NoCompetitors(text):\n    return True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    served = 0
    for path in sorted(DOCS.glob("*.md")):
        for text in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL):
            if text.startswith("upstreams:"):
                assert parse_configuration(text, path.name, dict(os.environ)).models
                served += 1
    assert served
