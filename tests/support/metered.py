"""A real service that is measured and traced, and what tests read in its metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
from prometheus_client.parser import text_string_to_metric_families
from support.patience import WAIT_S
from support.scripted_adapter import ScriptedAdapter

from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey, IncomingMessage, ModelRequest, Reply
from everturn_actors.ports import Agent, Gate, ModelProvider, SessionStore, Summariser, Tool
from everturn_actors.service import (
    ServicePorts,
    ServiceSettings,
    TurnResult,
    TurnService,
    open_service,
)
from everturn_actors.spec import AgentSpec, ModelSpec
from everturn_actors.testing import ManualClock, StaticAgents, make_spec
from everturn_channels.delivery import Deliverer
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.settings import ChannelSettings
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.telemetry import Telemetry
from everturn_gateway.telemetry.tracing import Tracer
from everturn_gateway.tools.policy import GuardedTool, Policy
from everturn_gateway.tools.policy.guarding import Beside
from everturn_gateway.usage import DailyLimit


class Scrape:
    """One scrape, read with the library's own parser."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Return a sample; 0 where there is none."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def series(self, name: str) -> dict[str, float]:
        """Return all samples of a name, by the values of their labels in the labels' order."""
        return {
            " ".join(value for _, value in sorted(labels)): found
            for (sample, labels), found in self.samples.items()
            if sample == name
        }

    @property
    def labels(self) -> set[str]:
        """All values of labels."""
        return {value for _, labels in self.samples for _, value in labels}


async def scrape(telemetry: Telemetry) -> Scrape:
    """Return what Prometheus reads now."""
    return Scrape((await telemetry.exposition("text/plain")).body.decode())


class FreeMeter:
    """Counts nothing."""

    def metered(
        self,
        provider: ModelProvider,
        *,
        agent: str,
        model: ModelSpec,
        limit: DailyLimit,
    ) -> ModelProvider:
        """Return `provider`."""
        return provider

    def unpriced(self, model: ModelSpec) -> Sequence[str]:
        """Return nothing."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The service, and what measures it."""

    service: TurnService
    telemetry: Telemetry
    clock: ManualClock

    def key(self, channel: str = "test") -> ConversationKey:
        """Return the key of the conversation."""
        return ConversationKey(channel=channel, chat="chat-4711", agent="test")

    async def ask(self, text: str = "hello", **more: str) -> TurnResult:
        """Send a message and wait for the end of its turn."""
        key = self.key(more.pop("channel", "test"))
        inbound = IncomingMessage(text=text, key=key, **more)  # type: ignore[arg-type]  # strings alone
        return await (await self.service.submit(inbound)).result()

    async def scrape(self) -> Scrape:
        """Return what Prometheus reads now."""
        return await scrape(self.telemetry)


@asynccontextmanager
async def measured(
    provider: ModelProvider,
    *,
    tracer: Tracer | None = None,
    tools: Mapping[str, Tool] | None = None,
    gate: Gate | None = None,
    spec: AgentSpec | None = None,
    store: SessionStore | None = None,
    adapter: ScriptedAdapter | None = None,
    summariser: ModelProvider | None = None,
    clock: ManualClock | None = None,
) -> AsyncGenerator[Measured]:
    """Open a service whose ports are wrapped as the gateway wraps them; nothing takes long in it.

    The agent is called `test`; with an adapter its people of channel `test` are told.
    """
    telemetry, clock, spec = Telemetry(tracer), clock or ManualClock(), spec or make_spec()
    models = telemetry.models(FreeMeter())

    def used(by: ModelProvider) -> ModelProvider:
        return models.metered(by, agent="test", model=spec.model, limit=DailyLimit())

    agent = Agent(
        spec=spec,
        provider=used(provider),
        tools={
            name: GuardedTool(
                tool,
                agent="test",
                secrets=SecretRegistry(),
                policy=Policy(),
                beside=Beside(watch=telemetry.tools),
            )
            for name, tool in (tools or {}).items()
        },
        gate=gate,
        summariser=Summariser(provider=used(summariser), model=spec.model) if summariser else None,
    )
    settings = ChannelSettings(streaming=False)
    deliverers = (
        {
            "test": Deliverer(
                adapter, settings=settings, clock=clock, limiter=RateLimiter(clock, lambda: 0.0)
            )
        }
        if adapter is not None
        else {}
    )
    async with AsyncExitStack() as stack:
        if store is None:
            store = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        scratch = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        stack.enter_context(anyio.fail_after(WAIT_S))
        service = await stack.enter_async_context(
            open_service(
                store=telemetry.store(store),
                scratch=scratch,
                agents=StaticAgents({"test": agent}),
                clock=clock,
                settings=ServiceSettings(leave_grace_s=0, drain_s=0),
                ports=ServicePorts(delivery_ports=deliverers, observer=telemetry),
            )
        )
        yield Measured(service=service, telemetry=telemetry, clock=clock)


class Failing:
    """A model that fails as told, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = [*errors]

    async def complete(self, request: ModelRequest, on_text: object) -> Reply:
        """Raise the next error; with none left, answer."""
        del on_text
        await anyio.lowlevel.checkpoint()
        if self.errors:
            raise self.errors.pop(0)
        return Reply(text="well", model=request.model)
