"""The console's log in a real browser."""

from __future__ import annotations

import logging
from pathlib import Path

from playwright.async_api import Browser
from support.browser import in_browser, looking
from support.console import HOSTILE, console, has_run, view_faults
from support.gateway import open_http_gateway
from support.logging_to import logging_to

from everturn_gateway.logs import SecretRegistry

pytestmark = in_browser

own = logging.getLogger("everturn_gateway.test")


async def test_the_log_is_seen_as_it_is_written(tmp_path: Path, browser: Browser) -> None:
    """Levels narrow it down; what others wrote stays text, and secrets are not there."""
    secrets = SecretRegistry()
    secrets.add("s3cr3t-word")
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        with logging_to(gateway.recent_log, secrets):
            own.info("it begins", extra={"key": "s3cr3t-word"})
            page = await window.tab(console(gateway))
            await page.locator(".state.live").wait_for()
            await page.get_by_role("link", name="Log", exact=True).click()
            await page.get_by_text("it begins").wait_for()
            own.error("it failed", exc_info=ValueError(HOSTILE))
            own.warning("somebody was refused", extra={"sender": HOSTILE})
            await page.get_by_text("it failed").wait_for()
            await page.get_by_text("somebody was refused").wait_for()
            shown = await page.locator(".records").inner_text()
            await page.get_by_role("button", name="Errors only").click()
            await page.locator(".records li").nth(2).wait_for(state="detached")
            await page.get_by_text("it failed").wait_for()
            errors = await page.locator(".records li").count()
            ran = await has_run(page)
            faults = await view_faults(page, gateway, "#/log", ".records .bad")

    assert "⟨U+202E⟩evil" in shown
    assert "key=***" in shown
    assert "s3cr3t" not in shown
    assert errors == 1
    assert not ran
    assert faults == []
