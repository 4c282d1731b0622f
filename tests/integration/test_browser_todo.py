"""The to-do list of a session in a real browser."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import yaml
from anyio import to_thread
from playwright.async_api import Browser
from support.browser import DESK, PHONE, faults_at, in_browser, looking
from support.gateway import HttpGateway, open_http_gateway, write_agent

from everturn_actors.model import Reply, ToolCall

pytestmark = in_browser

HOSTILE = '<img src=x onerror="document.title=1">'


def write_lister(folder: Path) -> None:
    """Write the agent `second`, which has a to-do list."""
    file = write_agent(folder / "agents", name="second")
    document = yaml.safe_load(file.read_text())
    document["spec"]["tools"] = [{"type": "builtin", "name": "todo"}]
    file.write_text(yaml.safe_dump(document))


def listing(**items: str) -> Reply:
    """Return a reply that writes the list: what is to be done, and how far it is."""
    written = [{"text": text.replace("_", " "), "status": each} for text, each in items.items()]
    call = ToolCall(call_id="c", name="todo", arguments=json.dumps({"items": written}))
    return Reply(calls=(call,), stop_reason="tool_calls")


async def say(gateway: HttpGateway, session_id: str, *replies: Reply | str) -> None:
    """Say something that is answered so."""
    gateway.provider.script += replies
    async with gateway.client() as client:
        path = f"/api/v1/sessions/{session_id}/messages"
        (await client.post(path, json={"content": "go"})).raise_for_status()


async def test_the_list_stands_above_the_conversation(tmp_path: Path, browser: Browser) -> None:
    """What is being done is seen at once, the rest on a touch, and it changes as the work goes."""
    await to_thread.run_sync(partial(write_lister, tmp_path))
    async with open_http_gateway(tmp_path) as gateway, looking(browser, width=PHONE) as window:
        session_id = await gateway.session("second")
        await say(gateway, session_id, "Hello")
        page = await window.tab(f"{gateway.base_url}/console/#/s/{session_id}")
        await page.get_by_text("Hello").first.wait_for()
        none = await page.locator(".todo").count()
        items = {"Boil_water": "done", HOSTILE: "in_progress", "Serve": "pending"}
        await say(gateway, session_id, listing(**items), "working")
        await page.locator(".todo summary").get_by_text("1 of 3 done").wait_for()
        now = await page.locator(".todo .now").inner_text()
        await page.locator(".todo summary").click()
        shown = await page.locator(".todo li").all_text_contents()
        faults = [*await faults_at(page, PHONE), *await faults_at(page, DESK)]
        await say(gateway, session_id, listing(Boil_water="done", Serve="done"), "done")
        await page.locator(".todo").get_by_text("2 of 2 done").wait_for()
        await say(gateway, session_id, "bye")
        await page.locator(".todo").wait_for(state="detached")

    assert none == 0
    assert now == HOSTILE
    assert shown == ["Boil water, done", f"{HOSTILE}, being done", "Serve, to be done"]
    assert faults == []
