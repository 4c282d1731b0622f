"""Opens the parts of a gateway one upon the other, and closes them in the opposite order.

Five steps: what is shared by all (`_open_base`), the agents (`_open_agents`), the sessions and the
jobs (`_open_work`), what links the parts (`_link`), and the long tasks (`_run`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.ports import Clock, KeyedStore, SessionStore
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.supervisor import TRANSIENT, Body, Supervisor, cancelled_at_end
from everturn_gateway.app import speaking
from everturn_gateway.app.additions import NO_ADDITIONS, Additions
from everturn_gateway.app.gateway import (
    SPENDING_FOLDER,
    USAGE_FOLDER,
    Gateway,
    make_meter,
    make_spending,
    payer_in,
    version,
)
from everturn_gateway.app.idle import collect, trim_heap
from everturn_gateway.app.search import NotingObserver, open_search
from everturn_gateway.app.storage import open_storage
from everturn_gateway.channels import Channels, make_channels, no_channels
from everturn_gateway.channels.answering import AgentAnswers
from everturn_gateway.channels.seats import ChannelEnvironment
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.model_statistics import StoredModelStatistics, open_model_statistics
from everturn_gateway.plugins import OpenedStore, log_left_out
from everturn_gateway.principals import TokenRegistry, open_tokens
from everturn_gateway.providers import Providers, open_providers
from everturn_gateway.scheduler.job_registry import JobNeeds
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.scheduler import FOLDER as SCHEDULES_FOLDER
from everturn_gateway.scheduler.scheduler import JobStorage, Scheduler, open_scheduler
from everturn_gateway.search.index import StoreMessageIndex
from everturn_gateway.session_changes import Changes
from everturn_gateway.specs import AgentDefaults, AgentLibrary, open_library
from everturn_gateway.starts import Starts, open_starts
from everturn_gateway.telemetry import Sources, Telemetry, open_telemetry
from everturn_gateway.tools.factory import (
    FILES_FOLDER,
    FactorySettings,
    ToolFactory,
    open_tool_factory,
)
from everturn_gateway.tools.memory.idle_conversations import IdleConversations
from everturn_gateway.tools.shell.settings import OutOfReach
from everturn_gateway.tools.web.late_posting import make_poster
from everturn_gateway.usage import Meter, Spending, UsageLedger, open_ledger
from everturn_gateway.workspace_files import MODELS_FOLDER

if TYPE_CHECKING:
    from everturn_actors.cluster.node import LinkedNode
    from everturn_actors.cluster.ownership import LeaseOwnership
    from everturn_gateway.app import cluster
    from everturn_gateway.voice.voices import Voices
else:
    cluster = late("everturn_gateway.app.cluster")

logger = logging.getLogger(__name__)

DRAIN_SHARE = 0.4  # of the time there is to stop: how long running turns may take to finish
_Sharing: TypeAlias = "tuple[LeaseOwnership | None, LinkedNode | None]"


@asynccontextmanager
async def open_gateway(
    config: Config,
    *,
    environ: Mapping[str, str],
    watch: bool = True,
    resume: bool = True,
    secrets: SecretRegistry | None = None,
    additions: Additions = NO_ADDITIONS,
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
        additions: What a program that embeds the gateway adds as objects.

    Raises:
        WorkspaceLockedError: Another process uses the workspace.
        JournalError: The workspace cannot be written.
        GatewayError, SetupError: A channel is not set up right, or a library for traces is missing.
    """
    clock = SystemClock()
    secrets = secrets or SecretRegistry()
    for secret in config.secrets:
        secrets.add(secret)
    start = _Start(
        config=config,
        environ=environ,
        watch=watch,
        resume=resume,
        secrets=secrets,
        additions=additions,
        clock=clock,
        supervisor=Supervisor(clock, mask=secrets.mask),
        version=await anyio.to_thread.run_sync(version),  # it is read from a file
    )
    async with _open_base(start) as base:
        agents = await _open_agents(start, base)
        async with (
            speaking.ending(agents.heard_by),
            # Beyond the service, whose sessions are this gateway's until they have stopped.
            _sharing(start, base) as sharing,
            # As well: what running turns say while it stops still reaches people.
            cancelled_at_end() as connections,
            _open_work(start, base, agents, sharing) as work,
            anyio.create_task_group() as maintenance,
        ):
            _link(start, base, agents, work)
            await _run(start, base, agents, work, maintenance, connections)
            gateway = _gateway(start, base, agents, work, connections)
            gateway.ownership = work.ownership
            if watch:
                gateway.start("retention", gateway.clean_daily)
            try:
                yield gateway
            finally:
                gateway.closing = True
                if work.ownership is not None:
                    await cluster.give_back(work.ownership, config)
                maintenance.cancel_scope.cancel()


class _Start(Struct, frozen=True, kw_only=True):
    """What everything is opened with."""

    config: Config
    environ: Mapping[str, str]
    watch: bool
    resume: bool
    secrets: SecretRegistry
    additions: Additions
    clock: Clock
    supervisor: Supervisor
    version: str


class _Base(Struct, frozen=True, kw_only=True):
    """What is shared by all agents and all sessions."""

    telemetry: Telemetry
    changes: Changes
    idle: IdleConversations
    storage: OpenedStore
    messages: MessageIndex
    starts: Starts
    scratch: SessionStore
    models: StoredModelStatistics
    providers: Providers
    usage: UsageLedger
    spent: UsageLedger
    tokens: TokenRegistry
    tool_factory: ToolFactory


class _AgentSide(Struct, frozen=True, kw_only=True):
    """Who answers, who is reached, and what that costs."""

    library: AgentLibrary
    channels: Channels
    meter: Meter
    models: ModelChoices
    spending: Spending
    heard_by: Voices | None
    "Whoever transcribes for them."


class _Work(Struct, frozen=True, kw_only=True):
    """What begins turns."""

    service: TurnService
    schedules: Scheduler
    ownership: LeaseOwnership | None
    "What this gateway holds of what several share; None = it is alone."


@asynccontextmanager
async def _open_base(start: _Start) -> AsyncGenerator[_Base]:
    config, clock, supervisor = start.config, start.clock, start.supervisor
    workspace, common = config.workspace, config.common or config.workspace
    async with (
        open_telemetry(
            otlp_endpoint=config.telemetry.otlp_endpoint,
            environ=start.environ,
            secrets=start.secrets,
            version=start.version,
        ) as telemetry,
        open_storage(
            config,
            start.additions,
            on_batch=telemetry.batch,
            is_serving=start.watch,
            supervisor=supervisor,
        ) as storage,
        open_search(workspace, storage, clock) as messages,
        _open_starts(start, storage.keyed) as starts,
        open_memory_store(MemoryDisk()) as scratch,
        open_model_statistics(storage.keyed, clock, supervisor=supervisor) as models,
        open_providers(
            environ=start.environ,
            models_dir=common / MODELS_FOLDER,
            registry=start.secrets,
            model_statistics=models,
            settings=config.providers,
            on_wait=telemetry.model_waited,
            own=start.additions.providers,
        ) as providers,
        open_ledger(storage.keyed, USAGE_FOLDER, clock, supervisor=supervisor) as usage,
        open_ledger(
            storage.keyed, SPENDING_FOLDER, clock, supervisor=supervisor, name="spending"
        ) as spent,
        open_tokens(storage.keyed, clock, supervisor=supervisor, watch=start.watch) as tokens,
        open_tool_factory(
            FactorySettings(
                state=workspace,
                files=common / FILES_FOLDER,
                keyed=storage.keyed,
                environ=start.environ,
                beyond=OutOfReach(
                    hidden=config.private_files, has_open_api=not config.server.api_token
                ),
                links=config.links,
            ),
            secrets=start.secrets,
            clock=clock,
            watch=telemetry.tools,
            supervisor=supervisor,
        ) as tool_factory,
    ):
        service, store = (lambda: tool_factory.link.service), (lambda: storage.store)
        idle = IdleConversations(service=service, clock=clock, statistics=models, store=store)
        yield _Base(
            telemetry=telemetry,
            changes=Changes(NotingObserver(telemetry, messages, idle)),
            idle=idle,
            storage=storage,
            messages=messages,
            starts=starts,
            scratch=scratch,
            models=models,
            providers=providers,
            usage=usage,
            spent=spent,
            tokens=tokens,
            tool_factory=tool_factory,
        )


def _open_starts(start: _Start, keyed: KeyedStore) -> AbstractAsyncContextManager[Starts]:
    """Note this start; a command that looks for a moment is none."""
    node = start.config.cluster.node if start.config.cluster else ""
    opened = open_starts(keyed, start.clock, start.version, node=node)
    return opened if start.watch else nullcontext(Starts())


async def _open_agents(start: _Start, base: _Base) -> _AgentSide:
    config, timezone = start.config, start.config.schedules.timezone
    spending = make_spending(base.spent, base.tokens, start.clock)
    meter = make_meter(config, base.usage, start.clock, spending)
    heard_by = speaking.voices_of(config, base.providers.passing_on, meter, start.environ)
    library = await open_library(
        config.agents_dir,
        start.environ,
        base.providers.make,
        defaults=AgentDefaults(
            sessions=config.sessions, timezone=timezone, voices=heard_by, statistics=base.models
        ),
        meter=base.telemetry.models(meter),
        tool_factory=base.tool_factory,
        declared=start.additions.agents,
    )
    if start.watch:
        channels = await make_channels(config, base.storage.keyed, start.clock, start.secrets)
    else:
        channels = no_channels(config, base.storage.keyed, start.clock)
    return _AgentSide(
        library=library,
        channels=channels,
        meter=meter,
        models=ModelChoices(library=library, meter=meter, environ=start.environ, clock=start.clock),
        spending=spending,
        heard_by=heard_by,
    )


@asynccontextmanager
async def _open_work(
    start: _Start, base: _Base, agents: _AgentSide, sharing: _Sharing
) -> AsyncGenerator[_Work]:
    config, (ownership, node) = start.config, sharing
    settings = ServiceSettings(
        passivate_after_s=config.sessions.passivate_after_s,
        max_active=config.sessions.max_active,
        resume=start.resume,
        drain_s=config.server.stop_timeout_s * DRAIN_SHARE if start.resume else 0,
    )
    async with (
        open_service(
            store=base.telemetry.store(base.storage.store),
            scratch=base.scratch,
            agents=agents.library,
            clock=start.clock,
            settings=settings,
            ports=ServicePorts(
                model_statistics=base.models,
                delivery_ports=agents.channels.delivery_ports,
                known_as=agents.channels.known_as,
                on_delete=partial(_forget, base),
                observer=base.changes,
                ownership=ownership,
                router=node.route if node is not None else None,
                supervisor=start.supervisor,
            ),
        ) as service,
        open_scheduler(
            JobStorage(
                folder=(config.common or config.workspace) / SCHEDULES_FOLDER,
                keyed=base.storage.keyed,
                timezone=config.schedules.timezone,
                is_shared=base.storage.keeps_jobs,
            ),
            runner=JobRunner(service, make_poster(config.schedules.allow_private)),
            needs=JobNeeds(
                agents=agents.library,
                channels=frozenset(channel.name for channel in config.channels),
                is_running=base.tool_factory.processes.is_running,
            ),
            clock=start.clock,
            supervisor=start.supervisor,
            kind=Scheduler if ownership is None else cluster.SharedScheduler,
        ) as schedules,
    ):
        yield _Work(service=service, schedules=schedules, ownership=ownership)


def _link(start: _Start, base: _Base, agents: _AgentSide, work: _Work) -> None:
    """Tell parts of those that were opened after them."""
    processes = base.tool_factory.processes
    agents.spending.payer_of = payer_in(work.service)
    base.tool_factory.link.connect(work.service, work.schedules, base.messages)
    processes.on_ended = work.schedules.process_ended
    base.idle.after_s, base.idle.agents = agents.library.idle_after_s, agents.library
    if start.resume:
        processes.resume()
    base.telemetry.attach(
        Sources(
            version=start.version,
            activity=work.service.activity,
            library=agents.library,
            channels=agents.channels,
            schedules=work.schedules,
            clock=start.clock,
            journal_waiting=base.storage.waiting,
            model_queues=base.providers.queues,
            known_models=base.models.known,
            supervisor=start.supervisor,
            node=work.ownership.me.name if work.ownership else "",
            nodes=partial(cluster.nodes_of, work.ownership) if work.ownership else tuple,
        )
    )


async def _run(
    start: _Start,
    base: _Base,
    agents: _AgentSide,
    work: _Work,
    maintenance: TaskGroup,
    connections: TaskGroup,
) -> None:
    """Start the long tasks; of a gateway that is open for a moment, read what they would."""
    supervisor, service, library = start.supervisor, work.service, agents.library
    if start.watch:
        supervisor.start(maintenance, "loop lag", base.telemetry.watch_loop)
        if isinstance(base.messages, StoreMessageIndex):
            supervisor.start(maintenance, "search index", base.messages.run)
        supervisor.start(maintenance, "notes", base.idle.run)
        supervisor.start(maintenance, "heap", partial(trim_heap, service, start.clock))
        supervisor.start(maintenance, "collector", partial(collect, service, start.clock))
        supervisor.start(maintenance, "agents", library.watch)
        supervisor.start(maintenance, "plug-ins", log_left_out, policy=TRANSIENT)
        supervisor.start(maintenance, "local models", base.providers.warm, policy=TRANSIENT)
        run_jobs: Body = work.schedules.serve
        if work.ownership is not None:
            homes = cluster.Homes(
                start.config, base.storage.keyed, work.ownership, library, service.handover
            )
            await homes.look()  # before the first lease: it says which sessions go with it
            work.ownership.begin(service.handover.take_over, service.handover.lose)
            supervisor.start(maintenance, "homes", homes.run)
            compare = partial(cluster.compare, work.ownership, library)
            supervisor.start(maintenance, "nodes", compare)
            rows = partial(
                cluster.show_rows_of_others, base.changes, service, work.ownership, start.clock
            )
            supervisor.start(maintenance, "rows of other nodes", rows)
            assert isinstance(work.schedules, cluster.SharedScheduler)
            run_jobs = partial(
                cluster.LeasedSeats(work.ownership).while_held,
                cluster.SCHEDULER,
                work.schedules.serve_anew,
                work.schedules.look_on,
            )
        supervisor.start(maintenance, "schedules", run_jobs)
        answers = AgentAnswers(
            library=library,
            tool_factory=base.tool_factory,
            ledger=base.usage,
            models=agents.models,
            schedules=work.schedules,
            timezone=start.config.schedules.timezone,
            messages=base.messages,
        )
        seats = cluster.LeasedSeats(work.ownership) if work.ownership is not None else None
        site = ChannelEnvironment(supervisor=supervisor, seats=seats)
        talk = partial(agents.channels.run, service, answers, site)
        supervisor.start(connections, "channels", talk)
        return
    try:
        await work.schedules.load()
    except OSError as error:  # whoever asks for jobs is told again
        logger.error("scheduled jobs cannot be read", extra={"error": str(error)})


def _gateway(
    start: _Start, base: _Base, agents: _AgentSide, work: _Work, connections: TaskGroup
) -> Gateway:
    return Gateway(
        config=start.config,
        service=work.service,
        library=agents.library,
        usage=base.usage,
        channels=agents.channels,
        schedules=work.schedules,
        telemetry=base.telemetry,
        changes=base.changes,
        messages=base.messages,
        starts=base.starts,
        supervisor=start.supervisor,
        models=base.models,
        tokens=base.tokens,
        spending=agents.spending,
        passing_on=base.providers.passing_on,
        refused_keys=base.providers.refused_keys,
        tool_factory=base.tool_factory,
        store_fault=base.storage.fault,
        meter=agents.meter,
        model_choices=agents.models,
        keyed=base.storage.keyed,
        storage=base.storage,
        secrets=start.secrets,
        started_at=start.clock.now(),
        version=start.version,
        connections=connections,
    )


async def _forget(base: _Base, session_id: str) -> None:
    """Let go of what is kept of a session beside it, before it is deleted."""
    await base.tool_factory.forget(session_id)
    await base.messages.forget(session_id)


def _sharing(start: _Start, base: _Base) -> AbstractAsyncContextManager[_Sharing]:
    """Hold leases and reach the others where the store is shared; who is alone needs neither."""
    if (referee := base.storage.referee) is None:
        return nullcontext((None, None))
    own = start.config, referee, start.clock, start.supervisor
    return cluster.open_sharing(*own, version=start.version, links=start.watch)
