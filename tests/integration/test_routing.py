"""Sessions asked and followed from nodes that do not have them: as if there were one process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import aclosing

import anyio
import pytest
from support.nodes import Cluster, open_cluster
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.cluster import relay, routing
from everturn_actors.cluster.partitions import partition_of
from everturn_actors.errors import (
    ActorFailedError,
    FencedError,
    OwnerAwayError,
    SessionEndedError,
    UnknownApprovalError,
    UnknownSessionError,
)
from everturn_actors.events import Event, ModelReplied, Received, TurnFinished
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    Upload,
)
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.feed import TextDelta, Update
from everturn_actors.service import Submission, TurnService
from everturn_actors.service.handover import LOOKS_AGAIN_S

KEY = ConversationKey(channel="test", chat="chat", agent="test")


@pytest.fixture(autouse=True)
def _no_faults(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Whatever moves or breaks, nothing is a fault of the program."""
    yield
    faults = [each for each in caplog.records if each.levelname in {"ERROR", "CRITICAL"}]
    assert not faults


async def begin(it: Cluster, at: str = "a") -> tuple[str, TurnService]:
    """Begin a session at a node; return it, and a service that does not have it."""
    session_id = await it.services[at].conversations.create(KEY)
    return session_id, it.services[it.other(session_id)]


async def log(store: SessionStore, session_id: str) -> tuple[Event, ...]:
    """Return the log of a session, which has no hole."""
    events = await store.read(session_id, after=0, limit=1000)
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    return events


def answered(events: Sequence[Event]) -> list[str]:
    """Return the texts that were received, each answered once."""
    assert sum(isinstance(each.body, TurnFinished) for each in events) == sum(
        isinstance(each.body, Received) for each in events
    )
    return texts(events)


def texts(events: Sequence[Event]) -> list[str]:
    """Return what was received."""
    return [each.body.text for each in events if isinstance(each.body, Received)]


async def test_a_message_at_any_node_is_answered_there() -> None:
    """Its sender reads the same updates, and the same result, as at the owner."""
    async with open_cluster("a", "b", "c") as it:
        session_id, other = await begin(it)
        assert it.owner(session_id) == "a"  # where it can be, a session begins at home

        sent = await other.submit(IncomingMessage(text="hello", session_id=session_id))
        updates = [each async for each in sent.updates()]
        assert (await sent.result()).text == "reply 1"
        text = "".join(each.text for each in updates if isinstance(each, TextDelta))
        assert text == "reply 1"
        own = [each for each in updates if isinstance(each, Event)]
        assert own == list(await log(it.store, session_id))[1:]

        found = await other.found(session_id, sent.seq)
        assert (await found.result()).text == "reply 1"
        again = await other.submit(
            IncomingMessage(text="x", session_id=session_id, idempotency_key="k")
        )
        same = await other.submit(
            IncomingMessage(text="x", session_id=session_id, idempotency_key="k")
        )
        assert (await again.result()).text == (await same.result()).text == "reply 2"
        assert (same.seq, same.duplicate) == (again.seq, True)
        assert answered(await log(it.store, session_id)) == ["hello", "x"]
        assert [len(each.requests) for each in it.providers.values()] == [2, 0, 0]


async def test_a_conversation_goes_on_in_one_session_whoever_is_asked() -> None:
    """Also where two nodes begin it at once."""
    async with open_cluster("a", "b", "c") as it:
        sent: list[Submission] = []

        async def say(name: str) -> None:
            inbound = IncomingMessage(text=f"from {name}", key=KEY, idempotency_key=name)
            sent.append(await it.services[name].submit(inbound))

        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(say, name)
        assert len({each.session_id for each in sent}) == 1
        for each in sent:
            assert (await each.result()).outcome == "answered"
        session_id = sent[0].session_id
        received = [
            e.body.text for e in await log(it.store, session_id) if isinstance(e.body, Received)
        ]
        assert sorted(received) == ["from a", "from b", "from c"]

        await it.services[it.other(session_id)].reset(session_id)
        for name in "abc":  # the owner of the next one is another, and all know it
            assert await it.services[name].conversations.current(KEY) == ""
        next_id, is_new = await it.services["b"].conversations.open(KEY)
        assert is_new
        for name in "abc":
            assert await it.services[name].conversations.current(KEY) == next_id


async def test_everything_that_can_be_asked_can_be_asked_anywhere() -> None:
    """Cancel, labels, sharing, edits, files, approvals, the end: what comes back is the same."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        it.providers["a"].hold()
        held = await other.submit(IncomingMessage(text="wait", session_id=session_id))
        await it.providers["a"].until_called()
        waits = IncomingMessage(
            text="later", key=KEY, idempotency_key="w", queueing=IncomingMessage(text="").queueing
        )
        await other.submit(waits)
        assert await other.conversations.edit(KEY, "w", "changed")
        assert await other.conversations.withdraw(KEY, "w")
        assert await other.cancel(session_id, by="ray")
        assert (await held.result()).outcome == "cancelled"
        it.providers["a"].release()
        assert not await other.resume(session_id)

        label = await other.conversations.label(session_id, title="news", pinned=True)
        assert (label.title, label.pinned) == ("news", True)
        assert await other.conversations.share(session_id, "eve") == ("eve",)
        beside = await other.submit(IncomingMessage(kind="ambient", text="by the way", key=KEY))
        assert not beside.duplicate
        said = await other.submit(
            IncomingMessage(kind="announcement", text="soon", session_id=session_id)
        )
        assert not said.duplicate
        upload = Upload(data=b"plain", file_name="a.txt")
        sent = await other.submit(
            IncomingMessage(text="see", session_id=session_id, attachments=(upload,))
        )
        assert (await sent.result()).outcome == "answered"
        assert await other.reader.media(session_id, sent.attachments[0].name)
        assert (await other.compact(session_id)).done is False
        with pytest.raises(UnknownApprovalError):
            await other.decide(session_id, "none", "deny")
        await sent.leave()

        await other.reset(session_id, by="ray")
        with pytest.raises(SessionEndedError, match="reset"):
            await other.submit(IncomingMessage(text="more", session_id=session_id))
        texts = [
            e.body.text for e in await log(it.store, session_id) if isinstance(e.body, Received)
        ]
        assert texts == ["wait", "later", "see"]
        assert it.board.asks


async def test_a_session_is_deleted_at_its_owner() -> None:
    """No actor there may put away what is gone."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        await (await other.submit(IncomingMessage(text="x", session_id=session_id))).result()
        await other.delete(session_id)
        assert await it.store.inspect(session_id) is None
        assert it.services["a"].activity.present(session_id) is None
        with pytest.raises(UnknownSessionError):
            await other.submit(IncomingMessage(text="x", session_id=session_id))


async def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    """A message without a key of its own is one message all the same."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        it.board.deaf = 2
        sent = await other.submit(IncomingMessage(text="once", session_id=session_id))
        assert (await sent.result()).outcome == "answered"
        it.board.deaf = 1
        await other.submit(IncomingMessage(kind="announcement", text="soon", session_id=session_id))
        events = await log(it.store, session_id)
        assert answered(events) == ["once"]
        assert sum(event.body.__class__.__name__ == "Announced" for event in events) == 1


async def test_a_follower_stays_with_a_session_that_moves() -> None:
    """From node to node, and to its own: events never are lost, nor shown twice."""
    async with open_cluster("a", "b", "c") as it:
        session_id = await it.services["a"].conversations.create(KEY)
        seen: list[Update] = []

        async def watch() -> None:
            async with aclosing(it.services["c"].watch(session_id, after=0)) as updates:
                seen.extend([update async for update in updates])

        async def say(at: str, text: str) -> None:
            sent = await it.services[at].submit(IncomingMessage(text=text, session_id=session_id))
            assert (await sent.result()).outcome == "answered"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            for number, owner in enumerate("abcab"):
                if it.owner(session_id) != owner:
                    await it.move(session_id, owner)
                await say("abc"[number % 3], f"message {number}")
            await it.lose(session_id, "c")
            await say("c", "the last")
            await it.services["c"].reset(session_id)
        events = [each for each in seen if isinstance(each, Event)]
        assert events == list(await log(it.store, session_id))
        pieces = [each.text for each in seen if isinstance(each, TextDelta)]
        assert "reply" in "".join(pieces)


async def test_a_turn_whose_node_dies_is_answered_by_the_next_one() -> None:
    """Whoever waits at a third node gets the answer, and no failure."""
    async with open_cluster("a", "b", "c") as it:
        session_id = await it.services["a"].conversations.create(KEY)
        it.providers["a"].hold()
        sent = await it.services["c"].submit(IncomingMessage(text="x", session_id=session_id))
        await it.providers["a"].until_called()

        async def lose() -> None:
            await it.lose(session_id, "b")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lose)
            assert (await sent.result()).text == "reply 1"
        assert len(it.providers["b"].requests) == 1
        assert answered(await log(it.store, session_id)) == ["x"]


async def test_nodes_that_cannot_reach_each_other_say_so_and_read_the_log() -> None:
    """The owner goes on; what it writes is seen all the same, only later."""
    async with open_cluster("a", "b", patience_s=0.1) as it:
        session_id, other = await begin(it)
        sent = await other.submit(IncomingMessage(text="x", session_id=session_id))
        it.board.cut.add("a")
        it.board.notify()
        assert (await sent.result()).text == "reply 1"
        with pytest.raises(OwnerAwayError, match=r"node 'a'.*is cut off\. Send it again"):
            await other.submit(IncomingMessage(text="y", session_id=session_id))
        it.board.holders.clear()
        with pytest.raises(OwnerAwayError, match="no node works on session"):
            await other.submit(IncomingMessage(text="y", session_id=session_id))


async def test_a_node_that_cannot_find_an_owner_says_so_soon_and_does_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is parted from the store: its client asks another node, or again, with the same key."""
    monkeypatch.setattr(routing, "AWAY_S", 0.0)
    async with open_cluster("a", "b", patience_s=3600) as it:
        session_id, other = await begin(it)
        again = IncomingMessage(text="x", session_id=session_id, idempotency_key="k")
        it.board.fault, it.board.deaf = "the store is away", 1
        with pytest.raises(OwnerAwayError, match="the answer was lost"):  # it was done
            await other.submit(again)
        holders, it.board.holders = it.board.holders, {}
        with pytest.raises(OwnerAwayError, match="no node works on session"):
            await other.submit(again)
        it.board.fault, it.board.holders = "", holders
        assert (await (await other.submit(again)).result()).text == "reply 1"
        assert answered(await log(it.store, session_id)) == ["x"]


async def test_what_moves_elsewhere_breaks_off_nothing_that_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer comes as soon as it is there, and not with the next look at the log."""
    monkeypatch.setattr(relay, "LOOK_S", 3600.0)
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        it.providers["a"].hold()
        sent = await other.submit(IncomingMessage(text="x", session_id=session_id))

        async def move_others() -> None:
            await it.providers["a"].until_called()
            await anyio.wait_all_tasks_blocked()
            it.board.notify()
            await anyio.wait_all_tasks_blocked()
            it.providers["a"].release()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(move_others)
                assert (await sent.result()).text == "reply 1"


async def test_a_failure_is_told_to_followers_elsewhere() -> None:
    """Once, with its reason; the session goes on with its next message."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        it.providers["a"].hold()
        sent = await other.submit(IncomingMessage(text="x", session_id=session_id))
        await it.providers["a"].until_called()

        async def fail() -> None:
            await anyio.wait_all_tasks_blocked()
            feed = it.board.hosts["a"]._local.feed(session_id)  # type: ignore[attr-defined]
            feed.fail(ActorFailedError(session_id, RuntimeError("x")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            with pytest.raises(ActorFailedError):
                await sent.result()
        it.providers["a"].release()
        again = await other.submit(IncomingMessage(text="y", session_id=session_id))
        assert (await again.result()).outcome == "answered"


async def test_who_cannot_take_text_back_counts_at_the_owner() -> None:
    """A model call that broke off after they were given a piece of it is not made again."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        it.providers["a"].hold()
        sent = await other.submit(IncomingMessage(text="x", session_id=session_id))
        await it.providers["a"].until_called()
        feed = it.board.hosts["a"]._local.feed(session_id)  # type: ignore[attr-defined]
        async with aclosing(sent.updates(final=True)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    break
            assert (feed.followers, feed.finals) == (1, 1)
            assert feed.live is not None
            assert feed.live.was_read
        with anyio.fail_after(WAIT_S):
            # The session is followed still, so that nobody waits is said after a moment.
            while (feed.followers, feed.finals) != (0, 0):  # noqa: ASYNC110 - it does not tell
                await anyio.sleep(relay.LEAVE_S / 5)
        it.providers["a"].release()


async def test_a_node_may_die_at_every_write_of_a_turn() -> None:
    """Whoever asked elsewhere gets one answer; the log has one of everything."""
    appends = 0
    while True:
        appends += 1
        async with open_memory_store(MemoryDisk()) as store:
            died = await play(Dying(store, at=appends))
        if not died:
            break
    assert appends > 3


class Dying:
    """A store that lets something happen right after its n-th append."""

    def __init__(self, store: SessionStore, *, at: int) -> None:
        self._store, self._left = store, at
        self.reached = anyio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append; say so where it is the one."""
        await self._store.append(session_id, events, expected_seq=expected_seq)
        self._left -= 1
        if self._left == 0:
            self.reached.set()


async def play(store: Dying) -> bool:
    """Say two things from a node that does not have the session; return whether its owner died."""
    shared: SessionStore = store  # type: ignore[assignment]
    async with open_cluster("a", "b", "c", store=shared) as it:
        session_id = await it.services["a"].conversations.create(KEY)
        results: list[str] = []

        async def die() -> None:
            await store.reached.wait()
            await it.lose(session_id, "b")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(die)
            for text in ("one", "two"):
                sent = await it.services["c"].submit(
                    IncomingMessage(text=text, session_id=session_id)
                )
                results.append((await sent.result()).outcome)
            died = store.reached.is_set()
            tasks.cancel_scope.cancel()
        assert results == ["answered", "answered"]
        events = await log(shared, session_id)
        assert answered(events) == ["one", "two"]
        assert sum(isinstance(event.body, ModelReplied) for event in events) == 2
        return died


class Late(Dying):
    """A store that what is received reaches only when it is let through."""

    def __init__(self, store: SessionStore) -> None:
        super().__init__(store, at=0)
        self.passes = anyio.Event()
        self.is_shut = True

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append; hold back what was received first."""
        if self.is_shut and any(isinstance(event.body, Received) for event in events):
            self.reached.set()
            await self.passes.wait()
        await super().append(session_id, events, expected_seq=expected_seq)


@table("has_loaded", [False, True], ids=["passive", "idle"])
async def test_what_was_written_behind_the_look_of_the_next_owner_is_answered_by_it(
    *, has_loaded: bool
) -> None:
    """A lease ran out while a message was on its way to the store: nothing was open there yet.

    Also where the next owner has loaded the session meanwhile, and idles with what was there then.
    """
    async with open_memory_store(MemoryDisk()) as store:
        late = Late(store)
        async with open_cluster("a", "b", store=late) as it:  # type: ignore[arg-type]
            session_id = await it.services["a"].conversations.create(KEY)
            partitions = frozenset((partition_of(session_id),))
            told: list[str] = []

            async def say() -> None:
                sent = await it.services["a"].submit(
                    IncomingMessage(text="x", session_id=session_id)
                )
                told.append((await sent.result()).text)

            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(say)
                    await late.reached.wait()
                    it.board.holders[partition_of(session_id)] = "b"
                    it.board.notify()
                    await it.services["b"].handover.take(partitions)
                    if has_loaded:
                        assert not await it.services["b"].resume(session_id)
                    await anyio.wait_all_tasks_blocked()
                    assert has_loaded or session_id not in await store.active()
                    late.passes.set()
                    await it.services["a"].handover.lose(partitions, 0.0)
            assert told == ["reply 1"]
            assert [len(each.requests) for each in it.providers.values()][1] == 1
            assert answered(await log(store, session_id)) == ["x"]


async def test_nobody_waits_for_a_node_that_lost_a_session_in_the_middle_of_a_write() -> None:
    """Its store may be away for half a minute; whoever has the session now is asked at once."""
    async with open_memory_store(MemoryDisk()) as store:
        late = Late(store)
        async with open_cluster("a", "b", store=late) as it:  # type: ignore[arg-type]
            session_id = await it.services["a"].conversations.create(KEY)
            partitions = frozenset((partition_of(session_id),))
            told: list[str] = []

            async def say(at: str) -> None:
                message = IncomingMessage(text=f"at {at}", session_id=session_id)
                sent = await it.services[at].submit(message)
                told.append((await sent.result()).outcome)

            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    try:
                        async with anyio.create_task_group() as people:
                            people.start_soon(say, "a")
                            await late.reached.wait()
                            people.start_soon(say, "b")
                            await anyio.wait_all_tasks_blocked()
                            late.is_shut = False
                            it.board.holders[partition_of(session_id)] = "b"
                            it.board.notify()
                            tasks.start_soon(it.services["b"].handover.take, partitions)
                            tasks.start_soon(it.services["a"].handover.lose, partitions, 0.0)
                    finally:
                        late.passes.set()  # after both were answered
            assert told == ["answered"] * 2
            assert sorted(answered(await log(store, session_id))) == ["at a", "at b"]
            assert not it.providers["a"].requests


class Mute(Late):
    """A store that writes what was received first when it is let through, and tells nobody."""

    def __init__(self, store: SessionStore) -> None:
        super().__init__(store)
        self.session_id = ""
        self.written, self.buried = anyio.Event(), anyio.Event()

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append; whoever does it never hears of it, as one that dies."""
        is_first = not self.reached.is_set()
        if is_first and any(isinstance(event.body, Received) for event in events):
            self.session_id = session_id
            self.reached.set()
            await self.passes.wait()
            await Dying.append(self, session_id, events, expected_seq=expected_seq)
            self.written.set()
            await self.buried.wait()
            raise FencedError(session_id)
        await Dying.append(self, session_id, events, expected_seq=expected_seq)


@table("rests", ["passive", "idle", "new"])
async def test_what_a_node_writes_behind_that_look_and_dies_is_answered_all_the_same(
    rests: str,
) -> None:
    """Nobody is left who could tell the next owner, and nobody writes again: it looks once more.

    Where it rests, where the next owner has loaded it, and where nothing of it was there.
    """
    async with open_memory_store(MemoryDisk()) as store:
        mute = Mute(store)
        async with open_cluster("a", "b", store=mute) as it:  # type: ignore[arg-type]
            one, other = it.services["a"], it.services["b"]
            if rests != "new":
                await one.conversations.create(KEY)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.submit, IncomingMessage(text="x", key=KEY))
                await mute.reached.wait()
                session_id = mute.session_id
                it.board.cut.add("a")
                it.board.holders[partition_of(session_id)] = "b"
                it.board.notify()
                tasks.start_soon(other.handover.take_over, frozenset((partition_of(session_id),)))
                await it.clock.until_sleeping(LOOKS_AGAIN_S[0])
                if rests == "idle":
                    assert not await other.resume(session_id)
                await anyio.wait_all_tasks_blocked()
                assert (session_id in await store.active()) == (rests == "idle")
                mute.passes.set()
                await mute.written.wait()
                it.clock.advance(LOOKS_AGAIN_S[0])
                try:
                    with anyio.fail_after(20):
                        await it.providers["b"].until_called()
                        events = await log(store, session_id)
                        seq = next(each.seq for each in events if isinstance(each.body, Received))
                        found = await other.found(session_id, seq)
                        assert (await found.result()).text == "reply 1"
                finally:
                    mute.buried.set()
                tasks.cancel_scope.cancel()
            assert not it.providers["a"].requests
            assert answered(await log(store, session_id)) == ["x"]


class Unheard(Late):
    """A store that says of what was received first that another writer was there; it is written.

    So is an append whose answer was lost, and that is looked for after the next owner appended.
    """

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append; let others work before the answer."""
        await Dying.append(self, session_id, events, expected_seq=expected_seq)
        if any(isinstance(event.body, Received) for event in events) and not self.reached.is_set():
            self.reached.set()
            await self.passes.wait()
            raise FencedError(session_id)


async def test_a_message_without_a_key_counts_once_where_its_owner_changes_meanwhile() -> None:
    """It was written, nobody heard of it, and it is said again to the next owner."""
    async with open_memory_store(MemoryDisk()) as store:
        unheard = Unheard(store)
        async with open_cluster("a", "b", store=unheard) as it:  # type: ignore[arg-type]
            session_id = await it.services["a"].conversations.create(KEY)
            told: list[str] = []

            async def say() -> None:
                sent = await it.services["a"].submit(
                    IncomingMessage(text="x", session_id=session_id)
                )
                told.append((await sent.result()).text)

            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(say)
                    await unheard.reached.wait()
                    it.board.holders[partition_of(session_id)] = "b"
                    it.board.notify()
                    await it.services["b"].handover.take(frozenset((partition_of(session_id),)))
                    unheard.passes.set()
            assert told == ["reply 1"]
            assert answered(await log(store, session_id)) == ["x"]


async def test_what_somebody_waits_for_goes_on_where_nobody_knows_that_it_is_open() -> None:
    """The mark of a session may be lost with its owner."""
    async with open_cluster("a", "b", "c") as it:
        session_id = await it.services["a"].conversations.create(KEY)
        it.providers["a"].hold()
        sent = await it.services["c"].submit(IncomingMessage(text="x", session_id=session_id))
        await it.providers["a"].until_called()

        async def lose() -> None:
            it.board.cut.add("a")
            await it.store.mark_passive(session_id)
            it.board.holders[partition_of(session_id)] = "b"
            it.board.notify()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lose)
            assert (await sent.result()).text == "reply 1"
        assert len(it.providers["b"].requests) == 1


async def test_who_names_an_event_that_is_not_there_yet_hides_nothing_from_others() -> None:
    """As after a restore of an older backup: all followers at a node share one way to the owner."""
    async with open_cluster("a", "b") as it:
        session_id, other = await begin(it)
        seen: list[list[Update]] = []

        async def watch(after: int, is_there: anyio.Event) -> None:
            updates: list[Update] = []
            seen.append(updates)
            async with aclosing(other.watch(session_id, after=after)) as found:
                is_there.set()
                async for update in found:
                    updates.append(update)
                    if isinstance(update, Event) and isinstance(update.body, TurnFinished):
                        return

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for after in (10**9, 0):
                    is_there = anyio.Event()
                    tasks.start_soon(watch, after, is_there)
                    await is_there.wait()
                    await anyio.wait_all_tasks_blocked()
                sent = await it.services["a"].submit(
                    IncomingMessage(text="hello", session_id=session_id)
                )
                await sent.result()
        events = list(await log(it.store, session_id))
        assert [[each for each in one if isinstance(each, Event)] for one in seen] == [
            events[1:],
            events,
        ]


class Stuck(Dying):
    """A store whose answer to what was received first does not come until it is let through."""

    def __init__(self, store: SessionStore, *, is_written: bool) -> None:
        super().__init__(store, at=0)
        self.passes, self._is_written = anyio.Event(), is_written

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append; the first time before or behind a long wait."""
        is_first = not self.reached.is_set()
        if not is_first or not any(isinstance(event.body, Received) for event in events):
            await super().append(session_id, events, expected_seq=expected_seq)
            return
        self.reached.set()
        if self._is_written:
            await super().append(session_id, events, expected_seq=expected_seq)
        await self.passes.wait()
        if not self._is_written:
            await super().append(session_id, events, expected_seq=expected_seq)


@table(
    ("asked", "is_written"),
    [("a", True), ("c", False), ("c", True)],
    ids=["unheard", "frozen, late", "frozen, unheard"],
)
async def test_what_hangs_at_a_node_is_asked_of_the_next_one_and_done_once(
    asked: str, *, is_written: bool
) -> None:
    """Its append comes late, or nobody heard of it; it knows that it lost a session, or is frozen.

    Then whoever asked it over a link sees by itself who has the session now.
    """
    async with open_memory_store(MemoryDisk()) as store:
        stuck = Stuck(store, is_written=is_written)
        async with open_cluster("a", "b", "c", store=stuck) as it:  # type: ignore[arg-type]
            session_id = await it.services["a"].conversations.create(KEY)
            partitions = frozenset((partition_of(session_id),))
            answers: list[str] = []

            async def say() -> None:
                inbound = IncomingMessage(text="x", session_id=session_id)
                sent = await it.services[asked].submit(inbound)
                answers.append((await sent.result()).text)

            async with anyio.create_task_group() as losing:
                with anyio.move_on_after(10):
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(say)
                        await stuck.reached.wait()
                        it.board.holders[partition_of(session_id)] = "b"
                        it.board.notify()
                        if asked == "a":  # else it is frozen, and learns of nothing
                            losing.start_soon(it.services["a"].handover.lose, partitions, 0.0)
                        await it.services["b"].handover.take(partitions)
                stuck.passes.set()
            assert answers == ["reply 1"]
        assert is_written or not it.providers["a"].requests  # a call may be made twice
        assert answered(await log(store, session_id)) == ["x"]
