"""Keeps the menu of a bot as its commands are: at each login, and when agents have others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

import anyio

from everturn_channels.adapter import InboundHandler
from everturn_channels.command_registry import CommandSpec

LOOK_S: Final = 60.0
MENU_MAX: Final = 100
"As many commands as Telegram and Discord take. Sources: `CommandSpec.what`."


async def sync_menu(
    handler: InboundHandler,
    offer: Callable[[Sequence[CommandSpec]], Awaitable[None]],
) -> NoReturn:
    """Offer the commands of a bot, and again whenever they are others, until cancelled.

    Args:
        handler: Knows them.
        offer: Shows them on the platform. What it raises is its own to deal with.
    """
    offered: tuple[CommandSpec, ...] | None = None
    while True:
        menu = tuple(handler.menu())[:MENU_MAX]
        if menu != offered:
            await offer(menu)
            offered = menu
        await anyio.sleep(LOOK_S)
