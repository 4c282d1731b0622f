"""Agents are looked at, validated and edited in a real browser, by whoever may administer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
from playwright.async_api import Browser, Page
from support.browser import (
    PHONE,
    faults_at,
    faults_of,
    in_browser,
    looking,
)
from support.console import view_faults
from support.gateway import HttpGateway, open_http_gateway

from everturn_gateway.config.settings import ConsoleConfig, ServerConfig
from everturn_gateway.principals import Logins
from everturn_gateway.principals.logins import RAISED_S

pytestmark = in_browser

API, ADMIN = "api-token-of-the-configuration", "admin-token-of-the-configuration"
GUARDED = ServerConfig(api_token=API, admin_token=ADMIN)
HOSTILE = '<img src=x onerror="window.ran=1"> \u202eevil'


def console(gateway: HttpGateway, place: str) -> str:
    """Return the address of a view."""
    return f"{gateway.base_url}/console/{place}"


def open_editing(gateway: HttpGateway) -> None:
    """Let administrators edit agents."""
    gateway.config = replace(gateway.config, console=ConsoleConfig(edit_agents=True))


NEWCOMER = (
    "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: newcomer}\n"
    "spec: {model: {provider: builtin, name: echo}}\n"
)


async def write(path: Path, text: str) -> None:
    """Write a file of an agent beside the gateway, as an editor does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    await anyio.Path(path).write_text(text)


async def until_text(page: Page, text: str) -> None:
    """Wait until the editor holds a text."""
    await page.wait_for_function(
        "(text) => document.querySelector('.editor')?.value.includes(text)", arg=text
    )


async def test_what_needs_an_administrator_asks_for_the_token_and_is_done(
    tmp_path: Path, browser: Browser
) -> None:
    """A wrong token is told; the role stands on the page, and ends by itself.

    Whoever logged in is where the address led, and an agent that somebody adds is there at once.
    """

    class Times:
        now_s = 0.0

    logins = Logins(lambda: Times.now_s)
    async with (
        open_http_gateway(tmp_path, server=GUARDED, logins=logins) as gateway,
        looking(browser) as window,
    ):
        page = await window.tab(console(gateway, "#/agents"))
        await page.get_by_label("Token").fill(API)
        await page.keyboard.press("Enter")
        await page.locator(".state.live").wait_for()
        await page.locator(".thing", has_text="test").wait_for()
        await write(tmp_path / "agents" / "newcomer" / "agent.yaml", NEWCOMER)
        await gateway.library.reload()
        await page.locator(".thing", has_text="newcomer").wait_for()
        await page.get_by_role("button", name="Reload", exact=True).click()
        dialog = page.get_by_role("dialog", name="Admin token needed")
        await dialog.wait_for()
        faults = await faults_of(page)
        await dialog.get_by_label("Admin token").fill("wrong")
        await page.keyboard.press("Enter")
        await dialog.get_by_text("is not one of this gateway").wait_for()
        await dialog.get_by_label("Admin token").fill(ADMIN)
        await page.keyboard.press("Enter")
        await page.get_by_text("Nothing has changed.").wait_for()
        await page.get_by_text("administrator until").wait_for()
        Times.now_s = RAISED_S
        await page.get_by_role("button", name="Reload", exact=True).click()
        await dialog.wait_for()
        await page.keyboard.press("Escape")
        await dialog.wait_for(state="detached")
        stored = await page.evaluate("JSON.stringify([localStorage, sessionStorage])")
        # What the browser says of each request that was refused.
        window.messages = [each for each in window.messages if "status of 40" not in each]

    assert faults == []
    assert ADMIN not in stored


async def test_an_agent_is_edited_tried_and_saved(tmp_path: Path, browser: Browser) -> None:
    """Faults with their lines before it stands; what is saved is in force.

    Where editing is closed the page says what to write into everturn.yaml.
    """
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        page = await window.tab(console(gateway, "#/agents/test/files"))
        await page.get_by_text("console: {edit_agents: true}").wait_for()
        open_editing(gateway)
        await page.goto(console(gateway, "#/agents/test"))
        await page.get_by_role("button", name="Validate").click()
        await page.get_by_text("Nothing is wrong with it.").wait_for()
        await page.get_by_role("link", name="Files", exact=True).click()
        await page.get_by_role("link", name="agent.yaml").click()
        await until_text(page, "kind: Agent")
        editor = page.get_by_label("Text of agent.yaml")
        good = await editor.input_value()
        await editor.fill(good + "\nwhatever: 1\n")
        await page.get_by_role("button", name="Validate").click()
        told = await page.locator(".faults li").first.inner_text()
        standing = await anyio.Path(tmp_path / "agents/test/agent.yaml").read_text()
        await editor.fill(f"{good}\n# {HOSTILE}\n")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("Saved.", exact=True).wait_for()
        saved = await anyio.Path(tmp_path / "agents/test/agent.yaml").read_text()
        ran = await page.evaluate("window.ran")
        window.messages = [each for each in window.messages if "status of 403" not in each]

    assert "agent.yaml:" in told
    assert "whatever" in told
    assert standing == good
    assert saved == f"{good}\n# {HOSTILE}\n"
    assert ran is None


async def test_nothing_that_was_typed_is_lost(tmp_path: Path, browser: Browser) -> None:
    """Not by a reload of the page, and not where somebody else saved the file first."""
    notes = tmp_path / "agents" / "test" / "notes.md"
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        open_editing(gateway)
        await write(notes, "one")
        page = await window.tab(console(gateway, "#/agents/test/files/notes.md"))
        await until_text(page, "one")
        await page.get_by_label("Text of notes.md").fill("mine")
        await page.reload()
        await until_text(page, "mine")
        await write(notes, "theirs")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("Somebody else changed this file meanwhile").wait_for()
        shown = await page.locator(".theirs").inner_text()
        kept = await page.get_by_label("Text of notes.md").input_value()
        standing = await anyio.Path(notes).read_text()
        faults = await faults_at(page, PHONE)
        await page.get_by_role("button", name="Replace it with mine").click()
        await page.get_by_text("Saved.", exact=True).wait_for()
        replaced = await anyio.Path(notes).read_text()
        window.messages = [each for each in window.messages if "status of 412" not in each]

    assert "theirs" in shown
    assert (kept, standing, replaced) == ("mine", "theirs", "mine")
    assert faults == []


async def test_everybody_can_use_the_views_of_agents(tmp_path: Path, browser: Browser) -> None:
    """With faults and hostile texts, in light and dark."""
    found: list[str] = []
    bad = "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: bad}\nspec: {x: 1}\n"
    await write(tmp_path / "agents" / "bad" / "agent.yaml", bad)
    skill = f'---\nname: greet\ndescription: "{HOSTILE.replace(chr(34), chr(39))}"\n---\nHi.\n'
    async with open_http_gateway(tmp_path) as gateway:
        open_editing(gateway)
        await write(tmp_path / "agents" / "test" / "skills" / "greet" / "SKILL.md", skill)
        await gateway.library.reload()
        async with looking(browser) as window:
            page = await window.tab(console(gateway, "#/agents"))
            for place, wanted in (
                ("#/agents", ".faults"),
                ("#/agents/test", ".facts"),
                ("#/agents/bad", ".faults"),
                ("#/agents/test/files", ".adding"),
                ("#/agents/bad/files/agent.yaml", ".editor"),
            ):
                found += await view_faults(page, gateway, place, wanted)

    assert found == []
