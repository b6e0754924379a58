"""Makes the site of the documentation: `python tests/support/site.py FOLDER`, as `make docs` does.

A page for each part of the library with every public name of it, the README, CONTRIBUTING and CHANGELOG,
and the notebooks with their outputs. mkdocs builds it strictly: a link that leads nowhere is an error.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import yaml
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[2]
PARTS = {
    "pipeline": "Pipelines and runs",
    "requirements": "Requirements",
    "backends": "Backends",
    "operators": "Operators",
    "chunkers": "Chunkers",
    "sinks": "Sinks",
    "view": "Seeing a run",
    "serve": "The gateway",
    "batch": "Many prompts",
    "session": "Sessions",
    "contracts": "Contracts",
    "testing": "Tests of your own",
    "types": "What flows",
    "validation": "Verdicts",
    "events": "Events",
    "errors": "Errors",
    "bridge": "The bridge",
}
INTEGRATIONS = [
    f"streamval.integrations.{name}"
    for name in ("langchain", "pydantic_ai", "openai_agents", "litellm_proxy")
]


def public_names(part: str) -> list[str]:
    """Where each public name of a part is defined, as ``module.name``."""
    package = importlib.import_module(f"streamval.{part}")
    if not hasattr(package, "__path__"):
        return [package.__name__]
    return [f"{_home(package, name)}.{name}" for name in package.__all__]


def _home(package: object, name: str) -> str:
    stub = Path(package.__file__).with_suffix(".pyi").read_text()  # type: ignore[attr-defined]
    found = re.search(rf"^from \.([\w.]+) import {name} as {name}$", stub, re.MULTILINE)
    assert found is not None, name
    return f"{package.__name__}.{found[1]}"  # type: ignore[attr-defined]


def reference(pages: Path) -> list[dict[str, str]]:
    """Write the pages of the reference."""
    listed = []
    (pages / "reference").mkdir()
    for part, title in {**PARTS, "integrations": "Integrations"}.items():
        names = INTEGRATIONS if part == "integrations" else public_names(part)
        options = "    options: {show_root_heading: true, show_source: false, heading_level: 2}\n"
        blocks = [f"::: {name}\n{options}" for name in names]
        (pages / f"reference/{part}.md").write_text("\n".join([f"# {title}\n", *blocks]))
        listed.append({title: f"reference/{part}.md"})
    return listed


def source(folder: Path) -> None:
    """Copy the package for mkdocstrings, which knows a section of examples by another name."""
    shutil.copytree(ROOT / "build/shipped", folder)
    for path in folder.rglob("*.py"):
        text = re.sub(r"^( *)Example:$", r"\1Examples:", path.read_text(), flags=re.MULTILINE)
        path.write_text(text)


def prose(pages: Path) -> None:
    """Copy what is written already, with links that lead to pages of the site."""
    for name, page in (
        ("README", "index"),
        ("CONTRIBUTING", "contributing"),
        ("CHANGELOG", "changelog"),
    ):
        text = (ROOT / f"{name}.md").read_text()
        text = re.sub(r"\((notebooks/\w+)\.ipynb\)", r"(\1.md)", text)
        text = text.replace("(CONTRIBUTING.md)", "(contributing.md)").replace("(docs/", "(")
        text = text.replace("(CHANGELOG.md)", "(changelog.md)").replace("(README.md", "(index.md")
        (pages / f"{page}.md").write_text(text)
    for path in (ROOT / "docs").glob("*.md"):
        shutil.copy(path, pages)
    for folder in ("pictures", "web"):
        shutil.copytree(
            ROOT / "notebooks" / folder,
            pages / "notebooks" / folder,
            ignore=shutil.ignore_patterns("__pycache__"),
        )


def notebooks(pages: Path) -> list[dict[str, str]]:
    """Write the notebooks as pages."""
    listed = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        text, _ = MarkdownExporter().from_notebook_node(notebook)
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        (pages / f"notebooks/{path.stem}.md").write_text(text)
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        listed.append({title[1] if title else path.stem: f"notebooks/{path.stem}.md"})
    return listed


def main(folder: Path) -> None:
    """Write the pages and the settings, and build them strictly."""
    pages = folder / "pages"
    pages.mkdir(parents=True)
    source(folder / "source")
    prose(pages)
    settings = {
        "site_name": "streamval",
        "docs_dir": str(pages.resolve()),
        "site_dir": str((folder / "html").resolve()),
        "use_directory_urls": False,
        "theme": {"name": "material", "font": False},
        "validation": {
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}
        },
        "markdown_extensions": ["admonition", "pymdownx.superfences", "tables"],
        "plugins": [
            "search",
            {
                "mkdocstrings": {
                    "handlers": {
                        "python": {
                            "paths": [str((folder / "source").resolve())],
                            "options": {"docstring_style": "google", "merge_init_into_class": True},
                        }
                    }
                }
            },
        ],
        "nav": [
            {"streamval": "index.md"},
            {"Promises": "promises.md"},
            {"Schedulers, threads and demand": "streams.md"},
            {"Reasoning, tools and agents": "reasoning-and-tools.md"},
            {
                "Integrations": [
                    {"LangChain": "langchain.md"},
                    {"Pydantic AI": "pydantic-ai.md"},
                    {"The OpenAI Agents SDK": "openai-agents.md"},
                    {"LiteLLM's proxy": "litellm-proxy.md"},
                    {"The openai and anthropic packages": "provider-sdks.md"},
                ]
            },
            {"Notebooks": notebooks(pages)},
            {"Reference": reference(pages)},
            {"Contributing": "contributing.md"},
            {"Changelog": "changelog.md"},
        ],
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    # Not --quiet, which would hide warnings from --strict as well.
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(folder / "mkdocs.yml"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    missing = [
        name
        for part in PARTS
        for name in public_names(part)
        if f'id="{name}"' not in (folder / f"html/reference/{part}.html").read_text()
    ]
    if missing:
        sys.exit(f"not in the reference: {', '.join(missing)}")
    print(f"{folder}/html/index.html, with every public name")


main(Path(sys.argv[1]))
