"""The console's channels, and who asks to be let in there, in a real browser."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from playwright.async_api import Browser, expect
from support.browser import PHONE, in_browser, looking
from support.channel_states import ILL, WELL, TwoChannels
from support.console import HOSTILE, console, has_run, view_faults
from support.gateway import open_http_gateway

from everturn_channels.adapter import Person

pytestmark = in_browser

ANN, BOB = Person(id="7", name="Ann"), Person(id="8", name=HOSTILE)


async def test_how_channels_fare_is_seen_as_it_changes(tmp_path: Path, browser: Browser) -> None:
    """The state, why and until when; a look at it says what is wrong."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        # An answer that is lost is asked for again, and what was said of it goes.
        await window.context.route("**/api/v1/pairing", lambda route: route.abort(), times=1)
        page = await window.tab(console(gateway, "#/channels"))
        await page.get_by_text("No channel yet").wait_for()
        channels = gateway.channels = TwoChannels()
        ill = page.locator(".channel", has_text="discord-club")
        await ill.get_by_text("connection refused").wait_for()
        state = await ill.locator(".mark").inner_text()
        await ill.get_by_role("button", name="Check now").click()
        await ill.get_by_text("problem: no intents").wait_for()
        channels.shown = (WELL, replace(ILL, state="failed setup", error=HOSTILE))
        await ill.get_by_text("needs you").wait_for()
        badge = page.locator(".place", has_text="Channels").locator(".badge")
        await badge.wait_for()
        error = await ill.locator(".error").inner_text()
        await expect(page.get_by_role("alert")).to_have_count(0)
        ran = await has_run(page)
        faults = await view_faults(page, gateway, "#/channels", ".channel")
        window.messages = [each for each in window.messages if "ERR_FAILED" not in each]

    assert state == "out of reach"
    assert "⟨U+202E⟩evil" in error
    assert not ran
    assert faults == []


async def test_people_are_let_in_turned_away_and_taken_back(
    tmp_path: Path, browser: Browser
) -> None:
    """On a phone: who asks stands there at once, under the name that they chose, as text."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        page = await window.tab(console(gateway, "#/channels"))
        await page.locator(".state.live").wait_for(state="attached")
        await page.get_by_text("No channel yet").wait_for()
        code = await gateway.pairing.ask("telegram", ANN)
        ann = page.locator(".question", has_text=str(code))
        await ann.wait_for()
        await gateway.pairing.ask("telegram", BOB)
        bob = page.locator(".question", has_text="window.ran=1")
        await bob.wait_for()
        badge = await page.locator(".place", has_text="Channels").locator(".badge").inner_text()
        faults = await view_faults(page, gateway, "#/channels", ".question")
        await ann.get_by_role("button", name="Let in").click()
        await ann.wait_for(state="detached")
        is_in = await gateway.pairing.is_paired("telegram", ANN.id)
        await bob.get_by_role("button", name="Turn away").click()
        await bob.wait_for(state="detached")
        page.on("dialog", lambda dialog: dialog.accept())
        back = page.get_by_role("button", name="Take back: Ann")
        await back.click()
        await back.wait_for(state="detached")
        is_out = not await gateway.pairing.is_paired("telegram", ANN.id)
        again = await gateway.pairing.ask("telegram", BOB)
        ran = await has_run(page)

    assert badge.startswith("2")
    assert is_in
    assert is_out
    assert again is None
    assert not ran
    assert faults == []
