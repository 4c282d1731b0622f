"""The web console in the languages of its readers, in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser
from support.browser import PHONE, faults_at, in_browser, is_too_wide, open_window
from support.gateway import open_http_gateway

from everturn_channels.languages import LANGUAGES, Texts

pytestmark = in_browser


async def test_the_page_speaks_the_language_of_its_reader(tmp_path: Path, browser: Browser) -> None:
    """As the browser asks for it, until its reader chooses another, which is remembered."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        open_window(browser, locale="de-AT") as german,
        open_window(browser, locale="zh-CN") as chinese,
        open_window(browser, locale="pt-BR") as other,
    ):
        session_id = await gateway.session()
        await client.post(f"/api/v1/sessions/{session_id}/messages", json={"content": "Servus"})
        page = await german.tab(f"{gateway.base_url}/console/")
        await page.get_by_role("heading", name="Sitzungen").wait_for()
        await page.locator(".row .about", has_text="1 Runde").wait_for()
        await page.locator(".row .at", has_text="jetzt").wait_for()
        await page.goto(f"{gateway.base_url}/console/#/s/{session_id}")
        await page.get_by_role("heading", name="Was das Modell sieht").first.wait_for()
        await page.get_by_label("Sprache").select_option("fr")
        await page.get_by_role("link", name="Autorisations").wait_for()
        await page.reload()
        await page.get_by_role("link", name="Autorisations").wait_for()
        marked = await page.evaluate("document.documentElement.lang")
        page = await chinese.tab(f"{gateway.base_url}/console/#/approvals")
        await page.get_by_text("没有待处理的事项").wait_for()
        title = await page.title()
        page = await other.tab(f"{gateway.base_url}/console/")
        await page.get_by_role("heading", name="Sessions").wait_for()
        said = [*german.messages, *chinese.messages, *other.messages]

    assert marked == "fr"
    assert title.startswith("审批")
    assert said == []


async def test_long_words_fit_on_a_phone(tmp_path: Path, browser: Browser) -> None:
    """German has them; nothing is pushed out, and everybody can use the longest of them."""
    found: list[str] = []
    async with open_http_gateway(tmp_path) as gateway:
        places = {
            "sessions": "#/",
            "approvals": "#/approvals",
            "session": f"#/s/{await gateway.session()}",
            "agents": "#/agents/test",
        }
        for locale in ("de", "es", "fr", "zh-CN"):
            async with open_window(browser, width=PHONE, locale=locale) as window:
                page = await window.tab(f"{gateway.base_url}/console/")
                for name, place in places.items():
                    await page.goto(f"{gateway.base_url}/console/{place}")
                    await page.locator(f"main.{name} h1").wait_for()
                    await page.locator(".state.live").wait_for(state="attached")
                    # What else keeps people from using a page is the same in all languages.
                    faults = await faults_at(page, PHONE) if locale == "de" else []
                    wide = ["too wide"] if await is_too_wide(page) else []
                    found += [f"{locale} {name} {each}" for each in (*faults, *wide)]
                found += window.messages

    assert found == []


async def test_both_sides_choose_the_same_form_for_a_number(
    tmp_path: Path, browser: Browser
) -> None:
    """`1 file` in a chat and on the page: Python's rules are held against the browser's own."""
    numbers = [*range(120), 1000, 1_000_000, 1_000_001, 2_000_000]
    async with (
        open_http_gateway(tmp_path) as gateway,
        open_window(browser) as window,
    ):
        page = await window.tab(f"{gateway.base_url}/console/")
        theirs = {
            language: await page.evaluate(
                "([tag, numbers]) => { const rules = new Intl.PluralRules(tag);"
                " return numbers.map((n) => rules.select(n) === 'one' ? 'one' : 'other'); }",
                [language, numbers],
            )
            for language in LANGUAGES
        }
    ours = {
        language: [Texts(language, {}).plural("one", "other", number) for number in numbers]
        for language in LANGUAGES
        if language != "zh"
    }

    assert {each: theirs[each] for each in ours} == ours
    assert set(theirs["zh"]) == {"other"}
