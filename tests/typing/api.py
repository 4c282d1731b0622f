"""Never run: the type checkers read it, so that the public types stay what callers rely on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import assert_type

import everturn
from everturn_actors.events import Event
from everturn_actors.journal.memory import MemoryStore
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import ModelProvider, Tool
from everturn_actors.service import (
    Submission,
    TextDelta,
    TurnResult,
    TurnService,
    Update,
)
from everturn_actors.state.session_state import SessionState
from everturn_channels.adapter import Adapter


async def a_caller(service: TurnService) -> None:
    """What an adapter does with the client."""
    key = ConversationKey(channel="test", chat="1", agent="assistant")
    submission = await service.submit(IncomingMessage(text="hello", key=key, idempotency_key="1"))
    assert_type(submission, Submission)
    assert_type(submission.updates(), AsyncGenerator[Update])
    assert_type(await submission.result(), TurnResult)
    assert_type(
        await service.submit(IncomingMessage(kind="announcement", text="hello", key=key)),
        Submission,
    )
    assert_type(await service.conversations.create(key), str)
    assert_type(await service.view(submission.session_id), SessionState)
    assert_type(await service.cancel(submission.session_id), bool)
    async for update in service.watch(submission.session_id, after=0):
        if isinstance(update, TextDelta):
            assert_type(update.text, str)
        else:
            assert_type(update, Event)


@everturn.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@everturn.tool(read_only=True)
async def look(context: everturn.ToolContext) -> str:
    """Look."""
    return context.session_id


async def a_program() -> None:
    """What somebody does who embeds a gateway."""
    assert_type(add(1, b=2), int)
    assert_type(add.definition, everturn.ToolDefinition)
    agent = everturn.Agent(name="a", tools=[add, look], model="builtin/echo")
    async with everturn.open_gateway(agent, workspace="folder") as gateway:
        assert_type(gateway, everturn.Gateway)
        assert_type((await gateway.ask("a", "hello")).text, str)
        assert_type(gateway.stream("a", "hello"), AsyncGenerator[str])
        assert_type(await gateway.submit("a", "hello"), Submission)
        assert_type(await gateway.session("a"), SessionState | None)
        for approval in await gateway.approvals():
            assert_type(approval.tool, str)
            await gateway.decide(approval, "allow_once")


class OwnProvider(everturn.Provider):
    """A model of one's own."""

    async def complete(
        self, request: everturn.ModelRequest, on_text: Callable[[str], None]
    ) -> everturn.Reply:
        """Say nothing."""
        del request, on_text
        return everturn.Reply()


class OwnChannel(everturn.Channel):
    """A channel of one's own."""

    name = "own"

    async def serve(self, handler: everturn.InboundHandler) -> None:
        """Read nothing."""

    async def send(self, message: everturn.Outbound) -> str:
        """Send nothing."""
        return message.nonce


async def what_is_given_fits(store: MemoryStore) -> None:
    """What people subclass is what the parts behind take, and so is whatever looks alike."""
    provider: ModelProvider = OwnProvider()
    channel: Adapter = OwnChannel()
    tool: Tool = add
    own: everturn.Store = store
    del provider, channel, tool, own
