"""A channel over a real service, run by its runner, into which a test feeds what people send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import anyio
from msgspec.structs import replace
from support.fixed_models import fixed_models, named_model, set_no_model
from support.inbound_events import ANN, DM, GROUP
from support.patience import WAIT_S
from support.scripted_adapter import Platform, ScriptedAdapter, capabilities

from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Gate, Tool
from everturn_actors.service import TurnService
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ManualClock, ScriptedProvider, open_test_service
from everturn_channels.access.owners import Owner
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import (
    Adapter,
    ButtonClick,
    Capabilities,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    InboundHandler,
    IncomingFile,
    Message,
    Person,
)
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.aliases import open_aliases
from everturn_channels.chats.chat_languages import ChatLanguages
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.chats.cursors import open_cursors
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.health import Health
from everturn_channels.inbound.running_channel import Limits, RunningChannel
from everturn_channels.runner import run_channel
from everturn_channels.settings import (
    AccessRules,
    BufferRules,
    ChannelSettings,
    DmRules,
    GroupRules,
    QueueRules,
    Route,
)

SaveFile: TypeAlias = Callable[[str, str, bytes], Awaitable[str | None]]


AT_ONCE = QueueRules(debounce_s=0)
OPEN = AccessRules(
    dm=DmRules(policy="open", queue=AT_ONCE),
    groups=GroupRules(policy="open", queue=AT_ONCE, context_buffer=BufferRules()),
)
"Everybody is admitted, and no turn is held."


class FeedingAdapter(ScriptedAdapter):
    """`Adapter` whose events come from a test."""

    def __init__(self, *, able: Capabilities | None = None) -> None:
        super().__init__(
            Platform(), able=able or replace(capabilities(chunk_units=4000), reactions=True)
        )
        self.reacted: list[tuple[str, str, str]] = []
        self.serves = 0
        "How often it began to serve."
        self._handler: InboundHandler | None = None
        self._serving = anyio.Event()
        self._error: Exception | None = None
        self._broken = anyio.Event()
        self.connects = True
        "Whether the login works."
        self.setup_error: Exception | None = None

    async def serve(self, handler: InboundHandler) -> None:
        """Log in and wait for what the test feeds, until it breaks the connection."""
        self.serves += 1
        self._broken = anyio.Event()
        if self.setup_error is not None:
            raise self.setup_error
        if self.connects:
            handler.connected("@test")
            handler.received()
        self._handler = handler
        self._serving.set()
        await self._broken.wait()
        self._serving = anyio.Event()
        if self._error is not None:
            raise self._error

    async def feed(self, event: InboundEvent) -> None:
        """Hand in an event, as an adapter does; return when it may be confirmed."""
        await (await self.handler()).handle(event)

    async def handler(self) -> InboundHandler:
        """Return the handler of the present try."""
        await self._serving.wait()
        assert self._handler is not None
        return self._handler

    def break_off(self, error: Exception | None) -> None:
        """Let `serve` fail; None = end."""
        self._error = error
        self._broken.set()

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Note a reaction."""
        self.reacted.append((chat_id, message_id, emoji))
        self._notify()


@dataclass(kw_only=True)
class Fed:
    """A running channel and its doubles."""

    adapter: FeedingAdapter
    service: TurnService
    provider: ScriptedProvider
    clock: ManualClock
    health: Health
    pairing: Pairing
    keyed: FileKeyedStore
    chat_types: ChatTypes
    rules: dict[str, AccessRules]
    owners: list[Owner] = field(default_factory=list)
    "Whose the agents are; it may change."
    saved: dict[str, bytes] = field(default_factory=dict)
    "Files that were put where tools read them, by path."
    answers: list[str] = field(default_factory=list)
    "What commands and buttons were answered, oldest first."
    numbers: int = 0

    def key(self, chat: str = "7", topic: str = "") -> ConversationKey:
        """Return the key of a conversation."""
        return ConversationKey(channel="test", chat=chat, topic=topic, agent="test")

    async def until_asleep(self, delay_s: float) -> None:
        """Wait until somebody sleeps for exactly so long from now; others may sleep, too."""
        due = self.clock.now() + timedelta(seconds=delay_s)
        with anyio.fail_after(WAIT_S):
            while not any(at == due and not woken.is_set() for at, woken in self.clock._sleepers):
                await anyio.lowlevel.checkpoint()

    async def until_still(self) -> None:
        """Wait until every task waits for something that a test does, and none for a file."""
        await anyio.wait_all_tasks_blocked()
        while self.keyed._threads.borrowed_tokens:
            await anyio.wait_all_tasks_blocked()

    def next_id(self) -> str:
        """Return an id that no message had."""
        self.numbers += 1
        return str(self.numbers)

    def message(self, text: str = "hello", **changes: object) -> Message:
        """Return a message of Ann's in a dm, written now."""
        plain = Message(id=self.next_id(), chat=DM, sender=ANN, text=text, at=self.clock.now())
        return replace(plain, **changes)

    async def say(self, text: str = "hello", **changes: object) -> Message:
        """Hand in such a message."""
        message = self.message(text, **changes)
        await self.adapter.feed(message)
        return message

    async def edit(self, message: Message, text: str) -> None:
        """Let its writer change a message."""
        await self.adapter.feed(
            Edit(
                id=message.id,
                chat=message.chat,
                sender=message.sender,
                text=text,
                at=self.clock.now(),
                is_addressed=message.is_addressed,
            )
        )

    async def command(
        self,
        name: str,
        argument: str = "",
        *,
        chat: ChatRef = DM,
        is_addressed: bool = False,
        sender: Person = ANN,
        is_typed: bool = True,
    ) -> str:
        """Let Ann give a command; return what she is answered at once, empty for nothing."""
        before = len(self.answers)
        await self.adapter.feed(
            Command(
                id=self.next_id(),
                name=name,
                argument=argument,
                chat=chat,
                sender=sender,
                at=self.clock.now(),
                is_addressed=is_addressed,
                is_typed=is_typed,
                answer=self._answer,
            )
        )
        return "".join(self.answers[before:])

    async def click(self, data: str, *, chat: ChatRef = DM, sender: Person = ANN) -> str:
        """Let somebody click a button; return what they are told."""
        before = len(self.answers)
        at = self.clock.now()
        await self.adapter.feed(
            ButtonClick(data=data, chat=chat, sender=sender, at=at, answer=self._answer)
        )
        return "".join(self.answers[before:])

    async def _answer(self, text: str) -> None:
        self.answers.append(text)

    async def state(self, chat: str = "7", topic: str = "") -> SessionState | None:
        """Return how a conversation stands; None where there is none."""
        session_id = await self.service.conversations.current(self.key(chat, topic))
        return await self.service.view(session_id) if session_id else None

    async def until_idle(self, chat: str = "7", turns: int = 1) -> SessionState:
        """Wait until a conversation has had so many turns and none is open."""
        session_id = await self.service.conversations.current(self.key(chat))
        async for _ in self.service.watch(session_id, after=0):
            state = await self.service.view(session_id)
            if state.turns >= turns and state.open_turn is None:
                return state
        raise AssertionError

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        while not is_so():
            await anyio.lowlevel.checkpoint()

    async def until_said(self, count: int = 1) -> list[str]:
        """Wait until the channel itself has said so many lines; return them."""
        await self.adapter.until(lambda: len(self.adapter.world.texts) >= count)
        return self.adapter.world.texts


def a_file(
    data: bytes | Exception, file_name: str = "", media_type: str = "", *, size: int | None = None
) -> IncomingFile:
    """Return a file that came with a message; an error is raised when it is fetched."""

    async def fetch(limit_bytes: int) -> bytes:
        del limit_bytes
        await anyio.lowlevel.checkpoint()
        if isinstance(data, Exception):
            raise data
        return data

    return IncomingFile(fetch=fetch, file_name=file_name, media_type=media_type, size_bytes=size)


def later(clock: ManualClock, delay_s: float) -> datetime:
    """Return an instant from now, by a clock that stands still."""
    return clock.now() + timedelta(seconds=delay_s)


@asynccontextmanager
async def feeding(
    folder: Path,
    *,
    more: Mapping[str, object] | None = None,
    rules: AccessRules = OPEN,
    routes: Sequence[Route] = (Route(agent="test"),),
    settings: ChannelSettings | None = None,
    provider: ScriptedProvider | None = None,
    adapter: FeedingAdapter | None = None,
    tools: Mapping[str, Tool] | None = None,
    gate: Gate | None = None,
    disk: MemoryDisk | None = None,
    clock: ManualClock | None = None,
    summariser: ScriptedProvider | None = None,
    limits: Limits | None = None,
    has_files: bool = True,
    save_file: SaveFile | None = None,
    delivery_port: DeliveryPort | None = None,
    owners: Sequence[Owner] = (),
    platform: Adapter | None = None,
) -> AsyncGenerator[Fed]:
    """Run a channel named `test`, with the agent `test`, whose small files lie in `folder`.

    A bot on a pretended platform may stand in the place of the adapter that is fed; `more` are
    further fields of its `ChannelContext`.

    Nothing in it takes longer than `WAIT_S`.
    """
    clock = clock or ManualClock()
    adapter = adapter or FeedingAdapter()
    provider = provider or ScriptedProvider()
    settings = settings or ChannelSettings()
    health = Health("test", "test", clock, adapter.capabilities.idle_s)
    keyed = FileKeyedStore(folder)
    pairing = Pairing(keyed, clock)
    chat_types = ChatTypes()
    async with AsyncExitStack() as stack:
        stack.enter_context(anyio.fail_after(WAIT_S))
        opened = await stack.enter_async_context(
            open_test_service(
                provider=provider,
                tools=tools,
                gate=gate,
                disk=disk,
                clock=clock,
                summariser=summariser,
                delivery_ports={"test": delivery_port} if delivery_port else None,
            )
        )
        cursors = await stack.enter_async_context(open_cursors(keyed, "test", clock))
        fed = Fed(
            adapter=adapter,
            service=opened.service,
            provider=provider,
            clock=clock,
            health=health,
            pairing=pairing,
            keyed=keyed,
            chat_types=chat_types,
            rules={"test": rules},
            owners=[*owners],
        )

        async def save_in_memory(agent: str, name: str, data: bytes) -> str | None:
            if not has_files:
                return None
            path = f"inbox/{name}"
            fed.saved[f"{agent}/{path}"] = data
            return path

        context = ChannelContext(
            service=opened.service,
            clock=clock,
            routes=lambda: (*pairing.agents.routes(fed.rules), *routes),
            agents=lambda: tuple(fed.rules),
            rules=fed.rules.get,
            describe_agent=lambda name: f"The agent {name}.",
            models=fixed_models,
            named_model=named_model,
            set_model=set_no_model,
            save_file=save_file or save_in_memory,
            owners=lambda: tuple(fed.owners),
            describe_usage=lambda is_asked: f"test used nothing: {is_asked('test')}",
            pairing=pairing,
        )
        context = replace(context, **(more or {}))

        async def run() -> None:
            served = platform or adapter
            channel = RunningChannel(
                adapter=served,
                context=context,
                settings=settings,
                health=health,
                cursors=cursors,
                limiter=RateLimiter(clock, lambda: 1.0),
                aliases=await open_aliases(keyed, served.name),
                chat_types=chat_types,
                languages=ChatLanguages(context.language),
                limits=limits or Limits(fetch_retry_s=0),
            )
            await run_channel(channel, jitter=lambda: 1.0)

        async with anyio.create_task_group() as running:
            running.start_soon(run)
            try:
                yield fed
            finally:
                running.cancel_scope.cancel()


__all__ = ["AT_ONCE", "GROUP", "OPEN", "Fed", "FeedingAdapter", "a_file", "feeding", "later"]
