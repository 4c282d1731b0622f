"""A real service whose channel is a scripted platform."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
from msgspec import structs
from msgspec.structs import replace
from support.patience import WAIT_S
from support.scripted_adapter import ScriptedAdapter

from everturn_actors.events import Event
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey, IncomingMessage, ModelRequest, Reply
from everturn_actors.ports import Agent, Gate, SessionStore, Speaker, Tool, Transcriber
from everturn_actors.service import (
    ServicePorts,
    ServiceSettings,
    Submission,
    TurnService,
    open_service,
)
from everturn_actors.spec import SpokenReplies
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import (
    ManualClock,
    Scripted,
    ScriptedProvider,
    StaticAgents,
    make_spec,
)
from everturn_channels.delivery import Deliverer
from everturn_channels.delivery.rate_limiter import DOUBT_S, RateLimiter
from everturn_channels.settings import ChannelSettings

ROUNDS = 100  # of the loop; what follows from one thing takes about twenty


async def idle() -> None:
    """Let everybody do what they can do now: all is in memory, so some rounds of the loop do."""
    for _ in range(ROUNDS):
        await anyio.lowlevel.checkpoint()


@dataclass
class Counter:
    """Counts what went out."""

    sent: int = 0
    given_up: int = 0

    def count_out(self) -> None:
        """Count one."""
        self.sent += 1

    def count_given_up(self) -> None:
        """Count one that never will."""
        self.given_up += 1


@dataclass(kw_only=True)
class Delivering:
    """The service and its doubles."""

    service: TurnService
    adapter: ScriptedAdapter
    provider: ScriptedProvider
    clock: ManualClock
    store: SessionStore
    limiter: RateLimiter
    counter: Counter = field(default_factory=Counter)

    def key(self, chat: str = "chat") -> ConversationKey:
        """Return the key of a conversation of the channel."""
        return ConversationKey(channel="test", chat=chat, agent="test")

    async def say(self, text: str = "hello", *, chat: str = "chat", key: str = "") -> Submission:
        """Send a message, as an adapter does."""
        inbound = IncomingMessage(
            text=text, key=self.key(chat), sender="ann", idempotency_key=key, reply_to="q1"
        )
        return await self.service.submit(inbound)

    async def state(self, session_id: str) -> SessionState:
        """Return how the session stands."""
        return await self.service.view(session_id)

    async def until_delivered(self, session_id: str) -> None:
        """Wait until no turn is open and nothing is pending."""
        async for _ in self.service.watch(session_id, after=0):
            state = await self.state(session_id)
            if state.open_turn is None and not state.waiting and not state.outbox:
                return

    async def log(self, session_id: str) -> list[Event]:
        """Return all events."""
        return [*await self.store.read(session_id, after=0, limit=10_000)]


@asynccontextmanager
async def delivering(
    *replies: Scripted,
    adapter: ScriptedAdapter | None = None,
    settings: ChannelSettings | None = None,
    tools: Mapping[str, Tool] | None = None,
    provider: ScriptedProvider | None = None,
    store: SessionStore | None = None,
    clock: ManualClock | None = None,
    gate: Gate | None = None,
    transcriber: Transcriber | None = None,
    speaker: Speaker | None = None,
    spoken_replies: SpokenReplies = "never",
    drain_s: float = 0,
) -> AsyncGenerator[Delivering]:
    """Open a service whose conversations of the channel `test` are delivered to a platform.

    Nothing in it takes longer than `WAIT_S`.
    """
    adapter = adapter or ScriptedAdapter()
    clock = clock or ManualClock()
    provider = provider or ScriptedProvider(*replies)
    counter, limiter = Counter(), RateLimiter(clock, lambda: 0.0)
    deliverer = Deliverer(
        adapter,
        settings=settings or ChannelSettings(streaming=False),
        clock=clock,
        chat_type_of=lambda key: "dm" if key.chat.startswith("dm") else "group",
        tally=counter,
        limiter=limiter,
    )
    agent = Agent(
        spec=structs.replace(make_spec(), spoken_replies=spoken_replies),
        provider=provider,
        tools=tools or {},
        gate=gate,
        transcriber=transcriber,
        speaker=speaker,
    )
    async with AsyncExitStack() as stack:
        if store is None:
            store = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        scratch = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        with anyio.fail_after(WAIT_S) as scope:
            async with open_service(
                store=store,
                scratch=scratch,
                agents=StaticAgents({"test": agent}),
                clock=clock,
                settings=ServiceSettings(leave_grace_s=0, drain_s=drain_s),
                ports=ServicePorts(delivery_ports={"test": deliverer}),
            ) as service:
                yield Delivering(
                    service=service,
                    adapter=adapter,
                    provider=provider,
                    clock=clock,
                    store=store,
                    limiter=limiter,
                    counter=counter,
                )
            if anyio.current_time() > scope.deadline:  # a stop shields itself from it
                raise TimeoutError


class Dictated(ScriptedProvider):
    """A model that says each piece when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: deque[str | Reply | Exception] = deque()
        self._said = anyio.Event()

    def speak(self, *pieces: str | Reply | Exception) -> None:
        """Say pieces of text; a reply, or an error, ends the call."""
        self._pieces += pieces
        self._said.set()

    def end(self) -> None:
        """End the call with all that was said in it."""
        self.speak(Reply())

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Say what there is to say, until the call ends."""
        self.requests.append(request)
        self._called.set()
        text = ""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, Reply):
                    return replace(piece, text=piece.text or text)
                text += piece
                on_text(piece)
                await anyio.lowlevel.checkpoint()
            self._said = anyio.Event()
            await self._said.wait()


async def pass_doubt(clock: ManualClock) -> None:
    """Let the time go by after which a message of unknown outcome is sent once more."""
    await clock.until_sleeping(DOUBT_S)
    await idle()
    clock.advance(DOUBT_S)
