"""What the console does with the admin token alone, in a real browser."""

from __future__ import annotations

import logging
from pathlib import Path

from playwright.async_api import Browser
from support.browser import in_browser, looking
from support.console import console
from support.gateway import open_http_gateway
from support.logging_to import logging_to

from everturn_channels.adapter import Person
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.principals import Logins
from everturn_gateway.principals.logins import RAISED_S

pytestmark = in_browser

USER, ADMIN = "u" * 40, "a" * 40


async def test_each_view_asks_for_the_admin_token_and_then_does_what_was_wanted(
    tmp_path: Path, browser: Browser
) -> None:
    """Channels, the doctor and the log: asked once, and again when the role has ended."""

    class Times:
        now_s = 0.0

    server = ServerConfig(api_token=USER, admin_token=ADMIN)
    logins = Logins(lambda: Times.now_s)
    async with (
        open_http_gateway(tmp_path, server=server, logins=logins) as gateway,
        looking(browser) as window,
    ):
        gateway.findings = (Finding(verdict="ok", subject="disk", text="12.0 GiB free"),)
        code = await gateway.pairing.ask("telegram", Person(id="7", name="Ann"))
        with logging_to(gateway.recent_log, SecretRegistry()):
            logging.getLogger("everturn_gateway.test").info("it begins")
            page = await window.tab(console(gateway, "#/channels"))
            token = page.get_by_label("Admin token", exact=True)
            await page.get_by_label("Token").fill(USER)
            await page.keyboard.press("Enter")

            await page.get_by_role("link", name="Channels").click()
            asking = page.locator(".question", has_text=str(code))
            await asking.get_by_role("button", name="Let in").click()
            await token.fill(ADMIN)
            await page.keyboard.press("Enter")
            await asking.wait_for(state="detached")
            is_in = await gateway.pairing.is_paired("telegram", "7")

            Times.now_s = RAISED_S
            await page.reload()
            await page.get_by_role("link", name="Doctor").click()
            await page.get_by_role("button", name="Examine").click()
            await token.fill(ADMIN)
            await page.keyboard.press("Enter")
            await page.get_by_text("Everything is in order.").wait_for()

            Times.now_s = 2 * RAISED_S
            await page.reload()
            await page.get_by_role("link", name="Log", exact=True).click()
            await page.get_by_role("button", name="Enter the admin token").click()
            await token.fill(ADMIN)
            await page.keyboard.press("Enter")
            await page.get_by_text("it begins").wait_for()
            window.messages = [e for e in window.messages if "401" not in e and "403" not in e]

    assert is_in
