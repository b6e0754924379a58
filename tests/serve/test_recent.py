"""Tests of `streamval.serve.recent`: the page of the last runs, in a real browser."""

import asyncio

import httpx
import openai

from streamval.serve.recent import key_in
from tests.support.gateway import gateway
from tests.support.upstream import upstream, words


def test_a_key_as_programs_and_as_browsers_send_it():
    assert key_in("Bearer a b") == "a b"
    assert key_in("basic bWU6YTpi") == "a:b"
    for nothing in (None, "", "Bearer", "Basic", "Basic ???", "Basic /w==", "Digest x"):
        assert not key_in(nothing)


async def test_the_page_asks_for_a_key_and_shows_runs_as_they_happen(browser):
    go_on = asyncio.Event()

    class Script(list):
        def __iter__(self):
            yield from words("All is <b>well</b>. Two is")
            while not go_on.is_set():
                yield 0.01
            yield from words(" too.")

    settings = ", recent: 3, keys: [key-of-ann]"
    async with upstream(Script()) as behind, gateway(behind.url, server=settings) as serving:
        async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="key-of-ann") as client:
            stream = await client.chat.completions.create(
                model="judged", messages=[{"role": "user", "content": "x"}], stream=True
            )
            context = await browser.new_context(
                http_credentials={"username": "me", "password": "key-of-ann"}
            )
            page = await context.new_page()
            complaints = []
            page.on("console", lambda said: complaints.append(said.text))
            await page.goto(serving.url)
            assert "running" in await page.locator("tbody tr").inner_text()
            await page.locator("td a").click()
            await page.locator("#run .text span", has_text="All is <b>well</b>.").wait_for()
            go_on.set()
            await page.get_by_text("the run is over").wait_for()
            assert complaints == []
            assert [chunk async for chunk in stream]
            await context.close()
        async with httpx.AsyncClient(trust_env=False) as stranger:
            answer = await stranger.get(serving.url)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic")


async def test_the_list_tells_the_clients_name_for_the_model_and_the_rules_that_were_not_met(
    browser,
):
    bad = words("One is fine. <i>Two</i> is forbidden.")
    async with upstream(lambda *_: bad) as behind:
        for allowed in ("true", "false"):
            settings = f", recent: 3, recent_prompts: {allowed}"
            async with gateway(behind.url, server=settings) as serving:
                async with openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="x") as client:
                    asked = [{"role": "user", "content": "Say <b>it</b>."}]
                    await client.chat.completions.create(model="judged", messages=asked)
                context = await browser.new_context(viewport={"width": 390, "height": 800})
                page = await context.new_page()
                await page.goto(serving.url)
                row = await page.locator("tbody tr").inner_text()
                wide = await page.evaluate("document.documentElement.scrollWidth")
                colour = await page.locator("td b").evaluate("one => getComputedStyle(one).color")
                await context.close()
            assert wide <= 390
            assert colour in ("rgb(207, 34, 46)", "rgb(255, 123, 114)")
            assert ("Say <b>it</b>." in row) is (allowed == "true")
            for told in ("judged", "not valid", "never say", "One is fine."):
                assert told in row
            assert "forbidden." not in row
