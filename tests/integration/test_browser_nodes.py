"""The nodes of a cluster, as a real browser shows them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from playwright.async_api import Browser
from support.browser import in_browser, looking
from support.console import HOSTILE, console, has_run, view_faults
from support.gateway import open_http_gateway

from everturn_actors.cluster.leases import Member, Share
from everturn_actors.ports import Node

pytestmark = in_browser


def share(name: str, address: str, partitions: int, *seats: str) -> Share:
    """Return what a node holds."""
    node = Node(name=name, address=address, version="1.2.3")
    return Share(member=Member(node=node, instance=name), partitions=partitions, seats=seats)


async def test_who_works_on_what_is_seen_as_it_changes(tmp_path: Path, browser: Browser) -> None:
    """Only where there are several; what they call themselves and differ in stays text."""
    here, there = share("a", "10.0.0.1:7070", 48, "scheduler"), share(HOSTILE, "/run/b", 16)
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        page = await window.tab(console(gateway))
        await page.locator(".state.live").wait_for()
        alone = await page.get_by_role("link", name="Nodes").count()
        gateway.shares, gateway.differing = (here, there), (f"node {HOSTILE} runs 1.2.2",)
        await page.reload()
        await page.get_by_role("link", name="Nodes").click()
        rows = page.locator(".node")
        await rows.nth(1).wait_for()
        texts = await rows.all_inner_texts()
        differs = await page.get_by_label("What differs").inner_text()
        ran = await has_run(page)
        faults = await view_faults(page, gateway, "#/nodes", ".node")
        gateway.shares = (replace(here, partitions=64), share("b", "/run/b", 0))
        await rows.nth(1).get_by_text("0 %").wait_for()

    assert alone == 0
    assert "shows this page" in texts[0]
    assert "75 %" in texts[0]
    assert "48 of 64" in texts[0]
    assert "scheduler" in texts[0]
    assert "Home of the agents" in texts[0]
    assert "⟨U+202E⟩evil" in texts[1]
    assert "shows this page" not in texts[1]
    assert "⟨U+202E⟩evil" in differs
    assert not ran
    assert faults == []
