"""The web example in a real browser: FastAPI, server-sent events, thirty lines of JavaScript."""

import contextlib
import importlib.util
import socket
import threading
import time
from pathlib import Path

WEB = Path(__file__).parents[1] / "notebooks/web"


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


async def test_chunks_come_a_restart_strikes_out_and_text_stays_text(browser):
    with serving() as url:
        page = await browser.new_page()
        await page.goto(url)
        await page.wait_for_function("document.getElementById('status').textContent == 'valid'")
        assert await page.locator("#answer s").all_text_contents() == [
            "All is <b>well</b>.",
            " It rains.",
        ]
        assert await page.locator("#answer span").all_text_contents() == [
            "All is fine.",
            " The sun is out.",
        ]
        assert await page.locator("#answer b").count() == 0


def test_the_page_is_thirty_lines_at_most():
    script = (WEB / "page.html").read_text().split("<script>")[1].split("</script>")[0]
    assert len(script.strip().splitlines()) <= 30
