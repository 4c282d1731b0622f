"""What was said is searched in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import DESK, PHONE, faults_at, in_browser, looking
from support.gateway import HttpGateway, open_http_gateway

pytestmark = in_browser

HOSTILE = '<img src=x onerror="document.title=1"> \u202eneedle <b>(*.'


async def talk(gateway: HttpGateway, *turns: tuple[str, str]) -> str:
    """Begin a session with messages and their answers; return its id."""
    session_id = await gateway.session()
    async with gateway.client() as client:
        for said, answered in turns:
            gateway.provider.script.append(answered)
            path = f"/api/v1/sessions/{session_id}/messages"
            await client.post(path, json={"content": said})
    return session_id


async def test_what_was_said_is_found_and_leads_to_where_it_stands(
    tmp_path: Path, browser: Browser
) -> None:
    """Also where the conversation went on long after it; and from there back to the newest."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        turns = [(f"message {n}", f"reply {n}") for n in range(60)]
        await talk(gateway, ("Where is it?", "The needle is here."), *turns)
        await talk(gateway, (HOSTILE, "I see."))
        page = await window.tab(f"{gateway.base_url}/console/")
        await page.locator(".row").first.wait_for()
        await page.keyboard.press("/")
        await page.locator("#query:focus").wait_for()
        empty = await faults_at(page, PHONE)
        await page.keyboard.type("needle")
        await page.keyboard.press("Enter")
        await page.get_by_text("That is all.").wait_for()
        marked = await page.locator("mark").all_inner_texts()
        snippets = await page.locator(".snippet").all_inner_texts()
        faults = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        await page.get_by_text("is here.").click()
        await page.locator(".target", has_text="The needle is here.").wait_for()
        await page.get_by_text("Back to the newest").click()
        await page.locator(".reply .text", has_text="reply 59").wait_for()
        await page.go_back()
        await page.locator("mark").first.wait_for()
        images = await page.evaluate("document.images.length")

    assert marked == ["needle", "needle"]
    assert sum("⟨U+202E⟩" in each for each in snippets) == 1
    assert "The needle is here." in snippets
    assert (images, empty, faults) == (0, [], [])
