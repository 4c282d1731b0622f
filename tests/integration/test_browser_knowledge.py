"""What an agent remembers and can look up, in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import DESK, PHONE, faults_at, in_browser, looking
from support.gateway import HttpGateway, open_http_gateway

pytestmark = in_browser

HOSTILE = "<img src=x onerror=alert(1)> \u202elikes trains"


def write_knowledge(gateway: HttpGateway) -> None:
    """Give the agent notes and a skill."""
    home = gateway.config.agents_dir / "test"
    files = {
        home / "memory" / "MEMORY.md": HOSTILE,
        home / "memory" / "daily" / "2026-11-21.md": "x" * 3000,
        home / "skills" / "greeting" / "SKILL.md": "---\nname: greeting\ndescription:"
        " How to greet\nallowed-tools: Bash(echo:*)\n---\nSay <b>hello</b> first.\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def test_memory_and_skills_are_read_from_the_page_of_an_agent(
    tmp_path: Path, browser: Browser
) -> None:
    """Empty pages say what belongs there; what stands there is text."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        page = await window.tab(f"{gateway.base_url}/console/#/agents/test")
        let_go = await window.hold("**/api/v1/agents/test/memory")
        await page.get_by_role("link", name="Memory").click()
        await page.get_by_label("Back to the agent").click()
        await page.get_by_role("link", name="Skills").click()
        await page.get_by_text("It has no skills").wait_for()
        let_go.set()  # what was asked for there is not shown here
        await page.get_by_label("Back to the agent").click()
        await page.get_by_role("link", name="Memory").click()
        await page.get_by_text("It remembers nothing yet").wait_for()
        await page.get_by_label("Back to the agent").click()
        await page.get_by_role("link", name="Skills").click()
        await page.get_by_text("It has no skills").wait_for()
        write_knowledge(gateway)
        await gateway.library.reload()
        await page.reload()
        await page.get_by_text("How to greet").click()
        await page.get_by_text("Say <b>hello</b> first.").wait_for()
        of_skills = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        await page.get_by_label("Back to the agent").click()
        await page.get_by_role("link", name="Memory").click()
        memory = page.locator(".known .mono").first
        await memory.wait_for()
        told = await memory.inner_text()
        await page.get_by_text("daily/2026-11-21.md").click()
        of_memory = [*await faults_at(page, DESK), *await faults_at(page, PHONE)]
        images = await page.evaluate("document.images.length")

    assert told == "<img src=x onerror=alert(1)> ⟨U+202E⟩likes trains"
    assert (of_skills, of_memory, images) == ([], [], 0)
