"""What a store owes its lists: sessions, pointers, and who has an open turn."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
from msgspec.structs import replace

from everturn.testing._histories import (
    KEY,
    LOG,
    OTHER_ID,
    SESSION_ID,
    moment,
    replay,
    simple_log,
    started,
    state_in,
)
from everturn.testing._on_a_store import OnAStore
from everturn.testing._running import Row, in_loop
from everturn_actors.events import Event, Labelled, SessionEnded, SessionShared, SessionStarted
from everturn_actors.model import ConversationKey, Labels
from everturn_actors.ports import ALL_SESSIONS, SessionFilter, SessionStore


class ListContract(OnAStore):
    """Lists show what is there, page by page, and nothing that was deleted."""

    @in_loop
    async def test_who_is_awake_is_known_without_reading_sessions(self) -> None:
        """Open turns are resumed at start-up by themselves, however many sessions there are."""
        async with self.open_store() as store:
            await store.mark_active(OTHER_ID)
            await store.mark_active(SESSION_ID)
            await store.mark_active(SESSION_ID)
        async with self.open_store() as store:
            assert await store.active() == (SESSION_ID, OTHER_ID)
            await store.mark_passive(SESSION_ID)
            await store.mark_passive(SESSION_ID)
            assert await store.active() == (OTHER_ID,)
            await store.mark_active(SESSION_ID)
            assert await store.active() == (SESSION_ID, OTHER_ID)

    @in_loop
    async def test_sessions_are_listed_newest_first_page_by_page(self) -> None:
        """A list of thousands is read in pages, and the newest are wanted first."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in (3, 1, 5, 2, 4)]
        async with self.open_store() as store:
            for session_id in ids:
                await store.append(session_id, (started(session_id),), expected_seq=0)
            pages: list[list[str]] = []
            after = ""
            while page := await store.sessions(after=after, limit=2):
                pages.append([row.session_id for row in page])
                after = pages[-1][-1]

        newest = sorted(ids, reverse=True)
        assert pages == [newest[:2], newest[2:4], newest[4:]]

    @in_loop
    async def test_a_row_of_the_list_says_whose_session_it_is(self) -> None:
        """`sessions list` shows the conversation, its status and when it began."""
        ended = Event(seq=17, at=moment(99), body=SessionEnded(reason="reset"))
        key = ConversationKey(channel="cli", chat="x: #y", agent="digest", topic="t")
        body = SessionStarted(session_id=OTHER_ID, key=key, instructions="i")
        begun = Event(seq=1, at=moment(5), body=body)
        async with self.open_store() as store:
            await store.append(SESSION_ID, (*LOG, ended), expected_seq=0)
            await store.save_snapshot(replay((*LOG, ended)), compaction="discard")
            await store.append(OTHER_ID, (begun,), expected_seq=0)
            rows = await store.sessions(after="", limit=10)

        assert [(row.session_id, row.key, row.status, row.created_at) for row in rows] == [
            (OTHER_ID, key, "active", moment(5)),
            (SESSION_ID, KEY, "ended", LOG[0].at),
        ]
        assert all(row.updated_at.tzinfo is not None for row in rows)

    @in_loop
    async def test_sessions_are_listed_by_their_last_activity(self) -> None:
        """Whoever looks for a conversation knows when somebody wrote in it, not when it began."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 5)]
        places = (("cli", "a"), ("http", "b"), ("http", "a"), ("cli", "a"))
        async with self.open_store() as store:
            for number, (session_id, (channel, agent)) in enumerate(zip(ids, places, strict=True)):
                key = ConversationKey(channel=channel, chat=session_id, agent=agent)
                begun = SessionStarted(
                    session_id=session_id, key=key, principal="ana" * (number % 2)
                )
                event = Event(seq=1, at=moment(10 - number), body=begun)
                await store.append(session_id, (event,), expected_seq=0)
            ended = Event(seq=2, at=moment(60), body=SessionEnded(reason="reset"))
            await store.append(ids[2], (ended,), expected_seq=1)
            await store.save_snapshot(replay(await history(store, ids[2])), compaction="disabled")

            async def found(wanted: SessionFilter = ALL_SESSIONS) -> list[int]:
                rows = await store.recent(before=None, limit=9, wanted=wanted)
                return [ids.index(row.session_id) for row in rows]

            by_activity = await found()
            of_http = await found(SessionFilter(channel="http"))
            of_a = await found(SessionFilter(agents=frozenset({"a"})))
            seen_by_ana = await found(SessionFilter(seen_by="ana"))
            going_on = await found(SessionFilter(status="active"))
            first = await store.recent(before=None, limit=2)
            place = (first[-1].updated_at, first[-1].session_id)
            rest = await store.recent(before=place, limit=9)

        assert by_activity == [2, 0, 1, 3]
        assert of_http == [2, 1]
        assert of_a == [2, 0, 3]
        assert seen_by_ana == [1, 3]
        assert going_on == [0, 1, 3]
        assert [ids.index(row.session_id) for row in (*first, *rest)] == by_activity

    @in_loop
    async def test_sessions_are_listed_by_how_people_sort_them(self) -> None:
        """Whoever tidies up finds each where it was put, at the place that it had by its use."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 5)]
        async with self.open_store() as store:
            for number, session_id in enumerate(ids):
                event = replace(started(session_id), at=moment(number))
                await store.append(session_id, (event,), expected_seq=0)
            assert len(await store.recent(before=None, limit=9)) == len(ids)
            for session_id, labels in (
                (ids[0], Labels(title="Trip", pinned=True)),
                (ids[1], Labels(archived=True)),
            ):
                labelled = Event(seq=2, at=moment(60), body=Labelled(labels=labels))
                await store.append(session_id, (labelled,), expected_seq=1)
                state = replay(await history(store, session_id))
                await store.save_snapshot(state, compaction="disabled")

            async def found(wanted: SessionFilter = ALL_SESSIONS) -> list[int]:
                rows = await store.recent(before=None, limit=9, wanted=wanted)
                return [ids.index(row.session_id) for row in rows]

            every = await found()
            pinned = await found(SessionFilter(pinned=True, archived=False))
            others = await found(SessionFilter(pinned=False, archived=False))
            archived = await found(SessionFilter(archived=True))
            (row,) = await store.sessions(after="", limit=9, wanted=SessionFilter(pinned=True))

        assert every == [3, 2, 1, 0]
        assert (pinned, others, archived) == ([0], [3, 2], [1])
        assert row.labels == Labels(title="Trip", pinned=True)

    @in_loop
    async def test_idle_sessions_are_found_by_their_agent(self) -> None:
        """Conversations that nobody goes on with expire, each after the time of its own agent."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 6)]
        long_after = datetime(9999, 1, 1, tzinfo=UTC)
        async with self.open_store() as store:
            for session_id, agent in zip(ids, ("a", "b", "a", "a", "a"), strict=True):
                key = ConversationKey(channel="cli", chat=session_id, agent=agent)
                begun = Event(
                    seq=1, at=moment(1), body=SessionStarted(session_id=session_id, key=key)
                )
                await store.append(session_id, (begun,), expected_seq=0)
            await store.append(
                ids[2],
                (Event(seq=2, at=moment(2), body=SessionEnded(reason="reset")),),
                expected_seq=1,
            )
            ended = replay(await history(store, ids[2]))
            await store.save_snapshot(ended, compaction="disabled")
            await store.delete(ids[3])
            agents = await store.agents()
            of_a = [row.session_id async for row in store.idle("a", before=long_after)]
            of_b = [row.session_id async for row in store.idle("b", before=long_after)]
            early = [row async for row in store.idle("a", before=moment(0))]

        assert sorted(agents) == ["a", "b"]
        assert sorted(of_a) == [ids[0], ids[4]]
        assert of_b == [ids[1]]
        assert early == []

    @in_loop
    async def test_a_principal_lists_what_it_began_and_what_it_was_given(self) -> None:
        """Pages are as full as those of all sessions, whoever else has some in between."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 8)]
        given = Event(seq=2, at=moment(2), body=SessionShared(principal="alice", by="bob"))
        taken = Event(
            seq=3, at=moment(3), body=SessionShared(principal="alice", by="bob", is_withdrawn=True)
        )
        alice = SessionFilter(seen_by="alice")
        async with self.open_store() as store:
            for session_id, name in zip(
                ids, ("alice", "bob", "alice", "", "bob", "a"), strict=False
            ):
                await store.append(session_id, (_begun_by(session_id, name),), expected_seq=0)
            for session_id, events in ((ids[1], (given,)), (ids[4], (given, taken))):
                await store.append(session_id, events, expected_seq=1)
                state = replay((_begun_by(session_id, "bob"), *events))
                await store.save_snapshot(state, compaction="archive")
            first = await store.sessions(after="", limit=2, wanted=alice)
            rest = await store.sessions(after=first[-1].session_id, limit=2, wanted=alice)
            await store.append(ids[6], (_begun_by(ids[6], "alice"),), expected_seq=0)
            later = await store.sessions(after="", limit=9, wanted=alice)
            nobody = await store.sessions(after="", limit=9, wanted=SessionFilter(seen_by="x"))

        assert [row.session_id for row in first] == [ids[2], ids[1]]
        assert first[1].shared_with == ("alice",)
        assert [row.session_id for row in rest] == [ids[0]]
        assert [row.session_id for row in later] == [ids[6], ids[2], ids[1], ids[0]]
        assert nobody == ()
        async with self.open_store() as store:  # as they stand on disk
            again = await store.sessions(after="", limit=9, wanted=alice)
        assert [(row.session_id, row.principal, row.shared_with) for row in again] == [
            (row.session_id, row.principal, row.shared_with) for row in later
        ]

    @in_loop
    async def test_sessions_are_listed_by_their_agents(self) -> None:
        """Who may know one agent alone is told of no session of another."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 5)]
        async with self.open_store() as store:
            for session_id, agent in zip(ids, ("a", "b", "a", "c"), strict=True):
                begun = _begun_by(session_id, "alice", agent=agent)
                await store.append(session_id, (begun,), expected_seq=0)
            of_some = SessionFilter(agents=frozenset({"a", "c"}))
            rows = await store.sessions(after="", limit=2, wanted=of_some)
            of_one = SessionFilter(seen_by="alice", agents=frozenset({"b"}))
            own = await store.sessions(after="", limit=2, wanted=of_one)
            none = await store.sessions(after="", limit=2, wanted=SessionFilter(agents=frozenset()))

        assert [row.session_id for row in rows] == [ids[3], ids[2]]
        assert [row.session_id for row in own] == [ids[1]]
        assert none == ()

    @in_loop
    async def test_a_conversation_points_to_its_latest_session(self) -> None:
        """After /reset the next message must not land in the old session."""
        async with self.open_store() as store:
            assert await store.bound(KEY) == ""
            await store.bind(KEY, SESSION_ID)
            await store.bind(KEY, OTHER_ID)
        async with self.open_store() as store:
            assert await store.bound(KEY) == OTHER_ID

    @in_loop
    async def test_of_those_who_bind_a_conversation_at_once_one_wins(self) -> None:
        """Two messages that begin a conversation at the same time meet in one session."""
        ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 9)]
        told: list[str] = []

        async def begin(session_id: str, before: str) -> None:
            told.append(await store.bind(KEY, session_id, instead_of=before))

        async with self.open_store() as store:
            for before in ("", None):
                current = "" if before == "" else await store.bind(KEY, OTHER_ID)
                told.clear()
                async with anyio.create_task_group() as tasks:
                    for session_id in ids:
                        tasks.start_soon(begin, session_id, current)
                assert len(told) == len(ids)
                assert set(told) == {await store.bound(KEY)}
                assert told[0] in ids
            assert await store.bind(KEY, SESSION_ID, instead_of=OTHER_ID) == told[0]
        async with self.open_store() as store:
            assert await store.bound(KEY) == told[0]

    @in_loop
    async def test_each_conversation_has_its_own_pointer(self) -> None:
        """Two chats that share a session would read each other's messages."""
        others = (
            ConversationKey(channel="http", chat="c1", agent="assistant", topic="t"),
            ConversationKey(channel="http", chat="c2", agent="assistant"),
            ConversationKey(channel="http", chat="c1", agent="digest"),
            ConversationKey(channel="httpc", chat="1", agent="assistant"),
            ConversationKey(channel="\ud800/../\x00", chat="ü" * 500, agent="assistant"),
        )
        async with self.open_store() as store:
            await store.bind(KEY, SESSION_ID)
            for other in others:
                with Row(other):
                    assert await store.bound(other) == ""
                    await store.bind(other, OTHER_ID)
                    assert await store.bound(KEY) == SESSION_ID
                    assert await store.bound(other) == OTHER_ID

    @in_loop
    async def test_deleting_an_old_session_keeps_the_pointer_to_the_new_one(self) -> None:
        """Clearing out yesterday's session must not cut today's conversation off."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.bind(KEY, OTHER_ID)
            await store.delete(SESSION_ID)

            assert await store.bound(KEY) == OTHER_ID

    @in_loop
    async def test_a_deleted_session_leaves_nothing(self) -> None:
        """A person who deletes a conversation must not meet it again anywhere."""
        async with self.open_store() as store:
            for session_id in (SESSION_ID, OTHER_ID):
                await store.append(session_id, simple_log(1, session_id=session_id), expected_seq=0)
                await store.mark_active(session_id)
                await store.save_result(session_id, "call_1", session_id)
            await store.bind(KEY, SESSION_ID)
            await store.save_snapshot(replay(LOG[:6]), compaction="archive")
            await store.delete(SESSION_ID)
            await store.delete(SESSION_ID)
        async with self.open_store() as store:
            listed = await store.sessions(after="", limit=10)

            assert await store.load(SESSION_ID) is None
            assert await store.read(SESSION_ID, after=0, limit=9) == ()
            assert await store.read_result(SESSION_ID, "call_1") is None
            assert await store.read_result(OTHER_ID, "call_1") == OTHER_ID
            assert [row.session_id for row in listed] == [OTHER_ID]
            assert await store.active() == (OTHER_ID,)
            assert await store.bound(KEY) == ""
            assert (await state_in(store, OTHER_ID)).last_seq == 6


async def history(store: SessionStore, session_id: str) -> tuple[Event, ...]:
    """Return all events of a session."""
    return await store.read(session_id, after=0, limit=1_000)


def _begun_by(session_id: str, principal: str, *, agent: str = "digest") -> Event:
    key = ConversationKey(channel="http", chat=session_id, agent=agent)
    body = SessionStarted(session_id=session_id, key=key, principal=principal)
    return Event(seq=1, at=moment(1), body=body)
