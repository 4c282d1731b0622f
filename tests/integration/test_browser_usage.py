"""What was used, in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import DESK, PHONE, faults_at, in_browser, looking
from support.gateway import open_http_gateway

from everturn_actors.model import Reply, Usage
from everturn_actors.testing import ScriptedProvider

pytestmark = in_browser

HOSTILE = "<img src=x onerror=alert(1)> \u202ehello"
USED = Usage(input_tokens=1000, output_tokens=10, cached_tokens=600, cost_nanodollars=250_000_000)


async def test_what_was_used_is_shown_by_day_and_by_group(tmp_path: Path, browser: Browser) -> None:
    """Bars and the same numbers in a table; a session leads to itself."""
    provider = ScriptedProvider(*[Reply(text="fine", model="m", usage=USED)] * 2)
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
        looking(browser, width=PHONE) as window,
    ):
        page = await window.tab(f"{gateway.base_url}/console/#/usage")
        await page.get_by_role("heading", name="Nothing was used").wait_for()
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        for _ in range(2):
            await client.post(path, json={"content": HOSTILE})
        await page.reload()
        await page.locator(".chart rect.c0").first.wait_for(state="attached")
        sums = await page.locator(".sums").inner_text()
        faults = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        await page.locator(".figures-of tbody tr", has_text="2,000").first.wait_for()
        row = await page.locator(".figures-of tbody tr").first.inner_text()
        for name in ("Models", "Schedules", "People", "Sessions"):
            await page.locator(".by").get_by_role("button", name=name).click()
        link = page.locator(".figures-of a")
        await link.wait_for()
        told = await link.inner_text()
        await link.click()
        await page.locator(".reply .text", has_text="fine").first.wait_for()
        images = await page.evaluate("document.images.length")

    assert "$0.50" in sums
    assert "60%" in sums
    assert row.split() == ["test", "$0.50", "2,000", "60%", "20"]
    assert told == "<img src=x onerror=alert(1)> ⟨U+202E⟩hello"
    assert (images, faults) == (0, [])
