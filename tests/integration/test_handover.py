"""A session goes from one process to another: nothing is lost, done twice, or told as a failure."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec import Struct
from support.owning import EVERYTHING, SwitchedOwnership, open_owner

from everturn_actors.errors import JournalError, MovedError
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import SessionStore
from everturn_actors.service import TurnService
from everturn_actors.service.handover import AGAIN_S
from everturn_actors.testing import ManualClock, ScriptedProvider

KEY = ConversationKey(channel="test", chat="chat", agent="test")


class Pair(Struct):
    """Two processes on one store; the first one owns all at the beginning."""

    store: SessionStore
    first: TurnService
    second: TurnService
    owns_first: SwitchedOwnership
    owns_second: SwitchedOwnership
    asked_first: ScriptedProvider
    asked_second: ScriptedProvider

    async def move(self, drain_s: float) -> None:
        """Let the second one have everything."""
        self.owns_first.switch(owns=False)
        await self.first.handover.lose(EVERYTHING, drain_s)
        self.owns_second.switch(owns=True)
        await self.second.handover.take(EVERYTHING)


@asynccontextmanager
async def open_pair() -> AsyncGenerator[Pair]:
    """Open both."""
    first, second = SwitchedOwnership("first", owns=True), SwitchedOwnership("second", owns=False)
    asked = ScriptedProvider(), ScriptedProvider()
    async with (
        open_memory_store(MemoryDisk()) as store,
        open_owner(store, first, asked[0]) as one,
        open_owner(store, second, asked[1]) as other,
    ):
        yield Pair(store, one, other, first, second, *asked)


async def test_a_turn_that_runs_comes_to_its_end_before_its_session_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An orderly move costs no call of a model."""
    with caplog.at_level(logging.WARNING):
        async with open_pair() as pair:
            pair.asked_first.hold()
            sent = await pair.first.submit(IncomingMessage(text="one", key=KEY))
            await pair.asked_first.until_called()
            refused: list[str] = []

            async def say_more() -> None:  # nothing new begins here meanwhile
                with pytest.raises(MovedError):
                    await pair.first.submit(IncomingMessage(text="two", session_id=sent.session_id))
                refused.append("two")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pair.move, 60.0)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(say_more)
                pair.asked_first.release()
            assert (await sent.result()).text == "reply 1"
            assert refused

            again = await pair.second.submit(
                IncomingMessage(text="two", session_id=sent.session_id)
            )
            assert (await again.result()).outcome == "answered"
            with pytest.raises(MovedError):
                await pair.first.submit(IncomingMessage(text="three", session_id=sent.session_id))
            assert [len(each.requests) for each in (pair.asked_first, pair.asked_second)] == [1, 1]
    assert not caplog.records


async def test_a_turn_that_does_not_end_goes_on_at_the_new_owner(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is cut off, and made again as after a restart."""
    with caplog.at_level(logging.WARNING):
        async with open_pair() as pair:
            pair.asked_first.hold()
            sent = await pair.first.submit(IncomingMessage(text="one", key=KEY))
            await pair.asked_first.until_called()
            await pair.move(0.0)
            await pair.asked_second.until_called()
            found = await pair.second.found(sent.session_id, sent.seq)
            assert (await found.result()).text == "reply 1"
            state = await pair.second.view(sent.session_id)
            assert (state.turns, state.open_turn) == (1, None)
    assert not caplog.records


async def test_who_wakes_too_late_writes_nothing_and_has_not_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that was frozen learns of its append that its sessions have gone on elsewhere."""
    with caplog.at_level(logging.WARNING):
        async with open_pair() as pair:
            sent = await pair.first.submit(IncomingMessage(text="one", key=KEY))
            await sent.result()
            pair.owns_first.switch(owns=False)  # it was not told to let anything go
            pair.owns_second.switch(owns=True)
            await pair.second.handover.take(EVERYTHING)
            again = await pair.second.submit(
                IncomingMessage(text="two", session_id=sent.session_id)
            )
            await again.result()
            with pytest.raises(MovedError):
                await pair.first.submit(IncomingMessage(text="three", session_id=sent.session_id))
            assert len(pair.asked_first.requests) == 1
            assert (await pair.second.view(sent.session_id)).turns == 2
    assert not caplog.records


class Homing(SwitchedOwnership):
    """One that has to be told of which conversation a session is."""

    def __init__(self, name: str, *, owns: bool) -> None:
        super().__init__(name, owns=owns)
        self._known = set[str]()

    def is_known(self, session_id: str) -> bool:
        """See `Ownership.is_known`."""
        return session_id in self._known

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """See `Ownership.note_key`."""
        self._known.add(session_id)

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """See `Ownership.partition`."""
        return 0 if key is not None or session_id in self._known else -1


class Away:
    """A store that cannot be asked whose a session is, so many times."""

    def __init__(self, store: SessionStore, times: int) -> None:
        self._store, self.times = store, times

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def summary(self, session_id: str) -> object:
        """Fail, or tell."""
        if self.times:
            self.times -= 1
            msg = "it is away"
            raise JournalError(msg)
        return await self._store.summary(session_id)


async def test_a_turn_goes_on_where_the_store_could_not_say_at_first_whose_it_is() -> None:
    """Its session is looked up until that succeeds, and does not wait for its next message."""
    clock, asked = ManualClock(), (ScriptedProvider(), ScriptedProvider())
    async with open_memory_store(MemoryDisk()) as store:
        first = SwitchedOwnership("first", owns=True)
        async with open_owner(store, first, asked[0]) as one:
            asked[0].hold()
            await one.submit(IncomingMessage(text="one", key=KEY))
            await asked[0].until_called()
            first.switch(owns=False)
            await one.handover.lose(EVERYTHING, 0.0)
        away: SessionStore = Away(store, times=2)  # type: ignore[assignment]
        async with (
            open_owner(away, Homing("second", owns=True), asked[1], clock) as other,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(other.handover.take, EVERYTHING)
            with anyio.fail_after(20):
                for _ in range(2):
                    await clock.until_sleeping(AGAIN_S)
                    clock.advance(AGAIN_S)
                    await anyio.wait_all_tasks_blocked()  # who slept has looked again
                await asked[1].until_called()
