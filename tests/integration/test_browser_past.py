"""The console in a real browser: what the model saw, the conversation then, long transcripts."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import anyio
from playwright.async_api import Browser, Page
from support.browser import faults_in_each_look, faults_of, in_browser, looking
from support.gateway import HttpGateway, open_http_gateway
from support.written import RESULT, eventful, long_session, write_session

from everturn_actors.events import StepStarted
from everturn_gateway.starts import Run, Starts

pytestmark = in_browser

HOSTILE = '<img src=x onerror="document.title=1"><script>window.ran=1</script> \u202eevil **b**'


def console(gateway: HttpGateway, place: str) -> str:
    """Return the address of a view."""
    return f"{gateway.base_url}/console/#/s/{place}"


async def say(gateway: HttpGateway, session_id: str, *texts: str) -> None:
    """Send messages, one turn each."""
    async with gateway.client() as client:
        for text in texts:
            path = f"/api/v1/sessions/{session_id}/messages"
            answer = await client.post(path, json={"content": text})
            assert answer.status_code == 200, answer.text


async def compacted(gateway: HttpGateway) -> str:
    """Return a session of eleven turns, of which older ones were summarised before the last."""
    session_id = await gateway.session()
    await say(gateway, session_id, *(f"question {n} {'word ' * 100}" for n in range(10)))
    async with gateway.client() as client:
        done = await client.post(f"/api/v1/sessions/{session_id}/compact", json={})
    assert done.json()["done"], done.text
    await say(gateway, session_id, f"the last one {HOSTILE}")
    return session_id


async def test_any_request_is_shown_with_the_reason_for_what_is_hidden(
    tmp_path: Path, browser: Browser
) -> None:
    """From the reply to its request; only what differs; and to the event that hid a message."""
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        session_id = await compacted(gateway)
        await window.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = await window.tab(console(gateway, session_id))
        await page.get_by_role("link", name="saw").last.click()
        await page.get_by_text("✓ the same as was sent").wait_for()
        rows = page.locator("table.dispositions tbody tr")
        await rows.filter(has_text="the last one").wait_for()
        hidden = await rows.filter(has_text="summarised").all_inner_texts()
        by = await rows.filter(has_text="summarised").first.locator("a").last.get_attribute("href")
        place = await page.evaluate("location.hash")

        await page.get_by_role("button", name="only what differs").click()
        await page.locator("th", has_text="before").wait_for(state="detached")
        whole = await rows.count()

        await page.locator("details.request > summary").click()
        await page.locator(".sent.user", has_text="the last one").wait_for()
        await page.get_by_role("button", name="Copy as curl").click()
        await page.get_by_text("Copied.").wait_for()
        curl = await page.evaluate("navigator.clipboard.readText()")
        ran = await page.evaluate("[window.ran ?? null, document.images.length]")

        await page.get_by_role("button", name="only what differs").click()
        await page.locator("input[type=range]").focus()
        await page.keyboard.press("Home")
        await page.get_by_text("Request 1 of 11").wait_for()
        await page.locator("table.dispositions td.begins", has_text="question 0").wait_for()
        await page.get_by_label("compare with event").fill(place.rsplit("/", 1)[1])
        await page.get_by_role("button", name="Compare", exact=True).click()
        await rows.filter(has_text="the last one").wait_for()
        compared = await page.evaluate("location.hash")

        await page.goto(f"{gateway.base_url}/console/{by}")
        await page.locator(".entry.summary.target").wait_for()
        summary = await page.locator(".entry.summary").inner_text()

    assert hidden
    assert all("shown" in each and "summarised" in each for each in hidden)
    assert whole == 21
    assert "$API_KEY" in curl
    body = json.loads(curl.split("<<'JSON'\n", 1)[1].removesuffix("\nJSON\n"))
    assert body["messages"][-1]["content"] == f"the last one {HOSTILE}"
    assert "\u202e" not in curl
    assert ran == [None, 0]
    assert compared.endswith(f"/than/{place.rsplit('/', 1)[1]}")
    assert "messages summarised by #" in summary


async def test_the_conversation_is_shown_as_it_was_at_a_request(
    tmp_path: Path, browser: Browser
) -> None:
    """What came later is dimmed; what was hidden then says how; the slider goes through time.

    And everybody can use these views, with many requests and with none.
    """
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        session_id, empty = await compacted(gateway), await gateway.session()
        page = await window.tab(console(gateway, f"{session_id}/then/0"))
        await page.locator(".hidden-from-model", has_text="question 0").wait_for()
        last = page.locator(".entry.user", has_text="the last one")
        at_end = await last.get_attribute("class")
        texts = await last.locator(".text").inner_text()
        await page.get_by_role("button", name="The request before").click()
        await page.locator(".entry.user.later", has_text="the last one").wait_for()
        marks = await page.locator(".hidden-from-model").count()
        await page.get_by_role("link", name="What the model saw").click()
        await page.get_by_text("Request 10 of 11").wait_for()
        # The newest one, where another was looked at before.
        await page.goto(console(gateway, f"{session_id}/then/0"))
        await page.locator(".entry.user:not(.later)", has_text="the last one").wait_for()
        faults = await faults_of_views(page, gateway, session_id, empty)

    assert faults == []
    assert at_end is not None
    assert "later" not in at_end
    assert "<script>window.ran=1</script> ⟨U+202E⟩evil" in texts
    assert marks == 0


async def faults_of_views(
    page: Page, gateway: HttpGateway, session_id: str, empty: str
) -> list[str]:
    """Return what keeps people from using them, in light and dark, on a phone and a desk."""
    await page.goto(console(gateway, f"{empty}/request/0"))
    await page.get_by_text("No request yet").wait_for()
    found = [f"empty {each}" for each in await faults_in_each_look(page)]
    await page.goto(console(gateway, f"{session_id}/request/0"))
    await page.locator("table.dispositions").wait_for()
    await page.locator("details.request > summary").click()
    await page.locator(".sent.user").first.wait_for()
    found += [f"request {each}" for each in await faults_in_each_look(page)]
    await page.goto(console(gateway, f"{session_id}/then/5"))
    await page.locator(".entry.later").first.wait_for()
    found += [f"then {each}" for each in await faults_in_each_look(page)]
    return found


async def test_a_transcript_tells_what_became_of_everything(
    tmp_path: Path, browser: Browser
) -> None:
    """Parts of a delivery, the time of a turn, a summary, a kill in a turn, a whole result."""
    session = eventful(HOSTILE)
    session_id = await write_session(tmp_path, session, {RESULT: "1\n2\n3"})
    steps = [each.at for each in session.events if isinstance(each.body, StepStarted)]
    killed = steps[-1] + timedelta(milliseconds=500)
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        gateway.starts = Starts([Run(at=steps[0], version="1"), Run(at=killed, version="1")])
        # The log comes behind the stream, and is shown before anything else has a number to format.
        let_go = await window.hold("**/log?*")
        later = await window.hold("**/context", f"**/{session_id}")
        page = await window.tab(console(gateway, session_id))
        await page.locator(".state.live").wait_for()
        let_go.set()
        await page.get_by_text("Back on Sunday.").wait_for()
        await page.get_by_text("turn 2 goes on by itself").wait_for()  # told by the stream
        await page.get_by_text("8,788 → 240 tokens").wait_for()
        later.set()
        await page.get_by_text("test: not known whether sent").first.wait_for()  # by its document
        shown = await page.locator(".transcript").inner_text()
        await page.locator(".delivery summary").click()
        parts = await page.locator(".delivery li").all_inner_texts()
        await page.locator(".timing summary").first.click()
        await page.locator(".timing .legend li").first.wait_for()
        times = await page.locator(".timing .legend").first.locator("li").all_inner_texts()
        await page.locator("details.call summary").first.click()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Open the whole result").click()
        saved = await anyio.Path(await (await download.value).path()).read_text()
        await page.get_by_text("Read", exact=True).click()
        await page.get_by_text("## Intent").wait_for()
        ran = await page.evaluate("[window.ran ?? null, document.images.length]")
        faults = await faults_of(page)

    assert "4 messages summarised by #" in shown
    assert "the gateway was restarted (killed); turn 2 goes on by itself" in shown
    assert "test: not known whether sent: 1 of 3 parts" in shown
    assert parts == ["sent", "sent", "not known whether sent timed out"]
    assert {each.split("\n")[0].split("  ")[0].rstrip(" 0123456789.sec") for each in times} >= {
        "held",
        "model",
        "delivery",
    }
    assert any("waiting for a person" in each for each in times)
    assert saved == "1\n2\n3"
    assert ran == [None, 0]
    assert faults == []


async def tops(page: Page, text: str) -> float:
    """Return how far from the top of the window a text stands."""
    box = await page.get_by_text(text, exact=True).bounding_box()
    assert box is not None
    return box["y"]


async def test_a_long_transcript_is_a_window_that_moves(tmp_path: Path, browser: Browser) -> None:
    """Never more than 600 events in the page, and what was read stays where it was."""
    session_id = await write_session(tmp_path, long_session(300), {})
    async with open_http_gateway(tmp_path) as gateway, looking(browser) as window:
        let_go = await window.hold("**/pins")  # buttons come into the page with its answer
        page = await window.tab(console(gateway, session_id))
        await page.get_by_text("answer 300", exact=True).wait_for()
        counts: list[int] = []
        moved: list[float] = []
        for turn in (260, 220, 180, 140):
            await page.locator(".scroll").evaluate("each => each.scrollTop = 0")
            first = f"question {turn + 1}"
            await page.get_by_text(first, exact=True).wait_for()
            before = await tops(page, first)
            let_go.set()
            await page.get_by_role("button", name="Pin", exact=True).first.wait_for()
            await page.get_by_role("button", name="Show older").click()
            await page.get_by_text(f"question {turn}", exact=True).wait_for()
            await page.wait_for_function("!document.querySelector('button.more[disabled]')")
            moved.append(abs(await tops(page, first) - before))
            counts.append(await page.locator(".entry.user").count())
        newest = await page.get_by_text("answer 300", exact=True).count()
        await say(gateway, session_id, "one more")
        await page.get_by_role("button", name="Show newer").click()
        await page.get_by_text("answer 260", exact=True).wait_for()
        await page.get_by_role("button", name="Back to the newest").click()
        await page.locator(".entry.user", has_text="one more").wait_for()
        await page.get_by_text("reply 1", exact=True).wait_for()
        await page.goto(console(gateway, f"{session_id}/at/502"))
        await page.locator(".entry.target", has_text="question 101").wait_for()

    assert max(counts) <= 120
    assert newest == 0
    assert max(moved) < 3
