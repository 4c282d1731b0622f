"""Finding out what is wrong with a bot before people notice."""

from __future__ import annotations

from collections.abc import Sequence

import discord

from everturn_channels.discord.client import Client
from everturn_channels.discord.failures import PORTAL

PERMISSIONS = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    embed_links=True,
    attach_files=True,
    read_message_history=True,
    add_reactions=True,
)
"What the bot needs in a server."


def look(client: Client, *, opens_threads: bool) -> Sequence[str]:
    """Return what there is to say about a bot that is logged in; see `Adapter.check`.

    One that `opens_threads` needs a permission more.
    """
    permissions = discord.Permissions(PERMISSIONS.value)
    permissions.update(create_public_threads=opens_threads)
    application = client.application
    assert application is not None
    assert client.user is not None
    lines = [f"logged in as @{client.user.name} (application {application.id})"]
    flags = application.flags
    if not (flags.gateway_message_content or flags.gateway_message_content_limited):
        lines.append(
            "problem: the Message Content Intent is off, so Discord will refuse the connection. "
            f"Switch it on: {PORTAL}, your application, Bot, Privileged Gateway Intents, Message "
            "Content Intent, Save Changes."
        )
    if application.interactions_endpoint_url:
        lines.append(
            "problem: slash commands and buttons go to "
            f"{application.interactions_endpoint_url} instead of here. Clear it: {PORTAL}, your "
            "application, General Information, Interactions Endpoint URL."
        )
    servers = application.approximate_guild_count
    lines.append(f"in {servers} {'server' if servers == 1 else 'servers'}")
    address = discord.utils.oauth_url(
        application.id, permissions=permissions, scopes=("bot", "applications.commands")
    )
    lines.append(f"add it to a server: {address}")
    return tuple(lines)
