import asyncio
import gc
import os
import shutil

import hypothesis
import pytest

# Neither a slow example nor slow generation is a failure: both depend on the machine.
hypothesis.settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any_machine")

STARTS_PROCESSES = {
    f"test_{name}" for name in ("display", "exits", "run", "serve", "batch_job", "draw", "server")
}
"""Modules whose tests start the command in processes of their own: seconds each, and nothing that differs by Python."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Where tests run side by side, one process runs the embedded model: two would slow each other down.

    Notebooks run it in processes of their own.
    """
    for item in items:
        if item.path.stem in STARTS_PROCESSES and item.path.parent.name in ("commands", "serve"):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("local_model") or item.path.stem == "test_notebooks":
            item.add_marker(pytest.mark.xdist_group("local_model"))


@pytest.fixture(autouse=True)
async def no_task_is_left():
    """Every test leaves the loop as it found it."""
    before = asyncio.all_tasks()
    yield
    for _ in range(20):
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if not left:
            break
        await asyncio.sleep(0)
    gc.collect()  # a coroutine that was never awaited is reported here, in its own test
    gc.freeze()  # so that the next collection looks at the objects of the next test only
    assert not left, f"tasks left behind: {left}"


@pytest.fixture
async def reported():
    """What goes to the loop's exception handler, which is where things nobody awaits end up."""
    contexts = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    yield contexts
    loop.set_exception_handler(None)


@pytest.fixture(scope="session")
def chromium():
    """Where Chromium is. Without one a test is skipped, but not where it is insisted on."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("STREAMVAL_INSIST"):
            pytest.fail("there is no Chromium: apt-get install chromium")
        pytest.skip("there is no Chromium (apt-get install chromium)")
    return found


@pytest.fixture
async def browser(chromium):
    """A headless Chromium."""
    from playwright.async_api import async_playwright

    async with async_playwright() as started:
        opened = await started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest.fixture(scope="session")
def local_backend():
    """The embedded model."""
    from streamval import LocalBackend

    return LocalBackend(max_tokens=60)
