"""What becomes of commands and buttons that arrive: they are answered at once, also in a turn."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio
from msgspec.structs import replace

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    CoreError,
    CorruptJournalError,
    InvalidInputError,
    MailboxFullError,
    SessionQuarantinedError,
    UnknownAgentError,
    UnknownFormatError,
    UnusableModelError,
)
from everturn_actors.model import ConversationKey
from everturn_channels.access.pairing import PairingError
from everturn_channels.adapter import ButtonClick, ChatRef, Command, Message
from everturn_channels.channel_context import ChannelContext
from everturn_channels.command_registry import (
    CommandSpec,
    Place,
    command_named,
    commands_for,
)
from everturn_channels.inbound.access_control import (
    DAMAGED,
    FAILING,
    LATER,
    NOT_AVAILABLE,
    AccessControl,
    Admission,
    log_damaged,
)
from everturn_channels.inbound.button_clicks import answer_click
from everturn_channels.inbound.commands import answer_to
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.owners.agent_command import AgentCommand
from everturn_channels.inbound.owners.commands import OwnerAnswer, OwnerCommands, owners_command
from everturn_channels.inbound.owners.model_command import ModelCommand
from everturn_channels.inbound.owners.texts import IN_PRIVATE, PAIRING_FAILS
from everturn_channels.languages import marked
from everturn_channels.prompts import read_prompt
from everturn_channels.texts import (
    click_refused,
    group_allowed,
    group_closed,
    help_text,
    owner_help_text,
    prompt_sent,
    prompts_text,
    sentence,
    unknown_command,
)


class Say(Protocol):
    """Takes what a command says in the name of whoever gave it."""

    async def __call__(
        self, command: Command, text: str, admission: Admission, *, untrusted: bool
    ) -> bool:
        """Return whether it is durable; if not, its sender was told. See `Receiver.say`."""
        ...


Answer = TypeVar("Answer", bound=str | None)

logger = logging.getLogger(__name__)

SUGGEST_S: Final = 2.0  # of the three in which Discord takes them
COMMAND_S: Final = 10.0  # for what a command does; all but /compact take milliseconds
COMPACT_SOON_S: Final = 0.5  # a summary that is ready by then is told of in the answer
COMPACT_S: Final = 600.0  # then nobody is told any more

COMPACTING: Final = marked("Older messages are being summarised. You can go on meanwhile.")
STILL_COMPACTING: Final = marked("The summary takes long; /context shows it when it is ready.")


class CommandHandler:
    """Answers the commands and the buttons of one channel."""

    def __init__(
        self,
        *,
        channel: str,
        context: ChannelContext,
        tasks: BackgroundTasks,
        notifier: Notifier,
        access: AccessControl,
        say: Say,
    ) -> None:
        """Begin with nothing under way.

        Args:
            channel: Its name.
            context: What stands behind all channels.
            tasks: Where what takes long is done.
            notifier: Answers.
            access: Says who may give a command.
            say: Takes what a command says in the name of whoever gave it.
        """
        self._context = context
        self._tasks = tasks
        self._notifier = notifier
        self._access, self._say = access, say
        self._owners = OwnerCommands(
            channel=channel, context=context, tasks=tasks, notifier=notifier
        )
        self._models = ModelCommand(
            channel=channel, context=context, tasks=tasks, notifier=notifier
        )
        self._agents = AgentCommand(channel=channel, context=context, access=access)
        self._fields = {"channel": channel}

    def meant(self, command: Command, chat: ChatRef) -> Command | Message:
        """Return a command by its own name, or the message that it is where there is none such.

        Args:
            command: As it was given.
            chat: Where, by the id that is known here.
        """
        found = self._meaning(command, chat)
        if found is None:
            return command.otherwise or command
        return command if found.name == command.name else replace(command, name=found.name)

    def menu(self) -> tuple[CommandSpec, ...]:
        """Return what the bot offers; see `InboundHandler.menu`."""
        own = (each for agent in self._access.agents() for each in self._context.commands(agent))
        return commands_for("private", own=own)

    def _meaning(self, command: Command, chat: ChatRef) -> CommandSpec | None:
        """Return which command somebody gives; None where there is none for them."""
        if self._is_of_owner(command) and (found := owners_command(command)) is not None:
            return found
        key = self._access.key_of(chat, command.sender)
        own = self._context.commands(key.agent) if key is not None else ()
        return command_named(command.name, _place(chat), own=own)

    def _is_of_owner(self, command: Command) -> bool:
        return command.is_typed and self._owners.owner_of(command.sender) is not None

    async def command(self, command: Command) -> None:
        """Do what a command says and answer it; no turn is waited for."""
        notify = partial(self._notifier.respond, command.answer)
        chat, sender = command.chat, command.sender
        meaning = self._meaning(command, chat)
        is_by_owner = meaning is not None and meaning.who == "owners"
        if is_by_owner and chat.type == "dm":
            await self._command_of_owner(command)
            return
        if is_by_owner and meaning is not None and "group" in meaning.where:
            if not command.is_addressed:
                return  # some other bot may be meant
            owner = self._owners.owner_of(sender)
            if meaning.name == "agent" and owner is not None:
                await notify(await self._agents.answer(command, owner))
            else:
                await notify(await self._open_group(command))
            return
        admission = await self._access.admit(
            chat, sender, is_addressed=command.is_addressed, notify=notify
        )
        if admission is None or admission.decision.action != "answer":
            return
        if is_by_owner:
            await notify(IN_PRIVATE)
            return
        if meaning is None and chat.type != "dm":
            return  # it is some other bot's
        if command.name != "stop" and self._access.is_flood(command):
            await notify(self._access.flood_word(command))
        elif meaning is None:
            await notify(unknown_command(command.name))
        else:
            await notify(await self._answer(command, meaning, admission))

    async def _answer(self, command: Command, meaning: CommandSpec, admission: Admission) -> str:
        """Do a command that everybody may give; return what its sender is told."""
        key, do = admission.key, None
        if meaning.prompt:
            do = partial(self._say_own, command, meaning, admission)
        elif command.name == "help":
            return self._help(command, key.agent)
        elif command.name == "compact":
            return await self._compact(command, key)
        elif command.name == "model":
            do = partial(self._models.answer, command, key)
        elif command.name == "prompt":
            do = partial(self._prompt, command, admission)
        return await self._done(command, key, COMMAND_S, do)

    def _help(self, command: Command, agent: str) -> str:
        commands = commands_for(_place(command.chat), own=self._context.commands(agent))
        if command.chat.type == "dm" and self._owners.owner_of(command.sender) is not None:
            return owner_help_text(commands, commands_for("private", "owners"))
        return help_text(commands)

    async def _open_group(self, command: Command) -> str:
        """Let the agent of a group take part in it, or take that back; return what is told."""
        chat, owner = command.chat, self._owners.owner_of(command.sender)
        key = self._access.key_of(chat, command.sender)
        rules = self._context.rules(key.agent) if key is not None else None
        if key is None or rules is None:
            return group_closed("no route")
        if owner is None or not owner.owns(key.agent):
            return group_closed("not yours")
        if rules.groups.policy == "disabled":
            return group_closed("disabled")
        pairing, ids = self._context.pairing, (chat.id, *chat.aliases)
        try:
            with anyio.fail_after(COMMAND_S):
                if command.name == "allow":
                    await pairing.allow(key.channel, ids, key.agent, by=owner.by)
                else:
                    await pairing.disallow(key.channel, ids, key.agent)
        except (PairingError, TimeoutError) as error:
            logger.warning("an owner could not allow a group", extra={"error": str(error)})
            return PAIRING_FAILS
        extra = {**self._fields, "owner": owner.name, "did": f"/{command.name}", "chat": chat.id}
        logger.info("an owner acted from a chat", extra=extra)
        return group_allowed(is_allowed=command.name == "allow")

    async def _say_own(self, command: Command, meaning: CommandSpec, admission: Admission) -> str:
        """Say what a command of the agent's own stands for, as the words of whoever gave it."""
        text = meaning.prompted(command.argument)
        await self._say(command, text, admission, untrusted=False)
        return ""

    async def suggestions(self, command: Command) -> Sequence[str]:
        """Return how a command that is still being typed may go on: prompts, models.

        Who may not give it is told nothing.
        """
        admission = await self._access.admit(command.chat, command.sender, is_addressed=True)
        if admission is None or admission.decision.action != "answer":
            return ()
        agent, names = admission.key.agent, list[tuple[str, str]]()
        try:
            with anyio.fail_after(SUGGEST_S):
                if command.name == "prompt":
                    prompts = await self._context.prompts(agent)
                    names = [(each.name, each.typed_name) for each in prompts]
                elif command.name == "model":
                    names = [(each, each) for each in await self._models.names(command, agent)]
        except (CoreError, TimeoutError) as error:
            logger.info("nothing to suggest", extra={**self._fields, "error": str(error)})
            return ()
        typed = command.argument.casefold()
        return [each for name, each in names if typed in name.casefold()]

    async def _prompt(self, command: Command, admission: Admission) -> str:
        """Say a prompt in the name of whoever asks for it; return what they are told."""
        agent, typed = admission.key.agent, command.argument.strip()
        if not typed:
            return prompts_text(await self._context.prompts(agent))
        try:
            name, arguments = read_prompt(typed)
            text = await self._context.fill_prompt(agent, name, arguments)
        except InvalidInputError as error:
            return sentence(str(error))
        # A server wrote it, and not whoever typed the command.
        is_taken = await self._say(command, text, admission, untrusted=True)
        return prompt_sent(text) if is_taken else ""

    async def _command_of_owner(self, command: Command) -> None:
        """Do what an owner asks for in private: no route and no rule of an agent is in the way."""
        owner = self._owners.owner_of(command.sender)
        if owner is None:
            return
        if self._access.is_flood(command):
            await self._notifier.respond(command.answer, self._access.flood_word(command))
            return
        fields = {**self._fields, "owner": owner.name, "command": command.name}
        try:
            with anyio.fail_after(COMMAND_S):
                if command.name == "agent":
                    answer = OwnerAnswer(text=await self._agents.answer(command, owner))
                else:
                    answer = await self._owners.answer(command, owner)
        except ActorStoppedError:
            raise
        except (CoreError, TimeoutError) as error:
            logger.warning("an owner's command failed", extra={**fields, "error": str(error)})
            answer = OwnerAnswer(text=LATER)
        await self._notifier.respond(command.answer, answer.text)
        self._owners.show(command.chat, answer.questions)

    async def _compact(self, command: Command, key: ConversationKey) -> str:
        """Begin a summary; return what came of it, or that it will be told of later."""
        told: list[str] = []
        ready = anyio.Event()
        is_late = False

        async def task() -> None:
            told.append(await self._done(command, key, COMPACT_S))
            ready.set()
            if is_late:
                await self._notifier.notify(command.chat, told[0])

        # A little longer than the command itself, which says in words that it took too long.
        if not self._tasks.start("a summary", task, within_s=COMPACT_S + COMMAND_S):
            return LATER
        with anyio.move_on_after(COMPACT_SOON_S):
            await ready.wait()
        if told:
            return told[0]
        is_late = True
        return COMPACTING

    async def _done(
        self,
        command: Command,
        key: ConversationKey,
        within_s: float,
        do: Callable[[], Awaitable[str]] | None = None,
    ) -> str:
        """Do a command; return what its sender is told, also where it fails.

        Args:
            command: The command.
            key: Its conversation.
            within_s: How long it may take.
            do: Does it; by default it is one that every conversation has.

        Raises:
            ActorStoppedError: The gateway stops.
        """
        fields = {**self._fields, "chat": command.chat.id, "command": command.name}
        try:
            with anyio.fail_after(within_s):
                await self._flush(command, key)
                return await (do() if do else answer_to(command, key, self._context))
        except TimeoutError:
            logger.warning("a command took too long", extra=fields)
            return STILL_COMPACTING if command.name == "compact" else LATER
        except UnusableModelError as error:
            return sentence(str(error))
        except UnknownAgentError as error:
            logger.warning("a command has no agent", extra={**fields, "error": str(error)})
            return NOT_AVAILABLE
        except (CorruptJournalError, UnknownFormatError) as error:
            log_damaged(key, error)
            return DAMAGED
        except ActorStoppedError:
            raise
        except CoreError as error:
            logger.warning("a command failed", extra={**fields, "error": str(error)})
            return FAILING if isinstance(error, SessionQuarantinedError) else LATER

    async def _flush(self, command: Command, key: ConversationKey) -> None:
        """Let what was written before the command begin; it stands first."""
        try:
            await self._context.service.conversations.flush(key)
        except (ActorFailedError, SessionQuarantinedError) as error:
            # The command may be the way out of that.
            logger.info("nothing can begin before a command", extra={"error": str(error)})
        except (CorruptJournalError, UnknownFormatError) as error:
            found = command_named(command.name, "private")
            if found is not None and found.is_about_session:
                raise
            log_damaged(key, error)

    async def click(self, click: ButtonClick, *, waits: bool = False) -> None:
        """Answer the question that a button stands below; return when that is durable.

        Whoever clicked is told where that cannot be done now. With `waits` nobody would read it,
        and what `disposition_of` calls a matter of time is raised instead; it comes again then, and
        each try would count as a flood: who waits has counted it.
        """
        notify = partial(self._notifier.respond, click.answer)
        chat, sender = click.chat, click.sender
        owner = self._owners.owner_of(sender)
        if owner is not None:
            if not waits and self._access.is_flood(click):
                await notify(self._access.flood_word(click))
                return
            by_owner = partial(self._owners.click, click, owner)
            told = await self._answered(by_owner, waits=waits)
            if told is not None:
                await notify(told)
                return
        admission = await self._access.admit(chat, sender, is_addressed=True)
        if admission is None or admission.decision.action != "answer":
            await notify(click_refused())
        elif owner is None and not waits and self._access.is_flood(click):
            await notify(self._access.flood_word(click))
        else:
            answer = partial(self._answer_click, click, admission.key)
            await notify(await self._answered(answer, admission.key, waits=waits))

    async def _answer_click(self, click: ButtonClick, key: ConversationKey) -> str:
        with anyio.fail_after(COMMAND_S):
            told = await self._models.click(click, key)
        return await answer_click(click, key, self._context.service) if told is None else told

    async def _answered(
        self,
        answer: Callable[[], Awaitable[Answer]],
        key: ConversationKey | None = None,
        *,
        waits: bool,
    ) -> Answer | str:
        """Answer the question of a button; return what the person is told, also where it fails."""
        try:
            return await answer()
        except (CorruptJournalError, UnknownFormatError) as error:
            log_damaged(key, error)
            return DAMAGED
        except UnknownAgentError as error:
            logger.warning("a button has no agent", extra={**self._fields, "error": str(error)})
            return NOT_AVAILABLE
        except (MailboxFullError, ActorFailedError, TimeoutError) as error:
            if waits:
                raise
            logger.warning("a button failed", extra={**self._fields, "error": str(error)})
            return LATER
        except SessionQuarantinedError as error:
            logger.warning("a button failed", extra={**self._fields, "error": str(error)})
            return FAILING


def _place(chat: ChatRef) -> Place:
    return "private" if chat.type == "dm" else "group"
