"""What an adapter hands events to: each goes to whoever deals with its kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn, assert_never

import anyio

from everturn_actors.errors import CoreError, JournalError
from everturn_channels.adapter import (
    ButtonClick,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    Message,
    Person,
    Reaction,
)
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.moved_chats import moved_chat_ref, moved_event, moved_name
from everturn_channels.command_registry import CommandSpec
from everturn_channels.errors import NotNowError
from everturn_channels.inbound.access_control import AccessControl
from everturn_channels.inbound.backlog import Backlog
from everturn_channels.inbound.command_handler import CommandHandler
from everturn_channels.inbound.event_resolver import EventResolver
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.owners.delivery_notices import DeliveryNotices
from everturn_channels.inbound.owners.question_notices import QuestionNotices
from everturn_channels.inbound.platform_status import PlatformStatus
from everturn_channels.inbound.reactions import Reactions
from everturn_channels.inbound.receiver import Receiver
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.languages import ready, speaking
from everturn_channels.rate_limits import RecentKeys


class ChannelInboundHandler(PlatformStatus):
    """The handler of one channel; see `InboundHandler`."""

    def __init__(self, channel: RunningChannel, tasks: BackgroundTasks) -> None:
        """Handle what comes of `channel`; `tasks` runs what nobody waits for."""
        adapter, context, health = channel.adapter, channel.context, channel.health
        super().__init__(channel)
        self._chat_types, self._limits = channel.chat_types, channel.limits
        self._languages = channel.languages
        self._languages.keep_in(channel.cursors)
        self._context = context
        self._notifier = Notifier(
            adapter, tasks=tasks, limiter=channel.limiter, clock=context.clock, health=health
        )
        self._access = AccessControl(channel)
        self._receiver = Receiver(channel, tasks, self._notifier, self._access)
        self._commands = CommandHandler(
            channel=adapter.name,
            context=context,
            tasks=tasks,
            notifier=self._notifier,
            access=self._access,
            say=self._receiver.say,
        )
        click = partial(self._commands.click, waits=True)
        self._reactions = Reactions(channel, self._access, self._receiver, click)
        self._notices = QuestionNotices(channel, self._notifier)
        self._undelivered = DeliveryNotices(
            channel, self._access, notifier=self._notifier, tasks=tasks
        )
        self._backlog = Backlog(
            channel,
            tasks=tasks,
            notifier=self._notifier,
            is_known=partial(_is_known, self._access, context),
        )
        self._resolved: RecentKeys[tuple[str, str, str]] = RecentKeys()
        self._resolver = EventResolver(
            self._receive,
            channel=adapter.name,
            clock=context.clock,
            health=health,
            notifier=self._notifier,
            tasks=tasks,
        )
        self._knows_agents = False
        "Whether what owners chose of agents was read in the present try."

    def begin(self) -> None:
        """As `PlatformStatus.begin`; what owners chose is read anew, with the first event."""
        super().begin()
        self._knows_agents = False

    # --- what arrives ---

    async def handle(self, event: InboundEvent) -> None:
        """Deal with one event. See `InboundHandler.handle`."""
        self.received()
        self._health.count_in()
        if not self._knows_agents:
            await self._read_agents(event.chat.id)
        if isinstance(event, Command):  # by its own name, or the message that it is
            event = self._commands.meant(event, moved_chat_ref(event.chat, self._aliases))
        # Before anything goes by the chat's id.
        event = moved_event(event, self._aliases)
        self._chat_types.note(event.chat)
        name = _name_of(event)
        if name is not None and name in self._resolved:
            return  # it was taken, and its platform did not hear so
        key = self._access.key_of(event.chat, event.sender)
        agent = key.agent if key is not None else ""
        language = await self._languages.heard(event.chat, event.sender, agent)
        with speaking(await ready(language)):
            await self._resolver.resolve(event)
        if name is not None:
            self._resolved.note(name)  # not before: one that failed comes again
        await self._notices.heard(event)  # an owner who writes can be told what waits

    async def _read_agents(self, chat: str) -> None:
        """Read which agents owners chose: without it, another one might answer.

        Raises:
            NotNowError: It cannot be read now.
        """
        try:
            await self._context.pairing.agents.load()
        except JournalError as error:
            why = f"which agent answers there cannot be read: {error}"
            raise NotNowError(why, retry_after_s=self.blocked(chat, why)) from error
        self._knows_agents = True
        self.unblocked(chat)

    async def suggestions(self, command: Command) -> Sequence[str]:
        """Return how a command may go on. See `InboundHandler.suggestions`."""
        moved = moved_event(command, self._aliases)
        return await self._commands.suggestions(moved) if isinstance(moved, Command) else ()

    async def bring_questions(self) -> NoReturn:
        """Bring questions that nobody answers to owners who want that, until cancelled."""
        await self._notices.run()

    def menu(self) -> Sequence[CommandSpec]:
        """Return what the bot offers. See `InboundHandler.menu`."""
        return self._commands.menu()

    async def _receive(self, event: InboundEvent) -> None:
        """Have an event taken, unless nobody waits for it any more."""
        if self._backlog.leaves_out(event):
            return
        match event:
            case Message():
                await self._receiver.message(event)
            case Edit():
                with anyio.fail_after(self._limits.take_s):
                    await self._receiver.edit(event)
            case Command():
                with anyio.fail_after(self._limits.take_s):
                    await self._commands.command(event)
            case ButtonClick():
                with anyio.fail_after(self._limits.take_s):
                    await self._commands.click(event)
            case Reaction():
                await self._reactions.take(event)
            case _:
                assert_never(event)

    async def deleted(self, chat: str, message_id: str) -> None:
        """Take a message back that waits. See `InboundHandler.deleted`."""
        await self._receiver.delete(*moved_name(chat, message_id, self._aliases))

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Tell the owners that something does not get there. See `InboundHandler.undelivered`."""
        self._undelivered.tell(chat, why, is_lost=is_lost)

    async def people(self) -> tuple[str, ...]:
        """Return who is let in by name. See `InboundHandler.people`."""
        return await self._access.people()

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        """Return whether an invitation is followed. See `InboundHandler.welcomes`."""
        return await self._access.welcomes(
            ChatRef(id=chat, type="dm" if is_direct else "group"), Person(id=person)
        )

    # --- what is left out ---

    async def moved(self, old: str, new: str) -> None:
        """Keep that a chat has another id. See `InboundHandler.moved`."""
        try:
            await self._aliases.add(old, new)
        except JournalError as error:
            why = f"that a chat has another id cannot be kept: {error}"
            wait_s = self.blocked(old, why)
            # Without it, messages would begin another conversation.
            raise NotNowError(why, retry_after_s=wait_s) from error
        self.unblocked(old)

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Count messages that were not read, and tell of them. See `InboundHandler.skipped`."""
        self._backlog.skip(moved_chat_ref(chat, self._aliases), count, why)

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Count what could not be read, and tell of it. See `InboundHandler.unreadable`."""
        self._backlog.unreadable(kind, fault, moved_chat_ref(chat, self._aliases) if chat else None)


def _name_of(event: InboundEvent) -> tuple[str, str, str] | None:
    """Return what tells an event from all others; None for those that may come again."""
    match event:
        case Message() | Command() | Reaction():
            return type(event).__name__, event.chat.id, event.id
        case Edit() | ButtonClick():
            return None
        case _:
            assert_never(event)


async def _is_known(access: AccessControl, context: ChannelContext, chat: ChatRef) -> bool:
    """Whether a conversation goes on in a chat."""
    key = access.key_of(chat)
    if key is None:
        return False
    try:
        return bool(await context.service.conversations.current(key))
    except CoreError:
        return False
