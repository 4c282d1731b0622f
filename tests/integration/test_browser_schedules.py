"""The console's schedules in a real browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import Browser
from support.browser import in_browser, looking, press_enter
from support.console import HOSTILE, console, has_run, view_faults
from support.gateway import HttpGateway, open_http_gateway

pytestmark = in_browser

PATH = "/api/v1/schedules"
ABROAD = {
    "id": "abroad",
    "agent": "test",
    "cron": "30 8 * * *",
    "timezone": "Asia/Tokyo",
    "start": "2030-01-01T00:00",
    "task": "Greet the team.",
}


async def add(gateway: HttpGateway, *jobs: Mapping[str, object]) -> None:
    """Make jobs."""
    async with gateway.client() as client:
        for job in jobs:
            answer = await client.post(PATH, json=job)
            assert answer.status_code == 201, answer.text


async def test_a_job_is_made_run_paused_and_called_off(tmp_path: Path, browser: Browser) -> None:
    """By keyboard alone, with its times shown before it is made; its run leads to its session."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        page = await window.tab(console(gateway, "#/schedules"))
        await page.get_by_text("No job yet").wait_for()
        await press_enter(page.get_by_role("button", name="New job"))
        await page.get_by_label("Task", exact=True).fill("Say what is new.")
        await page.get_by_label("Minute, hour").fill("30 8 * * *")
        await page.get_by_label("Time zone").fill("Asia/Tokyo")
        coming = page.locator(".make .times td")
        await coming.nth(9).wait_for()  # five times, by two clocks
        times = await coming.all_inner_texts()
        await page.get_by_label("Name").fill("News")
        await press_enter(page.get_by_role("button", name="Make the job"))
        await press_enter(page.get_by_role("button", name="Run now"))
        run = page.locator("a.run[aria-label$=': done']")
        await run.wait_for()
        await press_enter(page.get_by_role("button", name="Pause"))
        await page.locator(".thing .mark", has_text="paused").wait_for()
        await press_enter(page.get_by_role("button", name="Resume"))
        await page.locator(".thing .mark", has_text="scheduled").wait_for()
        await run.press("Enter")
        await page.locator(".transcript .text", has_text="Say what is new.").wait_for()
        await page.go_back()
        page.on("dialog", lambda dialog: dialog.accept())
        await press_enter(page.get_by_role("button", name="Call off"))
        await page.get_by_text("No job yet").wait_for()

    assert len(times) == 10
    assert "08:30" in times[0]
    assert "11:30" in times[1]  # the browser's clock is that of UTC


async def test_what_is_wrong_with_a_job_stands_at_its_field(
    tmp_path: Path, browser: Browser
) -> None:
    """Before it is sent and after; what was typed stays, also where the page is loaded anew."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        page = await window.tab(console(gateway, "#/schedules"))
        await page.get_by_role("button", name="New job").click()
        await page.get_by_label("Task", exact=True).fill("Look.")
        when = page.get_by_label("Minute, hour")
        await when.fill("61 8 * * *")
        await page.locator("#fault-when").wait_for()
        invalid = await when.get_attribute("aria-invalid")
        await when.fill("30 8 * * *")
        await page.locator(".make .times").wait_for()
        await page.reload()
        await page.locator(".make .times").wait_for()
        await page.get_by_label("Told in the channel").fill("nowhere")
        await page.get_by_label("Chat", exact=True).fill("7")
        await page.get_by_role("button", name="Make the job").click()
        told = page.locator("#fault-channel")
        await told.wait_for()
        why, typed = await told.inner_text(), await when.input_value()
        window.messages = [each for each in window.messages if "422" not in each]

    assert invalid == "true"
    assert "nowhere" in why
    assert typed == "30 8 * * *"


async def test_jobs_come_and_go_as_others_change_them(tmp_path: Path, browser: Browser) -> None:
    """No reload: what the command line or an agent does is seen, in every tab."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        page = await window.tab(console(gateway, "#/schedules"))
        await page.get_by_text("No job yet").wait_for()
        await window.without_worker()
        let_go = await window.hold("**/api/v1/stream*")  # of a page that has its list already
        other = await window.tab(console(gateway, "#/schedules"))
        await other.get_by_text("No job yet").wait_for()
        await add(gateway, ABROAD)
        let_go.set()
        for each in (page, other):
            await each.locator(".thing .title", has_text="abroad").wait_for()
        await gateway.schedules.cancel("abroad")
        for each in (page, other):
            await each.get_by_text("No job yet").wait_for()


async def test_a_job_that_cannot_run_wants_somebody(tmp_path: Path, browser: Browser) -> None:
    """It is counted at the side, and says what is missing; texts of others stay texts."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        say = {"to": {"channel": "http", "chat": HOSTILE[:40]}, "message": HOSTILE}
        await add(gateway, {"id": "evil", "agent": "test", "every": 3600, **say}, ABROAD)
        file = gateway.config.workspace / "schedules" / "lost.yaml"
        file.write_text("agent: nobody\nevery: 1h\ntask: x\n")
        async with gateway.client() as client:
            await client.post(PATH, json={**ABROAD, "id": "last"})  # reads the folder
        page = await window.tab(console(gateway, "#/schedules/evil"))
        await page.locator(".thing .error", has_text="nobody").wait_for()
        badge = page.locator(".place", has_text="Schedules").locator(".badge")
        await badge.wait_for()
        count = await badge.inner_text()
        await page.locator(".inside .mono").first.wait_for()
        text = await page.locator(".inside .mono").first.inner_text()
        ran = await has_run(page)
        faults = await view_faults(page, gateway, "#/schedules/abroad", ".inside .times")

    assert count.startswith("1")
    assert "<script>window.ran=1</script>" in text
    assert "⟨U+202E⟩" in text
    assert not ran
    assert faults == []
