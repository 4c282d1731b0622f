"""The commands people give in a chat, and what they are answered. None of them waits for a turn.

After a crash a platform may hand in again what it was not told of, commands as well. One that ends
something is therefore noted in the conversation, under its own name: done a second time it would
end what began after it.
"""

from __future__ import annotations

from typing import Final

from everturn_actors.errors import (
    ContextDoesNotFitError,
    InvalidInputError,
    NothingToRetryError,
    SessionEndedError,
    UnknownMessageError,
    UnknownSessionError,
)
from everturn_actors.model import AmbientMessage, AnyMessage, ConversationKey, OpenTurn, Turn
from everturn_channels.adapter import Command
from everturn_channels.channel_context import ChannelContext
from everturn_channels.inbound.receiver import message_key
from everturn_channels.inbound.reports import compacted_text, context_text, status_text
from everturn_channels.keeping import PinnedMessage, newest_with, nothing_to_pin, pins_text
from everturn_channels.languages import t
from everturn_channels.menu import COMMANDS
from everturn_channels.texts import (
    help_text,
    no_session,
    reset_done,
    retry_begun,
    search_what,
    sentence,
    start_text,
    stop_done,
    undo_done_before,
    unknown_command,
)

_KNOWN: Final = frozenset(str(name) for name, _ in COMMANDS)
SEARCH_CHARACTERS: Final = 500  # of what is looked for
_HANDED_ON: Final = 1  # the number of what a session knows from the one before it
_ABOUT_AGENT: Final = frozenset(("start", "help", "model", "search", "memory"))


def is_known(name: str) -> bool:
    """Return whether there is a command of this name."""
    return name in _KNOWN


def is_about_session(name: str) -> bool:
    """Return whether a command of this name looks at the conversation, and not at the agent."""
    return is_known(name) and name not in _ABOUT_AGENT


async def answer_to(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    """Do what a command says; return what its sender is told, as Markdown.

    `/compact` may take as long as a model does, the others a moment.

    Raises:
        UnknownAgentError: The agent of the conversation is gone.
        MailboxFullError, ActorStoppedError, ActorFailedError, JournalError: It cannot be done now.
    """
    match command.name:
        case "start":
            return start_text(key.agent, context.describe_agent(key.agent))
        case "help":
            return help_text()
        case "model":
            return context.describe_model(key.agent)
        case "search":
            words = command.argument.strip()[:SEARCH_CHARACTERS]
            return await context.search(key, words) if words else search_what()
        case "memory":
            return await context.memory(key, command.argument, command.sender.id)
        case name if not is_known(name):
            return unknown_command(name)
        case name:
            session_id = await context.service.conversations.current(key)
            if session_id:
                try:
                    return await _in_session(command, session_id, context)
                except (UnknownSessionError, SessionEndedError):
                    pass  # it ended just now
            return reset_done(had_session=False) if name == "reset" else no_session()


async def _in_session(command: Command, session_id: str, context: ChannelContext) -> str:
    """Return the answer to a command about the conversation as it stands."""
    service = context.service
    match command.name:
        case "reset":
            return await _reset(command, session_id, context)
        case "stop":
            return await _stop(command, session_id, context)
        case "retry":
            return await _retry(command, session_id, context)
        case "compact":
            try:
                return compacted_text(await service.compact(session_id, command.argument.strip()))
            except InvalidInputError as error:
                return t("I cannot do that: {reason}.", reason=str(error))
        case "pin" | "unpin":
            return await _pin(command, session_id, context)
        case "undo":
            return await _undo(command, session_id, context)
        case "context":
            try:
                return context_text(await service.reader.context(session_id))
            except ContextDoesNotFitError as error:
                return t("No request would fit: {reason}", reason=str(error))
        case _:
            state = await service.view(session_id)
            return status_text(state, in_queue=bool(service.activity.waiting_for(session_id)))


async def _pin(command: Command, session_id: str, context: ChannelContext) -> str:
    """Pin a message, or take a pin off; return what is pinned then."""
    conversations, state = context.service.conversations, await context.service.view(session_id)
    pins, words = state.pins, command.argument.strip()
    if words:
        running = () if state.open_turn is None else (state.open_turn,)
        turns: tuple[Turn | OpenTurn, ...] = (*state.held_turns, *running)
        said = ((m.seq, m.text) for turn in reversed(turns) for m in reversed(_messages(turn)))
        of_pins = ((pin.seq, pin.text) for pin in reversed(pins))
        seq = newest_with(words, said if command.name == "pin" else of_pins)
        if not seq:
            return nothing_to_pin()
        change = conversations.pin if command.name == "pin" else conversations.unpin
        try:
            pins = await change(session_id, seq, by=command.sender.id)
        except UnknownMessageError:
            return nothing_to_pin()
        except InvalidInputError as error:
            return t("I cannot do that: {reason}.", reason=str(error))
    return pins_text([PinnedMessage(seq=p.seq, who=p.who, text=p.text) for p in pins])


def _messages(turn: Turn | OpenTurn) -> tuple[AnyMessage, ...]:
    replies = (message for step in turn.steps for message in step.messages)
    return (*turn.heard, *replies)


async def _reset(command: Command, session_id: str, context: ChannelContext) -> str:
    """End a session, unless it began after the command was done."""
    service, state = context.service, await context.service.view(session_id)
    note = _note(command, state.key)
    noted_at = state.seen.get(note.idempotency_key, 0)
    if noted_at != _HANDED_ON:  # where it was noted in this session, it was not done
        if not noted_at:
            await service.store_ambient(note)
        await service.reset(session_id, by=command.sender.id)
    return reset_done()


async def _undo(command: Command, session_id: str, context: ChannelContext) -> str:
    """Take files back, unless the command was done before: then it was another turn's."""
    service, state = context.service, await context.service.view(session_id)
    note = _note(command, state.key)
    if note.idempotency_key in state.seen:
        return undo_done_before()
    await service.store_ambient(note)
    return await context.undo(state.key.agent, session_id)


async def _stop(command: Command, session_id: str, context: ChannelContext) -> str:
    """End the running turn, unless the command was done before: then it was another turn."""
    service, state = context.service, await context.service.view(session_id)
    note = _note(command, state.key)
    if note.idempotency_key in state.seen:
        return stop_done(was_running=True)
    was_running = await service.cancel(session_id, by=command.sender.id)
    await service.store_ambient(note)
    return stop_done(was_running=was_running)


async def _retry(command: Command, session_id: str, context: ChannelContext) -> str:
    """Ask the newest turn again; the same command once, as its event carries its name."""
    key = (await context.service.view(session_id)).key
    try:
        await context.service.retry(session_id, idempotency_key=message_key(key, command.id))
    except NothingToRetryError as error:
        return sentence(str(error))
    return retry_begun()


def _note(command: Command, key: ConversationKey) -> AmbientMessage:
    """Return what says in the log that a command was done; no model ever reads it."""
    return AmbientMessage(
        text=f"/{command.name}",
        key=key,
        sender=command.sender.id,
        idempotency_key=message_key(key, command.id),
        shown=False,
    )
