"""What a browser does for a call, and what the page says then."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from everturn_actors.errors import ToolFailedError
from everturn_gateway.late_loading import late
from everturn_gateway.tools.browser.browsers import BrowserSession, take_in

if TYPE_CHECKING:
    from playwright import async_api
    from playwright.async_api import Locator, Page
else:
    async_api = late("playwright.async_api")

OPEN_MS: Final = 30_000
ACT_MS: Final = 15_000
SETTLE_MS: Final = 2_000
_LINK: Final = re.compile(r"^( *- /url: )(\S+)$", re.MULTILINE)
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


def with_whole_addresses(text: str, base: str) -> str:
    """Return the text of a page with its links as they are opened; pages write them shortened.

    An address may be opened unasked where it was shown letter for letter.

    >>> with_whole_addresses("- /url: /b?c", "https://example.org/a")
    '- /url: https://example.org/b?c'
    """
    return _LINK.sub(lambda found: found[1] + _whole(base, found[2]), text)


def _whole(base: str, link: str) -> str:
    try:
        told = str(json.loads(link)) if link.startswith('"') else link
        return urljoin(base, told)
    except ValueError:  # it is no address, or not written as one
        return link


async def scroll(page: Page, direction: str) -> None:
    """Scroll by nearly a screen."""
    await page.mouse.wheel(0, _SCROLLS[direction])


async def settled(page: Page) -> None:
    """Wait until a page has loaded what it loads at once; not for one that never stops."""
    with suppress(async_api.Error):
        await page.wait_for_load_state("load", timeout=SETTLE_MS)
        await page.wait_for_load_state("networkidle", timeout=SETTLE_MS)
