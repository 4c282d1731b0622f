"""The one entry point when things happen at the same moment, or what it stands on fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import (
    CorruptJournalError,
    JournalWriteError,
    MailboxFullError,
    UnknownSessionError,
)
from everturn_actors.events import Event, Received, SessionEnded, TurnFinished
from everturn_actors.ids import new_session_id
from everturn_actors.journal.memory import MemoryDisk, MemoryStore, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import SessionStore
from everturn_actors.service import ServiceSettings
from everturn_actors.spec import SessionSpec
from everturn_actors.state.queue import WAITING_LIMIT
from everturn_actors.testing import (
    START,
    ManualClock,
    TestService,
    make_spec,
    open_test_service,
)

SOON_TURNS_OF_THE_LOOP = 20  # enough for whatever was woken or cancelled to notice it


async def soon() -> None:
    """Give way until everybody has noticed what just happened."""
    for _ in range(SOON_TURNS_OF_THE_LOOP):
        await anyio.lowlevel.checkpoint()


class Breaking:
    """What an agent prepares before a turn, with a fault that shows when `fail` is set."""

    def __init__(self) -> None:
        self.begun, self.fail = anyio.Event(), anyio.Event()

    async def prepare(self) -> None:
        """Fail once, as nothing that is prepared should."""
        if not self.fail.is_set():
            self.begun.set()
            await self.fail.wait()
            msg = "a fault in the agent"
            raise RuntimeError(msg)


async def test_a_message_that_is_being_written_when_the_turn_fails_is_accepted_once() -> None:
    """Tried again by the client, it would stand in the log twice and be answered twice."""
    breaking = Breaking()
    async with open_test_service() as test:
        agent = replace(test.agents.get("test"), prepare=breaking.prepare)
        test.agents.agents["test"] = agent
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await breaking.begun.wait()
        append = test.store.append

        async def append_while_the_turn_fails(
            session_id: str, events: Sequence[Event], *, expected_seq: int
        ) -> None:
            await append(session_id, events, expected_seq=expected_seq)
            if any(isinstance(e.body, Received) for e in events):
                breaking.fail.set()
                await soon()

        test.store.append = append_while_the_turn_fails  # type: ignore[method-assign]
        second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        test.store.append = append  # type: ignore[method-assign]
        await test.service.submit(IncomingMessage(text="three", key=test.key()))
        result = await second.result()

        assert result.outcome == "answered"
        events = await test.service.history(first.session_id, after=0, limit=100)
        said = [e.body.text for e in events if isinstance(e.body, Received)]
        assert said == ["one", "two", "three"]


async def test_a_look_at_an_unknown_session_on_a_read_only_disk_hurts_nobody_else() -> None:
    """One wrong address on a bad day must not take the whole gateway down."""
    async with open_test_service() as test:
        session_id = await test.service.conversations.create(test.key())
        resting = test.store.mark_passive

        async def fail(session_id: str) -> None:
            msg = f"{session_id}: the disk is read-only"
            raise JournalWriteError(msg)

        test.store.mark_passive = fail  # type: ignore[method-assign]
        with pytest.raises(UnknownSessionError):
            await test.service.view(new_session_id(START, "00000000"))
        await soon()
        test.store.mark_passive = resting  # type: ignore[method-assign]

        assert (await test.service.view(session_id)).status == "active"


@table("failing", ["active", "agents"])
async def test_maintenance_that_cannot_read_the_disk_is_tried_again_and_hurts_nobody(
    failing: str,
) -> None:
    """A disk that stutters for a moment must not end every conversation of the gateway."""
    clock = ManualClock()
    async with open_memory_store(MemoryDisk()) as store:
        failures = Failing(store, failing)
        settings = ServiceSettings(drain_s=0, sweep_s=3600)
        async with open_test_service(store=store, clock=clock, settings=settings) as test:
            submission = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
            await submission.result()
            while failures.left:
                await clock.until_sleeping(3600)
                clock.advance(3600)
                await soon()

            assert (await test.service.view(submission.session_id)).status == "active"


class Failing:
    """Makes one method of a store fail once."""

    def __init__(self, store: SessionStore, name: str) -> None:
        self.left = 1
        self._awake, self._agents = store.active, store.agents
        if name == "active":
            store.active = self.active  # type: ignore[method-assign]
        else:
            store.agents = self.agents  # type: ignore[method-assign]

    async def active(self) -> tuple[str, ...]:
        """Fail, or do as the store does."""
        self._fail()
        return await self._awake()

    async def agents(self) -> tuple[str, ...]:
        """Fail, or do as the store does."""
        self._fail()
        return await self._agents()

    def _fail(self) -> None:
        if self.left:
            self.left -= 1
            msg = "too many open files"
            raise JournalWriteError(msg)


async def test_messages_that_wait_for_a_long_turn_are_bounded() -> None:
    """A client in a loop must not fill the memory, and hears of it while it can still stop."""
    async with open_test_service() as test:
        test.provider.hold()
        session_id = await test.service.conversations.create(test.key())
        await test.service.submit(IncomingMessage(text="begin", session_id=session_id))
        await test.provider.until_called()
        for n in range(WAITING_LIMIT):
            await test.service.submit(
                IncomingMessage(
                    text=f"message {n}", session_id=session_id, idempotency_key=f"key {n}"
                )
            )

        with pytest.raises(MailboxFullError):
            await test.service.submit(IncomingMessage(text="too much", session_id=session_id))
        again = await test.service.submit(
            IncomingMessage(text="message 0", session_id=session_id, idempotency_key="key 0")
        )
        assert again.duplicate
        test.provider.release()
        assert (await again.result()).outcome == "answered"


async def test_a_cancel_that_meets_a_pause_closes_the_turn() -> None:
    """Who was told that the turn is cancelled must not get its answer later."""
    clock = ManualClock()
    spec = replace(make_spec(), session=SessionSpec(on_disconnect="pause"))
    async with open_test_service(spec=spec, clock=clock) as test:
        test.provider.hold()
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        await first.leave()
        await clock.until_sleeping(0)
        writing, go_on = hold_next_append(test)
        cancelled: list[bool] = []

        async def cancel() -> None:
            cancelled.append(await test.service.cancel(first.session_id))

        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(test.service.submit, IncomingMessage(text="two", key=test.key()))
                await writing.wait()
                tasks.start_soon(cancel)
                await soon()
                clock.advance(0)  # nobody came back: the turn is stopped to be paused
                await soon()
                go_on.set()
                await soon()
                test.provider.release()
        events = await test.service.history(first.session_id, after=0, limit=100)
        finished = [e.body for e in events if isinstance(e.body, TurnFinished)]

        assert cancelled == [True]
        assert finished[0].outcome == "cancelled"


def hold_next_append(test: TestService) -> tuple[anyio.Event, anyio.Event]:
    """Hold the next append back; return what tells that it began, and what lets it go on."""
    append, writing, go_on = test.store.append, anyio.Event(), anyio.Event()

    async def held(session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        test.store.append = append  # type: ignore[method-assign]
        writing.set()
        await go_on.wait()
        await append(session_id, events, expected_seq=expected_seq)

    test.store.append = held  # type: ignore[method-assign]
    return writing, go_on


async def test_a_session_that_is_looked_at_all_the_time_expires_all_the_same() -> None:
    """A dashboard that polls must not keep last month's conversation alive."""
    clock = ManualClock()
    async with open_test_service(clock=clock) as test:
        first = await test.service.submit(IncomingMessage(text="in January", key=test.key()))
        await first.result()
        clock.advance(169 * 3600)
        second = await test.service.submit(IncomingMessage(text="in February", key=test.key()))

        assert second.session_id != first.session_id
        events = await test.service.history(first.session_id, after=0, limit=50)
        assert events[-1].body == SessionEnded(reason="expired")


async def test_a_session_that_was_reset_is_not_said_to_have_expired() -> None:
    """The reason that people are told is the one that stands in the log."""
    clock = ManualClock()
    disk = MemoryDisk()
    async with open_test_service(disk=disk, clock=clock) as test:
        session_id = await test.service.conversations.create(test.key())
        await test.service.reset(session_id)
    clock.advance(169 * 3600)
    async with open_test_service(disk=disk, clock=clock) as test:
        with pytest.raises(Exception, match="reset"):
            await test.service.submit(IncomingMessage(text="hello", session_id=session_id))


async def test_a_damaged_session_can_be_deleted(tmp_path: Path) -> None:
    """It is what the doctor advises where nothing can be rebuilt."""
    async with open_file_store(tmp_path) as store, open_test_service(store=store) as test:
        session_id = await test.service.conversations.create(test.key())
        await test.service.conversations.create(test.key("other"))
    (tmp_path / "sessions" / session_id / "events.jsonl").write_bytes(b"no event\nat all\n")
    async with open_file_store(tmp_path) as store, open_test_service(store=store) as test:
        with pytest.raises(CorruptJournalError):
            await test.service.view(session_id)
        await test.service.delete(session_id)

        with pytest.raises(UnknownSessionError):
            await test.service.view(session_id)
        assert not (tmp_path / "sessions" / session_id).exists()
        assert len(await test.service.reader.sessions()) == 1


async def test_a_message_that_is_still_answered_is_not_taken_for_a_forgotten_one() -> None:
    """With `discard` the log lets go of a message before its turn is over, or has begun."""
    clock = ManualClock()
    session = SessionSpec(on_disconnect="pause", compaction="discard")
    spec = replace(make_spec(), session=session)
    async with open_test_service(spec=spec, clock=clock) as test:
        test.provider.hold()
        hello = IncomingMessage(text="hello", key=test.key(), idempotency_key="k")
        first = await test.service.submit(hello)
        await test.provider.until_called()
        await first.leave()
        await clock.until_sleeping(0)
        clock.advance(0)
        with anyio.fail_after(WAIT_S):
            while (await test.service.view(first.session_id)).status != "paused":
                await soon()
        await soon()
        assert await test.service.history(first.session_id, after=0, limit=9) == ()
        again = await test.service.submit(hello)
        test.provider.release()
        with anyio.fail_after(WAIT_S):
            result = await again.result()

        assert (again.duplicate, again.seq) == (True, first.seq)
        assert (result.outcome, result.text) == ("answered", "reply 2")


# --- conversations that begin ---


class SlowToBind(MemoryStore):
    """A store in which one conversation waits for its pointer until it is let go on."""

    def __init__(self, disk: MemoryDisk, slow: ConversationKey) -> None:
        super().__init__(disk, results_max_bytes=10_000)
        self._slow = slow
        self.go = anyio.Event()

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """Wait, where it is that conversation; then bind."""
        if key == self._slow:
            await self.go.wait()
        return await super().bind(key, session_id, instead_of=instead_of)


async def test_a_conversation_that_begins_slowly_keeps_no_other_waiting() -> None:
    """A hundred first messages at once share the disk; they do not queue behind each other."""
    disk = MemoryDisk()
    slow = ConversationKey(channel="test", chat="slow", agent="test")
    store = disk.user = SlowToBind(disk, slow)
    async with open_test_service(store=store) as test, anyio.create_task_group() as tasks:
        ids: list[str] = []

        async def begin() -> None:
            ids.append((await test.service.submit(IncomingMessage(text="hi", key=slow))).session_id)

        async def open_it() -> None:
            ids.append((await test.service.conversations.open(slow))[0])

        for start in (begin, open_it, begin, open_it):
            tasks.start_soon(start)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(WAIT_S):
            other = await test.service.submit(IncomingMessage(text="hi", key=test.key("other")))
            assert (await other.result()).outcome == "answered"
            created = await test.service.conversations.create(test.key("third"))
            assert (await test.service.view(created)).turns == 0
        assert not ids
        store.go.set()
        with anyio.fail_after(WAIT_S):
            while len(ids) < 4:
                await anyio.wait_all_tasks_blocked()

        assert len(set(ids)) == 1
        assert (await test.service.view(ids[0])).turns >= 1
