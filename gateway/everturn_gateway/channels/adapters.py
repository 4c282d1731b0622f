"""Makes the bots of channels. The libraries of platforms are loaded here, and only what is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyio import to_thread

from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.errors import ChannelError
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import ChannelPlugin, ChannelSetup


def check_installed(channels: Iterable[ChannelConfig]) -> None:
    """Make sure that what channels need is there; loads nothing of it.

    Looks for files: not for the event loop.

    Raises:
        GatewayError: A library is not installed.
    """
    for channel in channels:
        if library := channel.plugin.missing():
            raise _missing(channel, library)


def _missing(channel: ChannelConfig, library: str) -> GatewayError:
    way = channel.plugin.extra or library
    return GatewayError(
        f"channel {channel.name} needs {library}, which is not installed: pip install '{way}'"
    )


async def make_adapter(channel: ChannelConfig, clock: Clock) -> Adapter:
    """Return the bot of a channel; nothing of it runs yet. The first of a platform takes seconds.

    Raises:
        GatewayError: Its platform's library is not installed or cannot be loaded, or its plug-in
            failed.
        SetupError: What it was set up with cannot work.
    """
    return await to_thread.run_sync(_made, channel, clock)


def _made(channel: ChannelConfig, clock: Clock) -> Adapter:
    setup = ChannelSetup(
        name=channel.name,
        settings=channel.options,
        clock=clock,
        folder=channel.folder,
        workspace=channel.workspace,
    )
    try:
        return channel.plugin.make(setup)
    except ModuleNotFoundError as error:
        raise _missing(channel, (error.name or "a library").partition(".")[0]) from error
    except ImportError as error:
        msg = f"channel {channel.name}: the library of its platform cannot be loaded: {error}"
        raise GatewayError(msg) from error
    except (ChannelError, GatewayError):
        raise
    except Exception as error:
        # A boundary: the code of others; the channel says why it is not there, and is tried again.
        msg = f"channel {channel.name}: its plug-in failed: {type(error).__name__}: {error}"
        raise GatewayError(msg) from error


def chat_type_of(
    plugin: ChannelPlugin, chat_types: ChatTypes
) -> Callable[[ConversationKey], ChatType]:
    """Return what tells the type of a conversation's chat.

    Args:
        plugin: Of the channel; where the ids of its platform tell the type, they do.
        chat_types: What was seen of its chats.
    """
    return plugin.chat_type or chat_types.type_of
