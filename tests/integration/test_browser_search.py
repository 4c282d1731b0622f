"""What was said is searched in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.browser import faults_of, is_too_wide, looking, needs_browser
from support.gateway import HttpGateway, open_http_gateway

pytestmark = [needs_browser, pytest.mark.timeout(300)]

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


@pytest.mark.parametrize("width", [1280, 390])
async def test_what_was_said_is_found_and_leads_to_where_it_stands(
    tmp_path: Path, width: int
) -> None:
    """Also where the conversation went on long after it; and from there back to the newest."""
    async with open_http_gateway(tmp_path) as gateway, looking(width=width) as window:
        turns = [(f"message {n}", f"reply {n}") for n in range(60)]
        await talk(gateway, ("Where is it?", "The needle is here."), *turns)
        await talk(gateway, (HOSTILE, "I see."))
        page = await window.tab(f"{gateway.base_url}/console/")
        await page.locator(".row").first.wait_for()
        await page.keyboard.press("/")
        await page.locator("#query:focus").wait_for()
        empty = await faults_of(page)
        await page.keyboard.type("needle")
        await page.keyboard.press("Enter")
        await page.get_by_text("That is all.").wait_for()
        marked = await page.locator("mark").all_inner_texts()
        snippets = await page.locator(".snippet").all_inner_texts()
        wide, faults = await is_too_wide(page), await faults_of(page)
        await page.get_by_text("is here.").click()
        await page.locator(".target", has_text="The needle is here.").wait_for()
        await page.get_by_text("Back to the newest").click()
        await page.locator(".reply .text", has_text="reply 59").wait_for()
        await page.go_back()
        await page.locator("mark").first.wait_for()
        images = await page.evaluate("document.images.length")

    assert marked == ["needle", "needle"]
    assert "⟨U+202E⟩" in snippets[0]
    assert snippets[1] == "The needle is here."
    assert (images, wide, empty, faults) == (0, False, [], [])
