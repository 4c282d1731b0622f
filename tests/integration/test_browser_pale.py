"""What finds pale texts by day, held against axe, which finds them at night."""

from __future__ import annotations

from playwright.async_api import Browser
from support.browser import faults_of, in_browser, open_window

pytestmark = in_browser

TEXTS = """<!doctype html><html lang="en"><title>t</title>
<body style="background: oklch(98% 0 0)"><main>
<h1>Texts</h1>
<p id="dark" style="color: #333">dark</p>
<p id="pale" style="color: #aaa">pale</p>
<p id="mixed" style="color: oklch(60% 0 0)">a little too pale</p>
<p id="through" style="color: rgb(0 0 0 / 0.4)">seen through</p>
<div style="opacity: 0.4"><p id="faint">faint</p></div>
<div style="background: #111"><p id="lost" style="color: #333">lost</p>
<p id="lit" style="color: #ddd">lit</p></div>
<div style="background: rgb(0 0 0 / 0.9)"><p id="over" style="color: #777">over</p></div>
<p id="large" style="color: #888; font-size: 24px">large</p>
<p id="bold" style="color: #888; font-size: 14px; font-weight: 700">bold</p>
<p style="color: #aaa; display: none" id="gone">gone</p>
<button disabled id="off" style="color: #aaa">off</button>
<label>Name <input id="typed" value="typed" style="color: #bbb; background: #fff"></label>
</main></body></html>"""
PALE = ["bold", "faint", "lost", "mixed", "over", "pale", "through", "typed"]


async def test_pale_texts_are_those_that_axe_finds(browser: Browser) -> None:
    """Of any colours: oklch, seen through, on top of one another; large ones may be paler."""
    async with open_window(browser) as window:
        page = await window.context.new_page()
        await page.set_content(TEXTS)
        found = [await faults_of(page, sees_by_axe=is_axe) for is_axe in (False, True)]

    names = [
        sorted(each.partition('id="')[2].partition('"')[0] for each in faults) for faults in found
    ]
    assert names == [PALE, PALE]
