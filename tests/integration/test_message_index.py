"""The index of what was said: what it finds, what it survives, and what it never shows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from msgspec import structs
from support.files import files_with
from support.stores import MemoryWorld

from everturn_actors.errors import StoreAwayError, ToolFailedError
from everturn_actors.events import (
    Body,
    CallFinished,
    Event,
    Received,
    SessionShared,
    SessionStarted,
)
from everturn_actors.model import (
    Conversation,
    ConversationKey,
    OpenTurn,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import SessionStore, SessionSummary, ToolContext, ToolOutput
from everturn_actors.ports.search import MessageMatch, MessageQuery, SearchPlace
from everturn_actors.sqlite_cache import CacheError
from everturn_actors.state.recovery import recover
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.links import Links
from everturn_gateway.search.index import StoreMessageIndex, open_message_index
from everturn_gateway.search.table import IndexedSession, MessageTable
from everturn_gateway.search.words import words_of
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.recall import RecallContext

AT = datetime(2026, 5, 7, 12, tzinfo=UTC)
ONE, TWO, THREE, FOUR, FIVE = (f"20260507T12000000{n}-0000000{n}" for n in range(1, 6))
PRIVATE = ConversationKey(channel="telegram", chat="100", agent="test")
OTHER = ConversationKey(channel="telegram", chat="200", agent="test")


async def write(
    store: SessionStore,
    session_id: str,
    *bodies: Body | str,
    key: ConversationKey = PRIVATE,
    at: datetime = AT,
    principal: str = "",
) -> None:
    """Begin a session with messages."""
    said = [Received(text=each, sender="Ann") if isinstance(each, str) else each for each in bodies]
    started = SessionStarted(session_id=session_id, key=key, principal=principal)
    events = [
        Event(seq=seq, at=at + timedelta(days=seq), body=body)
        for seq, body in enumerate((started, *said), 1)
    ]
    await store.append(session_id, events, expected_seq=0)


async def seqs(index: StoreMessageIndex, text: str, *places: SearchPlace) -> list[int]:
    """Return which messages fit, the best first."""
    return [each.seq for each in await matches(index, text, *places)]


async def matches(
    index: StoreMessageIndex, text: str, *places: SearchPlace
) -> Sequence[MessageMatch]:
    """Return what fits, the best first."""
    page = await index.search(MessageQuery(text=text, places=places))
    assert page.searched_to is None
    return page.matches


async def test_people_ask_as_they_speak() -> None:
    """In other forms, in whole sentences, in Chinese and Japanese, and in long quotes."""
    # As people ask: in other forms, in whole sentences, in Chinese and Japanese.
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(
            store,
            ONE,
            "We adopted two puppies from the shelter",  # 2
            "Die Straße nach München ist gesperrt",  # 3
            "来週、東京タワーに行きます",  # 4
            "我们明天去北京大学",  # 5
            "The shelter was closed",  # 6
            "Passwort: 猫",  # 7
            CallFinished(call_id="c", text="café au lait \ud800"),  # 8
        )

        assert (await seqs(index, "When did she adopt the puppy from the shelter?"))[0] == 2
        assert await seqs(index, "shelters") == [6, 2]
        assert await seqs(index, "STRASSE muenchen münchen") == [3]
        assert await seqs(index, "東京") == [4]
        assert await seqs(index, "京") == [5, 4] or await seqs(index, "京") == [4, 5]
        assert await seqs(index, "北京大学在哪里") == [5]
        assert await seqs(index, "猫") == [7]
        assert await seqs(index, '"two puppies"') == [2]
        assert await seqs(index, '"puppies two"') == []
        assert await seqs(index, "cafe") == [8]
        assert await seqs(index, "half \ud800\x00 of a character") == []
        assert await seqs(index, 'NOT "* OR ( ^ {text} : NEAR') == []
        by_day = MessageQuery(text="shelter", since=date(2026, 5, 12), until=date(2026, 6, 1))
        assert [each.seq for each in (await index.search(by_day)).matches] == [6]
        by_sender = structs.replace(by_day, since=None, until=None, sender="Bob")
        assert (await index.search(by_sender)).matches == ()

    # One of a thousand same characters, in a paste of them, would hold the index for a minute.
    line = " ".join(f"word{number}" for number in range(60))
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(store, ONE, line, "漢" * 20_000, "word0")
        assert await seqs(index, f'"{line}"') == [2]
        assert await seqs(index, f'"{"漢" * 3_000}"') == [3]
    assert len(words_of(f'"{line}" "{"漢" * 3_000}"').all_of[1].text.split()) < 60
    assert len(words_of(f'"{line}" ' * 3_000).all_of) == 1


async def test_words_that_too_many_messages_have_are_left_out_where_that_is_asked_for() -> None:
    """By the rows of the places that are asked, and in one session as in several."""
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(store, ONE, "the red house", "the red car", "the red shoes of Ann")
        await write(store, TWO, "a red house")
        one, two = (SearchPlace(session_id=each) for each in (ONE, TWO))

        async def rare(text: str, *places: SearchPlace) -> list[tuple[str, int]]:
            query = MessageQuery(text=text, places=places, common_rows=2)
            found = (await index.search(query)).matches
            return [(each.session_id, each.seq) for each in found]

        assert await rare("red", one) == []
        assert await rare("red house", one) == [(ONE, 2)]
        assert await rare("red", two) == [(TWO, 2)]
        assert await rare("red", one, two) == []
        assert sorted(await rare("the house", one, two)) == [(ONE, 2), (TWO, 2)]
        assert sorted(await seqs(index, "red", one)) == [2, 3, 4]
        assert await rare("red", SearchPlace(session_id="20260507T120000009-00000009")) == []


async def test_what_is_found_answers_the_question() -> None:
    """Names in another language, and never the question itself."""
    # Words of the question that are the same in both still find it; else the answer says so.
    async with MemoryWorld().open() as store:
        await write(store, ONE, "The deposit for the Lisbon flat is 1,250 euros")
        found = await ask(store, '{"search": "Wie hoch war die Kaution in Lisbon?"}')
        nothing = await ask(store, '{"search": "Wie hoch war die Kaution?"}')

    assert "1,250 euros" in found
    assert "also in the language in which it was said" in nothing

    # It holds all of its own words, and would stand before every answer.
    async with MemoryWorld().open() as store:
        await write(store, ONE, "the needle is in the haystack", "where is the needle?")
        question = UserMessage(text="where is the needle?", seq=3)
        turn = OpenTurn(number=2, users=(question,), started_at=AT)
        call = ToolCall(call_id="r", name="recall_context", arguments='{"search": "the needle"}')
        context = ToolContext(session_id=ONE, key=PRIVATE, store=store)
        running = structs.replace(context, conversation=Conversation(current=turn))
        found = str(await RecallContext().run(call, running))

    assert "in the haystack" in found
    assert "where is" not in found


async def test_a_damaged_index_is_made_anew_from_the_logs_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever stands in the file: nothing is lost, and no search fails."""
    path = tmp_path / "search.sqlite"
    async with MemoryWorld().open() as store:
        await write(store, ONE, "the needle")
        async with open_message_index(path, store, SystemClock()) as index:
            assert await seqs(index, "needle") == [2]
        whole = await anyio.Path(path).read_bytes()
        for damaged in (b"no database", whole[:5000], whole[:4096] + b"\xff" * (len(whole) - 4096)):
            await anyio.Path(path).write_bytes(damaged)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                async with open_message_index(path, store, SystemClock()) as index:
                    await index.search(MessageQuery(text="needle"))  # it may notice here
                    again = await index.search(MessageQuery(text="needle"))
            assert [each.seq for each in again.matches] == [2]
            assert again.searched_to is None
            assert "cannot be used and is made anew" in caplog.text
        assert (await anyio.Path(path).stat()).st_mode & 0o077 == 0


async def test_what_nobody_noted_is_read_from_the_logs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between an append and the index, and an index that is older than the logs."""
    path = tmp_path / "search.sqlite"
    reads: list[str] = []
    async with MemoryWorld().open() as store:
        await write(store, ONE, "needle one")
        async with open_message_index(path, store, SystemClock()) as index:
            assert len(await matches(index, "needle")) == 1
        await write(store, TWO, "needle two", at=SystemClock().now())
        read = StoreMessageIndex.read_session

        async def counted(self: StoreMessageIndex, session: IndexedSession) -> None:
            reads.append(session.session_id)
            await read(self, session)

        monkeypatch.setattr(StoreMessageIndex, "read_session", counted)
        async with open_message_index(path, store, SystemClock()) as index:
            assert {each.session_id for each in await matches(index, "needle")} == {ONE, TWO}
            # A note with a hole before it is no reason to believe that there is nothing.
            later = Event(seq=3, at=SystemClock().now(), body=Received(text="needle three"))
            last = Event(seq=4, at=SystemClock().now(), body=Received(text="needle four"))
            await store.append(TWO, [later, last], expected_seq=2)
            loaded = await store.inspect(TWO)
            assert loaded is not None
            recovered = recover(loaded.snapshot, loaded.events)
            assert recovered is not None
            index.note(recovered.state, [last])
            assert len(await matches(index, "needle")) == 4
            await index.forget(TWO)
            assert [each.session_id for each in await matches(index, "needle")] == [ONE]
            assert files_with(tmp_path, b"four")  # no search finds it; it is there until a purge
            await index.purge()
            assert not files_with(tmp_path, b"four")
            assert [each.session_id for each in await matches(index, "needle")] == [ONE]
        assert reads.count(TWO) == 2
        assert b"needle two" not in await anyio.Path(path).read_bytes()


async def test_what_other_nodes_wrote_removed_and_erased_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is found at once; of what is gone from the logs nothing stays in the files."""
    length = 0

    async def erasures() -> int:
        return length

    path = tmp_path / "search.sqlite"
    async with (
        MemoryWorld().open() as store,
        open_message_index(path, store, SystemClock(), erasures=erasures) as index,
    ):
        await write(store, ONE, "needle pelican")
        await write(store, FIVE, "a heron")
        await write(store, TWO, "needle two", "a secret")
        await index.keep_up()
        # By a node whose clock is behind.
        await write(
            store, THREE, "needle three", at=SystemClock().now() - timedelta(days=2, minutes=5)
        )
        assert {each.session_id for each in await matches(index, "needle")} == {ONE, TWO, THREE}

        await store.delete(ONE)
        await store.delete(FIVE)
        summary, asked = store.summary, list[str]()

        async def away(session_id: str) -> SessionSummary | None:
            asked.append(session_id)
            if len(asked) == 2:
                raise StoreAwayError(session_id)
            return await summary(session_id)

        with monkeypatch.context() as patched:
            patched.setattr(store, "summary", away)
            with pytest.raises(StoreAwayError):
                await index.forget_removed()
        left = [files_with(tmp_path, each) for each in (b"pelican", b"heron")]
        assert [bool(each) for each in left].count(True) == 1, "what was forgotten is overwritten"
        await index.forget_removed()
        assert not files_with(tmp_path, b"pelican")
        assert not files_with(tmp_path, b"heron")
        assert {each.session_id for each in await matches(index, "needle")} == {TWO, THREE}

        await store.delete(TWO)
        await write(store, TWO, "needle two", "[erased]")
        length += 90
        assert await seqs(index, "secret") == [], "also of a search that is asked at once"
        await index.keep_up()
        assert not files_with(tmp_path, b"secret")
        assert {each.session_id for each in await matches(index, "needle")} == {TWO, THREE}

        await write(store, FOUR, "needle four", at=SystemClock().now() - timedelta(days=2))
        assert len(await matches(index, "needle")) == 3

        def damaged(table: MessageTable, query: MessageQuery) -> None:
            table.remove()
            raise CacheError(query.text)

        with monkeypatch.context() as patched:
            patched.setattr(MessageTable, "search", damaged)
            assert (await index.search(MessageQuery(text="needle"))).searched_to is not None
        assert len(await matches(index, "needle")) == 3, "what was read just before as well"


async def test_what_another_said_in_private_is_never_shown() -> None:
    """Whatever scope a model asks for; what the owner opened is text from outside."""
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(store, ONE, "my first PIN is 1234", key=PRIVATE)
        await write(store, TWO, "your PIN is what?", key=PRIVATE)
        await write(store, THREE, "my PIN is 9999", key=OTHER)
        link = linked(index)
        for scope in ("session", "person", "agent"):
            found = await ask(store, f'{{"search": "PIN", "scope": "{scope}"}}', TWO, link)
            assert "9999" not in found
            assert ("1234" in found) is (scope != "session")
        by_id = await ask(store, f'{{"message": 2, "session": "{THREE}"}}', TWO, link)
        own = await ask(store, f'{{"message": 2, "session": "{ONE}"}}', TWO, link)
        call = ToolCall(
            call_id="r", name="recall_context", arguments='{"search": "PIN", "scope": "agent"}'
        )
        opened = await RecallContext(link=link, read_from=("telegram:*",)).run(
            call, ToolContext(session_id=TWO, key=PRIVATE, store=store)
        )
        links = Links(people={"ann": (("telegram", "100"), ("telegram", "200"))})
        in_links = RecallContext(link=link, links=links)
        here = ToolContext(session_id=TWO, key=PRIVATE, store=store)
        shared = structs.replace(here, shared_with=("eve",))
        in_all, in_shared = [str(await in_links.run(call, each)) for each in (here, shared)]
        theirs = ToolContext(session_id=TWO, key=PRIVATE, store=store, principal="bob")
        none = await RecallContext(link=link, read_from=("telegram:*",)).run(call, theirs)

    assert "9999" in in_all
    assert "9999" not in in_shared
    assert "there is no" in by_id
    assert "1234" in own
    assert isinstance(opened, ToolOutput)
    assert "9999" in opened.text
    assert opened.untrusted
    assert "9999" not in (none if isinstance(none, str) else none.text)


async def test_who_is_given_a_session_is_told_nothing_of_others_by_its_agent() -> None:
    """Nor by a delegate that it sends."""
    # Whoever began it may have it search all that was said to the agent; not before a guest.
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(store, ONE, "my PIN is 1234", principal="ann")
        await write(store, TWO, "your PIN is what?", principal="ann")
        recall = RecallContext(link=linked(index))
        alone = ToolContext(session_id=TWO, key=PRIVATE, store=store, principal="ann")
        for context in (alone, structs.replace(alone, principal="")):
            shared = structs.replace(context, shared_with=("bob",))
            for scope in ("person", "agent"):
                asked = f'{{"search": "PIN", "scope": "{scope}"}}'
                call = ToolCall(call_id="r", name="recall_context", arguments=asked)
                assert "1234" in str(await recall.run(call, context))
                assert "1234" not in str(await recall.run(call, shared))
            by_id = f'{{"message": 2, "session": "{ONE}"}}'
            with pytest.raises(ToolFailedError, match="that may be read here"):
                call = ToolCall(call_id="r", name="recall_context", arguments=by_id)
                await recall.run(call, shared)

    # What a delegate finds goes back to all who see the session that it works for.
    async with (
        MemoryWorld().open() as store,
        open_message_index(None, store, SystemClock()) as index,
    ):
        await write(store, ONE, "my PIN is 1234", principal="ann")
        await write(store, TWO, "go and look", principal="ann")
        first = structs.replace(PRIVATE, channel="delegate", chat=f"{TWO}.1.1.aa.1")
        await write(store, THREE, "go and look", key=first, principal="ann")
        recall = RecallContext(link=linked(index))
        asked = '{"search": "PIN", "scope": "person"}'
        call = ToolCall(call_id="r", name="recall_context", arguments=asked)
        key = structs.replace(first, chat=f"{THREE}.1.1.aa.1")  # of a delegate's delegate
        context = ToolContext(session_id=FOUR, key=key, store=store, principal="ann")
        assert "1234" in str(await recall.run(call, context))
        given = SessionShared(principal="bob", by="ann")
        await store.append(TWO, [Event(seq=3, at=AT, body=given)], expected_seq=2)
        assert "1234" not in str(await recall.run(call, context))


def linked(index: StoreMessageIndex) -> ServiceLink:
    """Return where tools find the index."""
    link = ServiceLink()
    link.messages = index
    return link


async def ask(
    store: SessionStore, arguments: str, session_id: str = ONE, link: ServiceLink | None = None
) -> str:
    """Return what `recall_context` answers in a session, its refusals included."""
    call = ToolCall(call_id="r", name="recall_context", arguments=arguments)
    context = ToolContext(session_id=session_id, key=PRIVATE, store=store)
    try:
        found = await RecallContext(link=link).run(call, context)
    except ToolFailedError as error:
        return str(error)
    return found if isinstance(found, str) else found.text
