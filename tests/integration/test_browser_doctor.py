"""The console's doctor in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import DESK, PHONE, faults_at, in_browser, looking, press_enter
from support.console import HOSTILE, console, has_run, view_faults
from support.gateway import open_http_gateway

from everturn_gateway.doctor.findings import Finding

pytestmark = in_browser

FOUND = (
    Finding(verdict="ok", subject="disk", text="12.0 GiB free"),
    Finding(verdict="note", subject="agent", text=HOSTILE),
    Finding(verdict="problem", subject="journals", text="events.jsonl:7: it is torn\nmend it"),
)


async def test_what_is_found_stands_there_as_text(tmp_path: Path, browser: Browser) -> None:
    """By keyboard; what is wrong is counted, and what others wrote stays text."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        gateway.findings = FOUND
        page = await window.tab(console(gateway, "#/doctor"))
        await press_enter(page.get_by_role("button", name="Examine"))
        await page.get_by_role("status").filter(has_text="1 problem").wait_for()
        texts = await page.locator(".finding").all_inner_texts()
        ran = await has_run(page)
        faults = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        gateway.findings = FOUND[:1]
        await press_enter(page.get_by_role("button", name="Examine again"))
        await page.get_by_text("Everything is in order.").wait_for()
        left = await page.locator(".finding").count()
        await page.reload()
        faults += await view_faults(page, gateway, "#/doctor", ".empty")

    assert len(texts) == 3
    assert "⟨U+202E⟩evil" in texts[1]
    assert "mend it" in texts[2]
    assert faults == []
    assert not ran
    assert left == 1
