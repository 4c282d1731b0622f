"""What a browser does for a call, and what the page says then."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.browser.browsers import BrowserSession, take_in

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

OPEN_MS: Final = 30_000
ACT_MS: Final = 15_000
SETTLE_MS: Final = 2_000
_SCROLLS: Final = {"down": 700, "up": -700}  # nearly a screen


async def page_of(session: BrowserSession) -> Page:
    """Return the tab that is looked at.

    Raises:
        ToolFailedError: None is open.
    """
    if not session.pages:
        msg = "no page is open; open one first"
        raise ToolFailedError(msg)
    return session.pages[session.current]


async def open_page(session: BrowserSession, url: str) -> Page:
    """Go to an address, in the tab that is looked at."""
    if not session.pages:
        await take_in(session, await session.context.new_page())
    page = session.pages[session.current]
    await page.goto(url, wait_until="domcontentloaded", timeout=OPEN_MS)
    return page


def element(page: Page, ref: str) -> Locator:
    """Return the element that the last text of the page calls so."""
    return page.locator(f"aria-ref={ref}")


async def scroll(page: Page, direction: str) -> None:
    """Scroll by nearly a screen."""
    await page.mouse.wheel(0, _SCROLLS[direction])


async def settled(page: Page) -> None:
    """Wait until a page has loaded what it loads at once; not for one that never stops."""
    from playwright.async_api import Error  # noqa: PLC0415 - of an extra

    with suppress(Error):
        await page.wait_for_load_state("load", timeout=SETTLE_MS)
        await page.wait_for_load_state("networkidle", timeout=SETTLE_MS)
