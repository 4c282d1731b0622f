"""What stands behind every channel: the service, and who may use it. A value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import ChosenModel, ConversationKey
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_channels.access.owners import Owner
from everturn_channels.access.pairing import Pairing
from everturn_channels.command_registry import CommandSpec
from everturn_channels.languages import Language
from everturn_channels.models import AgentModels
from everturn_channels.prompts import OfferedPrompt
from everturn_channels.settings import AccessRules, Route


def _any_language(agent: str) -> Language | None:
    del agent
    return None


def _no_usage(is_asked: Callable[[str], bool]) -> str:
    del is_asked
    return "Nobody counts what is used."


def _no_commands(agent: str) -> Sequence[CommandSpec]:
    del agent
    return ()


async def _no_remind(key: ConversationKey, argument: str, name: str) -> str:
    del key, argument, name
    return "Nobody keeps a clock."


async def _no_prompts(agent: str) -> Sequence[OfferedPrompt]:
    del agent
    return ()


async def _fill_no_prompt(agent: str, name: str, arguments: Mapping[str, str]) -> str:
    del agent, arguments
    msg = f"there is no prompt {name!r}"
    raise InvalidInputError(msg)


async def _no_undo(agent: str, session_id: str) -> str:
    del agent, session_id
    return "Nobody keeps what files were before."


async def _no_search(key: ConversationKey, text: str) -> str:
    del key, text
    return "Nobody keeps an index of what was said."


async def _no_memory(key: ConversationKey, argument: str, sender: str) -> str:
    del key, argument, sender
    return "Nobody keeps notes."


class ChannelContext(Struct, frozen=True, kw_only=True):
    """What all channels share. The callables are asked anew each time: agents are reloaded."""

    service: TurnService
    clock: Clock
    routes: Callable[[], Sequence[Route]]
    "The first that matches decides."
    rules: Callable[[str], AccessRules | None]
    "Who may talk to an agent, by its name; None = there is no such agent."
    describe_agent: Callable[[str], str]
    "Who the agent is, in a line or two for people; empty = nothing is told."
    models: Callable[[str], Awaitable[AgentModels]]
    "Which model an agent uses, by its name, and which it could. Raises UnknownAgentError."
    named_model: Callable[[str, str], Awaitable[ChosenModel]]
    """Returns the model that somebody names, for an agent.

    Raises UnknownAgentError, and InvalidInputError where there is none."""
    set_model: Callable[[str, ChosenModel, str], Awaitable[None]]
    """Has an agent use another model; who wants it comes last.

    Raises UnknownAgentError, and InvalidInputError where it cannot."""
    language: Callable[[str], Language | None] = _any_language
    "The language that an agent speaks, by its name; None = that of whoever it speaks to."
    agents: Callable[[], Sequence[str]] = tuple
    "The names of all agents."
    owners: Callable[[], Sequence[Owner]] = tuple
    "Who may act from private chats; by default nobody."
    describe_usage: Callable[[Callable[[str], bool]], str] = _no_usage
    "What those agents used today whose name is asked for, for people."
    save_file: Callable[[str, str, bytes], Awaitable[str | None]]
    """Puts a file where the tools of an agent can read it: its name, a file name, the bytes.

    Returns the path as the tools know it; None where the agent has no such tools. The same name
    always comes with the same bytes. Raises OSError.
    """
    undo: Callable[[str, str], Awaitable[str]] = _no_undo
    "Takes back the files of the last turn of a session that changed some; says so to people."
    search: Callable[[ConversationKey, str], Awaitable[str]] = _no_search
    "Returns what was said in a conversation that fits a question or words, as Markdown."
    memory: Callable[[ConversationKey, str, str], Awaitable[str]] = _no_memory
    """Does what stands after `/memory`, for a sender; returns what they are told, as Markdown."""
    commands: Callable[[str], Sequence[CommandSpec]] = _no_commands
    "The commands that an agent adds, by its name."
    remind: Callable[[ConversationKey, str, str], Awaitable[str]] = _no_remind
    """Does what stands after `/remind`, once for each name of a command, which comes last; returns
    what its sender is told, as Markdown."""
    prompts: Callable[[str], Awaitable[Sequence[OfferedPrompt]]] = _no_prompts
    "What MCP servers of an agent have for people to send. Raises UnknownAgentError."
    fill_prompt: Callable[[str, str, Mapping[str, str]], Awaitable[str]] = _fill_no_prompt
    """Returns the text of an agent's prompt, by its name, with its places filled in.

    Nobody vouches for it. Raises UnknownAgentError, and InvalidInputError where there is none."""
    pairing: Pairing
