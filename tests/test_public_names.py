"""What is public is written down in one place, and is really there."""

import importlib
import re
from pathlib import Path

import pytest

import streamval as sv

PACKAGES = [
    "streamval",
    *(
        f"streamval.{p}"
        for p in (
            *(
                "types",
                "backends",
                "requirements",
                "validation",
                "pipeline",
                "session",
                "contracts",
            ),
            *("operators", "chunkers", "sinks", "view", "serve", "batch"),
        )
    ),
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_can_be_had(name):
    package = importlib.import_module(name)
    assert package.__all__
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package.__all__) <= set(dir(package))


def test_the_names_of_the_specification():
    names = [
        "Pipeline",
        "Run",
        "StreamResult",
        "Repair",
        "Chunk",
        "PartialValidationResult",
        "ValidationResult",
        "Requirement",
        "stream_check",
        "simple_validate",
        "Backend",
        "GenerationRequest",
        "Delta",
        "LiteLLMBackend",
        "LocalBackend",
        "ScriptedBackend",
        "ReplayBackend",
        "IterableBackend",
        "EventAdapter",
        "StartedEvent",
        "TokenEvent",
        "QuickCheckEvent",
        "ChunkEvent",
        "StreamingDoneEvent",
        "FullValidationEvent",
        "RetryEvent",
        "ErrorEvent",
        "CompletedEvent",
        "StreamvalError",
    ]
    assert set(names) <= set(sv.__all__)


def test_rarer_names_are_under_their_folder():
    assert len(sv.__all__) < 85
    for folder, names in {
        sv.types: "AttemptResult Context Failure Message ModelOutputThunk Usage",
        sv.events: "BaseEvent StageEvent",
        sv.errors: "ContractViolationError PreconditionException SharedStateWarning",
        sv.session: "SamplingResult Session StreamChunkingResult",
        sv.requirements: "ALoraRequirement NoRepetition default_output_to_bool",
        sv.validation: "Check Verdict",
    }.items():
        for name in names.split():
            assert hasattr(folder, name), name
            assert not hasattr(sv, name), name


def test_the_folders_are_not_top_level_packages():
    import subprocess
    import sys

    code = "import operators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd="/")
    assert b"ModuleNotFoundError" in done.stderr


def test_nobody_is_told_to_install_a_stranger():
    """`streamval` on PyPI is somebody else's; ours is `streamval-llm`."""
    root = Path(__file__).parents[1]
    looked_at = [
        path
        for folder in ("streamval", "operators", "chunkers", "sinks", "notebooks", "tests")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".ipynb", ".md") and path != Path(__file__)
    ]
    looked_at += [*root.glob("*.md"), root / "pyproject.toml", root / "Makefile"]
    wrong = re.compile(r"streamval\[|pip install[^\n]*\bstreamval(?!-llm)\b")
    assert len(looked_at) > 200
    assert [path for path in looked_at if wrong.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        (sv, "NoSecrets", "no_secrets"),
        (sv, "Pipelin", "Pipeline"),
        (sv.requirements, "WordLimit", "word_limit"),
    ],
)
def test_a_name_that_is_none_is_answered_with_what_was_meant(module, name, meant):
    with pytest.raises(AttributeError, match=f"has no '{name}'; did you mean '{meant}'"):
        getattr(module, name)
    assert not hasattr(module, "zzz")
