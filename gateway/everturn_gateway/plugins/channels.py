"""The description of a channel: a platform on which people write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from pydantic import AfterValidator, Field

from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_actors.state.validation import ATTACHMENT_BYTES
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.settings import ChannelSettings, ReactionMode, StatusReactions
from everturn_gateway.plugins.base import Plugin, Remarks, no_remarks
from everturn_gateway.yaml_files import SettingsModel

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_NAME_CHARACTERS = 40
_MEGABYTE = 1024 * 1024
_FILES_MAX_MEGABYTES = ATTACHMENT_BYTES // _MEGABYTE
_EMOJI_CHARACTERS = 32  # some are joined of many; Discord's own have a name and a number


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > _NAME_CHARACTERS:
        msg = f"must be lower-case letters, digits and hyphens, at most {_NAME_CHARACTERS}"
        raise ValueError(msg)
    return value


ChannelName = Annotated[str, AfterValidator(_name)]


class BacklogSettings(SettingsModel):
    """Which messages are read that were written while the gateway was away."""

    max_messages: Annotated[int, Field(ge=0)] = 100
    max_age_hours: Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False)] = 24


class DeliverySettings(SettingsModel):
    """How long it is tried to deliver what is said."""

    give_up_after_hours: Annotated[float, Field(gt=0, le=8760, allow_inf_nan=False)] = 24


_Emoji = Annotated[str, Field(max_length=_EMOJI_CHARACTERS)]


class StatusReactionSettings(SettingsModel):
    """Emojis that take the place of `acknowledge` on a message, as its turn goes on."""

    working: _Emoji = ""
    "While its turn runs; empty = none of its own."
    done: _Emoji = ""
    "Once its turn is over; empty = the one before is taken away."
    failed: _Emoji = ""
    "Once its turn failed; empty = as done."


class PluginChannelSettings(SettingsModel):
    """The settings that every channel has; a channel adds its own in a subclass.

    Example:
        >>> class MatrixSettings(PluginChannelSettings):
        ...     homeserver: str
        ...     access_token: Annotated[str, Field(repr=False)]
    """

    name: ChannelName | None = None
    "Tells several channels of one kind apart."
    enabled: bool = True
    streaming: bool = True
    "Whether replies are shown as they come."
    tool_activity: bool = False
    "Whether people are shown which tools run."
    long_replies: Literal["split", "file"] = "split"
    "Whether a reply too long for file_after_chunks messages goes as one file instead."
    file_after_chunks: Annotated[int, Field(ge=1)] = 5
    acknowledge: _Emoji = ""
    "An emoji put on each message that is taken; empty = none."
    status_reactions: StatusReactionSettings | None = None
    on_reaction: ReactionMode = "note"
    "Whether reactions on the bot's messages are told to the model, with the next turn or at once."
    files_max_megabytes: Annotated[int, Field(ge=0, le=_FILES_MAX_MEGABYTES)] = 20
    "The largest file that is taken from people."
    backlog: BacklogSettings = BacklogSettings()
    delivery: DeliverySettings = DeliverySettings()
    pairing: bool = True
    "Whether unknown people are given a code that the owner can approve."

    def channel(self, plugin: str) -> str:
        """Return the name of the channel, as conversations and routes have it.

        Args:
            plugin: The name of the plug-in.
        """
        return f"{plugin}-{self.name}" if self.name else plugin

    def platform(self, plugin: str) -> str:
        """Return the name that routes may use for all channels of this kind."""
        return plugin

    def common(self) -> ChannelSettings:
        """Return what holds whatever the platform is."""
        return ChannelSettings(
            streaming=self.streaming,
            tool_activity=self.tool_activity,
            long_replies=self.long_replies,
            file_after_chunks=self.file_after_chunks,
            acknowledge=self.acknowledge,
            status_reactions=StatusReactions(**dict(self.status_reactions or {})),
            on_reaction=self.on_reaction,
            files_max_bytes=self.files_max_megabytes * _MEGABYTE,
            backlog_max_messages=self.backlog.max_messages,
            backlog_max_age_s=self.backlog.max_age_hours * 3600,
            give_up_after_s=self.delivery.give_up_after_hours * 3600,
            pairing=self.pairing,
        )


SettingsT = TypeVar("SettingsT", bound=PluginChannelSettings)


class ChannelSetup(Struct, Generic[SettingsT], frozen=True, kw_only=True):
    """What an adapter is made of."""

    name: str
    "Of the channel; the adapter's own `name`."
    settings: SettingsT
    "As they were read from the configuration."
    clock: Clock
    folder: Path
    "The folder of the configuration, absolute; paths in settings are relative to it."
    workspace: Path = Path()
    """The gateway's folder, absolute.

    What a library has to keep in files of its own stands in `channels/NAME` of it; all else is
    kept as cursors.
    """


def _no_secret(_settings: object) -> str:
    return ""


class ChannelPlugin(Plugin, frozen=True, kw_only=True):
    """A platform on which people write; entry points of `everturn.channels`.

    `channels.NAME` of `everturn.yaml` is a section of its settings, or a list of them.

    Example:
        >>> MATRIX = ChannelPlugin(
        ...     name="matrix",
        ...     interface=1,
        ...     settings=PluginChannelSettings,
        ...     make=lambda setup: load_matrix_adapter(setup),
        ... )
    """

    settings: type[PluginChannelSettings]
    make: Callable[[ChannelSetup[Any]], Adapter]
    """Makes the bot; nothing of it runs yet. Called in a thread, once for each channel: the library
    of the platform is imported here.

    Raises:
        ImportError: What it needs is not installed.
        SetupError: What it was set up with cannot work.
    """
    faults: Callable[[Any], Remarks] = no_remarks
    "Given settings, what is wrong with them beyond single fields; the gateway does not start so."
    notes: Callable[[Any], Remarks] = no_remarks
    "Given settings, what stands there and has no effect."
    chat_type: Callable[[ConversationKey], ChatType] | None = None
    "The type of a chat, also of one that was not heard from; None = the ids do not tell it."
    has_number_ids: bool = False
    "Whether people have numbers: what is none, is nobody's account."
    webhook_secret: Callable[[Any], str] = _no_secret
    """Given settings, what deliveries to `/channels/NAME/webhook` have to show; empty = it takes
    none. The adapter of one that does has a method `take_webhook(secret: str, body: bytes) -> int`,
    which returns the status of the answer: 200 when what came is durable.
    """
    webhook_header: str = ""
    "The name of the header in which deliveries show it."
    is_webhook_signed: bool = False
    """Whether deliveries show no secret, but sign their body with it, in the header of that name.
    Then the adapter has a method `take_delivery(headers: Mapping[str, str], body: bytes)` instead,
    which looks at the signature and returns a `DeliveryAnswer`."""
    is_shareable: bool = False
    """Whether all gateways that share a store send on it: in `stand_by` its adapter sends, while
    another one receives. Where it is not, one of them has it, and all of its conversations."""
    keeps_folder: bool = False
    "Whether it needs the files in `channels/NAME` of the workspace: another machine has others."
    identity: Callable[[Any], str] = _no_secret
    "Given settings, the secret that no two channels may share: the token of a bot; empty = any."
