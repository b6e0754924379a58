"""What is public is written down in one place, and is really there."""

import importlib

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
            *("operators", "chunkers", "sinks"),
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
        "default_output_to_bool",
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


def test_the_folders_are_not_top_level_packages():
    import subprocess
    import sys

    code = "import operators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd="/")
    assert b"ModuleNotFoundError" in done.stderr
