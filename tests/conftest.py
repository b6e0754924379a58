import asyncio
import gc

import pytest


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
    gc.collect()
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
def local_backend():
    """The embedded model."""
    from streamval import LocalBackend

    return LocalBackend(max_tokens=60)
