"""Makes the site of the documentation: `python tests/support/site.py FOLDER`, as `make docs` does.

The pages in `docs/`, the notebooks with their outputs, CONTRIBUTING, CHANGELOG and SECURITY, and a reference of every
public name by its public path. Where a program on a page ends with ``# draw: NAME``, it is run and what it has drawn
stands below it. mkdocs builds strictly: a link that leads nowhere is an error. At the end the tree of the site is printed,
with the minutes that each page takes to read.
"""

from __future__ import annotations

import importlib
import io
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[2]
WORDS_A_MINUTE = 200

NAVIGATION = [
    ("Home", "index.md"),
    ("Quick start", "quick-start.md"),
    ("Concepts", "concepts.md"),
    (
        "How to",
        [
            ("Ready requirements", "ready-rules.md"),
            ("A rule of your own", "own-requirement.md"),
            ("An operator of your own", "own-operator.md"),
            ("Typed output", "typed-output.md"),
            ("Reasoning, tools and agents", "reasoning-and-tools.md"),
            ("Mask, or only observe", "masking.md"),
            ("Streams that break off", "streams-that-break.md"),
            ("Which models continue", "which-models-continue.md"),
            ("The gateway", "gateway.md"),
            ("Many prompts", "many-prompts.md"),
            ("The command line", "command-line.md"),
            ("Seeing a run", "seeing-a-run.md"),
            ("Testing", "testing.md"),
            ("Operators by hand", "by-hand.md"),
            ("Schedulers, threads and demand", "streams.md"),
            ("Sessions and contracts", "sessions-and-contracts.md"),
            ("Sound", "sound.md"),
        ],
    ),
    (
        "Integrations",
        [
            ("Overview", "integrations.md"),
            ("FastAPI and other web frameworks", "web-frameworks.md"),
            ("LangChain", "langchain.md"),
            ("Pydantic AI", "pydantic-ai.md"),
            ("The OpenAI Agents SDK", "openai-agents.md"),
            ("LiteLLM's proxy", "litellm-proxy.md"),
            ("The openai and anthropic packages", "provider-sdks.md"),
            ("Clients of the gateway", "clients.md"),
        ],
    ),
    ("Notebooks", "notebooks"),
    ("Reference", "reference"),
    (
        "Figures",
        [
            ("Promises", "promises.md"),
            ("Benchmarks", "benchmarks.md"),
            ("Exposure", "exposure.md"),
            ("Conformance", "conformance.md"),
            ("Secrets and personal data", "leaks.md"),
        ],
    ),
    ("Troubleshooting", "troubleshooting.md"),
    (
        "Project",
        [
            ("Contributing", "contributing.md"),
            ("Security", "security.md"),
            ("Licences", "licences.md"),
            ("Changelog", "changelog.md"),
        ],
    ),
]
"""The tree of the site: titles with a page, a list of these, or what is made from the notebooks and the code."""

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
    """Return the public path of each name of a part: the shortest, as a program writes it."""
    package = importlib.import_module(f"streamval.{part}")
    if not hasattr(package, "__path__"):
        return [package.__name__]
    top = importlib.import_module("streamval").__all__
    return [
        f"streamval.{name}" if name in top else f"streamval.{part}.{name}"
        for name in package.__all__
    ]


def reference(pages: Path) -> list[dict[str, str]]:
    """Write the pages of the reference."""
    listed = []
    (pages / "reference").mkdir()
    for part, title in {**PARTS, "integrations": "Integrations"}.items():
        names = INTEGRATIONS if part == "integrations" else public_names(part)
        blocks = [f"::: {name}\n" for name in names]
        (pages / f"reference/{part}.md").write_text("\n".join([f"# {title}\n", *blocks]))
        listed.append({title: f"reference/{part}.md"})
    return listed


def source(folder: Path) -> None:
    """Copy the package for mkdocstrings: public names are imported where they are public.

    It also knows a section of examples by another name.
    """
    shutil.copytree(ROOT / "build/shipped", folder)
    for path in folder.rglob("*.py"):
        text = re.sub(r"^( *)Example:$", r"\1Examples:", path.read_text(), flags=re.MULTILINE)
        path.write_text(text)
    for stub in folder.rglob("__init__.pyi"):
        lazy = stub.with_suffix(".py")
        found = re.match(r'(?s)""".*?"""\n', lazy.read_text())
        names = re.findall(r" as (\w+)$", stub.read_text(), re.MULTILINE)
        lazy.write_text(f"{found[0] if found else ''}{stub.read_text()}\n__all__ = {names}\n")
        stub.unlink()


def prose(pages: Path) -> None:
    """Copy what is written already, with links that lead to pages of the site, and draw what its programs draw."""
    for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY"):
        text = (ROOT / f"{name}.md").read_text().replace("](docs/", "](")
        (pages / f"{name.lower()}.md").write_text(_linked(text))
    for path in (ROOT / "docs").glob("*.md"):
        (pages / path.name).write_text(_linked(_drawn(path.read_text(), pages / "drawn")))
    for folder in ("pictures", "web"):
        shutil.copytree(
            ROOT / "notebooks" / folder,
            pages / "notebooks" / folder,
            ignore=shutil.ignore_patterns("__pycache__"),
        )


def _linked(text: str) -> str:
    text = re.sub(r"\((?:\.\./)?notebooks/(\w+)\.ipynb", r"(notebooks/\1.md", text)
    text = text.replace("../notebooks/", "notebooks/")
    text = re.sub(
        r"\((?:\.\./)?(CONTRIBUTING|CHANGELOG|SECURITY)\.md",
        lambda found: f"({found[1].lower()}.md",
        text,
    )
    return text.replace("(../README.md", "(index.md").replace("(README.md", "(index.md")


def _drawn(text: str, folder: Path) -> str:
    """Run the programs of a page in one session, and put what they have drawn below them."""
    if "# draw: " not in text:
        return text
    folder.mkdir(exist_ok=True)
    session: dict[str, Any] = {}

    def with_picture(block: re.Match[str]) -> str:
        with redirect_stdout(io.StringIO()):
            exec(compile(block[1], "page", "exec"), session)
        found = re.search(r"  # draw: (\w+)$", block[1], re.MULTILINE)
        if found is None:
            return block[0]
        (folder / f"{found[1]}.svg").write_text(session["drawing"])
        code = block[0].replace(found[0], "")
        return f"{code}\n![Marbles of the program above](drawn/{found[1]}.svg){{ width=100% }}\n"

    return re.sub(r"```python\n(.*?)```\n", with_picture, text, flags=re.DOTALL)


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


CARD = """{% extends "base.html" %}
{% block extrahead %}
  <meta property="og:title" content="streamval: {{ page.title if page else 'not found' }}">
  <meta property="og:description" content="Judge a language model's output while it is being written.">
  <meta property="og:image" content="{{ 'notebooks/pictures/card.png'|url }}">
  <meta name="twitter:card" content="summary_large_image">
{% endblock %}
"""

NOT_FOUND = """{% extends "main.html" %}
{% block content %}
  <h1>There is no such page</h1>
  <p>It may have moved: try the search above, or begin at the <a href="{{ 'index.html'|url }}">first page</a>.</p>
{% endblock %}
"""

STYLE = """
.md-typeset table:not([class]) :is(td, th) { min-width: 3.2rem; padding: .6em .7em; }
.md-typeset table:not([class]) td:first-child { min-width: 7rem; overflow-wrap: anywhere; }
.md-typeset pre[style] { overflow-x: auto; }
.md-typeset pre > code { white-space: pre-wrap; overflow-wrap: anywhere; }
.md-typeset code { overflow-wrap: anywhere; }
.md-typeset h2, .md-typeset h3 { overflow-wrap: anywhere; }
"""


def settings(folder: Path, pages: Path, nav: list[Any]) -> dict[str, Any]:
    """Return the settings of mkdocs."""
    return {
        "site_name": "streamval",
        "site_description": "Judge a language model's output while it is being written.",
        "docs_dir": str(pages.resolve()),
        "site_dir": str((folder / "html").resolve()),
        "use_directory_urls": False,
        "extra_css": ["extra.css"],
        "theme": {
            "name": "material",
            "font": False,
            "custom_dir": str((folder / "theme").resolve()),
            "features": [
                *("content.code.copy", "navigation.top", "navigation.footer"),
                *("navigation.tabs", "navigation.indexes", "search.highlight", "toc.follow"),
            ],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {mode})",
                    "scheme": scheme,
                    "primary": "teal",
                    "toggle": {"icon": icon, "name": f"Switch to {other} mode"},
                }
                for mode, scheme, icon, other in (
                    ("light", "default", "material/weather-night", "dark"),
                    ("dark", "slate", "material/weather-sunny", "light"),
                )
            ],
        },
        "validation": {
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}
        },
        "markdown_extensions": [
            *("admonition", "attr_list", "md_in_html", "tables", "pymdownx.superfences"),
            {"toc": {"permalink": True}},
            {"pymdownx.highlight": {"anchor_linenums": False}},
        ],
        "plugins": [
            "search",
            {
                "mkdocstrings": {
                    "handlers": {
                        "python": {
                            "paths": [str((folder / "source").resolve())],
                            "options": {
                                "docstring_style": "google",
                                "merge_init_into_class": True,
                                "show_root_heading": True,
                                "show_source": False,
                                "heading_level": 2,
                                "separate_signature": True,
                                "show_signature_annotations": True,
                                "line_length": 76,
                            },
                        }
                    }
                }
            },
        ],
        "nav": nav,
    }


def tree(nav: list[Any], html: Path, depth: int = 0) -> None:
    """Print the tree of the site, with the minutes that each page takes to read."""
    for entry in nav:
        ((title, leaf),) = entry.items()
        if isinstance(leaf, str):
            page = (html / leaf).with_suffix(".html").read_text()
            article = page[page.index("<article") : page.index("</article>")]
            minutes = max(round(len(re.sub(r"<[^>]*>", " ", article).split()) / WORDS_A_MINUTE), 1)
            print(f"{'  ' * depth}{title}: {minutes} min")
        else:
            print(f"{'  ' * depth}{title}")
            tree(leaf, html, depth + 1)


def main(folder: Path) -> None:
    """Write the pages and the settings, and build them strictly."""
    pages = folder / "pages"
    pages.mkdir(parents=True)
    source(folder / "source")
    prose(pages)
    (pages / "extra.css").write_text(STYLE)
    (folder / "theme").mkdir()
    (folder / "theme/main.html").write_text(CARD)
    (folder / "theme/404.html").write_text(NOT_FOUND)
    made = {"notebooks": notebooks(pages), "reference": reference(pages)}
    nav = [
        {title: made.get(leaf, leaf) if isinstance(leaf, str) else [dict([one]) for one in leaf]}
        for title, leaf in NAVIGATION
    ]
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings(folder, pages, nav)))
    # Not --quiet, which would hide warnings from --strict as well.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f"]
    done = subprocess.run(
        [*command, str(folder / "mkdocs.yml")], check=False, capture_output=True, text=True
    )
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
    tree(nav, folder / "html")
    print(f"{folder}/html/index.html, with every public name")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
