"""Tests of `streamval.view.page`: the page of a drawing, in a real browser."""

import streamval as sv
from tests.support.sources import PlainJudge, Spoken, fails_on, watch

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


async def a_page(tmp_path, words=3):
    said = [f"Word{n} {EVIL if n == 1 else ''} here. " for n in range(words)]
    judge = PlainJudge(fails_on("Bad!"), f"calm {EVIL}")
    backend = Spoken([*said, "Bad! ", "X"], [" Good."], supports_prefix=True)
    pipeline = sv.Pipeline(
        backend, requirements=[judge], retry=sv.Repair(), emit_tokens=True, emit_verdicts=True
    )
    events = await watch(pipeline.start("go"))
    path = tmp_path / "drawing.html"
    sv.draw(events, path)
    return path


async def opened(browser, path, complaints, **options):
    page = await browser.new_page(**options)
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append("a dialog"))
    page.on(
        "request",
        lambda request: complaints.append(request.url) if "file:" not in request.url else None,
    )
    await page.goto(path.as_uri())
    return page


async def test_hovering_the_arrow_keys_and_the_zoom(browser, tmp_path):
    complaints = []
    page = await opened(browser, await a_page(tmp_path), complaints)
    details = page.locator("#details")
    fail = page.locator('use.fail[data-c="1-3"]')
    shadow = "mark => getComputedStyle(mark).filter"
    assert await fail.evaluate(shadow) == "none"
    await fail.hover(force=True)
    assert "drop-shadow" in await fail.evaluate(shadow)
    assert "about Bad!" in await details.inner_text()
    await page.locator(".plot").focus()
    for _ in range(9):
        await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowRight")
    said = await details.inner_text()
    assert "chunk: 1" in said
    assert EVIL in said
    assert await page.locator(".chosen").count() > 0

    width = "document.querySelector('.plot svg').getBoundingClientRect().width"
    before = await page.evaluate(width)
    await page.get_by_role("button", name="zoom in").click()
    assert await page.evaluate(width) > 1.9 * before
    name = page.locator("text.side", has_text="released").first
    at_left = (await name.bounding_box())["x"]
    for _ in range(3):
        await page.get_by_role("button", name="zoom in").click()
    await page.evaluate("document.querySelector('.plot').scrollLeft += 700")
    await page.wait_for_function(
        "left => Math.abs([...document.querySelectorAll('text.side')]"
        ".find(text => text.textContent.includes('released')).getBoundingClientRect().x - left) < 2",
        arg=at_left,
    )
    await page.get_by_role("button", name="all of it").click()
    assert abs(await page.evaluate(width) - before) < 1
    assert abs((await name.bounding_box())["x"] - at_left) < 1
    assert complaints == []


async def test_the_wheel_zooms_at_the_pointer_and_a_button_at_the_failure(browser, tmp_path):
    page = await opened(browser, await a_page(tmp_path, words=300), [])
    plot, fail = page.locator(".plot"), page.locator("use.fail[data-c]").first
    await plot.scroll_into_view_if_needed()
    box = await plot.bounding_box()
    for _ in range(4):
        await page.get_by_role("button", name="zoom in").click()
    # In the middle, unless it is at the end of the drawing. The middle of the drawing is far away.
    assert box["x"] <= await centre(fail) <= box["x"] + box["width"]
    await page.get_by_role("button", name="all of it").click()
    before = await centre(fail)
    await page.mouse.move(before, box["y"] + 30)
    scrolled = await page.evaluate("scrollY")
    for _ in range(6):
        await page.mouse.wheel(0, -100)
    width = "document.querySelector('.plot svg').getBoundingClientRect().width"
    await page.wait_for_function(f"{width} > 2.5 * {box['width']}")
    assert abs(await centre(fail) - before) < 12  # a pixel or two for each turn of the wheel
    assert await page.evaluate("scrollY") == scrolled
    await page.close()


async def centre(mark):
    box = await mark.bounding_box()
    return box["x"] + box["width"] / 2


async def test_it_reads_without_a_mouse_and_fits_a_telephone(browser, tmp_path):
    complaints = []
    path = await a_page(tmp_path, words=300)
    for scheme in ("light", "dark"):
        page = await opened(
            browser, path, complaints, viewport={"width": 360, "height": 800}, color_scheme=scheme
        )
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        legend = await page.locator(".plot svg svg.side").last.bounding_box()
        assert legend["x"] + legend["width"] <= 360
        tree = await page.locator("main").aria_snapshot()
        for said in (
            'group "Marble diagram; the arrow keys go',
            "All chunks as a table",
            "deletion",
        ):
            assert said in tree
        colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(255, 255, 255)") == (scheme == "light")
        await page.close()
    assert complaints == []
