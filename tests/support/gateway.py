"""A whole gateway on loopback: everything in it is real but the model, which is scripted."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
import yaml
from anyio.abc import SocketStream, TaskGroup
from support.patience import WAIT_S
from support.remembered_routes import remember_routes

from everturn_actors.cluster.leases import Share
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.files.maintenance import FileMaintenance
from everturn_actors.journal.health import WriteHealth
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock, KeyedStore, NullObserver
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.spec import OnDisconnect
from everturn_actors.supervisor import Supervisor
from everturn_actors.testing import ScriptedProvider
from everturn_channels.access.pairing import Pairing
from everturn_gateway.app import (
    SPENDING_FOLDER,
    USAGE_FOLDER,
    make_meter,
    make_price_meter,
    make_spending,
    payer_in,
)
from everturn_gateway.app.search import NotingObserver
from everturn_gateway.channels import no_channels
from everturn_gateway.channels.answering import agent_checkpoints, agent_notes
from everturn_gateway.client import SessionClient, open_api, open_api_here
from everturn_gateway.client.api import RECONNECT_S
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config, ServerConfig
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.http.access.auth import THIS_PROCESS
from everturn_gateway.http.asgi import create_app
from everturn_gateway.http.ports import Channels
from everturn_gateway.http.server import serve_http
from everturn_gateway.logs import RecentLog, SecretRegistry
from everturn_gateway.model_choices import ModelChoices
from everturn_gateway.model_statistics import StoredModelStatistics, open_model_statistics
from everturn_gateway.principals import (
    Logins,
    Scope,
    StoredTokens,
    TokenRecord,
    TokenRegistry,
    digest_of,
    new_token,
    open_tokens,
)
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.retention.cleaning import Cleaner
from everturn_gateway.retention.erasing import Eraser
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.job_registry import JobNeeds
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.scheduler import FOLDER as SCHEDULES_FOLDER
from everturn_gateway.scheduler.scheduler import JobStorage, open_scheduler
from everturn_gateway.search.index import open_message_index
from everturn_gateway.session_changes import Changes
from everturn_gateway.specs import AgentLibrary, open_library
from everturn_gateway.starts import Starts
from everturn_gateway.telemetry import Telemetry
from everturn_gateway.tools.checkpoints import Checkpoints
from everturn_gateway.tools.factory import FactorySettings, ToolFactory, open_tool_factory
from everturn_gateway.tools.memory.editing import OwnNotes
from everturn_gateway.tools.memory.idle_conversations import IdleConversations
from everturn_gateway.tools.web.late_posting import make_poster
from everturn_gateway.usage import Spending, UsageLedger, open_ledger

remember_routes()  # of all gateways in this process, whoever opens them

# Reading the machine's certificates takes 80 ms a client, and nothing here uses TLS.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
DEADLINE_S = WAIT_S  # of one test's talk with its gateway


@dataclass(slots=True, kw_only=True)
class HttpGateway:
    """A gateway that listens, and what is behind it."""

    config: Config
    service: TurnService
    library: AgentLibrary
    usage: UsageLedger
    channels: Channels
    schedules: SchedulerClient
    messages: MessageIndex
    provider: ScriptedProvider
    store: FileStore
    keyed: KeyedStore
    clock: Clock
    started_at: datetime
    models: StoredModelStatistics
    tokens: TokenRegistry
    spending: Spending
    pairing: Pairing
    telemetry: Telemetry = field(default_factory=Telemetry)
    changes: Changes = field(default_factory=lambda: Changes(NullObserver()))
    starts: Starts = field(default_factory=Starts)
    logins: Logins = field(default_factory=Logins)
    recent_log: RecentLog = field(default_factory=RecentLog)
    passing_on: PassingOn = field(default_factory=lambda: PassingOn({}, str))
    version: str = "1.2.3"
    tasks: TaskGroup | None = None
    "Where long tasks are started; it lives as long as the server listens."
    supervisor: Supervisor = field(default_factory=lambda: Supervisor(SystemClock()))
    is_ready: bool = True
    journal: WriteHealth | None = None
    tool_factory: ToolFactory | None = None
    base_url: str = ""
    findings: tuple[Finding, ...] = ()
    shares: tuple[Share, ...] = ()
    "The gateways that share its store, itself first; none = it is alone."
    differing: tuple[str, ...] = ()
    maintenance: anyio.Lock = field(default_factory=anyio.Lock)
    listening: anyio.Event = field(default_factory=anyio.Event)

    def checkpoints(self, agent: str) -> Checkpoints:
        """Return what turns changed in an agent's workspace."""
        assert self.tool_factory is not None
        return agent_checkpoints(self.tool_factory, self.library, agent)

    @property
    def model_choices(self) -> ModelChoices:
        """Which models agents could have; nobody is asked for prices that are not known."""
        return ModelChoices(
            library=self.library,
            meter=make_price_meter(self.config, self.clock),
            environ={},
            clock=self.clock,
        )

    def own_notes(self, key: ConversationKey, principal: str) -> OwnNotes:
        """Return the notes about the people of a conversation.

        Raises:
            UnknownAgentError: Its agent is gone.
            ToolFailedError: Its agent keeps none.
        """
        assert self.tool_factory is not None
        return agent_notes(self.tool_factory, self.library, key, principal)

    def cleaner(self) -> Cleaner:
        """Return what cleans by `sessions.keep`."""
        return Cleaner(
            keep=lambda: self.config.sessions.keep,
            service=self.service,
            store=self.store,
            maintenance=FileMaintenance(self.store),
            keyed=self.keyed,
            cancelled=self.config.workspace / SCHEDULES_FOLDER / "cancelled",
            clock=self.clock,
            on_gone=self.changes.gone,
            owns=lambda _session_id, _key: True,
            cleaning=self.maintenance,
        )

    def eraser(self) -> Eraser:
        """Return what erases the words of a person."""
        return Eraser(
            service=self.service,
            store=self.store,
            maintenance=FileMaintenance(self.store),
            messages=self.messages,
            keyed=self.keyed,
            clock=self.clock,
            notes=self.own_notes,
            on_gone=self.changes.gone,
            owns=lambda _session_id, _key: True,
            erasing=self.maintenance,
        )

    @property
    def node(self) -> str:
        """Say its name among the others; by default it is alone."""
        return next((each.member.node.name for each in self.shares), "")

    def nodes(self) -> tuple[Share, ...]:
        """Say which nodes there are."""
        return self.shares

    def node_differences(self) -> tuple[str, ...]:
        """Say in what they differ."""
        return self.differing

    def homes(self) -> dict[str, str]:
        """Say at which node each agent with a folder is: all at the first."""
        return {f"agent:{each}": self.node for each in self.library.names()} if self.shares else {}

    def refused_keys(self) -> tuple[str, ...]:
        """Say that every key is good."""
        return ()

    def homes_away(self) -> tuple[str, ...]:
        """Say that it is alone."""
        return ()

    def ready(self) -> bool:
        """Whether it says that it takes messages."""
        return self.is_ready

    def start(self, name: str, body: Callable[[], Awaitable[object]]) -> None:
        """Start a long task."""
        assert self.tasks is not None
        self.supervisor.start(self.tasks, name, body)

    async def examine(self) -> AsyncGenerator[Finding]:
        """Yield what a test wants to be found."""
        for each in self.findings:
            await anyio.lowlevel.checkpoint()
            yield each

    async def journal_fault(self) -> str:
        """Return why nothing can be written."""
        return "" if self.journal is None else await self.journal.check()

    def client(
        self, *, token: str = "", headers: Mapping[str, str] | None = None
    ) -> httpx2.AsyncClient:
        """Return a client of its own connection."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.AsyncClient(
            base_url=self.base_url,
            headers={**bearer, **(headers or {})},
            timeout=DEADLINE_S,
            verify=_NO_CERTIFICATES,
        )

    async def token(
        self,
        name: str,
        *scopes: Scope,
        agents: tuple[str, ...] = (),
        daily_cost_usd: float | None = None,
        requests_per_minute: int | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """Make a token of a principal, as the command line does, and return it."""
        token = new_token()
        record = TokenRecord(
            name=name,
            digest=digest_of(token),
            scopes=scopes,
            agents=agents,
            daily_cost_usd=daily_cost_usd,
            requests_per_minute=requests_per_minute,
            created_at=datetime.now(UTC),  # noqa: TID251 - that of the command line
            expires_at=expires_at,
        )
        await self.stored_tokens.add(record)
        return token

    @property
    def stored_tokens(self) -> StoredTokens:
        """The tokens as a command line beside it finds them."""
        return StoredTokens(FileKeyedStore(self.config.workspace))

    async def session(self, agent: str = "test") -> str:
        """Begin a session and return its id."""
        async with self.client(token=self.config.server.api_token) as client:
            answer = await client.post("/api/v1/sessions", json={"agent": agent})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])


@asynccontextmanager
async def open_client_here(gateway: HttpGateway) -> AsyncGenerator[SessionClient]:
    """Open a client that reaches a gateway within this process, as commands do where none runs."""
    app = await anyio.to_thread.run_sync(lambda: create_app(gateway, caller=THIS_PROCESS))
    async with open_api_here(app) as api:
        yield SessionClient(api)


@asynccontextmanager
async def open_http_client(
    url: str, *, token: str, reconnect_s: float = RECONNECT_S
) -> AsyncGenerator[SessionClient]:
    """Open a client to the gateway that listens at `url`."""
    async with open_api(url, token=token, reconnect_s=reconnect_s) as api:
        yield SessionClient(api)


@asynccontextmanager
async def open_http_gateway(
    folder: Path,
    *,
    provider: ScriptedProvider | None = None,
    on_disconnect: OnDisconnect = "pause",
    compaction: str = "archive",
    server: ServerConfig | None = None,
    settings: ServiceSettings | None = None,
    clock: Clock | None = None,
    logins: Logins | None = None,
) -> AsyncGenerator[HttpGateway]:
    """Serve the agent `test` from `folder`; opened again on the same folder, it is a restart.

    Args:
        folder: Holds the workspace and the agents.
        provider: The model; by default one that numbers its replies.
        on_disconnect: What the agent says of clients that go.
        compaction: What becomes of old events.
        server: The listener's settings; the port is always a free one.
        settings: Times of the service; by default nobody waits for a client that left.
        clock: The time; by default the machine's.
        logins: Of browsers; by default none yet.
    """
    provider = provider or ScriptedProvider()
    server = replace(server or ServerConfig(), port=0)
    config = Config(workspace=folder / "workspace", agents_dir=folder / "agents", server=server)
    await anyio.to_thread.run_sync(write_agent, config.agents_dir, on_disconnect, compaction)
    keyed = FileKeyedStore(config.workspace)
    async with (
        open_file_store(config.workspace, keeps_index=False) as store,
        open_message_index(None, store, clock or SystemClock()) as messages,
        open_memory_store(MemoryDisk()) as scratch,
        open_ledger(keyed, USAGE_FOLDER, clock or SystemClock()) as usage,
        open_ledger(keyed, SPENDING_FOLDER, clock or SystemClock()) as spent,
        open_tokens(keyed, clock or SystemClock()) as tokens,
        open_model_statistics(keyed, clock or SystemClock()) as models,
        open_tool_factory(
            FactorySettings(
                state=config.workspace,
                keyed=keyed,
                environ={"PATH": os.environ["PATH"]},
            ),
            secrets=SecretRegistry(),
            clock=clock or SystemClock(),
        ) as tool_factory,
    ):
        spending = make_spending(spent, tokens, clock or SystemClock())
        telemetry = Telemetry()
        idle = IdleConversations(
            service=lambda: tool_factory.link.service, clock=clock or SystemClock()
        )
        changes = Changes(NotingObserver(telemetry, messages, idle))
        library = await open_library(
            config.agents_dir,
            {},
            lambda _spec, _folder: provider,
            meter=make_meter(config, usage, clock or SystemClock(), spending),
            tool_factory=tool_factory,
        )
        async with (
            open_service(
                store=store,
                scratch=scratch,
                agents=library,
                clock=clock or SystemClock(),
                settings=settings or ServiceSettings(leave_grace_s=0, drain_s=0),
                ports=ServicePorts(observer=changes, on_delete=messages.forget),
            ) as service,
            open_scheduler(
                JobStorage(folder=config.workspace / SCHEDULES_FOLDER, keyed=keyed),
                runner=JobRunner(service, make_poster(())),
                needs=JobNeeds(
                    agents=library,
                    channels=frozenset(),
                    is_running=tool_factory.processes.is_running,
                ),
                clock=clock or SystemClock(),
            ) as schedules,
        ):
            spending.payer_of = payer_in(service)
            tool_factory.link.connect(service, schedules, messages)
            tool_factory.processes.resume()
            await schedules.load()
            channels = no_channels(config, keyed, clock or SystemClock())
            gateway = HttpGateway(
                tool_factory=tool_factory,
                config=config,
                service=service,
                library=library,
                usage=usage,
                channels=channels,
                schedules=schedules,
                messages=messages,
                provider=provider,
                store=store,
                keyed=keyed,
                clock=clock or SystemClock(),
                models=models,
                tokens=tokens,
                spending=spending,
                pairing=channels.pairing,
                telemetry=telemetry,
                changes=changes,
                logins=logins or Logins(),
                started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            )
            async with serving(gateway):
                yield gateway


@asynccontextmanager
async def serving(gateway: HttpGateway) -> AsyncGenerator[None]:
    """Listen while the block runs."""

    def on_ready(url: str) -> None:
        gateway.base_url = url
        gateway.listening.set()

    async def serve() -> None:
        await serve_http(gateway, on_ready=on_ready)

    async with anyio.create_task_group() as tasks:
        gateway.tasks = tasks
        tasks.start_soon(serve)
        with anyio.fail_after(DEADLINE_S):
            await gateway.listening.wait()
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


def write_agent(
    agents_dir: Path, on_disconnect: str = "pause", compaction: str = "archive", name: str = "test"
) -> Path:
    """Write the folder of an agent and return its file."""
    document: dict[str, Any] = {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "description": "For tests", "version": "1.0"},
        "spec": {
            "model": {"provider": "scripted", "name": "scripted"},
            "session": {"on_disconnect": on_disconnect, "compaction": compaction},
        },
    }
    file = agents_dir / name / "agent.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


# --- server-sent events ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One message of an event stream."""

    event: str
    data: Any
    seq: int | None
    "Its id; None where it has none, or it is no number."
    cursor: str = ""
    "Its id, whatever it is."


async def server_events(response: httpx2.Response) -> AsyncGenerator[ServerEvent]:
    """Yield the messages of an event stream as they come; comments are left out."""
    event, data, cursor = "message", "", ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        match name:
            case "event":
                event = value
            case "data":
                data = value
            case "id":
                cursor = value
            case "" if data and not line:
                parsed = orjson.loads(data) if data != "[DONE]" else data
                seq = int(cursor) if cursor.isdecimal() else None
                yield ServerEvent(event=event, data=parsed, seq=seq, cursor=cursor)
                event, data, cursor = "message", "", ""
            case _:
                pass


async def connect(gateway: HttpGateway) -> SocketStream:
    """Open a bare connection to the gateway."""
    return await anyio.connect_tcp("127.0.0.1", int(gateway.base_url.rpartition(":")[2]))


async def read_all(stream: SocketStream) -> bytes:
    """Return all that comes until the other side closes, however it does."""
    data = b""
    with anyio.fail_after(DEADLINE_S):
        try:
            while True:
                data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return data
