"""The console of a gateway, as somebody looks at it in a real browser."""

from __future__ import annotations

from playwright.async_api import Page
from support.browser import Window, faults_of, is_too_wide, open_window
from support.gateway import HttpGateway

HOSTILE = '<img src=x onerror="document.title=1"><script>window.ran=1</script> \u202eevil **b**'


def console(gateway: HttpGateway, place: str = "#/") -> str:
    """Return the address of a view."""
    return f"{gateway.base_url}/console/{place}"


async def view_faults(gateway: HttpGateway, window: Window, place: str, shown: str) -> list[str]:
    """Return what keeps people from using a view: on a phone and a desk, in light and dark.

    Args:
        gateway: What serves it.
        window: Of the browser that looks.
        place: Its address.
        shown: A selector of what stands there when it is whole.
    """
    found: list[str] = []
    browser = window.context.browser
    assert browser is not None
    for width, scheme in ((320, "light"), (390, "dark"), (1280, "light"), (1280, "dark")):
        async with open_window(
            browser, width=width, scheme="dark" if scheme == "dark" else "light"
        ) as other:
            page = await other.tab(console(gateway, place))
            await page.locator(shown).first.wait_for()
            await page.locator(".state.live").wait_for(state="attached")
            found += [f"{width} {scheme}: {each}" for each in await faults_of(page)]
            if await is_too_wide(page):
                found.append(f"{width}: too wide")
            found += other.messages
    return found


async def has_run(page: Page) -> bool:
    """Return whether something that others wrote became more than text."""
    seen = await page.evaluate("[window.ran ?? null, document.images.length, document.title]")
    return bool(seen[0] or seen[1] or seen[2] == "1")
