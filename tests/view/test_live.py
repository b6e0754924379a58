"""Tests of `streamval.view.live`: how often it sends what, and a real JupyterLab in a real browser."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys

import httpx
import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

import streamval as sv
from streamval.errors import RunError
from streamval.testing import run_virtually
from streamval.view.patch import patched
from tests.support.sources import PlainJudge, Spoken, fails_on


class Page:
    """What the widget's page gets: states and messages, as `widget.js` takes them."""

    def __init__(self, widget):
        self.widget, self.snapshot, self.number = widget, widget.snapshot, widget.number
        self.times, self.size, self.lost = [], 0, 0
        widget.observe(self.on_state, "number")
        widget.send = self.on_message

    def on_state(self, change):
        self.took(self.widget.snapshot, change["new"])

    def on_message(self, content):
        if self.lost:  # the page was not there yet
            self.lost -= 1
        elif content["number"] == self.number + 1:
            self.took(patched(self.snapshot, content["patch"]), content["number"])
        elif content["number"] > self.number:
            self.widget._on_message(self.widget, {"missing": self.number}, [])
        self.size += len(str(content))

    def took(self, snapshot, number):
        self.times.append(asyncio.get_running_loop().time())
        self.snapshot, self.number = snapshot, number


def watched(words, seconds, lost=0):
    """Run so many words in so many virtual seconds; returns the page and the result."""

    async def main():
        text = [f"word{n} " for n in range(words)]
        deltas = [part for word in text for part in (word, seconds / words)]
        run = sv.Pipeline(Spoken(*deltas), chunking="word", emit_tokens=True).start("go")
        page = Page(run.live())
        page.lost = lost
        return page, await run

    return run_virtually(main())[0]


def test_ten_updates_a_second_at_most_and_none_is_lost_at_the_end():
    page, result = watched(500, 5.0)
    gaps = [later - before for before, later in zip(page.times, page.times[1:], strict=False)]
    assert 40 <= len(page.times) <= 52
    assert all(gap >= 0.099 for gap in gaps[:-1])
    assert "".join(segment["text"] for segment in page.snapshot["text"]) == result.text
    assert page.snapshot["state"] == "valid"


@pytest.mark.parametrize("lost", [0, 3])
def test_a_long_text_goes_on_in_patches_and_a_page_that_missed_some_asks(lost):
    page, result = watched(20_000, 5.0, lost)
    assert "".join(segment["text"] for segment in page.snapshot["text"]) == result.text
    assert 0 < page.size < 3 * len(str(page.snapshot))


async def test_it_belongs_before_the_run_is_driven():
    run = sv.Pipeline(Spoken("One.")).start("go")
    await run
    with pytest.raises(RunError, match=r"call live\(\) before it is driven"):
        run.live()


async def test_it_turns_on_what_it_shows():
    """Without tokens and verdicts a notebook showed neither pending text nor how long a rule takes."""
    seen = []
    run = sv.Pipeline(Spoken("One. ", "Two."), requirements=[PlainJudge()]).start("go")
    run.live()
    run.subscribe(lambda event: seen.append(event.type))
    assert (await run).success
    assert {"token", "verdict"} <= set(seen)


async def test_a_run_that_breaks_off_leaves_a_picture_that_says_so():
    run = sv.Pipeline(Spoken("One. ", OSError("<b>gone</b>"))).start("go")
    live = run.live()
    with pytest.raises(OSError, match="gone"):
        await run
    assert "OSError: &lt;b&gt;gone&lt;/b&gt;" in live.picture()
    assert "<script" not in live.picture()
    assert repr(live) == "<LiveRun of 'faulty': error>"


def test_a_program_that_has_not_installed_it_is_told_what_to_do():
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import streamval as sv\n"
        "try: sv.Pipeline(sv.ScriptedBackend('x')).start('x').live()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == (
        'UsageError run.live() needs the extra: pip install "streamval-llm[notebook]"'
    )


CELLS = [
    """import asyncio, streamval as sv
calm = sv.stream_check(lambda text: (not text.endswith("!"), "it <b>shouts</b>"), "stay calm")
said = ["All is <b>well</b>. It rains. Help! Fire!", " All is fine. The sun is out."]
go_on = asyncio.Event()

async def speak(request):
    for word in said[request.attempt - 1].split(" "):
        yield word + " "
    if request.attempt == 2:
        await go_on.wait()

class Speaker(sv.Backend):
    model, supports_prefix = "speaker", True
    def stream(self, request):
        return speak(request)

pipeline = sv.Pipeline(Speaker(), requirements=[calm], retry=sv.Repair(), emit_tokens=True)
pipeline""",
    """run = pipeline.start("How is it?")
run.live()""",
    """asyncio.get_running_loop().call_later(1.5, go_on.set)  # until then, people look
result = await run
result""",
]


@contextlib.contextmanager
def jupyter_lab(folder):
    """A JupyterLab with a notebook; yields the notebook's address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(source) for source in CELLS]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "seen.ipynb")
    own = {
        name: str(folder / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "HOME")
    }
    command = [
        sys.executable,
        *("-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
        *("--IdentityProvider.token=t0ken", f"--ServerApp.root_dir={folder}"),
    ]
    lab = subprocess.Popen(
        command, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}/lab/tree/seen.ipynb?token=t0ken"
    finally:
        lab.terminate()
        try:
            lab.wait(20)
        except subprocess.TimeoutExpired:  # it waits for a thread of its own, sometimes for good
            lab.kill()
            lab.wait()


async def answers(url):
    """Wait until a server is there."""
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                return await client.get(url)
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_real_jupyterlab_shows_the_run_live_and_keeps_the_picture(browser, tmp_path):
    complaints = []
    with jupyter_lab(tmp_path) as url:
        await answers(url)
        page = await browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(90_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(url)
        await page.locator(".jp-Notebook .jp-Cell").first.click()
        await page.locator('[data-status="idle"]').first.wait_for(state="attached")
        for _ in CELLS:
            await page.keyboard.press("Shift+Enter")
        # While it runs: text, struck out where it was taken back, and the reason.
        await page.locator(".sv-run.live .text span", has_text="It rains.").wait_for()
        await page.locator(".sv-run.live del", has_text="Help!").wait_for()
        await page.locator(".sv-run.live .bad", has_text="it <b>shouts</b>").wait_for()
        assert await page.locator(".sv-run.live b").count() == 0
        assert await page.locator(".sv-run.live .prompt").inner_text() == "How is it?"
        await page.locator(".sv-run.live .pending", has_text="The sun is out.").wait_for()
        ending = "document.querySelectorAll('.jp-Cell')[1].getBoundingClientRect().bottom"
        ended_at = await page.evaluate(ending)
        # Afterwards: a picture in its place, without the widget.
        await page.locator(".sv-run", has_text="valid after 2 attempts").first.wait_for()
        await page.locator(".sv-run.live").wait_for(state="detached")
        assert abs(await page.evaluate(ending) - ended_at) < 3, "the page jumped"
        await page.screenshot(path=tmp_path / "seen.png")
        await page.keyboard.press("Control+s")
        await until_saved(tmp_path / "seen.ipynb")
        await page.close()
        # From somebody else, so not trusted: without styles and inline SVG, the drawings are there.
        foreign = nbformat.read(tmp_path / "seen.ipynb", as_version=4)
        foreign.cells.append(new_code_cell("'not signed by anybody'"))
        nbformat.write(foreign, tmp_path / "foreign.ipynb")
        page = await browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(90_000)
        await page.goto(url.replace("lab/tree/seen", "lab/workspaces/other/tree/foreign"))
        drawing = page.locator(
            '.jp-OutputArea img[alt="speaker, cut by sentence, judged by stay calm"]'
        )
        await drawing.wait_for()
        assert (
            await drawing.evaluate("drawn => drawn.decode().then(() => drawn.naturalWidth)") > 100
        )
        await page.locator(".jp-OutputArea del", has_text="Help!").nth(1).wait_for()
        await page.screenshot(path=tmp_path / "foreign.png")
        assert await page.locator(".jp-OutputArea style").count() == 0  # it is not trusted
        await page.close()
    assert complaints == []

    saved = nbformat.read(tmp_path / "seen.ipynb", as_version=4)
    diagram, live, result = (cell.outputs[0].data["text/html"] for cell in saved.cells[:3])
    assert '<img src="data:image/svg+xml;base64,' in diagram
    for picture in (live, result):
        assert "<del>" in picture
        assert "<script" not in picture
        assert "<b>" not in picture
    exported, _ = HTMLExporter().from_notebook_node(saved)
    offline = tmp_path / "seen.html"
    offline.write_text(exported)
    page = await browser.new_page()
    await page.goto(offline.as_uri())
    assert await page.locator(".sv-run del", has_text="Help!").count() == 2
    await page.close()


async def until_saved(path):
    while True:
        with contextlib.suppress(nbformat.reader.NotJSONError):  # it is being written
            cells = nbformat.read(path, as_version=4).cells
            if all(cell.outputs for cell in cells[: len(CELLS)]):
                return
        await asyncio.sleep(0.2)


def test_what_was_taken_back_counts_as_well():
    """It is sent once, and not with each update."""

    async def main():
        pieces = [*["x" * 1000 + ". "] * 40, "Bad! ", "More ", "of it. "]
        said = [[part for piece in pieces for part in (piece, 0.05)], ["Good. ", 1.0, "So. ", 1.0]]
        judge = PlainJudge(fails_on("Bad!"))
        run = sv.Pipeline(
            Spoken(*said), requirements=[judge], retry=sv.Repair(mode="restart"), emit_tokens=True
        ).start("go")
        page = Page(run.live())
        return page, await run

    (page, result), _ = run_virtually(main())
    assert result.text == "Good. So."
    assert 0 < page.size < 3 * len(str(page.snapshot))
