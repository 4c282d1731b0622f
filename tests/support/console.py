"""The console of a gateway, as somebody looks at it in a real browser."""

from __future__ import annotations

from playwright.async_api import Page
from support.browser import faults_in_each_look
from support.gateway import HttpGateway

HOSTILE = '<img src=x onerror="document.title=1"><script>window.ran=1</script> \u202eevil **b**'


def console(gateway: HttpGateway, place: str = "#/") -> str:
    """Return the address of a view."""
    return f"{gateway.base_url}/console/{place}"


async def view_faults(page: Page, gateway: HttpGateway, place: str, shown: str) -> list[str]:
    """Go to a view; return what keeps people from using it: see `faults_in_each_look`.

    Args:
        page: Where it is looked at.
        gateway: What serves it.
        place: Its address.
        shown: A selector of what stands there when it is whole.
    """
    await page.goto(console(gateway, place))
    await page.locator(shown).first.wait_for()
    await page.locator(".state.live").wait_for(state="attached")
    return [f"{place} {each}" for each in await faults_in_each_look(page)]


async def has_run(page: Page) -> bool:
    """Return whether something that others wrote became more than text."""
    seen = await page.evaluate("[window.ran ?? null, document.images.length, document.title]")
    return bool(seen[0] or seen[1] or seen[2] == "1")
