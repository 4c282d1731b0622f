"""Sessions that begin with a part of another one."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from support.patience import WAIT_S

from everturn_actors.errors import CannotBranchError, JournalError
from everturn_actors.events import (
    Branched,
    CallFinished,
    Discarded,
    Event,
    SessionStarted,
    TurnFinished,
)
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage, ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.service import Copied, Submission
from everturn_actors.testing import ScriptedProvider, TestService, calling, open_test_service


class Held:
    """A tool that is called, and does not end."""

    definition = ToolDefinition(name="wait", description="", parameters={"type": "object"})
    capabilities = ToolCapabilities()

    def __init__(self) -> None:
        self.called, self.released, self.calls = anyio.Event(), anyio.Event(), 0

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Wait."""
        del call, context
        self.calls += 1
        self.called.set()
        await self.released.wait()
        return "done"


async def say(test: TestService, text: str, chat: str = "chat") -> Submission:
    """Say something, and wait until it is answered."""
    submission = await test.service.submit(IncomingMessage(text=text, key=test.key(chat)))
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

    assert copied[1:-1] == before[1 : len(copied) - 1]
    assert len(copied) - 1 < two.seq <= len(before)
    assert copied[-1].body == Branched(of=one.session_id, at_seq=len(copied) - 1)
    assert before == after
    assert [turn.users[0].text for turn in state.held_turns] == ["one", "else"]
    assert [m.text for m in test.provider.requests[2].messages] == ["one", "reply 1", "else"]


async def test_a_turn_that_is_not_over_is_no_end() -> None:
    """A branch would ask its model a second time. Nothing has changed when it is refused."""
    provider = ScriptedProvider("one")
    provider.hold()
    async with open_test_service(provider=provider) as test:
        one = await test.service.submit(IncomingMessage(text="one", key=test.key()))
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


def bodies(events: tuple[Event, ...], kind: type) -> list[Event]:
    """Return the events of one kind."""
    return [each for each in events if isinstance(each.body, kind)]


async def test_a_fork_closes_what_is_open_and_runs_nothing_again() -> None:
    """A call that waited, a message that waited: each has its end, and its word, in the fork."""
    provider = ScriptedProvider(calling(("c", "wait")))
    tool = Held()
    async with open_test_service(provider=provider, tools={"wait": tool}) as test:
        one = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await tool.called.wait()
        await test.service.submit(IncomingMessage(text="two", key=test.key()))
        before = await log(test, one.session_id)
        copied = Copied(session_id=one.session_id, last=before[-1].seq, is_cut=True)
        fork = await test.service.branches.begin(test.key("fork"), copied=copied, principal="bob")
        events = await log(test, fork)
        state = await test.service.view(fork)
        provider.script.append("three")
        await say(test, "go on", "fork")
        asked = test.provider.requests[-1]
        calls = tool.calls
        tool.released.set()

    own = events[len(before) :]
    assert [type(each.body) for each in own] == [CallFinished, TurnFinished, Discarded, Branched]
    assert own[-1].body == Branched(of=one.session_id, at_seq=before[-1].seq, by="bob")
    assert (state.branch_of, state.principal, state.has_work) == (one.session_id, "bob", False)
    assert calls == 1
    assert any("does not run again" in message.text for message in asked.messages)


async def test_a_crash_leaves_a_fork_whole_or_none_of_it() -> None:
    """Wherever the power goes: a half session would pass for what was said."""
    lost = 0
    for nth in (1, 2):
        for kept in range(12):
            disk = MemoryDisk()
            async with open_test_service(disk=disk) as test:
                one = await say(test, "one")
                whole = len(await log(test, one.session_id)) + 1
                disk.lose_power_at_append(nth=nth, kept_events=kept, tear=kept % 2 == 1)
                copied = Copied(session_id=one.session_id, last=one.seq, is_cut=False)
                with pytest.raises(JournalError):
                    await test.service.branches.begin(test.key("fork"), copied=copied)
            async with open_test_service(disk=disk) as test:
                with anyio.fail_after(WAIT_S):
                    while await test.store.active():
                        await anyio.lowlevel.checkpoint()
                rows = await test.store.sessions(after="", limit=9)
                others = [row.session_id for row in rows if row.session_id != one.session_id]
                lost += not others
                for each in others:
                    events = await log(test, each)
                    assert len(events) == whole
                    assert isinstance(events[-1].body, Branched)

    assert lost > 12


async def test_a_fork_of_a_fork_and_of_a_session_that_has_ended() -> None:
    """Each tells where it comes from, and goes on."""
    async with open_test_service() as test:
        one = await say(test, "one")
        await test.service.reset(one.session_id)
        end = len(await log(test, one.session_id))
        copied = Copied(session_id=one.session_id, last=end, is_cut=True)
        first = await test.service.branches.begin(test.key("a"), copied=copied)
        copied = Copied(session_id=first, last=end, is_cut=True)
        second = await test.service.branches.begin(test.key("b"), copied=copied)
        await say(test, "two", "b")
        events = await log(test, second)
        state = await test.service.view(second)

    assert [each.body.of for each in bodies(events, Branched)] == [one.session_id, first]  # type: ignore[union-attr]
    assert (state.branch_of, state.is_branching) == (first, False)
    assert isinstance(events[0].body, SessionStarted)
