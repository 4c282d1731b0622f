"""A real browser, Debian's or the person's own, that looks at a page of a real gateway.

Its headless shell is the same browser without its own windows, and takes a third less CPU.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.async_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Route,
    async_playwright,
    expect,
)
from support.examples import LONG_RUN

HEADLESS = shutil.which("chromium-headless-shell")
BROWSER = os.environ.get("EVERTURN_BROWSER") or next(
    filter(None, (HEADLESS, *map(shutil.which, ("chromium", "google-chrome")))), None
)
in_browser = [
    # Continuous integration must not pass without them.
    pytest.mark.skipif(
        BROWSER is None and "CI" not in os.environ,
        reason="no browser: apt-get install chromium, or set EVERTURN_BROWSER",
    ),
    # The browser lives as long as its worker, and so on a loop that does.
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]
"The marks of tests that use the fixture `browser`."
Look: TypeAlias = tuple[int, Literal["light", "dark"]]
SMALLEST, PHONE, DESK = 320, 390, 1280
LOOKS: Sequence[Look] = (
    ((SMALLEST, "light"), (SMALLEST, "dark"), (DESK, "light"), (DESK, "dark"))
    if LONG_RUN
    else ((SMALLEST, "light"), (DESK, "dark"))
)
"How a view is looked at: each width and each scheme, by day not in all combinations."
HOST = "console.test"
"A name of this machine that makes no secure context, as a home server has one."
_FAULTS = """async (rules) => {
    const found = await axe.run({resultTypes: ["violations"], preload: false, rules});
    return found.violations.flatMap((each) => each.nodes.map((node) =>
        `${each.id}: ${node.html.slice(0, 200)}`));
}"""
_PALE = Path(__file__).with_name("contrast.js").read_text()
DEADLINE_MS = 60_000  # of whatever is waited for in a page
expect.set_options(timeout=DEADLINE_MS)


@dataclass(kw_only=True)
class Window:
    """A browser of its own: its cookies, its storage, its tabs."""

    context: BrowserContext
    messages: list[str] = field(default_factory=list[str])
    "What the browser's console holds, and errors of scripts."
    held: list[anyio.Event] = field(default_factory=list[anyio.Event])
    "Each lets requests go; all do at the end."

    async def tab(self, address: str) -> Page:
        """Open a tab."""
        page = await self.context.new_page()
        page.set_default_timeout(DEADLINE_MS)
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        await page.goto(address)
        return page

    async def hold(self, *addresses: str, answers: bool = False) -> anyio.Event:
        """Hold requests to such addresses until the returned event is set.

        With `answers` the gateway gets them, and their answers are held. What the worker of the
        pages asks for is not seen: see `without_worker`.
        """
        let_go = anyio.Event()
        self.held.append(let_go)

        async def pass_on(route: Route) -> None:
            if answers:
                answer = await route.fetch()
                await let_go.wait()
                await route.fulfill(response=answer)
            else:
                await let_go.wait()
                await route.continue_()

        for each in addresses:
            await self.context.route(each, pass_on)
        return let_go

    async def without_worker(self) -> None:
        """Let tabs that are opened from now on have a stream of their own, as phones do."""
        await self.context.add_init_script("delete self.SharedWorker")


@asynccontextmanager
async def open_browser() -> AsyncGenerator[Browser]:
    """Start a browser without a screen."""
    args = [
        "--disable-gpu",
        "--in-process-gpu",  # one process less, and a twentieth of the CPU
        "--disable-dev-shm-usage",
        f"--host-resolver-rules=MAP {HOST} 127.0.0.1",
    ]
    if os.geteuid() == 0:
        args.append("--no-sandbox")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=args)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_window(
    browser: Browser,
    *,
    width: int = 1280,
    height: int = 800,
    scheme: Literal["light", "dark"] = "light",
    locale: str = "en-US",
) -> AsyncGenerator[Window]:
    """Open a window of a size, for somebody who reads a language.

    Nothing in it moves by itself: colours that pass into one another are no colours to judge.
    """
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        locale=locale,
        reduced_motion="reduce",
    )
    window = Window(context=context)
    try:
        yield window
    finally:
        for each in window.held:
            each.set()
        await context.unroute_all(behavior="wait")
        await context.close()


async def faults_of(page: Page, *, sees_by_axe: bool = bool(LONG_RUN)) -> list[str]:
    """Return what keeps people with disabilities from using a page, as axe finds it.

    Pale texts are found from styles by day, and by axe at night, which takes it three quarters of
    its time.
    """
    if not await page.evaluate("'axe' in window"):  # half a megabyte, once for each page
        await page.evaluate(AXE_SCRIPT)
    rules = {"color-contrast": {"enabled": sees_by_axe}}
    pale: list[str] = [] if sees_by_axe else await page.evaluate(_PALE)
    return [str(each) for each in (*pale, *await page.evaluate(_FAULTS, rules))]


async def press_enter(button: Locator) -> None:
    """Press a button by keyboard, as soon as it can be: what comes before is lost."""
    await expect(button).to_be_enabled()
    await button.press("Enter")


async def is_too_wide(page: Page) -> bool:
    """Return whether a page has to be scrolled sideways."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


async def faults_at(page: Page, width: int) -> list[str]:
    """Make a page so wide, and return what then keeps people from using it."""
    await page.set_viewport_size({"width": width, "height": 800})
    await page.wait_for_function("(width) => innerWidth === width", arg=width)
    wide = [f"{width}: too wide"] if await is_too_wide(page) else []
    return wide + [f"{width}: {each}" for each in await faults_of(page)]


async def faults_in_each_look(page: Page, looks: Sequence[Look] = LOOKS) -> list[str]:
    """Return what keeps people from using a page: on a phone and a desk, in light and dark.

    The page stays as the last of them.
    """
    found: list[str] = []
    for width, scheme in looks:
        await page.emulate_media(color_scheme=scheme)
        found += [f"{scheme} {each}" for each in await faults_at(page, width)]
    return found


@asynccontextmanager
async def looking(browser: Browser, width: int = DESK) -> AsyncGenerator[Window]:
    """Open a window; what its console says fails the test."""
    async with open_window(browser, width=width) as window:
        yield window
        assert window.messages == [], window.messages
