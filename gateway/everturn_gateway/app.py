"""The composition root: the one place that knows every part, and puts them together."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from everturn_actors.errors import JournalError
from everturn_actors.journal import doctor
from everturn_actors.journal.files import open_file_store
from everturn_actors.journal.health import WriteHealth
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.ports import Clock
from everturn_actors.service import ServiceSettings, TurnService, open_service
from everturn_actors.supervisor import TRANSIENT, Supervisor
from everturn_gateway.channels import Channels, make_channels, no_channels
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.changes import take_over
from everturn_gateway.config.settings import Config
from everturn_gateway.heap import trim_heap_after_work
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_statistics import FileModelStatistics, open_model_statistics
from everturn_gateway.principals import FOLDER as PRINCIPALS_FOLDER
from everturn_gateway.principals import TokenRegistry, open_tokens
from everturn_gateway.providers import open_providers
from everturn_gateway.scheduler.scheduler import FOLDER as SCHEDULES_FOLDER
from everturn_gateway.scheduler.scheduler import Scheduler, open_scheduler
from everturn_gateway.specs import AgentLibrary, open_library
from everturn_gateway.telemetry import Sources, Telemetry, open_telemetry
from everturn_gateway.tools.factory import open_tool_factory
from everturn_gateway.tools.web.posting import make_poster
from everturn_gateway.usage import Meter, PriceList, Spending, UsageLedger, open_ledger
from everturn_gateway.usage.price_table import PRICES

logger = logging.getLogger(__name__)

DRAIN_SHARE = 0.4  # of the time there is to stop: how long running turns may take to finish
MODELS_FILE = "models.json"  # what was learnt about models
USAGE_FOLDER = "usage"  # what agents used, a file for each month
SPENDING_FOLDER = "usage/principals"  # what those with tokens spent, in the same form
MODELS_FOLDER = "models"  # in the workspace: weights of local models


def version() -> str:
    """Return the version of this program."""
    return importlib.metadata.version("everturn")


@dataclass(slots=True, kw_only=True)
class Gateway:
    """An open gateway: sessions, agents, and what they run on."""

    config: Config
    service: TurnService
    library: AgentLibrary
    usage: UsageLedger
    channels: Channels
    schedules: Scheduler
    telemetry: Telemetry
    supervisor: Supervisor
    models: FileModelStatistics
    tokens: TokenRegistry
    spending: Spending
    journal: WriteHealth
    meter: Meter
    secrets: SecretRegistry
    started_at: datetime
    version: str
    closing: bool = False
    "It goes down and takes no more messages."

    def ready(self) -> bool:
        """Whether it can take messages now."""
        return not self.closing

    async def reconfigure(self, new: Config) -> None:
        """Take over what of a configuration can hold while the gateway runs; see `LIVE`."""
        for secret in new.secrets:
            self.secrets.add(secret)
        self.config = self.channels.config = take_over(self.config, new)
        self.meter.prices = PriceList(new.prices, PRICES)
        await self.schedules.reconfigure(
            timezone=new.schedules.timezone, poster=make_poster(new.schedules.allow_private)
        )
        await self.library.reconfigure(
            sessions=self.config.sessions, timezone=new.schedules.timezone
        )

    async def journal_fault(self) -> str:
        """Return why no message can be kept now; empty where they can."""
        return await self.journal.check()


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
    prices = PriceList(config.prices, PRICES)
    return Meter(ledger=ledger, prices=prices, clock=clock, spending=spending)


def make_spending(ledger: UsageLedger, tokens: TokenRegistry, clock: Clock) -> Spending:
    """Return what counts in `ledger` what principals spend, by the limits of their `tokens`."""

    def limit_usd_of(principal: str) -> float | None:
        record = tokens.record(principal)
        return record.daily_cost_usd if record is not None else None

    return Spending(ledger, clock, limit_usd_of)


def payer_in(service: TurnService) -> Callable[[str], str]:
    """Return what tells who pays for a session that is in memory, by its id."""

    def payer_of(session_id: str) -> str:
        state = service.present(session_id)
        return state.principal if state is not None else ""

    return payer_of


@asynccontextmanager
async def open_gateway(
    config: Config,
    *,
    environ: Mapping[str, str],
    watch: bool = True,
    resume: bool = True,
    secrets: SecretRegistry | None = None,
) -> AsyncGenerator[Gateway]:
    """Open a gateway on the workspace of `config`.

    Args:
        config: What to open.
        environ: Where agents and models find their variables and keys.
        watch: Serve for long: reload agents when their files change, start local models at once,
            talk to people on the channels, and run scheduled jobs when they are due.
        resume: Let turns that were open go on by themselves, and those that run at the end
            finish. Without it this is a short look: what runs at the end is cut off, and goes on
            with the next start.
        secrets: Where keys are registered, so that nothing that is written shows them.

    Raises:
        WorkspaceLockedError: Another process uses the workspace.
        JournalError: The workspace cannot be written.
        GatewayError, SetupError: A channel cannot work as it is set up, or the library for traces
            is not installed.
    """
    clock = SystemClock()
    secrets = secrets or SecretRegistry()
    for secret in config.secrets:
        secrets.add(secret)
    drain_s = config.server.stop_timeout_s * DRAIN_SHARE if resume else 0
    settings = ServiceSettings(
        passivate_after_s=config.sessions.passivate_after_s,
        max_active=config.sessions.max_active,
        resume=resume,
        drain_s=drain_s,
    )
    supervisor = Supervisor(clock, mask=secrets.mask)
    own_version = await anyio.to_thread.run_sync(version)  # it is read from a file
    async with (
        open_telemetry(
            otlp_endpoint=config.telemetry.otlp_endpoint,
            environ=environ,
            secrets=secrets,
            version=own_version,
        ) as telemetry,
        open_file_store(
            config.workspace,
            results_max_bytes=config.sessions.results_max_bytes,
            on_batch=telemetry.batch,
            keeps_index=watch,
            supervisor=supervisor,
        ) as files,
        open_memory_store(MemoryDisk()) as scratch,
        open_model_statistics(
            config.workspace / MODELS_FILE, clock, supervisor=supervisor
        ) as model_statistics,
        open_providers(
            environ=environ,
            models_dir=config.workspace / MODELS_FOLDER,
            registry=secrets,
            model_statistics=model_statistics,
            settings=config.providers,
            on_wait=telemetry.model_waited,
        ) as providers,
        open_ledger(config.workspace / USAGE_FOLDER, clock, supervisor=supervisor) as usage,
        open_ledger(
            config.workspace / SPENDING_FOLDER, clock, supervisor=supervisor, name="spending"
        ) as spent,
        open_tokens(
            config.workspace / PRINCIPALS_FOLDER, clock, supervisor=supervisor, watch=watch
        ) as tokens,
        open_tool_factory(
            state=config.workspace,
            environ=environ,
            secrets=secrets,
            clock=clock,
            hidden=config.private_files,
            has_open_api=not config.server.api_token,
            watch=telemetry.tools,
            supervisor=supervisor,
        ) as tool_factory,
    ):
        spending = make_spending(spent, tokens, clock)
        meter = make_meter(config, usage, clock, spending)
        library = await open_library(
            config.agents_dir,
            environ,
            providers.make,
            sessions=config.sessions,
            meter=telemetry.models(meter),
            tool_factory=tool_factory,
            timezone=config.schedules.timezone,
        )
        if watch:
            channels = await make_channels(config, clock, secrets)
        else:
            channels = no_channels(config, clock)
        async with (
            # Beyond the service: what running turns say while it stops still reaches people.
            _cancelled_at_end() as connections,
            open_service(
                store=telemetry.store(files),
                scratch=scratch,
                agents=library,
                clock=clock,
                model_statistics=model_statistics,
                settings=settings,
                on_delete=tool_factory.processes.forget,
                delivery_ports=channels.delivery_ports,
                known_as=channels.known_as,
                observer=telemetry,
                supervisor=supervisor,
            ) as service,
            open_scheduler(
                config.workspace / SCHEDULES_FOLDER,
                timezone=config.schedules.timezone,
                service=service,
                agents=library,
                channels=frozenset(channel.name for channel in config.channels),
                poster=make_poster(config.schedules.allow_private),
                clock=clock,
                is_running=tool_factory.processes.is_running,
                supervisor=supervisor,
            ) as schedules,
            anyio.create_task_group() as upkeep,
        ):
            spending.payer_of = payer_in(service)
            tool_factory.link.connect(service, schedules)
            tool_factory.processes.on_ended = schedules.process_ended
            if resume:
                tool_factory.processes.resume()
            telemetry.attach(
                Sources(
                    version=own_version,
                    service=service,
                    library=library,
                    channels=channels,
                    schedules=schedules,
                    clock=clock,
                    journal_waiting=lambda: files.waiting,
                    model_queues=providers.queues,
                    known_models=model_statistics.known,
                    supervisor=supervisor,
                )
            )
            if watch:
                supervisor.start(upkeep, "loop lag", telemetry.watch_loop)
                supervisor.start(upkeep, "heap", partial(_trim_heap, service, clock))
                supervisor.start(upkeep, "agents", library.watch)
                supervisor.start(upkeep, "local models", providers.warm, policy=TRANSIENT)
                supervisor.start(upkeep, "schedules", schedules.serve)
                talk = partial(channels.run, service, library, tool_factory, usage, supervisor)
                supervisor.start(connections, "channels", talk)
            else:
                try:
                    await schedules.load()
                except OSError as error:  # whoever asks for jobs is told again
                    logger.error(  # noqa: TRY400 - the words say it all
                        "scheduled jobs cannot be read", extra={"error": str(error)}
                    )
            gateway = Gateway(
                config=config,
                service=service,
                library=library,
                usage=usage,
                channels=channels,
                schedules=schedules,
                telemetry=telemetry,
                supervisor=supervisor,
                models=model_statistics,
                tokens=tokens,
                spending=spending,
                journal=files.health,
                meter=meter,
                secrets=secrets,
                started_at=clock.now(),
                version=own_version,
            )
            try:
                yield gateway
            finally:
                gateway.closing = True
                upkeep.cancel_scope.cancel()


async def _trim_heap(service: TurnService, clock: Clock) -> None:
    async def count_active() -> int:
        return (await service.load()).active

    await trim_heap_after_work(count_active, clock.sleep)


@asynccontextmanager
async def _cancelled_at_end() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        finally:
            tasks.cancel_scope.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNote:
    """One thing that was found in the journals, or done to them."""

    text: str
    is_repair: bool = False
    "Whether it was done, and not only found."


async def check_journals(config: Config, *, repair: bool) -> list[JournalNote]:
    """Look at every session of a workspace; return what is wrong, or was, and what was done.

    Args:
        config: Names the workspace.
        repair: Rebuild what is damaged, and the marks and pointers that can be rebuilt. Damaged
            files are kept beside the new ones.

    Raises:
        WorkspaceLockedError: To repair, no other process may use the workspace.
    """
    lines: list[JournalNote] = []
    damaged: list[str] = []
    for session_id in await doctor.session_ids(config.workspace):
        findings = await doctor.check(config.workspace, session_id)
        lines += [JournalNote(text=_place(finding)) for finding in findings]
        if findings:
            damaged.append(session_id)
    if not repair:
        return lines
    async with open_file_store(config.workspace) as store:
        for session_id in damaged:
            try:
                done = await doctor.repair(store, session_id)
                lines += [JournalNote(text=text, is_repair=True) for text in done]
            except JournalError as error:
                lines.append(JournalNote(text=str(error)))
        report = await doctor.rebuild_index(store)
    text = (
        f"index rebuilt: {report.sessions} sessions, {report.active} with open turns, "
        f"{report.conversations} conversations"
    )
    lines.append(JournalNote(text=text, is_repair=True))
    return lines


def _place(finding: doctor.Finding) -> str:
    where = f"{finding.path}:{finding.line}" if finding.line else str(finding.path)
    return f"{where}: {finding.text}"
