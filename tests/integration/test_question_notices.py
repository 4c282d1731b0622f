"""Questions that nobody answers are brought to owners who want that, each once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
from msgspec.structs import replace
from support.feeding_adapter import Fed, feeding
from support.inbound_events import GROUP
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.ports import Verdict
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.access.owners import Owner
from everturn_channels.adapter import ChatRef, Person
from everturn_channels.errors import NotSentError, RefusedError
from everturn_channels.inbound.owners.question_notices import AT_ONCE_MAX, LOOK_S
from everturn_gateway.channels.running import LaterDeliveryPort

ADA = Person(id="1", name="Ada")
ADA_DM = ChatRef(id="11")
"Some platforms give a private chat an id of its own."
OWNER = Owner(name="ada", accounts=frozenset({("test", "1")}), notify=True)
TOOL = Deed("send")
GATE = Rules({"send": Verdict(effect="ask", approvers=("7",))})


def _asking() -> ScriptedProvider:
    return ScriptedProvider("hello", calling(("c1", "send")), "sent")


async def _asked(fed: Fed, chat: ChatRef = GROUP) -> None:
    """Let the owner say hello, and then Ann ask for what waits for an answer."""
    await fed.say("hello", chat=ADA_DM, sender=ADA)
    await fed.until_idle(ADA_DM.id)
    await fed.say("send it", chat=chat, is_addressed=True)
    session_id = await fed.service.conversations.current(fed.key(chat.id))
    async for _ in fed.service.watch(session_id, after=0):
        if await fed.service.activity.awaiting_approval():
            return


async def _looks(fed: Fed, count: int = 1) -> list[str]:
    """Let so many looks pass; return what the owner reads."""
    for _ in range(count):
        await fed.until_still()
        fed.clock.advance(LOOK_S)
        await fed.until_still()
    return fed.adapter.world.chat(ADA_DM.id)


async def test_a_question_that_nobody_answers_is_brought_once_with_its_buttons(
    tmp_path: Path,
) -> None:
    """Whoever was asked has a moment; then the owner's telephone rings, and not again."""
    tool = Deed("send")
    begin = partial(feeding, tmp_path, tools=by_name(tool), gate=GATE, owners=[OWNER])
    async with begin(provider=_asking()) as fed:
        await _asked(fed)
        at_first = await _looks(fed)
        (shown,) = await _looks(fed)
        again = await _looks(fed, 5)
        message = next(m for m in fed.adapter.world.messages.values() if m.text == shown)
        pressed = await fed.click(message.buttons[0].data, chat=ADA_DM, sender=ADA)
        await fed.until_idle("-100")

        assert at_first == []
        assert "test asks, in test -100" in shown
        assert again == [shown]
        assert pressed == "Allowed, this once."
        assert tool.runs == {"c1": 1}


@table(
    "owner",
    [
        replace(OWNER, notify=False),
        replace(OWNER, agents=frozenset({"other"})),
        replace(OWNER, accounts=frozenset({("test", "2"), ("other", "1")})),
    ],
    ids=["unwanted", "other agents", "never wrote"],
)
async def test_nobody_is_disturbed_without_need(tmp_path: Path, owner: Owner) -> None:
    """What is brought shows everything that a call would do."""
    async with feeding(
        tmp_path, provider=_asking(), tools=by_name(TOOL), gate=GATE, owners=[owner]
    ) as fed:
        await _asked(fed)
        await _looks(fed, 4)

        assert fed.adapter.world.texts == []


async def test_a_question_is_brought_where_it_does_not_stand_and_never_in_a_crowd(
    tmp_path: Path,
) -> None:
    """The rest comes later, or by `/questions`."""
    # It is asked there already.
    folder = tmp_path / "there"
    folder.mkdir()
    async with feeding(
        folder, provider=_asking(), tools=by_name(TOOL), gate=GATE, owners=[OWNER]
    ) as fed:
        await _asked(fed, ADA_DM)

        assert await _looks(fed, 4) == []

    # The rest comes later, or by `/questions`.
    folder = tmp_path / "crowd"
    folder.mkdir()
    script = [calling(("c1", "send")) for _ in range(AT_ONCE_MAX + 2)]
    provider = ScriptedProvider("hello", *script)
    async with feeding(
        folder, provider=provider, tools=by_name(TOOL), gate=GATE, owners=[OWNER]
    ) as fed:
        await fed.say("hello", chat=ADA_DM, sender=ADA)
        await fed.until_idle(ADA_DM.id)
        for number in range(len(script)):
            await fed.say("send it", chat=ChatRef(id=f"c{number}"))
        while len(await fed.service.activity.awaiting_approval()) < len(script):
            await anyio.wait_all_tasks_blocked()

        at_once = len(await _looks(fed, 2))
        later = len(await _looks(fed, 2))

        assert (at_once, later) == (AT_ONCE_MAX, len(script))


async def test_a_restart_brings_nothing_twice(tmp_path: Path) -> None:
    """A question may wait for days, and a gateway be updated meanwhile."""
    disk, clock = MemoryDisk(), ManualClock()
    begin = partial(
        feeding,
        tmp_path,
        disk=disk,
        clock=clock,
        delivery_port=LaterDeliveryPort(),
        tools=by_name(TOOL),
        gate=GATE,
        owners=[OWNER],
    )
    async with begin(provider=_asking()) as fed:
        await _asked(fed)
        before = await _looks(fed, 2)
    async with begin(provider=ScriptedProvider("sent")) as fed:
        while not await fed.service.activity.awaiting_approval():
            await anyio.wait_all_tasks_blocked()
        after = await _looks(fed, 4)

    assert len(before) == 1
    assert after == []


async def test_what_was_not_sent_is_brought_later_and_what_was_refused_never(
    tmp_path: Path,
) -> None:
    """An outage delays; an owner who blocked the bot is left alone."""
    async with feeding(
        tmp_path, provider=_asking(), tools=by_name(TOOL), gate=GATE, owners=[OWNER]
    ) as fed:
        await _asked(fed)
        fed.adapter.fail("send", *[NotSentError()] * 2)
        late = await _looks(fed, 2)
        await _looks(fed, 2)
        arrived = await _looks(fed, 1)

        assert late == []
        assert len(arrived) == 1
    async with feeding(
        tmp_path / "b", provider=_asking(), tools=by_name(TOOL), gate=GATE, owners=[OWNER]
    ) as fed:
        await _asked(fed)
        fed.adapter.fail("send", RefusedError("blocked", is_chat_gone=True))

        assert await _looks(fed, 6) == []


@table(
    ("owner", "told"),
    [
        (OWNER, ["What is said to `7` waits until they write again: `a day is over`"]),
        (replace(OWNER, notify=False), []),
        (replace(OWNER, agents=frozenset({"other"})), []),
    ],
    ids=["wanted", "unwanted", "other agents"],
)
async def test_what_is_not_delivered_is_told_to_owners_once_an_hour(
    tmp_path: Path, owner: Owner, told: list[str]
) -> None:
    """Nobody else would see it: the platform took it, or it waits for its person."""
    async with feeding(tmp_path, provider=ScriptedProvider("hello"), owners=[owner]) as fed:
        await fed.say("hello", chat=ADA_DM, sender=ADA)
        await fed.until_idle(ADA_DM.id)
        handler = await fed.adapter.handler()
        for chat in ("7", "7", ADA_DM.id):
            handler.undelivered(chat, "a day is over", is_lost=False)
        await fed.until_still()
        before = fed.adapter.world.chat(ADA_DM.id)
        handler.undelivered("7", "blocked", is_lost=True)
        await fed.until_still()
        after = fed.adapter.world.chat(ADA_DM.id)
        given_up = fed.health.status().given_up

    assert before == told
    assert len(after) == 2 * len(told)
    assert given_up == 1
