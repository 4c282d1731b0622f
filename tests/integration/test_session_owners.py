"""To whom a session belongs, whom it is given to, and who did what to it."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_actors.errors import InvalidInputError, SessionEndedError
from everturn_actors.events import SessionEnded, SessionShared, TurnFinished
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage
from everturn_actors.ports import SessionFilter
from everturn_actors.service import conversations as service_module
from everturn_actors.testing import TestService, open_test_service


async def begin(test: TestService, principal: str) -> str:
    """Begin a session with a message of a principal; return its id."""
    inbound = IncomingMessage(text="hello", key=test.key(principal), principal=principal)
    submission = await test.service.submit(inbound)
    await submission.result()
    return submission.session_id


async def test_a_session_belongs_to_whoever_began_it_also_after_a_restart() -> None:
    """Ownership stands in the log: no file beside it has to be believed."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        session_id = await begin(test, "alice")
    async with open_test_service(disk=disk) as test:
        assert (await test.service.view(session_id)).principal == "alice"
        created = await test.service.conversations.create(test.key("b"), principal="bob")
        opened, is_new = await test.service.conversations.open(test.key("c"), principal="carol")
        again, is_again_new = await test.service.conversations.open(test.key("c"), principal="dave")
        assert (await test.service.view(created)).principal == "bob"
        assert (await test.service.view(opened)).principal == "carol"
        assert (opened, is_new, is_again_new) == (again, True, False)


async def test_the_next_session_of_a_conversation_belongs_to_whom_the_last_one_did() -> None:
    """What a job says in a conversation that was reset stays its owner's."""
    async with open_test_service() as test:
        first = await begin(test, "alice")
        await test.service.reset(first)
        second = await test.service.submit(IncomingMessage(text="a job", key=test.key("alice")))
        assert second.session_id != first
        assert (await test.service.view(second.session_id)).principal == "alice"


async def test_a_session_is_shared_and_taken_back_once() -> None:
    """The same wish again writes nothing; lists follow at once."""
    async with open_test_service() as test:
        session_id = await begin(test, "alice")
        assert await test.service.conversations.share(session_id, "bob", by="alice") == ("bob",)
        before = (await test.service.view(session_id)).last_seq
        assert await test.service.conversations.share(session_id, "bob", by="alice") == ("bob",)
        assert (await test.service.view(session_id)).last_seq == before
        bobs = SessionFilter(seen_by="bob")
        assert [row.session_id for row in await test.service.reader.sessions(wanted=bobs)] == [
            session_id
        ]
        left = await test.service.conversations.share(
            session_id, "bob", by="root", is_withdrawn=True
        )
        assert left == ()
        assert await test.service.reader.sessions(wanted=bobs) == ()
        events = await test.service.history(session_id, after=before - 1, limit=10)
        assert [event.body for event in events] == [
            SessionShared(principal="bob", by="alice"),
            SessionShared(principal="bob", by="root", is_withdrawn=True),
        ]


async def test_sharing_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has ended is given to nobody, and no list of names grows for ever."""
    monkeypatch.setattr(service_module, "SHARES_MAX", 1)
    async with open_test_service() as test:
        session_id = await begin(test, "alice")
        await test.service.conversations.share(session_id, "bob")
        with pytest.raises(InvalidInputError, match="as many as may be"):
            await test.service.conversations.share(session_id, "carol")
        await test.service.reset(session_id)
        with pytest.raises(SessionEndedError):
            await test.service.conversations.share(session_id, "bob", is_withdrawn=True)


@table("ends", [False, True])
async def test_the_log_names_who_cancelled_and_who_ended(*, ends: bool) -> None:
    """Among several people, who stopped the work is asked first."""
    async with open_test_service() as test:
        test.provider.hold()
        inbound = IncomingMessage(text="long", key=test.key(), principal="alice")
        submission = await test.service.submit(inbound)
        await test.provider.until_called()
        if ends:
            await test.service.reset(submission.session_id, by="bob")
        else:
            await test.service.cancel(submission.session_id, by="bob")
            await test.service.reset(submission.session_id, by="carol")
        events = await test.service.history(submission.session_id, after=0, limit=99)
        finished = [e.body.by for e in events if isinstance(e.body, TurnFinished)]
        ended = [e.body.by for e in events if isinstance(e.body, SessionEnded)]
        assert (finished, ended) == (["bob"], ["bob" if ends else "carol"])
