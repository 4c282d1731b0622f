"""Sessions are named, pinned and put away in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.async_api import Browser, Page
from support.browser import DESK, PHONE, faults_at, in_browser, looking
from support.gateway import HttpGateway, open_http_gateway

pytestmark = in_browser

HOSTILE = '<img src=x onerror="document.title=1">'


async def begin(gateway: HttpGateway, *texts: str) -> list[str]:
    """Begin a session with each of the texts; return their ids."""
    ids = [await gateway.session() for _ in texts]
    async with gateway.client() as client:
        for session_id, text in zip(ids, texts, strict=True):
            gateway.provider.script.append(f"re: {text}")
            path = f"/api/v1/sessions/{session_id}/messages"
            await client.post(path, json={"content": text})
    return ids


async def choose(page: Page, title: str, what: str) -> None:
    """Choose something in the menu of a row."""
    await page.get_by_label(f"Sort {title}", exact=True).click()
    await page.locator(".row .menu[open]").get_by_role("button", name=what, exact=True).click()


async def until_rows(page: Page, *titles: str) -> None:
    """Wait until the list has these rows in this order, and no others."""
    await page.wait_for_function(
        "(wanted) => JSON.stringify([...document.querySelectorAll('.row .title')]"
        ".map((each) => each.textContent)) === wanted",
        arg=json.dumps(titles, separators=(",", ":")),
    )


async def test_sessions_are_named_pinned_and_put_away(tmp_path: Path, browser: Browser) -> None:
    """All tabs show it at once, and it is there after the page was loaded anew."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        await begin(gateway, "one", "two", "three")
        page = await window.tab(f"{gateway.base_url}/console/")
        await window.without_worker()
        let_go = await window.hold("**/api/v1/stream*")  # of a page that has its list already
        other = await window.tab(f"{gateway.base_url}/console/")
        for each in (page, other):
            await until_rows(each, "three", "two", "one")
        await choose(page, "one", "Pin")
        await until_rows(page, "one", "three", "two")
        let_go.set()
        await until_rows(other, "one", "three", "two")
        other.on("dialog", lambda dialog: dialog.accept(f" {HOSTILE} "))
        await choose(other, "two", "Rename")
        await until_rows(page, "one", "three", HOSTILE)
        await choose(page, "three", "Archive")
        for each in (page, other):
            await each.mouse.move(0, 0)
            await until_rows(each, "one", HOSTILE)
        faults = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        await page.get_by_role("button", name="Archived", exact=True).click()
        await until_rows(page, "three")
        await choose(page, "three", "Take out of the archive")
        await until_rows(page)
        await page.reload()
        await until_rows(page, "one", "three", HOSTILE)

    assert faults == []


async def test_a_session_is_sorted_where_it_is_read_also_after_its_end(
    tmp_path: Path, browser: Browser
) -> None:
    """By its menu; the page says what was done, and what it is."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser) as window,
    ):
        (session_id,) = await begin(gateway, "hello")
        await client.post(f"/api/v1/sessions/{session_id}/reset")
        page = await window.tab(f"{gateway.base_url}/console/#/s/{session_id}")
        page.on("dialog", lambda dialog: dialog.accept("Trip"))
        for what in ("Rename", "Pin", "Archive"):
            await page.get_by_label("More").click()
            await page.get_by_role("button", name=what, exact=True).click()
        for mark in ("pinned", "archived"):
            await page.locator(".about .mark", has_text=mark).wait_for()
        await page.get_by_role("heading", name="Trip", exact=True).wait_for()
        heading = await page.locator("h1").inner_text()
        marks = await page.locator(".about .mark").all_inner_texts()
        faults = await faults_at(page, DESK)

    assert heading == "Trip"
    assert marks == ["ended", "pinned", "archived"]
    assert faults == []
