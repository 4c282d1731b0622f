"""A gateway that comes back as another version, as a real browser sees it."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import Browser
from support.browser import faults_of, in_browser, looking
from support.console import console
from support.gateway import open_http_gateway

pytestmark = in_browser


async def test_another_version_is_said_and_nothing_typed_is_lost(
    tmp_path: Path, browser: Browser
) -> None:
    """The page goes on, offers to load itself anew, and has the draft then too."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        first, second = await gateway.session(), await gateway.session()
        page = await window.tab(console(gateway, f"#/s/{first}"))
        await page.locator(".state.live").wait_for()
        await page.get_by_label("Message", exact=True).fill("half a thou")
        gateway.changes.boot, gateway.version = "f" * 16, "9.9.9"
        await page.goto(console(gateway, f"#/s/{second}"))  # the same page looks elsewhere
        offer = page.get_by_role("button", name="Reload: new version")
        await offer.wait_for()
        state = await page.locator(".state").first.inner_text()
        faults = await faults_of(page)
        await page.goto(console(gateway, f"#/s/{first}"))
        await offer.click()
        await offer.wait_for(state="detached")
        await page.get_by_text(re.compile("version 9.9.9")).wait_for()
        kept = await page.get_by_label("Message", exact=True).input_value()

    assert "live, restarted" in state
    assert faults == []
    assert kept == "half a thou"
