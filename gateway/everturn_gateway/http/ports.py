"""What the HTTP surface needs from the gateway, so that it does not import what builds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from everturn_actors.model import ConversationKey
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import TurnService
from everturn_actors.spec import AgentSpec
from everturn_actors.supervisor import ChildStatus
from everturn_channels.access.pairing import Pairing
from everturn_channels.health import ChannelStatus
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import Fault
from everturn_gateway.logs import RecentLog
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.model_statistics import KnownModel
from everturn_gateway.principals import Logins, TokenRegistry
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.session_changes import Changes
from everturn_gateway.specs.agent_files import AgentFolder
from everturn_gateway.starts import Starts
from everturn_gateway.telemetry import Telemetry
from everturn_gateway.tools.checkpoints import Checkpoints
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.mcp import Prompt
from everturn_gateway.tools.memory.editing import OwnNotes
from everturn_gateway.usage import DailyLimit, Spending, UsageLedger

if TYPE_CHECKING:  # who is alone does not load it, nor who cleans nothing
    from everturn_actors.cluster.leases import Share
    from everturn_gateway.retention.cleaning import Cleaner
    from everturn_gateway.retention.erasing import Eraser


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
    def document(self) -> Mapping[str, object]:
        """The data of its `agent.yaml`, variables not expanded."""
        ...

    @property
    def limit(self) -> DailyLimit:
        """What it may use in a day."""
        ...

    @property
    def inactive(self) -> tuple[str, ...]:
        """Fields that are set and have no effect."""
        ...

    @property
    def tool_config(self) -> ToolConfig:
        """Which tools and skills it is given, and what rules them."""
        ...


class ReloadView(Protocol):
    """What a reload changed."""

    @property
    def added(self) -> tuple[str, ...]:
        """Names of agents that are new."""
        ...

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of agents with a new version."""
        ...

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of agents that are gone."""
        ...

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What could not be loaded, and why."""
        ...


class Library(Protocol):
    """The agents that are loaded."""

    @property
    def version(self) -> int:
        """How many reloads changed something."""
        ...

    async def wait_beyond(self, version: int) -> None:
        """Wait until `version` has passed."""
        ...

    def names(self) -> tuple[str, ...]:
        """Return the names of all agents, sorted."""
        ...

    def file(self, name: str) -> AgentView:
        """Return one agent.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    def tool_names(self, name: str) -> tuple[str, ...]:
        """Return the tools that an agent has now, by the names that its model calls.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    def tool_faults(self, name: str) -> tuple[str, ...]:
        """Return what is wrong with the tools of an agent now, one line each.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    async def prompts(self, name: str) -> tuple[Prompt, ...]:
        """Return the prompts of an agent's MCP servers, for people to send.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    async def prompt_text(self, name: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt.

        Raises:
            UnknownAgentError: There is no such agent.
            McpError: There is no such prompt, or its server does not say.
        """
        ...

    def folder(self, name: str) -> AgentFolder:
        """Return the folder of an agent for whoever edits it, also where it has only faults.

        Raises:
            UnknownAgentError: There is none of this name, or it stands in no file.
        """
        ...

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong in the agents folder."""
        ...

    async def reload(self) -> ReloadView:
        """Read the agents folder again."""
        ...


class FindingView(Protocol):
    """One thing that was looked at."""

    @property
    def verdict(self) -> Literal["ok", "note", "repaired", "problem"]:
        """What to think of it."""
        ...

    @property
    def subject(self) -> str:
        """What it is about."""
        ...

    @property
    def text(self) -> str:
        """What is to be said."""
        ...


class Channels(Protocol):
    """The chat channels of a gateway."""

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the status of each."""
        ...

    def troubled(self) -> tuple[ChannelStatus, ...]:
        """Return those that do not receive, or have not shown that they do."""
        ...

    async def check(self, name: str) -> CheckedChannel | None:
        """Log in on a channel anew and look whether it is set up as it has to be.

        None where there is no channel of this name.
        """
        ...

    def admits_webhook(self, name: str, headers: Mapping[str, str]) -> bool | None:
        """Return whether a delivery shows the secret of its channel, or a signature by it.

        None where no channel of this name takes any.
        """
        ...

    async def take_webhook(
        self, name: str, headers: Mapping[str, str], body: bytes
    ) -> DeliveryAnswer | None:
        """Hand a channel what its platform delivers; return the answer.

        None where no channel of this name takes any.
        """
        ...

    def answer_challenge(self, name: str, query: Mapping[str, str]) -> DeliveryAnswer | None:
        """Answer a platform that tries the address to which it is to deliver.

        None where no channel of this name is tried so.
        """
        ...


class CheckedChannel(Protocol):
    """What a look at one channel has found."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What there is to say, without secrets."""
        ...

    @property
    def has_problem(self) -> bool:
        """Whether something keeps it from working."""
        ...


class Tasks(Protocol):
    """The long tasks of a gateway."""

    def down(self) -> tuple[ChildStatus, ...]:
        """Return those that should run and do not, by name."""
        ...

    def restarts(self) -> Mapping[str, int]:
        """Return how often tasks were started again, by part."""
        ...


class Models(Protocol):
    """What was learnt about models."""

    def known(self) -> tuple[KnownModel, ...]:
        """Return what is known of all models now, by label."""
        ...

    def forget(self, model: str = "", endpoint: str = "") -> tuple[KnownModel, ...]:
        """Forget what refusals taught of models; return those of which something was."""
        ...


class HasConfig(Protocol):
    """Its configuration."""

    @property
    def config(self) -> Config:
        """Its configuration."""
        ...


class HasSessions(Protocol):
    """Its sessions, and what lists and searches say of them."""

    @property
    def service(self) -> TurnService:
        """The one entry point to all sessions."""
        ...

    @property
    def changes(self) -> Changes:
        """What lists say of its sessions."""
        ...

    @property
    def messages(self) -> MessageIndex:
        """Finds what was said in its sessions."""
        ...


class HasAgents(Protocol):
    """Its agents, and what their turns changed."""

    def cleaner(self) -> Cleaner:
        """Return what cleans by `sessions.keep`."""
        ...

    def eraser(self) -> Eraser:
        """Return what erases the words of a person."""
        ...

    @property
    def library(self) -> Library:
        """Its agents."""
        ...

    def checkpoints(self, agent: str) -> Checkpoints:
        """Return what turns changed in an agent's workspace.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...


class HasCallers(Protocol):
    """Who may ask it."""

    @property
    def tokens(self) -> TokenRegistry:
        """The tokens of its principals."""
        ...

    @property
    def logins(self) -> Logins:
        """The browsers that are logged in."""
        ...


class HasUsage(Protocol):
    """What its agents and principals used."""

    @property
    def usage(self) -> UsageLedger:
        """What its agents used."""
        ...

    @property
    def spending(self) -> Spending:
        """What its principals have spent."""
        ...


class HasChannels(Protocol):
    """Its chat channels, and who is let in on them."""

    @property
    def channels(self) -> Channels:
        """Its chat channels."""
        ...

    @property
    def pairing(self) -> Pairing:
        """Who is let in on its channels, and who asks to be."""
        ...


class HasSchedules(Protocol):
    """Its scheduled jobs."""

    @property
    def schedules(self) -> SchedulerClient:
        """Its scheduled jobs."""
        ...


class HasRuns(Protocol):
    """Which program it is, and since when it runs."""

    @property
    def version(self) -> str:
        """The version of this program."""
        ...

    @property
    def started_at(self) -> datetime:
        """When it was opened, UTC."""
        ...

    @property
    def starts(self) -> Starts:
        """When it was started, and how the runs before had ended."""
        ...

    def nodes(self) -> tuple[Share, ...]:
        """Return the gateways that share the store, by name; none where it is alone."""
        ...

    def homes(self) -> Mapping[str, str]:
        """Return the node that should have each seat that is somebody's, by seat."""
        ...

    @property
    def node(self) -> str:
        """Its name among them; empty where it is alone."""
        ...


class HasDiagnostics(Protocol):
    """What it knows of itself."""

    def homes_away(self) -> tuple[str, ...]:
        """Return which seats wait for a node that does not live, one line each."""
        ...

    def node_differences(self) -> tuple[str, ...]:
        """Return what other nodes have otherwise, and which refuse this one, one line each."""
        ...

    @property
    def refused_keys(self) -> Callable[[], tuple[str, ...]]:
        """Tells which keys of providers with several cannot be used, a line each."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """What measures it."""
        ...

    @property
    def supervisor(self) -> Tasks:
        """Its long tasks."""
        ...

    @property
    def recent_log(self) -> RecentLog:
        """What it logged last."""
        ...

    @property
    def models(self) -> Models:
        """What was learnt about its models."""
        ...

    @property
    def model_choices(self) -> ModelChoices:
        """Which models agents could have."""
        ...

    def own_notes(self, key: ConversationKey, principal: str) -> OwnNotes:
        """Return the notes about the people of a conversation.

        Raises:
            UnknownAgentError: Its agent is gone.
            ToolFailedError: Its agent keeps none.
        """
        ...

    def ready(self) -> bool:
        """Whether it can take messages now."""
        ...

    async def journal_fault(self) -> str:
        """Return why no message can be kept now; empty where they can."""
        ...

    def examine(self) -> AsyncGenerator[FindingView]:
        """Look at itself and its workspace; yield what is found. Nothing is repaired."""
        ...


class Gateway(
    HasConfig,
    HasSessions,
    HasAgents,
    HasCallers,
    HasUsage,
    HasChannels,
    HasSchedules,
    HasRuns,
    HasDiagnostics,
    Protocol,
):
    """An open gateway: all of these. A route asks for those parts that it uses."""

    @property
    def passing_on(self) -> PassingOn:
        """What sends requests that no agent answers to a provider."""
        ...

    def start(self, name: str, body: Callable[[], Awaitable[object]]) -> None:
        """Start a long task, which is supervised, and cancelled when the gateway closes."""
        ...
