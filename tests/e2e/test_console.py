"""The web console in a real browser, as people use it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from playwright.async_api import Browser, FilePayload, Page, expect
from support.browser import (
    HOST,
    LOOKS,
    PHONE,
    faults_at,
    faults_in_each_look,
    faults_of,
    in_browser,
    looking,
    open_window,
)
from support.command import start
from support.console import HOSTILE, console
from support.examples import LONG_RUN
from support.gateway import open_http_gateway
from support.ports import free_port
from support.shell_agents import results, running, until_asked, write_shell_agent

from everturn_actors.model import Reply, ToolCall
from everturn_gateway.config.settings import ServerConfig

pytestmark = in_browser

TOKEN = "t" * 40
VIEWS = {"sessions": "#/", "approvals": "#/approvals"}


async def said(page: Page, text: str) -> None:
    """Wait until a text stands in the transcript."""
    await page.locator(".transcript .text", has_text=text).first.wait_for()


async def test_a_conversation_is_begun_followed_and_answered(
    tmp_path: Path, browser: Browser
) -> None:
    """Words appear as the model says them; every tab of the browser shows the same."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        gateway.provider.script += ["Three flights were found."]
        gateway.provider.hold()
        page = await window.tab(console(gateway))
        await page.get_by_text("No conversation yet").wait_for()
        await page.get_by_role("button", name="New session").click()
        let_go = await window.hold("**/messages", answers=True)
        box = page.get_by_label("Message", exact=True)
        await box.fill("Trip to Lisbon")
        await page.keyboard.press("Enter")
        await page.locator(".reply.live .text", has_text="Three").wait_for()
        await box.fill("And back?")
        let_go.set()
        await expect(page.get_by_role("button", name="Send")).to_be_enabled()
        kept = await box.input_value()
        others = [await window.tab(page.url) for _ in range(2)]
        for other in others:
            await other.locator(".reply.live .text", has_text="Three").wait_for()
        streams = len(gateway.telemetry.requests.followers)  # a browser has six connections
        gateway.provider.release()
        for each in (page, *others):
            await said(each, "Three flights were found.")
        # For whoever listens: once, when it is whole.
        spoken = page.locator("[role=status]", has_text="Reply: Three flights were found.")
        await spoken.wait_for(state="attached")
        await page.goto(console(gateway))
        row = page.locator(".row", has_text="Three flights were found.")
        await row.get_by_text("1 turn").wait_for()
        told = await row.inner_text()

    assert "Trip to Lisbon" in told
    assert kept == "And back?"
    assert streams == 1


async def test_what_waits_for_a_person_is_answered_in_the_inbox(
    tmp_path: Path, browser: Browser
) -> None:
    """On a phone: the count stands in the title, one touch lets a call run, or gives an answer."""
    await anyio.to_thread.run_sync(write_shell_agent, tmp_path, ("bash", "ask_user"))
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser, width=PHONE) as window,
    ):
        page = await window.tab(console(gateway, "#/approvals"))
        await page.get_by_text("Nothing waits for you").wait_for()
        gateway.provider.script.append(running("echo hi > seen; cat seen"))
        session_id = await gateway.session("second")
        await client.post(
            f"/api/v1/sessions/{session_id}/messages",
            json={"content": "look"},
            headers={"Prefer": "respond-async"},
        )
        await until_asked(gateway, session_id)
        await page.get_by_text("$ echo hi > seen; cat seen").wait_for()
        title = await page.title()
        faults = await faults_at(page, PHONE)
        await page.get_by_role("button", name="Allow once").click()
        await page.get_by_text("Nothing waits for you").wait_for()
        await page.locator(".answered li", has_text="allowed once by local").wait_for()
        await gateway.provider.until_called(2)
        ran = await results(gateway, session_id)

        asked = (
            '{"question": "Which <b>colour</b>?", "choices": ["Red", "Blue"], "free_text": true}'
        )
        call = ToolCall(call_id="c2", name="ask_user", arguments=asked)
        gateway.provider.script.append(Reply(text="", calls=(call,), stop_reason="tool_calls"))
        await client.post(
            f"/api/v1/sessions/{session_id}/messages",
            json={"content": "paint"},
            headers={"Prefer": "respond-async"},
        )
        await page.get_by_text("Which <b>colour</b>?").wait_for()
        await page.get_by_label("Your answer").fill("green, with")
        await page.goto(console(gateway, f"#/s/{session_id}"))
        there = page.locator("main.session").get_by_label("Your answer")
        await there.press("End")
        await there.press_sequentially(" dots")
        await page.keyboard.press("Enter")
        await page.locator(".call", has_text="ask_user").locator(".mark.done").wait_for()
        answer = (await results(gateway, session_id))[-1]
        await page.get_by_role("button", name="What the model sees").click()
        await page.get_by_text("Messages shown").wait_for()
        faults += await faults_of(page)
        await page.keyboard.press("Escape")
        await page.get_by_text("Messages shown").wait_for(state="hidden")
        await page.locator("h1").click()
        await page.keyboard.press("?")
        await page.get_by_role("dialog", name="Keys").wait_for()
        faults += await faults_of(page)
        await page.keyboard.press("Escape")
        await page.get_by_role("dialog", name="Keys").wait_for(state="hidden")

    assert title.startswith("(1) ")
    assert ran == ["hi"]
    assert "green, with dots" in answer
    assert faults == []


async def test_what_others_write_stays_text(tmp_path: Path, browser: Browser) -> None:
    """Names, messages and replies are shown letter for letter, marks of direction as marks."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser) as window,
    ):
        gateway.provider.script += [HOSTILE]
        made = await client.post("/api/v1/sessions", json={"agent": "test", "chat": HOSTILE[:-8]})
        session_id = made.json()["id"]
        await client.post(f"/api/v1/sessions/{session_id}/messages", json={"content": HOSTILE})
        page = await window.tab(console(gateway))
        await page.locator(".row").wait_for()
        row = await page.locator(".row").inner_text()
        await page.goto(console(gateway, f"#/s/{session_id}"))
        await page.locator(".reply .text").wait_for()
        texts = await page.locator(".transcript .text").all_inner_texts()
        ran = await page.evaluate("[window.ran, document.images.length, document.title]")
        injected = await page.evaluate(
            "(() => { try { document.body.innerHTML = '<p>'; return 'done' }"
            " catch (error) { return error.name } })()"
        )
        window.messages.clear()  # the refusal of that last one

    assert "<script>" in row
    assert len(texts) == 2
    assert all("<script>window.ran=1</script>" in each and "⟨U+202E⟩" in each for each in texts)
    assert ran[:2] == [None, 0]
    assert ran[2] != "1"
    assert injected == "TypeError"


async def test_everybody_can_use_every_view(tmp_path: Path, browser: Browser) -> None:
    """In light and dark, on a small phone and a desk, with things in it and without."""
    found: list[str] = []
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        looking(browser) as window,
    ):
        session_id = await gateway.session()
        page = await window.tab(console(gateway))
        # By day the empty ones are looked at in one way, those with things in them in the other.
        for looks in (LOOKS, LOOKS) if LONG_RUN else (LOOKS[:1], LOOKS[1:]):
            for name, place in {**VIEWS, "session": f"#/s/{session_id}"}.items():
                await page.goto(console(gateway, place))
                await page.locator(f"main.{name} h1").wait_for()
                await page.locator(".state.live").wait_for(state="attached")
                found += [f"{name} {each}" for each in await faults_in_each_look(page, looks)]
            await client.post(
                f"/api/v1/sessions/{session_id}/messages", json={"content": "word " * 90}
            )

    assert found == []


async def test_the_way_in_works_without_a_secure_context(tmp_path: Path, browser: Browser) -> None:
    """A phone, plain HTTP, a home server: a wrong token, the right one, and out again."""
    server = ServerConfig(api_token=TOKEN)
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        looking(browser, width=390) as window,
    ):
        session_id = await gateway.session()
        address = gateway.base_url.replace("127.0.0.1", HOST)
        # As phones have none: this tab has a stream of its own.
        await window.without_worker()
        page = await window.tab(f"{address}/")
        await page.get_by_label("Token").fill("wrong")
        await page.keyboard.press("Enter")
        await page.get_by_text("is not one of this gateway").wait_for()
        await page.get_by_label("Token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await page.locator(".row").wait_for()
        is_secure = await page.evaluate("isSecureContext")
        (cookie,) = await window.context.cookies()
        stored = await page.evaluate("JSON.stringify([localStorage, sessionStorage])")
        await page.goto(f"{address}/console/#/s/{session_id}")
        await page.get_by_label("Message", exact=True).fill("hello")
        await page.locator("input[type=file]").set_input_files(
            [
                FilePayload(name=name, mimeType="text/plain", buffer=b"hi")
                for name in ("notes <b>.txt", "not")
            ]
        )
        await page.locator(".files li").nth(1).wait_for()
        await page.goto(f"{address}/console/#/approvals")
        await page.locator("main.approvals h1").wait_for()
        await page.goto(f"{address}/console/#/s/{session_id}")  # what was added is still there
        await page.get_by_role("button", name="Leave out not", exact=True).click()
        await page.get_by_role("button", name="Send").click()
        await said(page, "reply 1")
        files = await page.locator(".user .file a").all_inner_texts()
        await page.locator(".files").wait_for(state="detached")
        await page.get_by_role("button", name="Log out").click()
        await page.get_by_label("Token").wait_for()
        code = gateway.logins.make_link()
        again = await window.tab(f"{address}/console/#/login/{code}")
        await again.locator(".row").wait_for()
        shown = again.url
        # What the browser says of each 401 that a page without a login gets.
        window.messages = [each for each in window.messages if "401" not in each]

    assert files == ["notes <b>.txt"]
    assert not is_secure
    assert TOKEN not in stored
    assert TOKEN not in str(cookie)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
    assert code not in shown


@asynccontextmanager
async def served(folder: Path, port: int) -> AsyncGenerator[None]:
    """Run the installed command; at the end of the block it is killed."""
    async with start("serve", "--port", str(port), cwd=folder) as gateway:
        await gateway.until("Ctrl-C")
        yield


async def test_a_kill_can_be_watched(tmp_path: Path, browser: Browser) -> None:
    """The page says that the gateway is gone, is live again by itself, and has every event once."""
    agent = tmp_path / "agents" / "parrot" / "agent.yaml"

    def write() -> None:
        agent.parent.mkdir(parents=True)
        agent.write_text(
            "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: parrot}\n"
            "spec: {model: {provider: builtin, name: echo}}\n"
        )

    await anyio.to_thread.run_sync(write)
    port = free_port()
    async with open_window(browser) as window:
        async with served(tmp_path, port):
            page = await window.tab(f"http://127.0.0.1:{port}/")
            await page.get_by_role("button", name="New session").click()
            box = page.get_by_label("Message", exact=True)
            await box.fill("one")
            await page.keyboard.press("Enter")
            await page.locator(".reply:not(.live) .text").first.wait_for()
            await box.fill("what I was writing")
        await page.get_by_text("connection lost").wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_text("Not sent").wait_for()
        kept = await box.input_value()
        async with served(tmp_path, port):
            await page.get_by_text("live, restarted").wait_for()
            await page.get_by_text("the gateway was restarted (killed)").wait_for()
            await page.get_by_role("button", name="Send").click()
            await page.locator(".reply:not(.live) .text").nth(1).wait_for()
            await page.get_by_label("More").click()
            await page.get_by_role("button", name="Show raw events").click()
            await page.locator(".raw").first.wait_for()
            lines = await page.locator(".raw summary code").all_inner_texts()

    numbers = [int(re.match(r"#(\d+) ", each)[1]) for each in lines]  # type: ignore[index]
    assert kept == "what I was writing"
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(each.endswith(" received") for each in lines) == 2
