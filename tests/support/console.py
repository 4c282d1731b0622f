"""The console of a gateway, as somebody looks at it in a real browser."""

from __future__ import annotations

from playwright.async_api import Browser, Page
from support.browser import LOOKS, faults_at, open_window
from support.gateway import HttpGateway

HOSTILE = '<img src=x onerror="document.title=1"><script>window.ran=1</script> \u202eevil **b**'


def console(gateway: HttpGateway, place: str = "#/") -> str:
    """Return the address of a view."""
    return f"{gateway.base_url}/console/{place}"


async def view_faults(browser: Browser, gateway: HttpGateway, place: str, shown: str) -> list[str]:
    """Return what keeps people from using a view: on a phone and a desk, in light and dark.

    Args:
        browser: Where it is looked at.
        gateway: What serves it.
        place: Its address.
        shown: A selector of what stands there when it is whole.
    """
    found: list[str] = []
    for width, scheme in LOOKS:
        async with open_window(browser, width=width, scheme=scheme) as window:
            page = await window.tab(console(gateway, place))
            await page.locator(shown).first.wait_for()
            await page.locator(".state.live").wait_for(state="attached")
            found += [f"{scheme} {each}" for each in await faults_at(page, width)]
            found += window.messages
    return found


async def has_run(page: Page) -> bool:
    """Return whether something that others wrote became more than text."""
    seen = await page.evaluate("[window.ran ?? null, document.images.length, document.title]")
    return bool(seen[0] or seen[1] or seen[2] == "1")
