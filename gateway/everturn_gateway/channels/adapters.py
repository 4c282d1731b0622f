"""Makes the bots of channels. The libraries of platforms are loaded here, and only what is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Final, assert_never

from anyio import to_thread

from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.chats.chat_types import ChatTypes
from everturn_gateway.config.channels import (
    ChannelConfig,
    DiscordConfig,
    PluginConfig,
    TelegramConfig,
)
from everturn_gateway.errors import GatewayError

_LIBRARIES: Final = {
    "telegram": ("aiogram", "telegramify_markdown"),
    "discord": ("discord", "markdown_it"),
}


def check_installed(channels: Iterable[ChannelConfig]) -> None:
    """Make sure that what channels need is there; loads nothing of it.

    Looks for files: not for the event loop.

    Raises:
        GatewayError: A library is not installed.
    """
    for channel in channels:
        if isinstance(channel, PluginConfig):
            continue
        for library in _LIBRARIES[channel.platform]:
            if find_spec(library) is None:
                raise _missing(channel, library)


def _missing(channel: ChannelConfig, library: str) -> GatewayError:
    return GatewayError(
        f"channel {channel.name} needs {library}, which is not installed:"
        f" pip install 'everturn[{channel.platform}]'"
    )


async def make_adapter(channel: ChannelConfig, clock: Clock) -> Adapter:
    """Return the bot of a channel; nothing of it runs yet. The first of a platform takes seconds.

    Raises:
        GatewayError: Its platform's library is not installed, or cannot be loaded.
        SetupError: What it was set up with cannot work.
    """
    return await to_thread.run_sync(_made, channel, clock)


def _made(channel: ChannelConfig, clock: Clock) -> Adapter:
    settings = channel.settings
    try:
        match channel:
            case TelegramConfig():
                from everturn_channels.telegram import (  # noqa: PLC0415 - aiogram takes seconds
                    TelegramAdapter,
                )

                return TelegramAdapter(
                    name=channel.name,
                    token=channel.bot_token,
                    clock=clock,
                    api_base=channel.api_base,
                    mode=channel.mode,
                    webhook_url=channel.webhook_url,
                    webhook_secret=channel.webhook_secret,
                    proxy=channel.proxy,
                    backlog_max_messages=settings.backlog_max_messages,
                )
            case DiscordConfig():
                from everturn_channels.discord import (  # noqa: PLC0415 - discord.py takes one
                    DiscordAdapter,
                )

                return DiscordAdapter(
                    name=channel.name,
                    token=channel.bot_token,
                    clock=clock,
                    api_base=channel.api_base,
                    gateway_url=channel.gateway_url,
                    proxy=channel.proxy,
                    backlog_max_messages=settings.backlog_max_messages,
                    backlog_max_age_s=settings.backlog_max_age_s,
                )
            case PluginConfig():
                from everturn_channels.plugin.adapter import (  # noqa: PLC0415 - only where one is
                    PluginAdapter,
                )

                return PluginAdapter(
                    name=channel.name,
                    command=channel.command,
                    args=channel.args,
                    env=channel.env,
                    cwd=channel.cwd,
                    restart=channel.restart,
                    clock=clock,
                )
            case _:
                assert_never(channel)
    except ModuleNotFoundError as error:
        raise _missing(channel, (error.name or "a library").partition(".")[0]) from error
    except ImportError as error:
        msg = f"channel {channel.name}: the library of its platform cannot be loaded: {error}"
        raise GatewayError(msg) from error


def chat_type_of(platform: str, chat_types: ChatTypes) -> Callable[[ConversationKey], ChatType]:
    """Return what tells the type of a conversation's chat.

    Telegram shows it by the id, also of a chat that was not heard from since the start: groups and
    channels have negative ones.

    Source: https://core.telegram.org/bots/api#chat (read 2026-11-22).

    Args:
        platform: Of the channel.
        chat_types: What was seen of its chats.
    """

    def by_id(key: ConversationKey) -> ChatType:
        return "group" if key.chat.startswith("-") else "dm"

    return by_id if platform == "telegram" else chat_types.type_of
