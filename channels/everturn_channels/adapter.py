"""What a chat platform has to do to be a channel, and the values that pass between the two.

An adapter knows its platform and nothing of sessions; everything else (access, conversations,
delivery, streaming) is the same for all platforms and stands beside this module.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

import anyio
from msgspec import Struct

from everturn_channels.chunks import split_text
from everturn_channels.command_registry import CommandSpec
from everturn_channels.errors import RefusedError
from everturn_channels.outgoing import Button, Capabilities, ChatType, Outbound, OutgoingFile

__all__ = [
    "Adapter",
    "Button",
    "ButtonClick",
    "Capabilities",
    "ChatMoved",
    "ChatRef",
    "ChatType",
    "Command",
    "Edit",
    "InboundEvent",
    "InboundHandler",
    "IncomingFile",
    "Message",
    "Outbound",
    "OutgoingFile",
    "Person",
    "Reaction",
]

_CANNOT: Final = "{} cannot {}"

# --- what comes in -------------------------------------------------------------------------------


class ChatRef(Struct, frozen=True, kw_only=True):
    """Where something is said on a platform."""

    id: str
    "The platform's id of the chat, as text. For a Discord thread: of the channel it belongs to."
    type: ChatType = "dm"
    topic: str = ""
    "The id of the topic or thread inside the chat; empty = none."
    title: str = ""
    "What people call it; empty where that is not known."
    aliases: tuple[str, ...] = ()
    "Other ids that its platform gave the chat later on, oldest first; adapters leave it out."


class Person(Struct, frozen=True, kw_only=True):
    """Who says something."""

    id: str
    "The platform's id, as text; empty = nobody in particular, as in a Telegram channel."
    name: str = ""
    "What people call them. Anybody can choose any: never trust it."
    is_bot: bool = False
    language: str = ""
    "In which language they use the platform, as it says so: `de`, `es-ES`; empty = it does not."


class IncomingFile(Struct, frozen=True, kw_only=True):
    """A file that came with a message, not fetched yet."""

    fetch: Callable[[int], Awaitable[bytes]]
    """Gets at most so many bytes.

    Raises FileTooLargeError where there are more, and ConnectionLostError where it cannot be had.
    """
    file_name: str = ""
    "A name, no path, as its sender calls it."
    media_type: str = ""
    "What the platform says it is; empty = it does not say."
    size_bytes: int | None = None
    "None = the platform does not say."
    is_voice: bool = False
    "Whether it is a voice note: spoken for whoever is there, and no file with a name."
    duration_s: float = 0
    "How long it sounds; 0 = the platform does not say, or it is no sound."


class Message(Struct, frozen=True, kw_only=True):
    """Somebody wrote something."""

    id: str
    "Unique within its chat. The same message always has the same id."
    chat: ChatRef
    sender: Person
    text: str = ""
    "In the platform's own words turned into plain text or Markdown; may be empty."
    at: datetime
    "When it was written, UTC, by the platform's clock."
    is_addressed: bool = False
    "Whether it mentions the bot or replies to it. In a dm it does not matter."
    files: tuple[IncomingFile, ...] = ()
    quoted: str = ""
    "What it replies to, shortened, where that is not the bot's own message; empty = nothing."
    quoted_name: str = ""
    "Who wrote that."
    forwarded_from: str = ""
    "Whose message it passes on; empty = it is the sender's own."
    described: tuple[str, ...] = ()
    """What it holds beside, in words of ours that a model reads: `location 52.52, 13.405, live`.

    Kinds that are not known have words as well: nothing that somebody sent is a silence."""
    is_outside: bool = False
    "Whether words in it are those of somebody else than its sender: passed on, or shown with it."
    unsupported: str = ""
    "What it holds beside text and files, in words: `a location`, `a poll`; empty = nothing."
    is_album: bool = False
    "Whether it is one of several that were sent as one: more may follow in a moment."


class Edit(Struct, frozen=True, kw_only=True):
    """Somebody changed what they wrote before."""

    id: str
    "Of the message that was changed."
    chat: ChatRef
    sender: Person
    text: str
    at: datetime
    is_addressed: bool = False


class Command(Struct, frozen=True, kw_only=True):
    """Somebody gave one of the commands."""

    id: str
    name: str
    "Lower case, without the slash; may be that of no command."
    argument: str
    chat: ChatRef
    sender: Person
    at: datetime
    is_addressed: bool = False
    "Whether it names this bot, as `/stop@name` or a slash command does."
    is_typed: bool = False
    """Whether its sender typed it as a new message of their own, and surely so.

    Not passed on, changed later, quoted, below a file, written through another bot, or said in the
    name of a chat. An owner's command counts only where it was.
    """
    otherwise: Message | None = None
    """What it is where there is no such command for its sender: the message that it was written as.

    None = it is a command all the same, and answered as one that is not known.
    """
    answer: Callable[[str], Awaitable[None]]
    """Answers it, and only the person who gave it where the platform can do that.

    Text is Markdown of any length. Raises SendError.
    """


class ButtonClick(Struct, frozen=True, kw_only=True):
    """Somebody clicked a button of one of the bot's messages."""

    data: str
    "Of the button."
    chat: ChatRef
    sender: Person
    at: datetime
    answer: Callable[[str], Awaitable[None]]
    "Tells that person a line. Raises SendError. Empty text just ends the waiting sign."


EMOJI_CHARS: Final = 64
"Of a reaction; on Matrix it may be a text of any length, and ids of many are kept."


class Reaction(Struct, frozen=True, kw_only=True):
    """Somebody put a reaction on a message; that it is taken back is not told.

    Hand in those on messages of the bot's alone, where the platform says whose a message is.
    """

    message_id: str
    "Of the message that it stands on."
    emoji: str
    "As people see it; of one of the platform's own the name, `:party:`."
    chat: ChatRef
    sender: Person
    at: datetime

    @property
    def id(self) -> str:
        """What tells it from others of its chat: the same one put there again is the same."""
        return f"reaction {self.message_id} {self.emoji[:EMOJI_CHARS]} {self.sender.id}"


InboundEvent: TypeAlias = Message | Edit | Command | ButtonClick | Reaction


class ChatMoved(Struct, frozen=True, kw_only=True):
    """A chat has another id from now on; it comes before all that comes under the new one."""

    old: str
    new: str


class InboundHandler(Protocol):
    """Where an adapter hands in what it receives."""

    async def handle(self, event: InboundEvent) -> None:
        """Deal with one event; return when it is durable, or settled that it never will be.

        Only then the adapter may confirm it to the platform. Calls for one chat have to be made one
        after the other, in the order of the platform; different chats may overlap.
        Never raises for what a person sent. The same event twice does no harm.

        Raises:
            NotNowError: It cannot be taken now. Do not confirm it, nor hand in what follows it in
                its chat; hand it in again after `retry_after_s`, for as long as it takes.
        """
        ...

    async def suggestions(self, command: Command) -> Sequence[str]:
        """Return how the argument of a command that is still being typed may go on; maybe nothing.

        Changes nothing, and takes no longer than a person waits for a letter.
        """
        ...

    def menu(self) -> Sequence[CommandSpec]:
        """Return the commands that the bot offers, for its menu; `sync_menu` shows it.

        Those that agents add are among them, so it may change.
        """
        ...

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Say that an event could not be read and is passed over.

        Args:
            kind: What it is on the platform: `MESSAGE_CREATE`.
            fault: What is wrong with it, for the log.
            chat: Where somebody waits for an answer to it; None = nowhere, or it is not known.
        """
        ...

    def blocked(self, chat: str, why: str) -> float:
        """Say that nothing of a chat can be read now; return how long to wait before a new try."""
        ...

    def unblocked(self, chat: str) -> None:
        """Say that a chat can be read again."""
        ...

    async def moved(self, old: str, new: str) -> None:
        """Say that a chat has another id from now on; twice does no harm.

        Returns when it is durable. Say it before anything is handed in that came under the new id.
        Go on to use the platform's own ids: they are translated here.

        Raises:
            NotNowError: It cannot be kept now; as `handle`.
        """
        ...

    async def deleted(self, chat: str, message_id: str) -> None:
        """Say that a message was deleted on its platform: while it waits, nobody answers it.

        What was read by then stays read. Say it in the order of the chat. Never raises for what is
        not known; twice does no harm.
        """
        ...

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Say that what the bot said does not get there, so that its owner is told.

        What `send` raises is known anyway. This is for what the platform says later on, and for
        what has to wait for people.

        Args:
            chat: Where.
            why: In the platform's words.
            is_lost: Whether it never will; else it waits, and `send` is asked again.
        """
        ...

    def deliverable(self, chat: str) -> None:
        """Say that what had to wait for people can be sent in a chat again, before what follows."""
        ...

    async def people(self) -> Sequence[str]:
        """Return the ids of those who are let in by name in private chats: paired, or listed."""
        ...

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        """Return whether the bot follows the invitation of a person into a chat.

        It does where somebody would be answered there: who invites may talk to an agent, or would
        be given a code to be let in, or the group is listed. Changes nothing, and tells nobody.

        Args:
            person: Who invites.
            chat: Where.
            is_direct: Whether it is to be a chat of the two alone.
        """
        ...

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Say that `count` messages of a chat were not read, so that somebody is told."""
        ...

    def received(self) -> None:
        """Say that the platform was heard from just now, though it may have had nothing to say.

        A channel that has not been heard from for a while counts as broken.
        """
        ...

    def connected(self, account: str) -> None:
        """Say that the login worked, and under which name (`@my_bot`)."""
        ...

    def needs_login(self, text: str, qr: str) -> None:
        """Say what its owner has to do before `connected`; `qr` is for a QR code, or empty."""
        ...

    def cursor(self, name: str) -> str:
        """Return what was kept under `name`, for this channel; empty = nothing yet."""
        ...

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep `value` under `name`, in memory at once and durably within seconds.

        Only for what was taken: after a crash an older value may come back.
        """
        ...

    @property
    def is_new(self) -> bool:
        """Whether this channel never ran before: then nothing old is read."""
        ...


# --- what goes out -------------------------------------------------------------------------------


class Adapter(Protocol):
    """A platform on which people write to agents: one bot on it.

    To write one:

    1. Subclass it, set `name`, and implement `serve` and `send`. All else has an answer already,
       for a platform that takes texts and can do nothing more.
    2. `serve` logs in and calls `handler.connected`. It runs until it is cancelled. Where it
       raises, it is called again after a pause: `SetupError` where its owner has to change
       something, `ConnectionLostError` where the platform is away.
    3. In it, open the queues of your chats with `open_chat_queues`, and put a `PlatformEvent` for
       whatever comes. They keep the order of each chat, try again what cannot be taken now, and
       pass over what cannot be read. Call `handler.received` whenever the platform is heard from.
    4. A message has an id that is the same whenever it comes: what comes twice counts once. Tell
       the platform that you have it in `PlatformEvent.confirm`: then it is on disk. Where your
       platform forgets nothing, keep a cursor (`handler.keep_cursor`) in `advance` instead; where
       it has one cursor for all chats, move that by a `Watermark`.
    5. After a restart or a gap read what was missed from the cursor: `queues.catch_up(Gap(...))`,
       within the bounds of a `History`. Where the channel `is_new`, read nothing old.
    6. `send` sends one piece and returns what the platform calls it, which must not be empty. Say
       truthfully what went wrong: `NotSentError` where it may be tried again, `UnknownOutcomeError`
       where it was perhaps sent, `RefusedError` where it never will be. Do not try again yourself,
       and see to it that your library does not.
    7. Override `capabilities` for what the platform can do besides, and implement what belongs to
       it: `edit` with `edits`, `show_draft` with `drafts`, `type` with `typing_s`, `react` with
       `reactions`. Override `render` where it has a formatting of its own.
    8. Hold it to its contract: `everturn.testing.ChannelContract`.

    `serve` and all others run at the same time, for several chats at once.
    """

    name: str
    "Of the channel, as conversations and settings have it: lower-case letters, digits, hyphens."

    @property
    def platform(self) -> str:
        """`telegram`, `discord`, or the name of a plug-in; by default the name of the channel."""
        return self.name

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do; by default it takes texts."""
        return Capabilities()

    @abstractmethod
    async def serve(self, handler: InboundHandler) -> None:
        """Log in and hand in what comes, until cancelled. Called again after it raised.

        Raises:
            SetupError: Its owner has to change something; the text says what.
            ConnectionLostError: The platform cannot be reached.
        """
        ...

    async def stand_by(self) -> None:
        """Log in to send alone, until cancelled: another process receives. Called again as `serve`.

        By default nothing can be sent meanwhile; then several gateways cannot share the channel.

        Raises:
            SetupError, ConnectionLostError: As `serve` raises them.
        """
        await anyio.sleep_forever()

    async def check(self) -> Sequence[str]:
        """Log in, look at what may be wrong, log out; return a line for each thing found.

        A line that begins with `problem: ` needs its owner; others are for information.

        Raises:
            SetupError: It cannot work at all.
            ConnectionLostError: The platform cannot be reached.
        """
        return ()

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Return a text as payloads of at most the platform's size each, in order. Pure.

        Formatting is intact in each of them. `is_plain` takes the text as it stands. A text without
        anything to show gives none. By default a payload is Markdown as it is.
        """
        return split_text(markdown, self.capabilities.chunk_units, "characters", is_plain=is_plain)

    @abstractmethod
    async def send(self, message: Outbound) -> str:
        """Send a message; return what the platform calls it.

        A payload whose formatting the platform refuses goes as plain text. Nothing is sent again
        by the adapter or its library unless it is sure that it was not sent before.

        Raises:
            NotSentError: Not sent, and may be tried again; also while `serve` is not connected.
            UnknownOutcomeError: Perhaps sent.
            RefusedError: It never will be.
            ChatMovedError: Not here, but under another id of the chat. Any method may raise it.
        """
        ...

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Put a payload in the place of a message of the bot, and take its buttons away.

        The same once more does no harm.

        Raises:
            NotSentError, UnknownOutcomeError: It may be tried again.
            RefusedError: The message is gone, or cannot be changed any more.
        """
        del chat_id, topic, platform_id, payload
        raise RefusedError(_CANNOT.format(self.platform, "change messages"))

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show `text` as a draft, where `capabilities.drafts`; the same number replaces it.

        `draft` is above 0. `text` is plain, of any length: its end is shown.

        Raises:
            SendError: It could not be shown.
        """
        del chat_id, topic, draft, text
        raise RefusedError(_CANNOT.format(self.platform, "show drafts"))

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator once.

        Raises:
            SendError: It could not be shown.
        """
        del chat_id, topic
        raise RefusedError(_CANNOT.format(self.platform, "show that somebody types"))

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction of the bot on somebody's message, in the place of its last; empty: none.

        Raises:
            SendError: It could not be done.
        """
        del chat_id, message_id, emoji
        raise RefusedError(_CANNOT.format(self.platform, "react"))
