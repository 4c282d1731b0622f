"""What every adapter stands on: order, what comes again, what was missed, and what is left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.lowlevel import checkpoint
from msgspec import structs
from support.inbound_events import a_message
from support.inbox import Inbox, QuickClock

from everturn_actors.testing import ManualClock
from everturn_channels.adapter import ChatMoved, ChatRef, InboundEvent, Message
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.history import BacklogLimits, History
from everturn_channels.ingestion.reordering import Reordering
from everturn_channels.ingestion.watermark import Watermark


class Ledger:
    """Events, and what their platform was told of each."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def event(self, name: str, chat: str = "a", *, gap: Gap | None = None) -> PlatformEvent:
        """Return an event that stays in its queue until it is taken."""
        return PlatformEvent(
            chat=chat,
            id=name,
            events=(_message(name, chat),),
            confirm=self._telling(f"confirmed {name}"),
            advance=self._telling(f"cursor {name}"),
            gap=gap,
        )

    def pushed(self, name: str, position: int) -> PlatformEvent:
        """Return an event that its platform brings again."""

        async def send_back(wait_s: float) -> None:
            self.told.append(f"back {name} {wait_s:g}")

        return PlatformEvent(
            chat="a",
            events=(_message(name, "a"),),
            confirm=self._telling(f"confirmed {name}"),
            send_back=send_back,
            position=position,
        )

    def _telling(self, what: str) -> Callable[[], Awaitable[None]]:
        async def tell() -> None:
            self.told.append(what)

        return tell


def _message(name: str, chat: str) -> Message:
    return a_message(name, id=name, chat=ChatRef(id=chat))


def texts(inbox: Inbox) -> list[str]:
    """Return what was taken."""
    return [event.text for event in inbox.taken if isinstance(event, Message)]


async def test_what_is_delivered_late_is_taken_by_when_it_was_written() -> None:
    """What is not known when a message is taken cannot come before it; ties stay as they came."""
    clock = ManualClock()
    inbox, ledger, now = Inbox(), Ledger(), int(clock.now().timestamp())

    def came(name: str, seconds_ago: int) -> PlatformEvent:
        return structs.replace(ledger.event(name), at=now - seconds_ago)

    async with open_chat_queues(inbox, clock) as queues:
        queues.reordering = Reordering(clock, 1.0)
        clock.advance(60.0)
        await queues.put(came("fresh", -60))
        await queues.until_idle()
        await queues.put(came("30 ago", 30))
        await clock.until_sleeping(1.0)
        for name, seconds_ago in (("50 ago", 50), ("new", -60), ("40 ago", 40), ("50, too", 50)):
            await queues.put(came(name, seconds_ago))
        await checkpoint()
        before = texts(inbox)
        clock.advance(1.0)
        await queues.until_idle()
        await queues.put(came("new, too", -60))
        await queues.until_idle()

    assert before == ["fresh"]
    late = ["50 ago", "50, too", "40 ago", "30 ago"]
    assert texts(inbox) == ["fresh", *late, "new", "new, too"]


async def test_what_cannot_be_read_or_confirmed_stops_nothing() -> None:
    """And what may be read later is asked for again."""

    # An event that cannot be confirmed or read stops nothing. One bad event in front must not
    # silence a chat.
    async def broken() -> Sequence[InboundEvent]:
        raise ZeroDivisionError

    async def lost() -> None:
        raise OSError

    inbox, ledger = Inbox(), Ledger()
    async with open_chat_queues(inbox, QuickClock()) as queues:
        where = ChatRef(id="a")
        await queues.put(PlatformEvent(chat="a", read=broken, kind="odd", awaited_at=where))
        await queues.put(
            PlatformEvent(
                chat="a",
                events=(_message("x", "a"),),
                confirm=lost,
            )
        )
        await queues.put(ledger.event("y"))
        await queues.until_idle()

    assert texts(inbox) == ["x", "y"]
    assert inbox.unread == [("odd", "", where)]

    # What has to be asked for is asked again while the platform is away. A body that cannot be
    # fetched now is no body that cannot be read.
    tries = 0

    async def read() -> Sequence[InboundEvent]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionLostError
        return (_message("x", "a"),)

    inbox, ledger = Inbox(), Ledger()
    async with open_chat_queues(inbox, QuickClock()) as queues:
        await queues.put(PlatformEvent(chat="a", read=read))
        await queues.put(ledger.event("y"))
        await queues.until_idle()

    assert texts(inbox) == ["x", "y"]
    assert [bool(why) for _, why in inbox.blocks] == [True, True, False]


async def test_what_acts_on_those_before_it_waits_for_them() -> None:
    """A deletion that overtakes its message, whose file is fetched slowly, finds nothing."""
    go, is_looked_at = anyio.Event(), anyio.Event()
    taken: list[list[str]] = []

    async def slow() -> Sequence[InboundEvent]:
        await go.wait()
        return (_message("x", "a"),)

    async def delete() -> Sequence[InboundEvent]:
        taken.append(texts(inbox))
        return ()

    async def look() -> Sequence[InboundEvent]:
        is_looked_at.set()
        return (_message("y", "a"),)

    inbox = Inbox()
    async with open_chat_queues(inbox, QuickClock()) as queues:
        await queues.put(PlatformEvent(chat="a", read=slow))
        await queues.put(PlatformEvent(chat="a", read=delete, is_in_order=True))
        await queues.put(PlatformEvent(chat="a", read=look))
        await is_looked_at.wait()
        go.set()
        await queues.until_idle()

    assert taken == [["x"]]
    assert texts(inbox) == ["x", "y"]


async def test_what_comes_again_is_confirmed_again_and_taken_once() -> None:
    """And under the id that its chat has now."""
    # A platform repeats what was confirmed too late for it.
    inbox, ledger = Inbox(), Ledger()
    async with open_chat_queues(inbox, QuickClock()) as queues:
        for _ in range(3):
            await queues.put(ledger.event("x"))
        await queues.until_idle()
        await queues.put(ledger.event("x"))
        await queues.until_idle()

    assert texts(inbox) == ["x"]
    assert ledger.told.count("confirmed x") == 2

    # A moved chat is known before what follows. What comes under the new id belongs to the same
    # conversation.
    inbox = Inbox()
    async with open_chat_queues(inbox, QuickClock()) as queues:
        move = ChatMoved(old="a", new="b")
        await queues.put(
            PlatformEvent(
                chat="a",
                events=(
                    move,
                    _message("x", "b"),
                ),
            )
        )
        await queues.until_idle()

    assert inbox.moves == [("a", "b")]
    assert texts(inbox) == ["x"]


async def test_what_is_sent_back_is_not_overtaken() -> None:
    """The platform brings it again when it likes, and what follows it waits."""
    clock, inbox, ledger = QuickClock(), Inbox(), Ledger()
    inbox.full_chats.add("a")
    async with open_chat_queues(inbox, clock, redelivery_s=600) as queues:
        for position, name in enumerate(("x", "y"), 1):
            await queues.put(ledger.pushed(name, position))
        await queues.until_idle()
        inbox.full_chats.clear()
        for position, name in ((2, "y"), (1, "x"), (2, "y")):
            await queues.put(ledger.pushed(name, position))
            await queues.until_idle()
        inbox.full_chats.add("a")
        await queues.put(ledger.pushed("z", 3))
        await queues.until_idle()
        inbox.full_chats.clear()
        clock.advance(600)
        await queues.put(ledger.pushed("later", 4))
        await queues.until_idle()

    back = [told.rpartition(" ")[0] for told in ledger.told if told.startswith("back")]
    assert back == ["back x", "back y", "back y", "back z"]
    assert texts(inbox) == ["x", "y", "later"]


async def test_a_gap_is_filled_before_what_waits_and_its_rest_is_told() -> None:
    """Or passed over, where it can never be read."""
    # What was missed was said first; a history that cannot be had now is asked for again.
    inbox, ledger, tries = Inbox(), Ledger(), 0
    where = ChatRef(id="a")

    async def read() -> Backfill:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionLostError
        events = (ledger.event("missed"), ledger.event("live"))
        return Backfill(events=events, chat=where, skipped=((7, "too old"), (0, "too many")))

    async with open_chat_queues(inbox, QuickClock(), is_held=True) as queues:
        await queues.put(ledger.event("live"))
        await queues.put(ledger.event("elsewhere", "b"))
        queues.catch_up(Gap(chat="a", read=read))
        await checkpoint()
        before = list(inbox.taken)
        queues.release()
        await queues.until_idle()

    assert before == []
    assert [text for text in texts(inbox) if text != "elsewhere"] == ["missed", "live"]
    assert inbox.skips == [(where, 7, "too old")]
    assert [bool(why) for _, why in inbox.blocks] == [True, True, False]

    # A history that can never be read is passed over. To ask for it for ever would leave the chat
    # deaf.
    inbox, ledger = Inbox(), Ledger()

    async def fail() -> Backfill:
        raise ValueError

    async with open_chat_queues(inbox, QuickClock()) as queues:
        queues.catch_up(Gap(chat="a", read=fail))
        await queues.put(ledger.event("x"))
        await queues.until_idle()

    assert texts(inbox) == ["x"]
    assert inbox.unread == [("history", "", None)]


async def test_memory_and_a_backlog_are_bounded() -> None:
    """Whoever floods, and however long the bot was away."""
    # Memory is bounded and who puts waits. A member who floods must not fill the gateway.
    inbox, ledger = Inbox(), Ledger()
    gate, put, waiting = inbox.hold("a"), 0, 0

    async def flood() -> None:
        nonlocal put
        for number in range(20):
            await queues.put(ledger.event(f"{number}"))
            put += 1

    async with open_chat_queues(inbox, QuickClock(), chat_max=5) as queues:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await anyio.wait_all_tasks_blocked()
            waiting = put
            gate.set()
        await queues.until_idle()

    assert waiting == 5
    assert texts(inbox) == [str(number) for number in range(20)]

    # A backlog is bounded by age and number. A bot that was away for a week must not answer a
    # thousand old questions.
    ledger, clock = Ledger(), QuickClock()
    history = History(BacklogLimits(max_messages=2, max_age_s=100), clock.now())
    now = clock.now()
    clock.advance(-200)
    for name, at in (("5", now), ("4", now), ("3", now), ("2", now), ("1", clock.now())):
        history.add(ledger.event(name), at)
    found = history.backfill(ChatRef(id="a"), ledger.event("end"))

    assert [event.id for event in found.events] == ["4", "5", "end"]
    assert [count for count, _ in found.skipped] == [1, 2]
    assert history.left == 1002 - 5


async def test_a_cursor_of_a_chat_moves_in_order_and_a_watermark_over_what_is_settled() -> None:
    """A crash must find nothing behind a cursor that is not on the disk."""
    mark: Watermark[int] = Watermark()
    for position in (1, 2, 2, 3):
        mark.begin(position)
    await mark.settle(3)
    await mark.settle(2)
    mark.advance()
    assert (mark.reached, mark.first_open) == (None, 1)

    await mark.settle(1)
    mark.advance()
    assert (mark.reached, mark.first_open, 1 in mark) == (1, 2, False)

    await mark.settle(2)
    mark.advance()
    assert (mark.reached, mark.first_open) == (3, None)
