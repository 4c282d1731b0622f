"""The settings of channels, as values; the gateway reads them from its configuration. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from everturn_actors.model import Overflow
from everturn_channels.adapter import ChatType

Disposition: TypeAlias = Literal["allow", "passive", "silent", "block"]
"""What becomes of a sender's messages in a group: answered; kept and seen later; kept and never
seen; not kept."""
AccessPolicy: TypeAlias = Literal["open", "disabled", "allowlist"]
ReactionMode: TypeAlias = Literal["ignore", "note", "answer"]
"""What becomes of a reaction on a message of the bot's: nothing; the model is told with the next
turn; it is a turn of its own."""
QueueMode: TypeAlias = Literal["batch", "sequential", "drop"]


class QueueRules(Struct, frozen=True, kw_only=True):
    """What becomes of messages that arrive during a turn, or in one debounce window."""

    mode: QueueMode = "batch"
    max_pending: int = 10
    overflow: Overflow = "drop_old"
    reject_message: str = ""
    "What is answered where a message is rejected; empty = a line of ours."
    debounce_s: float = 1.5
    "A turn waits so long for more of the same sender; 0 = it does not."


class DmRules(Struct, frozen=True, kw_only=True):
    """Who may write to the agent alone."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "Sender ids, a trailing * matches the rest; an empty list admits nobody."
    queue: QueueRules = field(default_factory=QueueRules)


class BufferRules(Struct, frozen=True, kw_only=True):
    """Messages that did not address the agent, given to it when somebody does."""

    mode: Literal["silent", "passive"] = "silent"
    "silent: told of in one block, the newest. passive: kept as messages of the conversation."
    max_messages: int = 100
    max_age_s: float = 86_400


class GroupRules(Struct, frozen=True, kw_only=True):
    """In which groups the agent takes part, and how."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "`channel:chat_id`, a trailing * matches the rest; an empty list admits none."
    sender_default: Disposition = "allow"
    sender_overrides: tuple[tuple[str, Disposition], ...] = ()
    "By sender id or prefix*; exact beats wildcard, the longer wildcard beats the shorter."
    activation: Literal["mention", "always"] = "mention"
    context_buffer: BufferRules = field(default_factory=BufferRules)
    queue: QueueRules = field(default_factory=QueueRules)


class AccessRules(Struct, frozen=True, kw_only=True):
    """Who may talk to one agent on a chat platform. Closed by default."""

    dm: DmRules = field(default_factory=DmRules)
    groups: GroupRules = field(default_factory=GroupRules)


class Route(Struct, frozen=True, kw_only=True):
    """Which agent answers where. All that is not empty has to match."""

    agent: str
    channel: str = ""
    "The name of a channel, or of a platform: then all its bots."
    chat_type: ChatType | Literal[""] = ""
    chat_id: str = ""
    topic: str = ""
    "Of a topic or thread in it."
    sender_id: str = ""


class StatusReactions(Struct, frozen=True, kw_only=True):
    """Emojis of the bot on a message, one at a time, that say how far it is; empty = none."""

    working: str = ""
    "Its turn runs."
    done: str = ""
    "Its turn is over."
    failed: str = ""
    "Its turn failed; empty = as `done`."

    def __bool__(self) -> bool:
        """Whether anything is shown."""
        return bool(self.working or self.done or self.failed)


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """How a channel behaves, whatever its platform."""

    streaming: bool = True
    "Whether replies are shown as they come."
    tool_activity: bool = False
    "Whether people are shown which tools run."
    long_replies: Literal["split", "file"] = "split"
    "Whether a reply too long for `file_after_chunks` messages goes as one file instead."
    file_after_chunks: int = 5
    acknowledge: str = ""
    "An emoji put on each message that is taken; empty = none."
    status_reactions: StatusReactions = field(default_factory=StatusReactions)
    "What takes its place once the turn of the message runs, and is over."
    on_reaction: ReactionMode = "note"
    files_max_bytes: int = 20 * 1024 * 1024
    "The largest file that is taken from people."
    backlog_max_messages: int = 100
    "Of messages written while the gateway was away, the newest so many are read."
    backlog_max_age_s: float = 86_400
    "And none that is older than this."
    give_up_after_s: float = 86_400
    "What could not be delivered for so long is given up, and people are told so."
    pairing: bool = True
    "Whether unknown people are given a code that the owner can approve."
