"""An open gateway, and what is made of its configuration before it opens."""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from everturn_actors.errors import HomeElsewhereError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import TurnService
from everturn_actors.supervisor import Supervisor
from everturn_channels.access.pairing import Pairing
from everturn_gateway.app.journal_check import can_be_examined, check_journals
from everturn_gateway.channels import Channels
from everturn_gateway.channels.answering import agent_checkpoints, agent_notes
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.changes import take_over
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.late_loading import late
from everturn_gateway.logs import RecentLog, SecretRegistry
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.plugins import OpenedStore, installed
from everturn_gateway.principals import Logins, TokenRegistry
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.scheduler.definitions.job_store import CANCELLED
from everturn_gateway.scheduler.scheduler import FOLDER as SCHEDULES_FOLDER
from everturn_gateway.scheduler.scheduler import Scheduler
from everturn_gateway.session_changes import Changes
from everturn_gateway.specs import AgentDefaults, AgentFile, AgentLibrary
from everturn_gateway.starts import Starts
from everturn_gateway.telemetry import Telemetry
from everturn_gateway.tools.checkpoints import Checkpoints
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.memory.editing import OwnNotes
from everturn_gateway.tools.web.late_posting import make_poster
from everturn_gateway.usage import Meter, PriceList, Spending, UsageLedger

if TYPE_CHECKING:  # the doctor looks at every plug-in there is
    from everturn_actors.cluster.leases import Share
    from everturn_actors.cluster.ownership import LeaseOwnership
    from everturn_gateway.app import cluster
    from everturn_gateway.doctor import own as doctor
    from everturn_gateway.retention import cleaning, erasing
else:
    cluster = late("everturn_gateway.app.cluster")
    cleaning = late("everturn_gateway.retention.cleaning")
    doctor = late("everturn_gateway.doctor.own")
    erasing = late("everturn_gateway.retention.erasing")

USAGE_FOLDER = "usage/"  # of keys: what agents used, by month
SPENDING_FOLDER = "usage/principals/"  # what those with tokens spent, in the same form


CLEANING_STARTS_S = 300.0  # the first minutes are for the turns


def version() -> str:
    """Return the version of this program."""
    return importlib.metadata.version("everturn")


class Gateway(Struct, kw_only=True):
    """An open gateway: sessions, agents, and what they run on."""

    config: Config
    service: TurnService
    library: AgentLibrary
    usage: UsageLedger
    channels: Channels
    schedules: Scheduler
    telemetry: Telemetry
    changes: Changes
    messages: MessageIndex
    starts: Starts
    supervisor: Supervisor
    models: StoredModelStatistics
    tokens: TokenRegistry
    spending: Spending
    passing_on: PassingOn
    tool_factory: ToolFactory
    store_fault: Callable[[], Awaitable[str]]
    "Why no message can be kept now; empty where it can."
    meter: Meter
    model_choices: ModelChoices
    "Which models agents could have."
    keyed: KeyedStore
    storage: OpenedStore
    secrets: SecretRegistry
    started_at: datetime
    version: str
    connections: TaskGroup
    "What serves those who are connected; it is cancelled after the sessions have stopped."
    refused_keys: Callable[[], tuple[str, ...]]
    "Tells which keys of providers with several cannot be used, a line each."
    ownership: LeaseOwnership | None = None
    "What this gateway holds of what several share; None = it is alone."
    logins: Logins = field(default_factory=Logins)
    recent_log: RecentLog = field(default_factory=RecentLog)
    "What this process logged last; empty in a program that keeps a log of its own."
    examining: anyio.Lock = field(default_factory=anyio.Lock)
    "Held by the look that is under way: it takes a while, and one is enough."
    maintenance: anyio.Lock = field(default_factory=anyio.Lock)
    "Held while something is cleaned or erased."
    closing: bool = False
    "It goes down and takes no more messages."

    def checkpoints(self, agent: str) -> Checkpoints:
        """Return what turns changed in an agent's workspace.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        self._check_home(agent)
        return agent_checkpoints(self.tool_factory, self.library, agent)

    def own_notes(self, key: ConversationKey, principal: str) -> OwnNotes:
        """Return the notes about the people of a conversation.

        Raises:
            UnknownAgentError: Its agent is gone.
            ToolFailedError: Its agent keeps none.
        """
        self._check_home(key.agent)
        return agent_notes(self.tool_factory, self.library, key, principal)

    def _check_home(self, agent: str) -> None:
        """Refuse what works in the folder of an agent whose home is another gateway.

        Raises:
            HomeElsewhereError: It is.
        """
        if self.ownership is not None and not self.ownership.works_for(agent):
            raise HomeElsewhereError(agent)

    @property
    def pairing(self) -> Pairing:
        """Who is let in on its channels, and who asks to be."""
        return self.channels.pairing

    def nodes(self) -> tuple[Share, ...]:
        """Return the gateways that share the store, by name; none where it is alone."""
        return () if self.ownership is None else cluster.nodes_of(self.ownership)

    def node_differences(self) -> tuple[str, ...]:
        """Return what other nodes have otherwise than this one, one line each."""
        return () if self.ownership is None else cluster.differences(self.ownership)

    def homes(self) -> Mapping[str, str]:
        """Return which node should have each seat that is somebody's, by seat."""
        return {} if self.ownership is None else self.ownership.homes

    def homes_away(self) -> tuple[str, ...]:
        """Return which seats wait for a node that does not live, one line each."""
        return () if self.ownership is None else cluster.homes_away(self.ownership)

    @property
    def node(self) -> str:
        """Its name among the gateways that share the store; empty where it is alone."""
        return "" if self.ownership is None else self.ownership.me.name

    def ready(self) -> bool:
        """Whether it can take messages now."""
        return not self.closing

    def start(self, name: str, body: Callable[[], Awaitable[object]]) -> None:
        """Start a long task, which is supervised, and cancelled when the gateway closes."""
        self.supervisor.start(self.connections, name, body)

    async def examine(self) -> AsyncGenerator[Finding]:
        """Look at itself and its workspace; yield what is found, as it is found."""

        def agents() -> list[AgentFile]:
            return [self.library.file(name) for name in self.library.names()]

        own = doctor.Own(
            keyed=self.keyed,
            secrets=self.secrets,
            models=self.models,
            agents=agents,
            check_journals=partial(check_journals, self.config, repair=False, looked=_untold),
            can_be_examined=partial(can_be_examined, self.config),
        )
        async with self.examining, aclosing(doctor.examine_own(self, own)) as findings:
            async for finding in findings:
                yield finding

    def owns(self, session_id: str, key: ConversationKey) -> bool:
        """Whether a session of a conversation is this process's to work on."""
        owner = self.ownership
        return owner is None or owner.epoch(owner.partition(session_id, key)) is not None

    def cleaner(self) -> cleaning.Cleaner:
        """Return what cleans by `sessions.keep`."""
        return cleaning.Cleaner(
            keep=lambda: self.config.sessions.keep,
            service=self.service,
            store=self.storage.store,
            maintenance=self.storage.maintenance()
            if self.storage.maintenance is not None
            else None,
            keyed=self.keyed,
            cancelled=self.config.workspace / SCHEDULES_FOLDER / CANCELLED,
            clock=SystemClock(),
            on_gone=self.changes.gone,
            owns=self.owns,
            cleaning=self.maintenance,
        )

    def eraser(self) -> erasing.Eraser:
        """Return what erases the words of a person."""
        return erasing.Eraser(
            service=self.service,
            store=self.storage.store,
            maintenance=self.storage.maintenance()
            if self.storage.maintenance is not None
            else None,
            messages=self.messages,
            keyed=self.keyed,
            clock=SystemClock(),
            notes=self.own_notes,
            on_gone=self.changes.gone,
            owns=self.owns,
            erasing=self.maintenance,
        )

    async def clean_daily(self) -> None:
        """Clean by `sessions.keep`, minutes after the start and then once a day."""
        await anyio.sleep(CLEANING_STARTS_S)
        cleaner = await anyio.to_thread.run_sync(self.cleaner)
        await cleaning.clean_daily(cleaner)

    async def reconfigure(self, new: Config) -> None:
        """Take over what of a configuration can hold while the gateway runs; see `LIVE`."""
        for secret in new.secrets:
            self.secrets.add(secret)
        self.config = self.channels.config = take_over(self.config, new)
        self.meter.prices = PriceList(new.prices, installed().providers.get)
        await self.schedules.reconfigure(
            timezone=new.schedules.timezone, poster=make_poster(new.schedules.allow_private)
        )
        await self.library.reconfigure(
            AgentDefaults(sessions=self.config.sessions, timezone=new.schedules.timezone)
        )

    async def journal_fault(self) -> str:
        """Return why no message can be kept now; empty where they can."""
        return await self.store_fault()


def _untold(_looked: int, _sessions: int) -> None:
    """Tell nobody how far it is."""


def make_meter(
    config: Config, ledger: UsageLedger, clock: Clock, spending: Spending | None = None
) -> Meter:
    """Return what counts the agents' model calls in `ledger`, by the prices of `config`.

    Args:
        config: Has the owner's own prices.
        ledger: Of agents.
        clock: Says which day it is.
        spending: Of principals; by default nobody counts it.
    """
    prices = PriceList(config.prices, installed().providers.get)
    return Meter(ledger=ledger, prices=prices, clock=clock, spending=spending)


def make_price_meter(config: Config, clock: Clock) -> Meter:
    """Return one that knows the prices, for where no model is called: nothing is counted."""
    return make_meter(config, UsageLedger(MemoryKeyedStore(), USAGE_FOLDER, clock), clock)


def make_spending(ledger: UsageLedger, tokens: TokenRegistry, clock: Clock) -> Spending:
    """Return what counts in `ledger` what principals spend, by the limits of their `tokens`."""

    def limit_usd_of(principal: str) -> float | None:
        record = tokens.record(principal)
        return record.daily_cost_usd if record is not None else None

    return Spending(ledger, clock, limit_usd_of)


def payer_in(service: TurnService) -> Callable[[str], str]:
    """Return what tells who pays for a session that is in memory, by its id."""

    def payer_of(session_id: str) -> str:
        state = service.activity.present(session_id)
        return state.principal if state is not None else ""

    return payer_of
