"""What is said in the agent's name without a turn: once, to the people and to the next turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import get_args

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from support.context_policies import POLICIES
from support.crashing import CrashingStore, Moment
from support.patience import WAIT_S
from support.stores import FileWorld, MemoryWorld, World
from support.tables import table

from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import (
    CoreError,
    InvalidInputError,
    SessionEndedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.events import Announced, ChunkMarked, DeliveryPlanned, Event, Received
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ConversationKey, IncomingKind, IncomingMessage, OutboxItem, Upload
from everturn_actors.service import Submission
from everturn_actors.spec import ContextSpec, SessionSpec
from everturn_actors.state.validation import TEXT_BYTES, TITLE_CHARS
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
    texts,
)

SOON_TURNS_OF_THE_LOOP = 60
WRITES_MAX = 100  # more than there are
MOMENTS: tuple[Moment, ...] = get_args(Moment)
HTTP = ConversationKey(channel="http", chat="chat", agent="test")
LINE = "[Said here before, not to you:]\n[Stand-up said here, in your name:] Five minutes.\n"


def stand_up(test: TestService, name: str = "job:1", **rest: object) -> IncomingMessage:
    """Return what a job says in the conversation of the service."""
    plain = IncomingMessage(
        kind="announcement",
        text="Five minutes.",
        key=test.key(),
        sender="schedule",
        idempotency_key=name,
        title="Stand-up",
    )
    return structs.replace(plain, **rest)


async def ask(test: TestService, text: str = "hello", **rest: object) -> str:
    """Hand in a message, wait for its answer, and return the session."""
    inbound = structs.replace(IncomingMessage(text=text, key=test.key(), sender="ann"), **rest)
    with anyio.fail_after(WAIT_S):
        return (await (await test.service.submit(inbound)).result()).session_id


async def soon() -> None:
    """Give way until nothing moves that does not wait for the clock, the model or a thread."""
    for _ in range(SOON_TURNS_OF_THE_LOOP):
        await anyio.lowlevel.checkpoint()


@dataclass
class Post:
    """A delivery port that delivers each reply in one chunk; what it sent outlives the service."""

    got: list[str] = field(default_factory=list[str])
    is_away: bool = False
    "It delivers nothing."

    takes_files = True

    async def deliver(self, session: Outgoing) -> None:
        """Deliver until there is nothing left."""
        while not session.is_stopping:
            outbox = [item for item in session.state.outbox if not self.is_away]
            if outbox:
                await self._deliver(session, outbox[0])
            elif session.state.open_turn is None and not self.is_away:
                return
            else:
                await session.until_changed()

    async def _deliver(self, session: Outgoing, item: OutboxItem) -> None:
        mark = ChunkMarked(item=item.seq, chunk=0, mark="sending")
        if item.chunks is None:
            await session.record(DeliveryPlanned(item=item.seq, chunks=("x",)))
        elif item.chunks[0].mark == "sending":  # cut short by a crash
            await session.record(structs.replace(mark, mark="unknown"))
        await session.record(mark)
        self.got.append(item.text)
        await session.record(structs.replace(mark, mark="sent"))

    async def until_got(self, times: int, test: TestService, session_id: str) -> None:
        """Wait until so much was delivered, and nothing is pending."""
        with anyio.fail_after(WAIT_S):
            while len(self.got) < times or (await test.service.view(session_id)).outbox:
                await soon()


@table("kind", ["memory", "files"])
async def test_it_is_said_once_and_told_once_however_often_it_is_handed_in(
    tmp_path: Path, kind: str
) -> None:
    """A scheduler that was killed hands in again what it is not sure about."""
    world: World = MemoryWorld() if kind == "memory" else FileWorld(tmp_path)
    post, provider = Post(is_away=True), ScriptedProvider()
    async with (
        world.open() as store,
        open_test_service(store=store, delivery_ports={"test": post}) as test,
    ):
        first = await test.service.submit(stand_up(test))
        again = await test.service.submit(stand_up(test))
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.session_id, again.seq) == (first.session_id, first.seq)
    post.is_away = False
    async with (
        world.open() as store,
        open_test_service(store=store, delivery_ports={"test": post}, provider=provider) as test,
    ):
        await post.until_got(1, test, first.session_id)  # the start alone delivers it
        again = await test.service.submit(stand_up(test))
        assert (again.session_id, again.seq, again.duplicate) == (first.session_id, first.seq, True)
        await ask(test, "thanks")
        await ask(test, "bye")
        await post.until_got(3, test, first.session_id)

        assert post.got == ["Five minutes.", "reply 1", "reply 2"]
        assert texts(provider.requests[0]) == [f"{LINE}[Now to you:]\nthanks"]
        assert texts(provider.requests[1]) == [f"{LINE}[Now to you:]\nthanks", "bye"]


async def test_what_is_said_during_a_turn_is_told_to_the_one_after_it() -> None:
    """The request that is under way cannot know of it; its people read it at once."""
    post = Post()
    async with open_test_service(delivery_ports={"test": post}) as test:
        test.provider.hold()
        said = await test.service.submit(
            IncomingMessage(text="hello", key=test.key(), sender="ann")
        )
        await test.provider.until_called()
        told = await test.service.submit(stand_up(test))
        with anyio.fail_after(WAIT_S):
            while not post.got:
                await soon()
        assert (await test.service.view(told.session_id)).open_turn is not None
        test.provider.release()
        await said.result()
        await ask(test, "thanks")
        await post.until_got(3, test, told.session_id)

        assert post.got == ["Five minutes.", "reply 1", "reply 2"]
        assert texts(test.provider.requests[0]) == ["hello"]
        assert texts(test.provider.requests[1]) == ["hello", f"{LINE}[Now to you:]\nthanks"]


async def test_a_paused_session_takes_it_and_stays_paused() -> None:
    """Whoever left is told later, and no model is called for it."""
    async with open_test_service() as test:
        assert isinstance(test.clock, ManualClock)
        test.provider.hold()
        said = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
        await test.provider.until_called()
        await said.leave()
        await test.clock.until_sleeping(0)
        test.clock.advance(0)
        with anyio.fail_after(WAIT_S):
            while (await test.service.view(said.session_id)).status != "paused":
                await soon()
        told = await test.service.submit(stand_up(test, key=None, session_id=said.session_id))
        state = await test.service.view(said.session_id)

        assert not told.duplicate
        assert (state.status, state.ambient[-1].own) == ("paused", True)


async def test_it_wakes_nobody_and_calls_no_model() -> None:
    """A message costs no tokens, and a conversation may begin with one."""
    async with open_test_service() as test:
        told = await test.service.submit(stand_up(test))
        state = await test.service.view(told.session_id)

        assert (state.turns, state.has_work, state.outbox) == (0, False, ())
        assert await test.service.conversations.current(test.key()) == told.session_id
        assert test.provider.requests == []


async def test_one_that_nobody_heard_of_for_a_month_is_not_told_any_more() -> None:
    """What was said so long ago is not what somebody answers to."""
    clock, spec = ManualClock(), structs.replace(make_spec(), session=SessionSpec(ttl_hours=0))
    async with open_test_service(clock=clock, spec=spec) as test:
        await test.service.submit(stand_up(test))
        clock.advance(15 * 86_400)
        await test.service.submit(stand_up(test, "job:2", text="Again."))
        clock.advance(15 * 86_400 + 1)
        await ask(test)

        assert "Five minutes." not in texts(test.provider.requests[0])[0]
        assert "Again." in texts(test.provider.requests[0])[0]


async def test_text_from_outside_makes_the_next_turn_ask() -> None:
    """What a task found on a page may stand behind what the next turn does."""
    async with open_test_service() as test:
        told = await test.service.submit(stand_up(test, untrusted=True))
        await ask(test)
        state = await test.service.view(told.session_id)

        assert state.held_turns[0].is_tainted


# --- where it goes ---


async def test_an_ended_session_refuses_it_and_its_conversation_goes_on() -> None:
    """A job for a conversation follows it; one for a session ends with it."""
    async with open_test_service() as test:
        ended = await ask(test)
        await test.service.reset(ended)
        with pytest.raises(SessionEndedError):
            await test.service.submit(stand_up(test, key=None, session_id=ended))
        told = await test.service.submit(stand_up(test))

        assert told.session_id != ended
        assert not told.duplicate


@table("key", [HTTP, ConversationKey(channel="test", chat="c", agent="test")])
async def test_a_repeat_after_the_end_of_the_session_is_known(key: ConversationKey) -> None:
    """Also where no platform hands anything in again: the scheduler does."""
    async with open_test_service(delivery_ports={"test": Post()}) as test:
        first = await test.service.submit(stand_up(test, key=key))
        await test.service.reset(first.session_id)
        again = await test.service.submit(stand_up(test, key=key))
        assert (again.session_id, again.seq, again.duplicate) == (first.session_id, first.seq, True)

        other = await ask(test, key=key)  # somebody else begins the next one
        again = await test.service.submit(stand_up(test, key=key))

        assert other != first.session_id
        assert (again.session_id, again.seq, again.duplicate) == (other, 1, True)


@table(
    ("rest", "error", "why"),
    [
        ({"text": " \n"}, InvalidInputError, "empty"),
        ({"text": "x" * (TEXT_BYTES + 1)}, InvalidInputError, "at most"),
        ({"text": "\ud800"}, InvalidInputError, "not valid Unicode"),
        ({"title": "\ud800"}, InvalidInputError, "not valid Unicode"),
        ({"title": "t" * (TITLE_CHARS + 1)}, InvalidInputError, "the title has 256 characters"),
        ({"idempotency_key": "k" * 256}, InvalidInputError, "idempotency key"),
        ({"key": None}, InvalidInputError, "a conversation or a session"),
        ({"attachments": (Upload(data=b"x"),)}, InvalidInputError, "comes with files"),
        ({"key": structs.replace(HTTP, agent="gone")}, UnknownAgentError, "gone"),
        ({"key": None, "session_id": "20261121T224956123-3f9a2c1b"}, UnknownSessionError, "3f9a"),
    ],
)
async def test_what_cannot_be_said_is_refused_and_leaves_nothing(
    rest: dict[str, object], error: type[CoreError], why: str
) -> None:
    """Whoever scheduled it is told the reason, and no half conversation begins."""
    async with open_test_service() as test:
        with pytest.raises(error, match=why):
            await test.service.submit(structs.replace(stand_up(test), **rest))

        assert await test.service.reader.sessions() == ()


@table("kind", ["announcement", "ambient"])
async def test_nobody_waits_for_an_answer_to_what_no_turn_answers(kind: IncomingKind) -> None:
    """Whoever follows it sees that it is durable, also where it is handed in again; no more."""
    async with open_test_service() as test:
        for _ in range(2):
            said = await test.service.submit(structs.replace(stand_up(test), kind=kind))
            with anyio.fail_after(WAIT_S):
                seqs = [each.seq async for each in said.updates() if isinstance(each, Event)]
                with pytest.raises(InvalidInputError, match="no turn answers"):
                    await said.result()

            assert seqs == [said.seq]


async def test_a_session_without_its_agent_says_nothing() -> None:
    """Nobody speaks in the name of an agent that is not there."""
    async with open_test_service() as test:
        told = await test.service.submit(stand_up(test))
        agent = test.agents.agents.pop("test")
        with pytest.raises(UnknownAgentError):
            await test.service.submit(stand_up(test, "k2", key=None, session_id=told.session_id))
        test.agents.agents["test"] = agent

        state = await test.service.view(told.session_id)
        assert len(state.ambient) == 1


# --- crashes ---


@asynccontextmanager
async def living(
    disk: MemoryDisk, post: Post, provider: ScriptedProvider, at: tuple[int, Moment] | None
) -> AsyncGenerator[tuple[TestService, CrashingStore]]:
    """Open a service whose process ends at a chosen write."""
    world = MemoryWorld()
    world.disk = disk
    async with world.open() as inner:
        store = CrashingStore(inner)
        store.at = at
        async with open_test_service(
            store=store, delivery_ports={"test": post}, provider=provider
        ) as test:
            yield test, store


async def test_a_kill_at_any_write_neither_loses_it_nor_says_it_twice() -> None:
    """CR-04: what was not confirmed is handed in again, and what was written is not."""
    kills = 0
    for number, moment in product(range(1, WRITES_MAX), MOMENTS):
        disk, post, provider = MemoryDisk(), Post(), ScriptedProvider()
        told: Submission | None = None
        async with living(disk, post, provider, (number, moment)) as (test, store):
            with suppress(CoreError):
                told = await test.service.submit(stand_up(test))
            await soon()
        ended = store.ended.is_set()
        kills += ended
        async with living(disk, post, provider, None) as (test, _):
            again = await test.service.submit(stand_up(test))
            assert told is None or (again.seq, again.duplicate) == (told.seq, True)
            await ask(test, "thanks")
            with anyio.fail_after(WAIT_S):
                while (await test.service.view(again.session_id)).outbox:
                    await soon()
            log = await test.service.history(again.session_id, after=0, limit=100)

        said = [event.seq for event in log if isinstance(event.body, Announced)]
        unsure = Counter(
            event.body.item
            for event in log
            if isinstance(event.body, ChunkMarked) and event.body.mark == "sending"
        )
        assert said == [again.seq]
        assert 1 <= post.got.count("Five minutes.") <= unsure[again.seq]
        assert texts(provider.requests[-1])[0] == f"{LINE}[Now to you:]\nthanks"
        if not ended:
            break

    assert kills > 10


# --- beside a turn ---


async def test_a_waiting_answer_is_not_held_up_by_it() -> None:
    """The turn of a person and a job's message go their ways beside one another."""
    async with open_test_service() as test:
        test.provider.hold()
        said = await test.service.submit(
            IncomingMessage(text="hello", key=test.key(), sender="ann")
        )
        await test.provider.until_called()
        await test.service.submit(stand_up(test, key=None, session_id=said.session_id))
        test.provider.release()
        seen: list[type] = []
        with anyio.fail_after(WAIT_S):
            async with aclosing(said.updates()) as updates:
                seen += [type(each.body) async for each in updates if isinstance(each, Event)]
            result = await said.result()

        assert (result.text, result.outcome) == ("reply 1", "answered")
        assert seen[0] is Received
        assert Announced in seen


async def test_a_hundred_reminders_do_not_drown_what_a_person_says() -> None:
    """With a small model what came before would else take all the room, and be answered."""
    small = structs.replace(make_spec().model, max_input_tokens=4096, max_output_tokens=256)
    context = ContextSpec(policy=POLICIES["everturn"].with_numbers({"max_history_tokens": 1500}))
    spec = structs.replace(make_spec(), model=small, session=SessionSpec(context=context))
    async with open_test_service(spec=spec) as test:
        for number in range(100):
            reminder = stand_up(test, f"job:{number}", text=f"Stand-up {number}! " + "now " * 20)
            await test.service.submit(reminder)
        await ask(test, "What is the capital of France?")

    told = texts(test.provider.requests[0])[-1]
    assert told.endswith("[Now to you:]\nWhat is the capital of France?")
    assert "Stand-up 99!" in told
    assert "before these are left out.]" in told
