"""Sessions that begin with a part of another one."""

from __future__ import annotations

import pytest

from everturn_actors.errors import CannotBranchError
from everturn_actors.events import Event
from everturn_actors.model import Inbound
from everturn_actors.service import Copied, Submission
from everturn_actors.testing import ScriptedProvider, TestService, open_test_service


async def say(test: TestService, text: str, chat: str = "chat") -> Submission:
    """Say something, and wait until it is answered."""
    submission = await test.service.submit(Inbound(text=text, key=test.key(chat)))
    assert (await submission.result()).outcome == "answered"
    return submission


async def log(test: TestService, session_id: str) -> tuple[Event, ...]:
    """Return all events of a session."""
    return await test.service.history(session_id, after=0, limit=500)


async def test_a_branch_is_the_log_to_the_end_of_a_turn() -> None:
    """The events are the same with their numbers, and the session that they come from, too."""
    async with open_test_service() as test:
        one = await say(test, "one")
        two = await say(test, "two")
        before = await log(test, one.session_id)
        branch = await test.service.branches.begin(
            test.key("branch"), copied=Copied(session_id=one.session_id, last=one.seq)
        )
        copied = await log(test, branch)
        await say(test, "else", "branch")
        after = await log(test, one.session_id)
        state = await test.service.view(branch)

    assert copied[1:] == before[1 : len(copied)]
    assert len(copied) < two.seq <= len(before)
    assert before == after
    assert [turn.users[0].text for turn in state.held_turns] == ["one", "else"]
    assert [m.text for m in test.provider.requests[2].messages] == ["one", "reply 1", "else"]


async def test_a_turn_that_is_not_over_is_no_end() -> None:
    """A branch would ask its model a second time. Nothing has changed when it is refused."""
    provider = ScriptedProvider("one")
    provider.hold()
    async with open_test_service(provider=provider) as test:
        one = await test.service.submit(Inbound(text="one", key=test.key()))
        with pytest.raises(CannotBranchError, match="is not over"):
            await test.service.branches.begin(
                test.key(), copied=Copied(session_id=one.session_id, last=one.seq)
            )
        current = await test.service.conversations.current(test.key())
        provider.release()
        await one.result()

    assert current == one.session_id


async def test_events_that_are_gone_cannot_be_copied() -> None:
    """A branch without its beginning would be another conversation."""
    async with open_test_service() as test:
        one = await say(test, "one")
        state = await test.service.view(one.session_id)
        await test.store.save_snapshot(state, compaction="discard")
        two = await say(test, "two")
        with pytest.raises(CannotBranchError, match="no longer kept"):
            await test.service.branches.begin(
                test.key("branch"), copied=Copied(session_id=two.session_id, last=one.seq)
            )
        current = await test.service.conversations.current(test.key("branch"))

    assert not current
