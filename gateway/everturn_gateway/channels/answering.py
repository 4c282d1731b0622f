"""What the gateway tells its channels: who answers where, and where their files go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from everturn_actors.errors import InvalidInputError, ToolFailedError, UnknownAgentError
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import TurnService
from everturn_actors.spec import AgentSpec
from everturn_channels.access.pairing import Pairing
from everturn_channels.channel_context import ChannelContext
from everturn_channels.command_registry import CommandSpec
from everturn_channels.keeping import (
    ForgetNote,
    KeepNote,
    KnownNote,
    ShowNotes,
    memory_how,
    memory_text,
    note_forgotten,
    note_hidden,
    note_kept,
    note_proposed,
    note_source,
    note_too_long,
    read_memory_intent,
)
from everturn_channels.languages import Language, language_of, t
from everturn_channels.money import dollars
from everturn_channels.prompts import OfferedPrompt
from everturn_channels.settings import AccessRules, Route
from everturn_channels.texts import sentence, undo_fails, undone_text
from everturn_gateway.channels.reminders import remind
from everturn_gateway.channels.searching import search_conversation
from everturn_gateway.config.owners import missing_agents
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import printable
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.tools.checkpoints import Checkpoints, UnknownCheckpointError
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.inbox import keep_in_inbox
from everturn_gateway.tools.mcp.errors import McpError
from everturn_gateway.tools.mcp.listing import Prompt
from everturn_gateway.tools.memory.editing import OwnNotes, own_notes
from everturn_gateway.tools.memory.people import (
    NOTE_CHARACTERS,
    TOPIC_CHARACTERS,
    PersonNote,
    person_of,
)
from everturn_gateway.usage import DailyLimit, Tally, UsageLedger, total

_USUAL_AGENT: Final = "assistant"


class AgentView(Protocol):
    """One agent as it stands in its folder."""

    @property
    def spec(self) -> AgentSpec:
        """Its values."""
        ...

    @property
    def folder(self) -> Path:
        """Where it was read from."""
        ...

    @property
    def tool_config(self) -> ToolConfig:
        """Its tools."""
        ...

    @property
    def limit(self) -> DailyLimit:
        """What it may use in a day."""
        ...

    @property
    def commands(self) -> tuple[CommandSpec, ...]:
        """The commands that it adds."""
        ...

    @property
    def files(self) -> Path | None:
        """Its workspace; None = a folder of its own in the gateway's."""
        ...


class Library(Protocol):
    """The agents that are loaded."""

    def names(self) -> tuple[str, ...]:
        """Return their names, sorted."""
        ...

    def file(self, name: str) -> AgentView:
        """Return one of them.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    def access(self, name: str) -> AccessRules | None:
        """Return who may talk to one of them; None = there is none of this name."""
        ...

    async def prompts(self, name: str) -> Sequence[Prompt]:
        """Return the prompts of an agent's MCP servers.

        Raises:
            UnknownAgentError: There is no such agent.
        """
        ...

    async def prompt_text(self, name: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text of one, with its places filled in.

        Raises:
            UnknownAgentError: There is no such agent.
            McpError: There is no such prompt, or its server does not say.
        """
        ...


def routes_of(config: Config, agents: Sequence[str]) -> tuple[Route, ...]:
    """Return which agent answers where; without routes, the only one or the usual one.

    Args:
        config: Has the routes.
        agents: The names of all agents.
    """
    if config.routes:
        return config.routes
    if len(agents) == 1:
        return (Route(agent=agents[0]),)
    return (Route(agent=_USUAL_AGENT),) if _USUAL_AGENT in agents else ()


def route_notes(config: Config, agents: Sequence[str]) -> Iterator[str]:
    """Yield where channels lead to nobody, a line each.

    Args:
        config: Has the routes and the channels.
        agents: The names of all agents.
    """
    if not config.channels:
        return
    known = ", ".join(agents) or "none"
    if not routes_of(config, agents):
        yield (
            f"no agent answers on {', '.join(channel.name for channel in config.channels)}:"
            f" say which one under routes in everturn.yaml; agents are: {known}"
        )
    for name in dict.fromkeys(route.agent for route in config.routes):
        if name not in agents:
            yield f"routes name the agent {name!r}, which is not there; agents are: {known}"
    for owner, gone in missing_agents(config.owners, agents).items():
        named = ", ".join(map(repr, gone))
        yield f"the owner {owner} has the agents {named}, which are not there; agents are: {known}"


class AgentAnswers(Struct, frozen=True, kw_only=True):
    """What people are told of agents, and what is kept for them, as their folders say now."""

    library: Library
    "Who answers; agents come and go."
    tool_factory: ToolFactory
    "Knows where the agents' tools work."
    ledger: UsageLedger
    "What agents used of models."
    models: ModelChoices
    "Which models they could have."
    schedules: SchedulerClient | None = None
    "Where reminders are made; None = nobody keeps a clock."
    timezone: str = ""
    "In which people mean times; empty = UTC."
    messages: MessageIndex | None = None
    "Finds what was said; None = nobody keeps an index."

    async def save_file(self, agent: str, name: str, data: bytes) -> str | None:
        """Put a file into an agent's inbox; see `ChannelContext.save_file`."""
        try:
            file = self.library.file(agent)
        except UnknownAgentError:
            return None
        environment = self.tool_factory.environment(agent=agent, home=file.folder, files=file.files)
        return await keep_in_inbox(environment, file.tool_config, name, data)

    async def undo(self, agent: str, session_id: str) -> str:
        """Take back what the last turn with changes did to files; return what to tell people."""
        try:
            checkpoints = agent_checkpoints(self.tool_factory, self.library, agent)
            undone = await checkpoints.undo(session_id=session_id)
            left, not_kept = undone.left, undone.checkpoint.not_kept
            return undone_text(undone.restored, left, not_kept=not_kept)
        except (UnknownCheckpointError, UnknownAgentError) as error:
            return sentence(str(error))
        except OSError as error:
            return undo_fails(error.strerror or str(error))

    async def search(self, service: TurnService, key: ConversationKey, text: str) -> str:
        """Return what was said in a conversation that fits a question or words, as Markdown."""
        if self.messages is None:
            return t("Nobody keeps an index of what was said.")
        return await search_conversation(service, self.messages, key, text)

    async def memory(self, key: ConversationKey, argument: str, sender: str) -> str:
        """Do what stands after `/memory` in a chat; return what its sender is told."""
        intent = read_memory_intent(argument)
        if intent is None:
            return memory_how()
        try:
            notes = agent_notes(self.tool_factory, self.library, key, "")
            match intent:
                case ShowNotes():
                    return memory_text(known_notes(await notes.read()))
                case KeepNote(topic=topic, text=text):
                    await notes.keep(topic, text, by=sender)
                    return note_kept(topic)
                case ForgetNote(topic=topic):
                    return note_forgotten(topic, was_there=await notes.forget(topic))
        except InvalidInputError:
            return note_too_long(TOPIC_CHARACTERS, NOTE_CHARACTERS)
        except ToolFailedError as error:
            return sentence(str(error))

    async def remind(self, clock: Clock, key: ConversationKey, argument: str, name: str) -> str:
        """Do what stands after `/remind` in a chat; return what its sender is told."""
        if self.schedules is None:
            return t("Nobody keeps a clock.")
        return await remind(self.schedules, clock, self.timezone or "UTC", key, argument, name)

    async def prompts(self, agent: str) -> Sequence[OfferedPrompt]:
        """Return what MCP servers of an agent have for people to send."""
        return tuple(map(_offered, await self.library.prompts(agent)))

    async def fill_prompt(self, agent: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of an agent's prompt; see `ChannelContext.fill_prompt`."""
        try:
            return printable(await self.library.prompt_text(agent, name, arguments))
        except McpError as error:
            said = ": ".join(filter(None, (str(error), error.words)))
            raise InvalidInputError(printable(said)) from error

    def describe_agent(self, agent: str) -> str:
        """Return who an agent is; empty where it is not there."""
        try:
            return self.library.file(agent).spec.description
        except UnknownAgentError:
            return ""

    def commands(self, agent: str) -> Sequence[CommandSpec]:
        """Return the commands that an agent adds; none where it is not there."""
        try:
            return self.library.file(agent).commands
        except UnknownAgentError:
            return ()

    def describe_usage(self, is_asked: Callable[[str], bool]) -> str:
        """Return what agents used today, as Markdown."""
        return usage_text(self.library, self.ledger, is_asked)

    def language(self, agent: str) -> Language | None:
        """Return the language that an agent speaks; None = that of whoever it speaks to."""
        try:
            return language_of(self.library.file(agent).spec.language)
        except UnknownAgentError:
            return None


def make_channel_context(
    config: Callable[[], Config],
    service: TurnService,
    answers: AgentAnswers,
    pairing: Pairing,
    clock: Clock,
) -> ChannelContext:
    """Return what stands behind every channel.

    Args:
        config: Returns the configuration as it stands; its routes may change.
        service: The entry point to the conversations.
        answers: What people are told of agents.
        pairing: Who was let in.
        clock: The time.
    """
    library = answers.library
    return ChannelContext(
        service=service,
        clock=clock,
        routes=lambda: (
            *pairing.agents.routes(library.names()),
            *routes_of(config(), library.names()),
        ),
        agents=library.names,
        rules=library.access,
        describe_agent=answers.describe_agent,
        models=answers.models.of,
        named_model=answers.models.named,
        set_model=answers.models.set_for_agent,
        language=answers.language,
        commands=answers.commands,
        owners=lambda: config().owners,
        describe_usage=answers.describe_usage,
        save_file=answers.save_file,
        undo=answers.undo,
        remind=partial(answers.remind, clock),
        prompts=answers.prompts,
        fill_prompt=answers.fill_prompt,
        search=partial(answers.search, service),
        memory=answers.memory,
        pairing=pairing,
    )


def known_notes(notes: Sequence[PersonNote]) -> list[KnownNote]:
    """Return notes as people are shown them."""
    return [KnownNote(topic=each.topic, text=each.text, source=_source(each)) for each in notes]


def _source(note: PersonNote) -> str:
    session, _, message = note.place.rpartition(":")
    source = note_source(
        who=note.who, day=note.day, message=message, session=session, quote=note.quote
    )
    if note.is_proposed:
        return f"{source}; {note_proposed(note.topic, note.text)}"
    return f"{source}; {note_hidden()}" if note.outside else source


def _offered(prompt: Prompt) -> OfferedPrompt:
    places = [(each.name, each.required) for each in prompt.arguments]
    return OfferedPrompt(
        name=prompt.name,
        description=prompt.description,
        required=tuple(name for name, is_required in places if is_required),
        optional=tuple(name for name, is_required in places if not is_required),
    )


def agent_notes(
    tool_factory: ToolFactory, library: Library, key: ConversationKey, principal: str
) -> OwnNotes:
    """Return the notes of an agent about the people of a conversation.

    Raises:
        UnknownAgentError: The agent is gone.
        ToolFailedError: It keeps none.
    """
    file = library.file(key.agent)
    environment = tool_factory.environment(agent=key.agent, home=file.folder, files=file.files)
    whose = person_of(key, principal, environment.links)
    return own_notes(file.tool_config, environment, whose, tool_factory.shared.clock)


def agent_checkpoints(tool_factory: ToolFactory, library: Library, agent: str) -> Checkpoints:
    """Return what turns changed in an agent's workspace.

    Raises:
        UnknownAgentError: There is none of this name.
    """
    file = library.file(agent)
    environment = tool_factory.environment(agent=agent, home=file.folder, files=file.files)
    return tool_factory.checkpoints_of(environment)


def usage_text(library: Library, ledger: UsageLedger, is_asked: Callable[[str], bool]) -> str:
    """Return what agents used since midnight, UTC, and what they may, for people, as Markdown.

    Args:
        library: The agents.
        ledger: What they used.
        is_asked: Which of them are told of, by name.
    """
    names = [name for name in library.names() if is_asked(name)]
    lines = [_usage_line(name, library.file(name).limit, ledger.today(name)) for name in names]
    if len(names) > 1:
        everything = total(ledger.today(name) for name in names)
        lines.append(f"- in all: {_tally_text(everything)}")
    return "\n".join(["**Today**, by UTC", *lines]) if lines else "There is no agent."


def _usage_line(name: str, limit: DailyLimit, used: Tally) -> str:
    limits = [
        *([f"${limit.cost_usd:g}"] if limit.cost_usd is not None else []),
        *([f"{limit.tokens:,} tokens"] if limit.tokens is not None else []),
    ]
    of = f"; its limit: {' and '.join(limits)} a day" if limits else ""
    reached = ", which is reached" if limit.reached_by(used) else ""
    return f"- `{name}`: {_tally_text(used)}{of}{reached}"


def _tally_text(used: Tally) -> str:
    calls = f"{used.calls:,} call{'' if used.calls == 1 else 's'}"
    unknown = f" and {used.unpriced_calls:,} of unknown cost" if used.unpriced_calls else ""
    less = used.saved_nanodollars
    saved = f"; caches saved {dollars(less)}" if less > 0 else ""
    return f"{calls}, {used.tokens:,} tokens, {dollars(used.cost_nanodollars)}{unknown}{saved}"
