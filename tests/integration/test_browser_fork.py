"""A session is forked in a real browser, from its transcript and from a request."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import faults_of, in_browser, looking
from support.gateway import open_http_gateway

pytestmark = in_browser


async def test_a_conversation_goes_on_in_a_fork(tmp_path: Path, browser: Browser) -> None:
    """With what was said up to there; the first one stays, and the fork leads back to it."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser) as window,
    ):
        first = await gateway.session()
        for text in ("one", "two"):
            await client.post(f"/api/v1/sessions/{first}/messages", json={"content": text})
        page = await window.tab(f"{gateway.base_url}/console/#/s/{first}")
        page.on("dialog", lambda dialog: dialog.accept())
        entry = page.locator(".entry.reply", has_text="reply 1")
        await entry.hover()
        await entry.get_by_role("button", name="Fork here").click()
        back = page.get_by_role("link", name="forked from another session")
        await back.wait_for()
        texts = await page.locator(".transcript .text").all_inner_texts()
        notes = await page.locator(".entry.note").count()
        fork = page.url
        faults = await faults_of(page)
        await page.get_by_label("Message", exact=True).fill("else")
        await page.keyboard.press("Enter")
        await page.locator(".reply .text", has_text="reply 3").wait_for()
        asked = [message.text for message in gateway.provider.requests[-1].messages]
        await back.click()
        await page.locator(".reply .text", has_text="reply 2").wait_for()
        await page.goto(f"{gateway.base_url}/console/#/s/{first}/request/0")
        await page.locator("table.dispositions").wait_for()  # the transcript is gone
        await page.get_by_role("button", name="Fork here").click()
        await back.wait_for()

    assert texts == ["one", "reply 1"]
    assert notes == 0
    assert first not in fork
    assert asked == ["one", "reply 1", "else"]
    assert faults == []
