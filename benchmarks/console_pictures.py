"""Pictures of every view of the console: three widths, light and dark, with nothing, one and many.

.venv/bin/python benchmarks/console_pictures.py FOLDER [--amount many] [--width 390] [--view agent]
.venv/bin/python benchmarks/console_pictures.py --readme docs/console.png

They are made to be looked at by a person. Beside them it prints what a person does not see: what
axe finds, views that are wider than their screen, and what the browser's console says.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from pathlib import Path
from typing import Final, Literal, TypeAlias

from console_world import World, open_world
from playwright.async_api import Page
from support.browser import faults_of, is_too_wide, open_browser, open_window

Scheme: TypeAlias = Literal["light", "dark"]
AMOUNTS: Final = ("none", "one", "many")
WIDTHS: Final = (390, 1280, 1920)
SCHEMES: Final[tuple[Scheme, Scheme]] = ("light", "dark")
HEIGHTS: Final = {320: 640, 390: 800, 1280: 800, 1920: 1080}


def views(world: World, amount: str) -> dict[str, str]:
    """Return the address of each view by its name."""
    found = {
        name: f"#/{name}"
        for name in (
            *("search", "approvals", "schedules", "channels", "agents", "usage", "doctor", "log"),
        )
    }
    found = {"sessions": "#/", **found}
    if amount == "none":
        return found
    trip = world.sessions["Trip to Lisbon"]
    found |= {
        "session": f"#/s/{trip}",
        "request": f"#/s/{trip}/request/0",
        "then": f"#/s/{trip}/then/0",
        "agent": "#/agents/assistant",
        "schedule": "#/schedules/standup",
        "searched": "#/search/Lisbon",
    }
    if amount == "many":
        found |= {
            "waiting": f"#/s/{world.sessions['Release 2.4']}",
            "faulty": "#/agents/night-watch",
        }
    return found


async def settle(page: Page) -> None:
    """Wait until a view is whole."""
    await page.locator(".state.live").wait_for(state="attached")
    await page.locator("main h1").first.wait_for()
    await page.locator(".ghost, [aria-busy=true]").first.wait_for(state="detached")
    await page.evaluate("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
    await page.wait_for_timeout(150)  # a picture is for people: motion has come to rest


async def picture_all(arguments: argparse.Namespace) -> int:
    """Make the pictures; return how many faults were found."""
    found: list[str] = []
    amounts = [arguments.amount] if arguments.amount else AMOUNTS
    widths = [arguments.width] if arguments.width else WIDTHS
    async with open_browser() as browser:
        for amount in amounts:
            async with open_world(amount) as world:
                places = views(world, amount)
                if arguments.view:
                    places = {arguments.view: places[arguments.view]}
                for width, scheme in itertools.product(widths, SCHEMES):
                    size = {"width": width, "height": HEIGHTS.get(width, 900)}
                    async with open_window(
                        browser, scheme=scheme, locale=arguments.locale, **size
                    ) as window:
                        page = await window.tab(f"{world.url}/console/")
                        for name, place in places.items():
                            await page.goto(f"{world.url}/console/{place}")
                            await settle(page)
                            told = f"{amount}-{name}-{width}-{scheme}"
                            await page.screenshot(path=arguments.folder / f"{told}.png")
                            found += [f"{told}: {each}" for each in await faults_of(page)]
                            if await is_too_wide(page):
                                found.append(f"{told}: too wide")
                        found += [f"{amount} {width}: {each}" for each in window.messages]
    print("\n".join(found) or "no faults")
    return len(found)


async def picture_readme(file: Path) -> int:
    """Make the picture that stands in the README."""
    async with (
        open_browser() as browser,
        open_world("many") as world,
        open_window(browser, width=1280, height=720) as window,
    ):
        page = await window.tab(f"{world.url}/console/{views(world, 'many')['waiting']}")
        await settle(page)
        await page.screenshot(path=file)
    return 0


def main() -> int:
    """Make pictures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where they are put")
    parser.add_argument("--readme", type=Path, help="only the README's, as this file")
    parser.add_argument("--amount", choices=AMOUNTS)
    parser.add_argument("--width", type=int)
    parser.add_argument("--view")
    parser.add_argument("--locale", default="en-GB")
    arguments = parser.parse_args()
    if arguments.readme:
        return asyncio.run(picture_readme(arguments.readme))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    return 1 if asyncio.run(picture_all(arguments)) else 0


if __name__ == "__main__":
    sys.exit(main())
