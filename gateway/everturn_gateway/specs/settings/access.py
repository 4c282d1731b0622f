"""`spec.access`: who may talk to the agent on a chat platform."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from everturn_actors.model import Overflow
from everturn_channels.settings import AccessPolicy, Disposition, QueueMode
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Count


class DebounceSettings(SettingsModel):
    """Messages of one sender in quick succession are one."""

    enabled: bool = True
    window_ms: Annotated[int, Field(ge=0, le=60_000)] = 1500


class QueueSettings(SettingsModel):
    """What becomes of messages that arrive during a turn."""

    mode: QueueMode = "batch"
    "One turn for all that waits, a turn for each burst, or none while a turn runs."
    max_pending: Count = 10
    overflow: Overflow = "drop_old"
    reject_message: str | None = None
    "What is answered where a message is rejected."
    debounce: DebounceSettings = DebounceSettings.model_construct()


class DmSettings(SettingsModel):
    """Who may write to the agent alone."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "Sender ids, a trailing * matches the rest; an empty list admits nobody."
    queue: QueueSettings = QueueSettings.model_construct()


class ContextBufferSettings(SettingsModel):
    """Messages that did not address the agent, given to it when somebody does."""

    mode: Literal["silent", "passive"] = "silent"
    "silent: told of in one block, the newest; passive: kept as messages of the conversation."
    max_messages: Annotated[int, Field(ge=0)] = 100
    max_age_hours: Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False)] = 24


class GroupsSettings(SettingsModel):
    """In which groups the agent takes part, and how."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "Groups as channel:chat_id, a trailing * matches the rest; an empty list admits nobody."
    sender_default: Disposition = "allow"
    sender_overrides: dict[str, Disposition] = Field(default_factory=dict)
    "By sender id or prefix*; exact beats wildcard, the longer wildcard beats the shorter."
    activation: Literal["mention", "always"] = "mention"
    context_buffer: ContextBufferSettings = ContextBufferSettings.model_construct()
    queue: QueueSettings = QueueSettings.model_construct()


class AccessSettings(SettingsModel):
    """Who may talk to the agent on a chat platform."""

    dm: DmSettings = DmSettings.model_construct()
    groups: GroupsSettings = GroupsSettings.model_construct()
