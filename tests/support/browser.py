"""A real browser, Debian's or the person's own, that looks at a page of a real gateway."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

BROWSER = os.environ.get("EVERTURN_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "google-chrome"))), None
)
# Continuous integration must not pass without them.
needs_browser = pytest.mark.skipif(
    BROWSER is None and "CI" not in os.environ,
    reason="no browser: apt-get install chromium, or set EVERTURN_BROWSER",
)
HOST = "console.test"
"A name of this machine that makes no secure context, as a home server has one."
DEADLINE_MS = 60_000  # of whatever is waited for in a page


@dataclass(kw_only=True)
class Window:
    """A browser of its own: its cookies, its storage, its tabs."""

    context: BrowserContext
    messages: list[str] = field(default_factory=list[str])
    "What the browser's console holds, and errors of scripts."

    async def tab(self, address: str) -> Page:
        """Open a tab."""
        page = await self.context.new_page()
        page.set_default_timeout(DEADLINE_MS)
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        await page.goto(address)
        return page


@asynccontextmanager
async def open_browser() -> AsyncGenerator[Browser]:
    """Start a browser without a screen."""
    args = [
        "--disable-gpu",
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
    """Open a window of a size, for somebody who reads a language."""
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, locale=locale
    )
    try:
        yield Window(context=context)
    finally:
        await context.close()


async def faults_of(page: Page) -> list[str]:
    """Return what keeps people with disabilities from using a page, as axe finds it."""
    found = await Axe().run(page)
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]


async def is_too_wide(page: Page) -> bool:
    """Return whether a page has to be scrolled sideways."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@asynccontextmanager
async def looking(width: int = 1280) -> AsyncGenerator[Window]:
    """Open a window of a new browser; what its console says fails the test."""
    async with (
        open_browser() as browser,
        open_window(browser, width=width) as window,
    ):
        yield window
        assert window.messages == []
