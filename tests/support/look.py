"""Looks at each page of the site in Chromium: no text may be wider than the window, at two widths, light and dark.

Tables, and the outputs of notebooks, may scroll inside of the page.

`python tests/support/look.py build/site/html`, as `make docs` does where there is Chromium. The pages are served on loopback, as
the search needs a server; it is tried as well. With a second folder, pictures of the pages are written there.
"""

from __future__ import annotations

import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import sync_playwright

TOO_WIDE = """
[...document.querySelectorAll('.md-content :is(p, pre:not([style]), ul, h1, h2, h3)')]
    .filter(one => one.scrollWidth > one.clientWidth + 8 && one.clientWidth > 100)
    .map(one => `${one.tagName} ${one.scrollWidth} > ${one.clientWidth}: ${one.innerText.slice(0, 60)}`)
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main(folder: Path, pictures: Path | None) -> None:
    """Look at all pages."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium: the pages were not looked at")
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    wrong = []
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in (1300, 390):
            for scheme in ("light", "dark"):
                seen = browser.new_page(
                    viewport={"width": width, "height": 1000}, color_scheme=scheme
                )
                for page in pages:
                    seen.goto(f"{address}/{page}")
                    where = f"{page} at {width}, {scheme}"
                    if seen.evaluate("document.scrollingElement.scrollWidth") > width:
                        wrong.append(f"{where}: it scrolls to the side")
                    wrong += [f"{where}: {one}" for one in seen.evaluate(TOO_WIDE)]
                    if pictures is not None:
                        name = page.replace("/", "_").removesuffix(".html")
                        seen.screenshot(path=pictures / f"{name}_{width}_{scheme}.png")
                seen.close()
        seen = browser.new_page(viewport={"width": 1300, "height": 1000})
        seen.goto(f"{address}/index.html")
        seen.keyboard.press("s")
        seen.keyboard.type("masking")
        seen.wait_for_selector(".md-search-result__item", timeout=60_000)
        browser.close()
    server.shutdown()
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(pages)} pages fit, at 1,300 and 390 pixels, light and dark; the search finds")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
