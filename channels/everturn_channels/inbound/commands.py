"""The commands people give in a chat, and what they are answered. None of them waits for a turn.

After a crash a platform may hand in again what it was not told of, commands as well. One that ends
something is therefore noted in the conversation, under its own name: done a second time it would
end what began after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from everturn_actors.errors import (
    ContextDoesNotFitError,
    InvalidInputError,
    NothingToRetryError,
    SessionEndedError,
    UnknownMessageError,
    UnknownSessionError,
)
from everturn_actors.model import (
    AmbientRules,
    AnyMessage,
    ConversationKey,
    IncomingMessage,
    OpenTurn,
    Turn,
)
from everturn_actors.ports import SessionFilter
from everturn_channels.access.owners import find_owner
from everturn_channels.adapter import Command
from everturn_channels.channel_context import ChannelContext
from everturn_channels.inbound.reports import compacted_text, context_text, status_text, used_text
from everturn_channels.inbound.submission_rules import message_key
from everturn_channels.keeping import (
    PinnedMessage,
    newest_with,
    nothing_pinned,
    nothing_to_pin,
    pins_text,
)
from everturn_channels.languages import t
from everturn_channels.texts import (
    no_session,
    nothing_to_retry,
    own_sessions_text,
    reset_done,
    retry_begun,
    search_what,
    start_text,
    stop_done,
    undo_done_before,
    whoami_text,
)

SEARCH_CHARACTERS: Final = 500  # of what is looked for
SESSIONS_SHOWN: Final = 10
SESSIONS_LOOKED_AT: Final = 500  # to find those of one chat
_HANDED_ON: Final = 1  # the number of what a session knows from the one before it


async def answer_to(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    """Do what a command says; return what its sender is told, as Markdown.

    `/compact` may take as long as a model does, the others a moment. `command.name` is that of one
    of the commands that everybody has, but `prompt`.

    Raises:
        UnknownAgentError: The agent of the conversation is gone.
        MailboxFullError, ActorStoppedError, ActorFailedError, JournalError: It cannot be done now.
    """
    about_agent = _ABOUT_AGENT.get(command.name)
    if about_agent is not None:
        return await about_agent(command, key, context)
    session_id = await context.service.conversations.current(key)
    if session_id:
        try:
            return await _IN_SESSION[command.name](command, session_id, context)
        except (UnknownSessionError, SessionEndedError):
            pass  # it ended just now
    return reset_done(had_session=False) if command.name == "reset" else no_session()


# --- about the agent, and who talks with it ---


async def _start(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    del command
    return start_text(key.agent, context.describe_agent(key.agent))


async def _search(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    words = command.argument.strip()[:SEARCH_CHARACTERS]
    return await context.search(key, words) if words else search_what()


async def _memory(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    return await context.memory(key, command.argument, command.sender.id)


async def _remind(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    return await context.remind(key, command.argument, message_key(key, command.id))


async def _sessions(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    """Return the sessions that were held in a chat with its agent."""
    del command
    wanted = SessionFilter(agents=frozenset((key.agent,)), channel=key.channel)
    reader = context.service.reader
    rows = await reader.sessions(limit=SESSIONS_LOOKED_AT, wanted=wanted)
    here = [row for row in rows if row.key == key]
    if not here and (current := await context.service.conversations.current(key)):
        # It goes on, though many began elsewhere since.
        here = [row for row in (await reader.summary(current),) if row is not None]
    is_whole = len(rows) < SESSIONS_LOOKED_AT and len(here) <= SESSIONS_SHOWN
    return own_sessions_text(here[:SESSIONS_SHOWN], is_whole=is_whole)


async def _who_am_i(command: Command, key: ConversationKey, context: ChannelContext) -> str:
    """Return who somebody is to the gateway: what its owner needs to let them in anywhere."""
    owner = find_owner(context.owners(), key.channel, command.sender)
    is_owner = owner is not None and owner.owns(key.agent)
    return whoami_text(command.sender, key, is_owner=is_owner)


# --- about the conversation ---


async def _compact(command: Command, session_id: str, context: ChannelContext) -> str:
    try:
        done = await context.service.compact(session_id, command.argument.strip())
    except InvalidInputError as error:
        return t("I cannot do that: {reason}.", reason=str(error))
    return compacted_text(done)


async def _context(command: Command, session_id: str, context: ChannelContext) -> str:
    del command
    try:
        return context_text(await context.service.reader.context(session_id))
    except ContextDoesNotFitError as error:
        return t("No request would fit: {reason}", reason=str(error))


async def _status(command: Command, session_id: str, context: ChannelContext) -> str:
    del command
    service = context.service
    in_queue = bool(service.activity.waiting_for(session_id))
    return status_text(await service.view(session_id), in_queue=in_queue)


async def _usage(command: Command, session_id: str, context: ChannelContext) -> str:
    del command
    return used_text((await context.service.view(session_id)).usage)


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
        if command.name == "unpin" and all(pin.seq != seq for pin in pins):
            return nothing_pinned(words)
        if not seq:
            return nothing_to_pin()
        change = conversations.pin if command.name == "pin" else conversations.unpin
        try:
            pins = await change(session_id, seq, by=command.sender.id)
        except UnknownMessageError:
            return nothing_to_pin()
        except InvalidInputError as error:
            return t("I cannot do that: {reason}.", reason=str(error))
    agent = state.key.agent
    shown = [PinnedMessage(seq=p.seq, who=p.who_for_people(agent), text=p.text) for p in pins]
    return pins_text(shown)


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
            await service.submit(note)
        await service.reset(session_id, by=command.sender.id)
    return reset_done()


async def _undo(command: Command, session_id: str, context: ChannelContext) -> str:
    """Take files back, unless the command was done before: then it was another turn's."""
    service, state = context.service, await context.service.view(session_id)
    note = _note(command, state.key)
    if note.idempotency_key in state.seen:
        return undo_done_before()
    await service.submit(note)
    return await context.undo(state.key.agent, session_id)


async def _stop(command: Command, session_id: str, context: ChannelContext) -> str:
    """End the running turn, unless the command was done before: then it was another turn."""
    service, state = context.service, await context.service.view(session_id)
    note = _note(command, state.key)
    if note.idempotency_key in state.seen:
        return stop_done(was_running=True)
    was_running = await service.cancel(session_id, by=command.sender.id)
    await service.submit(note)
    return stop_done(was_running=was_running)


async def _retry(command: Command, session_id: str, context: ChannelContext) -> str:
    """Ask the newest turn again; the same command once, as its event carries its name."""
    key = (await context.service.view(session_id)).key
    try:
        await context.service.retry(session_id, idempotency_key=message_key(key, command.id))
    except NothingToRetryError as error:
        return nothing_to_retry(str(error))
    return retry_begun()


def _note(command: Command, key: ConversationKey) -> IncomingMessage:
    """Return what says in the log that a command was done; no model ever reads it."""
    return IncomingMessage(
        text=f"/{command.name}",
        kind="ambient",
        key=key,
        sender=command.sender.id,
        idempotency_key=message_key(key, command.id),
        ambient=AmbientRules(shown="never"),
    )


_OfAgent: TypeAlias = Callable[[Command, ConversationKey, ChannelContext], Awaitable[str]]
_OfSession: TypeAlias = Callable[[Command, str, ChannelContext], Awaitable[str]]
_ABOUT_AGENT: Final[Mapping[str, _OfAgent]] = {
    "start": _start,
    "search": _search,
    "memory": _memory,
    "remind": _remind,
    "sessions": _sessions,
    "whoami": _who_am_i,
}
_IN_SESSION: Final[Mapping[str, _OfSession]] = {
    "reset": _reset,
    "stop": _stop,
    "retry": _retry,
    "compact": _compact,
    "pin": _pin,
    "unpin": _pin,
    "undo": _undo,
    "context": _context,
    "status": _status,
    "usage": _usage,
}
ANSWERED: Final = frozenset((*_ABOUT_AGENT, *_IN_SESSION))
"Names of the commands that `answer_to` knows."
