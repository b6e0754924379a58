"""The web example in a real browser: FastAPI, server-sent events, thirty lines of JavaScript."""

import contextlib
import importlib.util
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

WEB = Path(__file__).parents[1] / "notebooks/web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def chromium():
    """Where Chromium is. Without one the test is skipped, but not where it is insisted on."""
    if CHROMIUM is None:
        if os.environ.get("STREAMVAL_INSIST"):
            pytest.fail("there is no Chromium: apt-get install chromium")
        pytest.skip("there is no Chromium (apt-get install chromium)")
    return CHROMIUM


@contextlib.contextmanager
def serving():
    """The example, by a server of its own."""
    import uvicorn

    spec = importlib.util.spec_from_file_location("web_example", WEB / "app.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(example.app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: server.run([listening]))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


def test_chunks_come_a_restart_strikes_out_and_text_stays_text(chromium):
    script = f"""
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as started:
    browser = started.chromium.launch(executable_path={chromium!r}, args=["--no-sandbox"])
    page = browser.new_page()
    page.goto(sys.argv[1])
    page.wait_for_function("document.getElementById('status').textContent == 'valid'")
    print(page.locator("#answer s").all_text_contents())
    print(page.locator("#answer span").all_text_contents())
    print(page.locator("#answer b").count())
    browser.close()
"""
    import subprocess
    import sys

    with serving() as url:
        # In a process of its own: its driver keeps an event loop, and this one has warnings as errors.
        done = subprocess.run(
            [sys.executable, "-c", script, url], capture_output=True, text=True, timeout=100
        )
    assert done.stdout.splitlines() == [
        "['All is <b>well</b>.', ' It rains.']",
        "['All is fine.', ' The sun is out.']",
        "0",
    ], done.stderr


def test_the_page_is_thirty_lines_at_most():
    script = (WEB / "page.html").read_text().split("<script>")[1].split("</script>")[0]
    assert len(script.strip().splitlines()) <= 30
