"""Messages are pinned in a real browser, and stand beside the conversation."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import DESK, LOOKS, SMALLEST, faults_at, in_browser, looking
from support.console import HOSTILE, console, has_run
from support.gateway import open_http_gateway

pytestmark = in_browser


async def test_a_message_is_pinned_found_again_and_let_go(tmp_path: Path, browser: Browser) -> None:
    """Every window that shows the session says so, and what others wrote stays text."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser) as window,
        looking(browser, width=SMALLEST) as phone,
    ):
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        for text in (HOSTILE, "and now?"):
            await client.post(f"{path}/messages", json={"content": text})
        place = console(gateway, f"#/s/{session_id}")
        page, other = await window.tab(place), await phone.tab(place)
        await other.locator(".entry.reply").first.wait_for()
        first = page.locator(".entry.user").first
        await first.hover()
        await first.get_by_role("button", name="Pin", exact=True).click()
        await first.get_by_text("pinned", exact=True).wait_for()
        await other.get_by_text("pinned", exact=True).wait_for()
        await other.get_by_role("button", name="What the model sees").click()
        told = await other.locator(".pins li").inner_text()
        kept = (await client.get(f"{path}/pins")).json()["pins"]
        await page.get_by_role("link", name=f"#{kept[0]['seq']}", exact=True).click()
        await page.locator(".entry.user.target").wait_for()
        faults = [*await faults_at(other, SMALLEST), *await faults_at(page, DESK)]
        await page.emulate_media(color_scheme=LOOKS[-1][1])
        faults += await faults_at(page, DESK)
        await other.get_by_role("button", name=f"Unpin #{kept[0]['seq']}").click()
        await page.locator(".pins").wait_for(state="detached")
        left = (await client.get(f"{path}/pins")).json()["pins"]
        await page.get_by_title("Copy the id").click()
        await page.get_by_text("Copied.").wait_for()
        ran = await has_run(page)

    assert [each["text"] for each in kept] == [HOSTILE]
    assert "⟨U+202E⟩evil" in told
    assert faults == []
    assert left == []
    assert not ran
