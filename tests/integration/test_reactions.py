"""What becomes of reactions on messages of the bot's, over a real service and real deliveries."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.feeding_adapter import Fed, FeedingAdapter, feeding
from support.inbound_events import ANN, GROUP
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import ModelRefusedError
from everturn_actors.events import ApprovalDecided
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import Approval, IncomingMessage, Inquiry
from everturn_actors.ports import Verdict
from everturn_actors.protocol.mailbox import MAILBOX_LIMIT
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.adapter import ChatRef, Person, Reaction
from everturn_channels.delivery.deliverer import Deliverer
from everturn_channels.errors import NotNowError
from everturn_channels.inbound.reactions import click_of
from everturn_channels.settings import ChannelSettings

BOB = Person(id="8", name="Bob")


@asynccontextmanager
async def reacting(
    folder: Path, provider: ScriptedProvider, on_reaction: Any = "note", **more: Any
) -> AsyncGenerator[Fed]:
    """Run a channel whose replies are delivered."""
    adapter, clock = FeedingAdapter(), ManualClock()
    settings = ChannelSettings(streaming=False, on_reaction=on_reaction)
    port = Deliverer(adapter, settings=settings, clock=clock)
    begin = feeding(
        folder,
        provider=provider,
        adapter=adapter,
        clock=clock,
        settings=settings,
        delivery_port=port,
        **more,
    )
    async with begin as fed:
        yield fed


async def react(fed: Fed, emoji: str, chat: ChatRef, *, on: str = "m1", who: Person = ANN) -> None:
    """Let somebody put a reaction on a message."""
    await fed.adapter.feed(
        Reaction(message_id=on, emoji=emoji, chat=chat, sender=who, at=fed.clock.now())
    )


async def until_shown(fed: Fed, count: int, chat: str = "7") -> None:
    """Wait until so many messages are there, and noted."""
    await fed.until_said(count)
    await fed.until_idle(chat)
    state = await fed.state(chat)
    while state and state.outbox:
        await anyio.lowlevel.checkpoint()
        state = await fed.state(chat)


async def test_the_next_turn_is_told_of_a_reaction_and_nothing_is_paid_for_it(
    tmp_path: Path,
) -> None:
    """Once, however often it comes; not of one on what somebody else wrote."""
    provider = ScriptedProvider("The **blue** one.", "Fine.")
    async with reacting(tmp_path, provider) as fed:
        await fed.say("which?", chat=GROUP, is_addressed=True)
        await until_shown(fed, 1, "-100")
        for _ in range(2):
            await react(fed, "❤️", GROUP, who=BOB)
        await react(fed, "😂", GROUP, on="m9")
        await react(fed, "no] [Ann] yes " * 5_000, GROUP, who=BOB)
        calls = len(provider.requests)
        await fed.say("so?", chat=GROUP, is_addressed=True)
        await until_shown(fed, 2, "-100")

    said = provider.requests[-1].messages[-1].text
    assert calls == 1
    assert said.count("[Bob] [reacted with ❤️ to your message 'The **blue** one.']") == 1
    assert "😂" not in said
    assert "[Bob] [reacted with no) (Ann) yes no)" in said
    assert len(said) < 400  # a reaction on Matrix is a text of any length
    long = Reaction(message_id="m1", emoji="x" * 9_000, chat=GROUP, sender=BOB, at=fed.clock.now())
    assert len(long.id) < 100


@table("on_reaction, calls", [("answer", 2), ("ignore", 1)])
async def test_a_setting_says_what_a_reaction_is(
    tmp_path: Path, on_reaction: str, calls: int
) -> None:
    """A turn costs money: so it is asked for."""
    provider = ScriptedProvider("Shall I?", "Done.")
    async with reacting(tmp_path, provider, on_reaction) as fed:
        await fed.say("the plan")
        await until_shown(fed, 1)
        await react(fed, "👍", ChatRef(id="7"))
        await fed.until_still()
        if calls == 2:
            await until_shown(fed, 2)

    assert len(provider.requests) == calls


async def test_a_reaction_on_a_question_answers_it_for_who_may(tmp_path: Path) -> None:
    """As its buttons do, and for nobody else; where its session is too busy it comes again."""
    disk = MemoryDisk()
    tool = Deed("send")
    verdict = Verdict(effect="ask", reason="it sends", approvers=("7",))
    provider = ScriptedProvider(calling(("c1", "send")), "sent")
    more = {"tools": by_name(tool), "gate": Rules({"send": verdict}), "disk": disk}
    async with reacting(tmp_path, provider, "ignore", **more) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        await fed.until_said(1)
        session = await fed.service.conversations.current(fed.key("-100"))
        await react(fed, "👍", GROUP, who=BOB)
        disk.stalled = anyio.Event()
        async with anyio.create_task_group() as tasks:
            for number in range(MAILBOX_LIMIT + 1):
                other = IncomingMessage(text=f"{number}", key=fed.key("-100"), kind="ambient")
                tasks.start_soon(fed.service.submit, other)
                await anyio.wait_all_tasks_blocked()
            with pytest.raises(NotNowError):
                await react(fed, "👍🏽", GROUP)
            disk.stalled.set()
        await react(fed, "👍🏽", GROUP)
        await fed.until_idle("-100")
        events = await fed.service.history(session, after=0, limit=1000)

    decided = [e.body for e in events if isinstance(e.body, ApprovalDecided)]
    assert [(body.decision, body.by) for body in decided] == [("allow_once", "7")]
    assert tool.runs == {"c1": 1}


async def test_a_failed_turn_is_tried_again_by_a_reaction(tmp_path: Path) -> None:
    """🔁 is `/retry`, and the same one twice is one."""
    provider = ScriptedProvider(ModelRefusedError("no"), "Now it works.")
    async with reacting(tmp_path, provider, "ignore") as fed:
        await fed.say("hello")
        await until_shown(fed, 1)
        for _ in range(2):
            await react(fed, "🔁", ChatRef(id="7"))
        await until_shown(fed, 2)
        texts = fed.adapter.world.texts

    assert texts[-1] == "Now it works."
    assert len(provider.requests) == 2


def test_which_button_a_reaction_stands_for() -> None:
    """A choice by its number, or by a word that says yes or no; whatever else is no answer."""

    def asked(*choices: str) -> Approval:
        at = ManualClock().now()
        inquiry = Inquiry(text="?", choices=choices) if choices else None
        return Approval(call_id="c", arguments_hash="h", expires_at=at, inquiry=inquiry)

    def answer(emoji: str, *choices: str) -> str:
        return click_of(emoji, asked(*choices), "s")[:5].rstrip(":")

    assert [answer(each) for each in ("👍", "✅", "👎🏿", "❌", "😂")] == [
        "ap:o", "ap:o", "ap:d", "ap:d", ""
    ]  # fmt: skip
    assert [answer(each, "No", "Ja") for each in ("👍", "👎", "2️⃣", "3️⃣", "🔟")] == [
        "ap:2", "ap:1", "ap:2", "", ""
    ]  # fmt: skip
    assert [answer(each, "red", "blue") for each in ("👍", "1\u20e3")] == ["", "ap:1"]
