"""Looking at what may be wrong with a bot, for its owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from aiogram import types
from aiogram.methods import GetMe, GetWebhookInfo

from everturn_channels.telegram.connection import Line, explained


async def look(
    line: Line, *, where: str, mode: Literal["polling", "webhook"], url: str, faults: Sequence[str]
) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner.

    `faults` are those of the settings of the webhook at `url`.

    Raises:
        SetupError: Telegram does not know the token.
        ConnectionLostError: Telegram cannot be reached.
    """
    with explained(line, where):
        me = await line.ask(GetMe())
        info = await line.ask(GetWebhookInfo())
    found = [
        f"the token is that of @{me.username} ({me.full_name}, id {me.id})",
        *_groups(me),
        *_modes(me),
    ]
    if mode == "polling":
        if info.url:
            found.append(
                f"problem: a webhook is set ({line.masked(info.url)}). The gateway takes it away "
                "when it starts; if another program uses it, give one of them a bot of its own"
            )
    else:
        found += [f"problem: {fault}" for fault in faults]
        if info.url and info.url != url:
            found.append(
                f"problem: the webhook is set to another address ({line.masked(info.url)}); "
                "the gateway changes it when it starts"
            )
        elif not info.url:
            found.append("the webhook is not set yet; the gateway sets it when it starts")
        elif info.last_error_message:
            when = f" at {info.last_error_date:%Y-%m-%d %H:%M} UTC" if info.last_error_date else ""
            found.append(
                f"problem: Telegram could not deliver to the webhook{when}: "
                f"{line.masked(info.last_error_message)}"
            )
    found.append(f"messages that wait to be read: {info.pending_update_count}")
    return found


def _modes(me: types.User) -> list[str]:
    """Say which modes of the bot nobody answers in, so that nobody waits there."""
    modes = (
        (me.supports_inline_queries, "inline mode", "/setinline"),
        (me.supports_guest_queries, "guest mode", "Bot Settings"),
        (me.can_connect_to_business, "business mode", "Bot Settings"),
    )
    return [
        f"the bot has {name} switched on, which is not used: nobody is answered there; switch it "
        f"off (@BotFather, {where})"
        for is_on, name, where in modes
        if is_on
    ]


def _groups(me: types.User) -> list[str]:
    if me.can_join_groups is False:
        return ["the bot cannot be added to groups (@BotFather, /setjoingroups)"]
    if me.can_read_all_group_messages:
        return ["in groups the bot sees every message (privacy mode is off)"]
    hint = (
        "in groups the bot sees commands, mentions and replies to it alone (privacy mode is on); "
        "to show it the rest: @BotFather, /setprivacy, Disable, then add it to the group anew, "
        "or make it an administrator"
    )
    return [hint]
