"""Doubles for whoever tests something built on the core; part of the public API.

They stand at the outermost edge - the model and the clock - and everything between is real.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypedDict, Unpack

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import UnknownAgentError, UnusableModelError
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import (
    ChosenModel,
    ConversationKey,
    ModelRequest,
    Reply,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import (
    Agent,
    Clock,
    Gate,
    ModelStatisticsStore,
    SessionStore,
    Summariser,
    Tool,
)
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.spec import AgentSpec, ModelSpec

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

Scripted: TypeAlias = str | Reply | Exception | Callable[[ModelRequest], "str | Reply"]


class ManualClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now
        self._sleepers: list[tuple[datetime, anyio.Event]] = []
        self._changed = anyio.Event()

    def now(self) -> datetime:
        """Return the present instant."""
        return self._now

    async def sleep(self, delay_s: float) -> None:
        """Wait until the clock has been moved that far.

        Raises:
            ValueError: `delay_s` is negative; so says the machine's clock.
        """
        if delay_s < 0:
            msg = "delay must be a non-negative number"
            raise ValueError(msg)
        wake_at, woken = self._now + timedelta(seconds=delay_s), anyio.Event()
        self._sleepers.append((wake_at, woken))
        self._changed.set()
        try:
            await woken.wait()
        finally:
            self._sleepers = [s for s in self._sleepers if s[1] is not woken]

    def advance(self, delay_s: float) -> None:
        """Move on, and wake whoever slept for no longer than that."""
        self._now += timedelta(seconds=delay_s)
        for wake_at, woken in self._sleepers:
            if wake_at <= self._now:
                woken.set()

    async def until_sleeping(self, delay_s: float) -> None:
        """Wait until somebody sleeps who will wake within `delay_s`."""
        while not self._will_wake(self._now + timedelta(seconds=delay_s)):
            self._changed = anyio.Event()
            await self._changed.wait()

    def _will_wake(self, by: datetime) -> bool:
        return any(at <= by and not woken.is_set() for at, woken in self._sleepers)


class ScriptedProvider:
    """A model that says what it was told to say, in pieces of one word.

    When its script is at its end it answers `reply N`, N counting its calls.
    """

    def __init__(self, *script: Scripted) -> None:
        self.script = list(script)
        self.requests: list[ModelRequest] = []
        "Every request, oldest first."
        self._gate: anyio.Event | None = None
        self._called = anyio.Event()

    def hold(self) -> None:
        """Keep each reply from ending until `release`; its first word still comes at once."""
        self._gate = anyio.Event()

    def release(self) -> None:
        """Let held replies end."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def until_called(self, times: int = 1) -> None:
        """Wait until the model has been called so many times in all."""
        while len(self.requests) < times:
            self._called = anyio.Event()
            await self._called.wait()

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the next reply of the script."""
        self.requests.append(request)
        self._called.set()
        gate = self._gate
        said = self.script.pop(0) if self.script else f"reply {len(self.requests)}"
        if callable(said):
            said = said(request)
        if isinstance(said, Exception):
            await anyio.lowlevel.checkpoint()
            raise said
        reply = said if isinstance(said, Reply) else Reply(text=said, model=request.model)
        words = reply.text.split(" ")
        pieces = [word + " " for word in words[:-1]] + words[-1:]
        on_text(pieces[0])
        await anyio.lowlevel.checkpoint()
        if gate is not None:
            await gate.wait()
        for piece in pieces[1:]:
            on_text(piece)
            await anyio.lowlevel.checkpoint()
        return reply


def calling(*calls: tuple[str, str]) -> Reply:
    """Return a reply that calls tools: pairs of call id and tool name."""
    return Reply(
        calls=tuple(ToolCall(call_id=call_id, name=name) for call_id, name in calls),
        stop_reason="tool_calls",
    )


class StaticAgents(Struct):
    """Agents that are simply there."""

    agents: dict[str, Agent] = field(default_factory=dict[str, Agent])

    def get(self, name: str) -> Agent:
        """Return an agent.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        if name not in self.agents:
            raise UnknownAgentError(name, tuple(self.agents))
        return self.agents[name]

    def get_with(self, name: str, model: ChosenModel) -> Agent:
        """Return an agent with another model, which the same provider answers for.

        Raises:
            UnknownAgentError: There is none of this name.
            UnusableModelError: It is called `missing`.
        """
        agent = self.get(name)
        if model.name == "missing":
            raise UnusableModelError(name, model.label, "it is missing")
        chosen = replace(agent.spec.model, provider=model.provider, name=model.name)
        return replace(agent, spec=replace(agent.spec, model=chosen))


class TestService(Struct, kw_only=True):
    """A service over doubles, and the doubles."""

    __test__ = False  # not a test case, whatever its name

    service: TurnService
    provider: ScriptedProvider
    clock: Clock
    agents: StaticAgents
    store: SessionStore

    def key(self, chat: str = "chat") -> ConversationKey:
        """Return the key of a conversation with the agent `test`."""
        return ConversationKey(channel="test", chat=chat, agent="test")


def make_spec(name: str = "test") -> AgentSpec:
    """Return the values of a plain agent."""
    return AgentSpec(name=name, model=ModelSpec(provider="scripted", name="scripted"))


class AgentParts(TypedDict, total=False):
    """What the agent of a test is made of; None, or left out, is what each says."""

    provider: ScriptedProvider | None
    "The model; else one that numbers its replies."
    spec: AgentSpec | None
    "The agent, which is called `test` whatever its values say."
    tools: Mapping[str, Tool] | None
    "What the agent can do; else nothing."
    summariser: ScriptedProvider | None
    "Who writes summaries; else nobody."
    gate: Gate | None
    "Which calls may run; else all."


@asynccontextmanager
async def open_test_service(
    *,
    store: SessionStore | None = None,
    disk: MemoryDisk | None = None,
    clock: Clock | None = None,
    settings: ServiceSettings | None = None,
    model_statistics: ModelStatisticsStore | None = None,
    delivery_ports: Mapping[str, DeliveryPort] | None = None,
    **parts: Unpack[AgentParts],
) -> AsyncGenerator[TestService]:
    """Open a real service over a scripted model and, unless `store` is given, a memory store.

    Args:
        store: Where sessions live.
        disk: The memory store's disk, to be opened again after a crash.
        clock: The time; by default a `ManualClock`.
        settings: Times; by default nobody waits for a client that left, and a stop drains at once.
        model_statistics: What is learnt about the model.
        delivery_ports: Who tells the people of a channel; `TestService.key` is of channel `test`.
        parts: The agent's.
    """
    provider = parts.get("provider") or ScriptedProvider()
    clock = clock or ManualClock()
    spec = parts.get("spec") or make_spec()
    summariser = parts.get("summariser")
    agent = Agent(
        spec=spec,
        provider=provider,
        tools=parts.get("tools") or {},
        summariser=Summariser(provider=summariser, model=spec.model) if summariser else None,
        gate=parts.get("gate"),
    )
    agents = StaticAgents({"test": agent})
    async with AsyncExitStack() as stack:
        if store is None:
            store = await stack.enter_async_context(open_memory_store(disk or MemoryDisk()))
        scratch = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        service = await stack.enter_async_context(
            open_service(
                store=store,
                scratch=scratch,
                agents=agents,
                clock=clock,
                settings=settings or ServiceSettings(leave_grace_s=0, drain_s=0),
                ports=ServicePorts(
                    model_statistics=model_statistics, delivery_ports=delivery_ports or {}
                ),
            )
        )
        yield TestService(
            service=service, provider=provider, clock=clock, agents=agents, store=store
        )


def texts(request: ModelRequest) -> Sequence[str]:
    """Return the user texts of a request, oldest first."""
    return [m.text for m in request.messages if isinstance(m, UserMessage)]
