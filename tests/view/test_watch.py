"""Tests of `streamval.view.watch`: the page in a real browser, and what it does with clients that mean harm."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from hypothesis import given, settings

import streamval as sv
from streamval.view.patch import patch, patched
from streamval.view.watch import HEADERS, TABS, Watch
from tests.support.sources import Spoken
from tests.view.test_patch import snapshots

HOSTILE = "It is <img src=x onerror=alert(1)> & \u202ewet\x1b[31m. "


class Gated(sv.Backend):
    """Two attempts, each of which waits in its middle."""

    model = "<i>gated</i>"

    def __init__(self, *, supports_prefix=False):
        self.supports_prefix = supports_prefix
        self.first, self.second = asyncio.Event(), asyncio.Event()

    async def stream(self, request):
        if request.attempt == 1:
            yield HOSTILE + "It is cold. "
            await self.first.wait()
            yield "Help! More."
        else:
            yield "All is fine. It "
            await self.second.wait()
            yield "is over."


def gated(**options):
    backend = Gated(**options)
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay <b>calm</b>")
    pipeline = sv.Pipeline(
        backend, requirements=[calm], retry=sv.Repair(), emit_tokens=True, emit_verdicts=True
    )
    return backend, pipeline.start("go")


async def opened(browser, url, complaints):
    page = await browser.new_page()
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append("a dialog"))
    await page.goto(url)
    return page


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def test_chunks_come_a_restart_strikes_out_and_a_late_tab_sees_all(browser):
    complaints = []
    backend, run = gated()
    async with Watch() as watch:
        run.subscribe(watch)
        early = await opened(browser, watch.url, complaints)
        driving = asyncio.ensure_future(finished(run))
        await early.locator("#run .text span", has_text="It is cold.").wait_for()
        assert await early.locator("#run del").count() == 0

        backend.first.set()
        await early.locator("#run del", has_text="Help!").wait_for()
        late = await opened(browser, watch.url, complaints)
        await late.locator("#run .text", has_text="All is fine.").wait_for()
        struck = await late.locator("#run del").all_text_contents()
        assert struck == await early.locator("#run del").all_text_contents()
        # Hostile text is text, and steers nothing.
        assert struck[0] == "It is <img src=x onerror=alert(1)> & \ufffdwet\u241b[31m."
        assert watch.tabs == 2
        await early.close()
        await until(lambda: watch.tabs == 1)

        backend.second.set()
        await late.get_by_text("the run is over").wait_for()
        await late.locator("#times > svg").wait_for()
        assert "valid after 2 attempts" in await late.locator("#run .outcome").inner_text()
        assert await late.locator("#run .text span").all_text_contents() == [
            "All is fine.",
            " It is over.",
            "",
        ]
        assert await late.locator("img, b, i").count() == 0
        assert (await driving).success
    assert complaints == []


async def test_it_says_what_was_asked_and_how_long_it_waits_for_the_model(browser):
    """The first attempt said 0.1 ms for ten seconds."""
    asked = asyncio.Event()

    class Slow(sv.Backend):
        model = "slow"

        async def stream(self, _):
            await asked.wait()
            yield "Here."

    run = sv.Pipeline(Slow(), emit_tokens=True).start("How <b>is</b> it?")
    async with Watch(run.prompt) as watch:
        run.subscribe(watch)
        page = await opened(browser, watch.url, [])
        driving = asyncio.ensure_future(finished(run))
        await page.locator("#run .prompt", has_text="How <b>is</b> it?").wait_for()
        counted = re.compile(r"attempt 1 · waiting for the model, ([2-9]|\d\d+) s")
        await page.get_by_text(counted).wait_for()
        await page.locator("#times", has_text="attempt 1 · running").wait_for()
        asked.set()
        await page.get_by_text("valid after 1 attempt").wait_for()
        assert "waiting" not in await page.locator("#run").inner_text()
        await driving


async def finished(run):
    return await run


async def test_it_can_be_used_with_a_keyboard_and_a_screen_reader(browser):
    backend, run = gated(supports_prefix=True)
    async with Watch() as watch:
        run.subscribe(watch)
        backend.first.set()
        backend.second.set()
        await run
        page = await opened(browser, watch.url, [])
        await page.get_by_text("the run is over").wait_for()
        await page.locator("#times > svg").wait_for()
        tree = await page.locator("main").aria_snapshot()
        for said in (
            'heading "A run, while it is judged"',
            'log "The text"',
            'table "Requirements"',
            'img "Marble diagram of a run: 2 attempts',
            "status",
            "cell",
        ):
            assert said in tree, tree
        assert await page.locator("html").get_attribute("lang") == "en"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.getAttribute('role')") == "log"


async def test_nothing_without_the_token_and_a_strict_policy_with_it():
    async with Watch() as watch, httpx.AsyncClient(trust_env=False) as client:
        root = watch.url.split("/")[2]
        for wrong in (f"http://{root}/", f"http://{root}/x/", f"{watch.url[:-2]}/"):
            assert (await client.get(wrong)).status_code == 404, wrong
        for name in ("events", "marbles.svg", "view.js"):
            assert (await client.get(f"http://{root}/guessed/{name}")).status_code == 404
        for name in ("", "view.js", "watch.js", "view.css", "page.css", "marbles.svg"):
            answer = await client.get(watch.url + name)
            assert answer.status_code == 200, name
            for header, value in HEADERS.items():
                assert answer.headers[header] == value
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in answer.text
        assert "unsafe" not in HEADERS["Content-Security-Policy"]
        rebound = await client.get(watch.url, headers={"host": "evil.example"})
        assert rebound.status_code == 400
        assert (await client.post(watch.url)).status_code == 405


async def test_it_listens_on_loopback_only_and_is_gone_afterwards():
    async with Watch() as watch:
        port = int(watch.url.split(":")[2].split("/")[0])
        assert watch.url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_tabs_have_a_limit_and_a_client_that_reads_nothing_holds_nothing_up():
    words = " ".join(f"word{n}" for n in range(20_000))
    run = sv.Pipeline(sv.ScriptedBackend(words), chunking="word", emit_tokens=True).start("go")
    async with Watch() as watch:
        run.subscribe(watch)
        host, port = watch.url.split("/")[2].split(":")
        path = watch.url.split(port, 1)[1]
        silent = []
        for _ in range(TABS):
            reader, writer = await asyncio.open_connection(host, int(port), limit=1)
            writer.write(f"GET {path}events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            await writer.drain()
            silent.append((reader, writer))
        await until(lambda: watch.tabs == TABS)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{watch.url}events")).status_code == 503
        assert (await run).success
        for _, writer in silent:
            writer.close()
        await until(lambda: watch.tabs == 0)


async def test_the_page_gets_patches_and_not_the_text_again_and_again():
    words = [f"word{n} " for n in range(3000)]

    async def speak(_):
        for n, word in enumerate(words):
            yield word
            if not n % 300:
                await asyncio.sleep(0.11)  # as long as the page waits between two updates

    run = sv.Pipeline(sv.IterableBackend(speak), chunking="word", emit_tokens=True).start("go")
    async with Watch() as watch, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        run.subscribe(watch)
        async with client.stream("GET", f"{watch.url}events") as answer:
            driving = asyncio.ensure_future(finished(run))
            got, size, updates = {}, 0, 0
            kind = None
            async for line in answer.aiter_lines():
                size += len(line)
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    content = json.loads(line.removeprefix("data: "))
                    got = content if kind == "snapshot" else patched(got, content)
                    updates += 1
                    if got["state"] == "valid":
                        break
        await driving
    assert "".join(segment["text"] for segment in got["text"]) == run.text
    assert updates >= 5
    assert size < 3 * len(json.dumps(got))


async def test_the_page_applies_patches_as_python_does(browser):
    cases = []

    @settings(max_examples=150, deadline=None, database=None)
    @given(snapshots, snapshots)
    def collect(before, after):
        cases.append((before, patch(before, after), after))

    collect()
    async with Watch() as watch:
        page = await opened(browser, watch.url, [])
        made = await page.evaluate(
            """async (cases) => {
                const { patched } = await import("./view.js");
                return cases.map(([before, change]) => patched(before, change));
            }""",
            [[before, change] for before, change, _ in cases],
        )
    assert len(cases) >= 100
    assert made == [after for _, _, after in cases]


def test_a_program_that_has_not_installed_it_is_told_what_to_do():
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "try:\n import streamval.view.watch\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == (
        'UsageError --watch needs the extra: pip install "streamval-llm[serve]"'
    )


async def test_the_end_comes_even_where_the_server_stops_at_once():
    shown = {}

    async def tab(url):
        async with (
            httpx.AsyncClient(trust_env=False, timeout=60) as client,
            client.stream("GET", f"{url}events") as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    shown.update(patched(shown, json.loads(line.removeprefix("data: "))))

    words = [part for n in range(20) for part in (f"word{n} ", 0.01)]
    async with Watch() as watch:
        run = sv.Pipeline(Spoken(*words), chunking="word", emit_tokens=True).start("go")
        run.subscribe(watch)
        looking = asyncio.ensure_future(tab(watch.url))
        await until(lambda: watch.tabs == 1)
        await run
    await looking
    assert shown["state"] == "valid"
    assert "".join(segment["text"] for segment in shown["text"]) == run.text


async def test_a_drawing_is_made_once_for_all_tabs_and_not_on_the_loop(monkeypatch):
    made = []

    def slow(view, **options):
        made.append(threading.current_thread())
        return "<svg/>"

    monkeypatch.setattr("streamval.view.watch.marbles", slow)
    async with Watch() as watch, httpx.AsyncClient(trust_env=False) as client:
        run = sv.Pipeline(Spoken("One.")).start("go")
        run.subscribe(watch)
        await run
        await asyncio.gather(*(client.get(f"{watch.url}marbles.svg") for _ in range(10)))
    assert len(made) == 1
    assert made[0] is not threading.main_thread()


async def test_tabs_that_open_together_do_not_pass_the_limit():
    async with Watch() as watch:
        host, port = watch.url.split("/")[2].split(":")
        path = watch.url.split(port, 1)[1]
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(TABS + 40)]
        for _, writer in opened:
            writer.write(f"GET {path}events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await until(lambda: watch.tabs == TABS)
        await asyncio.sleep(0.05)
        assert watch.tabs == TABS
        for _, writer in opened:
            writer.close()


async def test_signal_handlers_that_were_set_while_it_was_open_stay():
    before = signal.getsignal(signal.SIGTERM)
    try:
        async with Watch():
            signal.signal(signal.SIGTERM, handler := lambda *_: None)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
