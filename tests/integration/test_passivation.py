"""A session goes to rest after whatever was done last in it: nothing is left in memory."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import anyio
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.context.render import Renderer
from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import ModelRefusedError
from everturn_actors.events import DeliveryPlanned
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    AmbientRules,
    IncomingMessage,
    Queueing,
    ToolDefinition,
)
from everturn_actors.ports import ToolCapabilities, ToolContext, Verdict
from everturn_actors.protocol.feed import Feed
from everturn_actors.service import History, ServiceSettings
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)

SOON = ServiceSettings(passivate_after_s=0.001, leave_grace_s=0, drain_s=0)
LONG = "word " * 400

Act: TypeAlias = Callable[[TestService], Awaitable[Any]]


class DeliveryPort:
    """Tells a channel's people at once."""

    takes_files = True

    async def deliver(self, session: Outgoing) -> None:
        """Deliver what is pending, as nothing at all."""
        while not session.is_stopping:
            for item in session.state.outbox:
                await session.record(DeliveryPlanned(item=item.seq, chunks=()))
            if session.state.open_turn is None:
                return
            await session.until_changed()


class Tool:
    """Does nothing."""

    definition = ToolDefinition(name="act", description="Act.", parameters={"type": "object"})
    capabilities = ToolCapabilities()

    async def run(self, call: object, context: ToolContext) -> str:
        """Do it."""
        del call, context
        return "done"


class Gate:
    """Asks a person about every call."""

    async def evaluate(self, call: object, tool: object, context: ToolContext) -> Verdict:
        """Ask."""
        del call, tool, context
        return Verdict(effect="ask")

    async def remember(self, pattern: str) -> None:
        """Nothing is allowed for good."""


async def say(test: TestService, text: str = "hello", **fields: Any) -> str:
    """Have a message answered; return its session."""
    done = await test.service.submit(IncomingMessage(text=text, key=test.key(), **fields))
    await done.result()
    return done.session_id


async def _failed(test: TestService) -> None:
    test.provider.script.append(ModelRefusedError("no"))
    await say(test)


async def _cancelled(test: TestService) -> None:
    test.provider.hold()
    held = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
    await test.provider.until_called()
    await test.service.cancel(held.session_id)
    test.provider.release()


async def _paused(test: TestService) -> None:
    test.provider.hold()
    held = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
    await test.provider.until_called()
    await held.leave()
    turn = (await test.service.view(held.session_id)).open_turn
    if turn is not None and turn.delivers:  # its people are elsewhere: it is finished for them
        test.provider.release()
        return
    assert isinstance(test.clock, ManualClock)
    await test.clock.until_sleeping(0)
    test.clock.advance(0)


async def _held(test: TestService) -> None:
    waits = Queueing(debounce_s=30)
    held = await test.service.submit(IncomingMessage(text="hello", key=test.key(), queueing=waits))
    assert isinstance(test.clock, ManualClock)
    await test.clock.until_sleeping(30)
    test.clock.advance(30)
    await held.result()


async def _flushed(test: TestService) -> None:
    waits = Queueing(debounce_s=30)
    held = await test.service.submit(IncomingMessage(text="hello", key=test.key(), queueing=waits))
    await test.service.conversations.flush(test.key())
    await held.result()
    assert isinstance(test.clock, ManualClock)
    test.clock.advance(30)


async def _ambient(test: TestService) -> None:
    await say(test)
    await test.service.submit(
        IncomingMessage(
            kind="ambient", text="not to you", key=test.key(), ambient=AmbientRules(shown="message")
        )
    )


async def _decided(test: TestService) -> None:
    test.provider.script.append(calling(("c1", "act")))
    asked = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
    with anyio.fail_after(WAIT_S):
        while not (await test.service.view(asked.session_id)).open_approvals:
            await anyio.lowlevel.checkpoint()
    await test.service.decide(asked.session_id, "c1", "deny")
    await asked.result()


async def _summarised(test: TestService) -> None:
    summariser = test.agents.agents["test"].summariser
    assert summariser is not None
    writer = summariser.provider
    assert isinstance(writer, ScriptedProvider)
    writer.hold()
    for number in range(12):
        await say(test, f"{number} {LONG}")
    await writer.until_called()
    writer.release()


async def _compacted(test: TestService) -> None:
    session_id = await test.service.conversations.create(test.key())
    for number in range(6):
        await say(test, f"{number} {LONG}")
    assert (await test.service.compact(session_id)).done


async def _looked(test: TestService) -> None:
    await test.service.view(await say(test))


async def _followed(test: TestService) -> None:
    async for _ in test.service.watch(await say(test), after=0):
        return


async def _reset(test: TestService) -> None:
    await test.service.reset(await say(test))


async def _deleted(test: TestService) -> None:
    await test.service.delete(await say(test))


async def _once(test: TestService) -> None:
    done = await test.service.stateless.submit(
        IncomingMessage(text="hello"), History(), agent="test"
    )
    await done.result()


ACTS: dict[str, Act] = {
    "a turn is answered": say,
    "a turn fails": _failed,
    "a turn is cancelled": _cancelled,
    "a turn is paused": _paused,
    "a burst is answered": _held,
    "a burst is let go early": _flushed,
    "a message begins nothing": _ambient,
    "a person decides": _decided,
    "a summary is made by itself": _summarised,
    "a summary is asked for": _compacted,
    "something is announced": lambda test: test.service.submit(
        IncomingMessage(kind="announcement", text="so", key=test.key())
    ),
    "something ambient is kept": lambda test: test.service.submit(
        IncomingMessage(kind="ambient", text="so", key=test.key())
    ),
    "somebody looks": _looked,
    "somebody follows": _followed,
    "a session is created": lambda test: test.service.conversations.create(test.key()),
    "a session is reset": _reset,
    "a session is deleted": _deleted,
    "a turn leaves nothing behind": _once,
}


def small_window() -> AgentSpec:
    """Return an agent whose older turns soon have to be summarised."""
    model = ModelSpec(provider="scripted", name="m", context_window=6_000, max_output_tokens=500)
    return replace(make_spec(), model=model, session=SessionSpec(context=ContextSpec()))


@asynccontextmanager
async def opened(*, has_delivery_port: bool) -> AsyncGenerator[TestService]:
    """Open a service in which all of it can happen."""
    async with open_test_service(
        disk=MemoryDisk(),
        settings=SOON,
        spec=small_window(),
        summariser=ScriptedProvider(*["a summary"] * 20),
        tools={"act": Tool()},
        gate=Gate(),
        delivery_ports={"test": DeliveryPort()} if has_delivery_port else None,
    ) as test:
        yield test


async def until_at_rest(test: TestService) -> None:
    """Wait until no actor lives."""
    with anyio.fail_after(WAIT_S):
        while (await test.service.activity.load()).active:
            await anyio.wait_all_tasks_blocked()


@contextmanager
def without_collector() -> Generator[None]:
    """Leave what is held in circles where it is, and let `gc.get_objects` tell only what is new."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@table("has_delivery_port", [False, True], ids=["pulled", "carried"])
@table("act", ACTS)
async def test_a_session_rests_after_whatever_was_done_last(
    act: str, *, has_delivery_port: bool
) -> None:
    """Megabytes each, for ever: neither a task that woke nobody, nor a circle, keeps them."""
    with without_collector():
        async with opened(has_delivery_port=has_delivery_port) as test:
            with anyio.fail_after(WAIT_S):
                await ACTS[act](test)
            await until_at_rest(test)

            assert await test.store.active() == ()
            assert [each for each in gc.get_objects() if isinstance(each, Feed | Renderer)] == []
