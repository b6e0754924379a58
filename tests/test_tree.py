"""The tests mirror the package: one test file for each module, of its name."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
ACROSS = {  # what is about no single module
    "test_chaos",
    "test_contributing",
    "test_docs",
    "test_doctests",
    "test_garbage",
    "test_notebooks",
    "test_public_names",
    "test_promises",
    "test_readme",
    "test_rules",
    "test_tree",
    "test_web",
    "serve/test_passed_on",
    "serve/test_tools",
    "serve/test_planted",
    "serve/test_client_table",
    "integrations/test_langchain_gateway",
    "integrations/test_openai_suite",
    "backends/test_litellm_streams",
    "chunkers/test_laws",
    "integrations/test_langchain_standard",
    "integrations/test_tool_loops",
    "operators/test_by_hand",
    "pipeline/test_channels",
    "pipeline/test_events",
    "pipeline/test_resumed",
    "serve/test_resumed",
    "serve/test_observed",
    "serve/test_masked",
    "serve/test_clients",
    "serve/test_protocols",
}


def modules():
    for folder in ("streamval", "operators", "chunkers", "sinks"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.stem != "__init__":
                inside = path.relative_to(ROOT / "streamval" if folder == "streamval" else ROOT)
                yield str(inside.with_name(f"test_{path.stem}").as_posix())


def test_each_module_has_its_tests_and_each_test_file_its_module():
    tests = {
        str(path.relative_to(TESTS).with_suffix("").as_posix()) for path in TESTS.rglob("test_*.py")
    }
    assert tests - ACROSS == set(modules())


def test_no_folder_is_crowded():
    for folder in {path.parent for path in (ROOT / "streamval").rglob("*.py")}:
        count = len([path for path in folder.glob("*.py") if path.stem != "__init__"])
        limit = 8 if folder == ROOT / "streamval" else 16
        assert count <= limit, folder
