"""The commands people give in a chat, and what they are answered. None of them waits for a turn."""

from __future__ import annotations

from typing import Final

from everturn_actors.errors import (
    ContextDoesNotFitError,
    InvalidInputError,
    SessionEndedError,
    UnknownSessionError,
)
from everturn_actors.model import ConversationKey
from everturn_channels.adapter import Command
from everturn_channels.hall import Hall
from everturn_channels.inbound.reports import compacted_text, context_text, status_text
from everturn_channels.menu import COMMANDS
from everturn_channels.wording import (
    help_text,
    no_session,
    reset_done,
    start_text,
    stop_done,
    unknown_command,
)

_KNOWN: Final = frozenset(str(name) for name, _ in COMMANDS)
_ABOUT_AGENT: Final = frozenset(("start", "help", "model"))


def is_known(name: str) -> bool:
    """Return whether there is a command of this name."""
    return name in _KNOWN


def is_about_session(name: str) -> bool:
    """Return whether a command of this name looks at the conversation, and not at the agent."""
    return is_known(name) and name not in _ABOUT_AGENT


async def answer_to(command: Command, key: ConversationKey, hall: Hall) -> str:
    """Do what a command says; return what its sender is told, as Markdown.

    `/compact` may take as long as a model does, the others a moment.

    Raises:
        UnknownAgentError: The agent of the conversation is gone.
        MailboxFullError, ActorStoppedError, ActorFailedError, JournalError: It cannot be done now.
    """
    match command.name:
        case "start":
            return start_text(key.agent, hall.describe_agent(key.agent))
        case "help":
            return help_text()
        case "model":
            return hall.describe_model(key.agent)
        case name if not is_known(name):
            return unknown_command(name)
        case name:
            session_id = await hall.service.current(key)
            if session_id:
                try:
                    return await _in_session(command, session_id, hall)
                except (UnknownSessionError, SessionEndedError):
                    pass  # it ended just now
            return reset_done(had_session=False) if name == "reset" else no_session()


async def _in_session(command: Command, session_id: str, hall: Hall) -> str:
    """Return the answer to a command about the conversation as it stands."""
    service = hall.service
    match command.name:
        case "reset":
            await service.reset(session_id)
            return reset_done()
        case "stop":
            return stop_done(was_running=await service.cancel(session_id))
        case "compact":
            try:
                return compacted_text(await service.compact(session_id, command.argument.strip()))
            except InvalidInputError as error:
                return f"I cannot do that: {error}."
        case "context":
            try:
                return context_text(await service.context(session_id))
            except ContextDoesNotFitError as error:
                return f"No request would fit: {error}"
        case _:
            return status_text(await service.view(session_id))
