"""Whole turns of a chat against crashes: what is pending arrives, and nothing twice.

The machine of `test_turns` with a platform: bursts, edits, what is said beside and what jobs say,
and a delivery port whose every chunk waits for a rule to say what became of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from hypothesis import strategies as st
from stateful.test_turns import Held, Pending, Turns
from support.crashing import CrashingStore
from support.examples import examples
from support.stores import MemoryWorld, World

from everturn_actors.delivery.port import Outgoing
from everturn_actors.events import Announced, Body, ChunkMarked, DeliveryPlanned, TurnStarted
from everturn_actors.model import (
    Chunk,
    IncomingMessage,
    Mark,
    OutboxItem,
    Queueing,
)
from everturn_actors.service import Submission
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ScriptedProvider, TestService, open_test_service


class Post:
    """A delivery port as one should be; a platform that answers when a rule says so."""

    takes_files = True

    def __init__(self, held: Held) -> None:
        self._held = held
        self.sending: list[Pending] = []
        "Chunks that are under way."
        self.arrived: Counter[tuple[int, int]] = Counter()
        "Outbox item and chunk -> how often people saw it."

    async def deliver(self, session: Outgoing) -> None:
        """Deliver until nothing is left."""
        for item in session.state.outbox:  # what was under way when the process ended
            for index, chunk in enumerate(item.chunks or ()):
                if chunk.mark == "sending":
                    await session.record(_mark(item, index, "unknown"))
        while not session.is_stopping:
            due = _next(session.state)
            if due is not None:
                await self._deliver(session, due)
            elif session.state.open_turn is None:
                return
            else:
                await session.until_changed()

    async def _deliver(self, session: Outgoing, item: OutboxItem) -> None:
        if item.is_delivered:
            await session.record(_mark(item, 0, "closed"))
            return
        payloads = (item.text[:4], item.text[4:]) if item.text else ("a file",)
        chunks = item.chunks
        plan: list[Body] = []
        if chunks is None:
            plan.append(DeliveryPlanned(item=item.seq, chunks=payloads))
            chunks = tuple(Chunk(payload=payload) for payload in payloads)
        index = next(n for n, chunk in enumerate(chunks) if not chunk.is_done)
        await session.record(*plan, _mark(item, index, "sending"))
        disposition = cast("Disposition", await self._held.wait(self.sending, "chunk"))
        self.arrived[item.seq, index] += disposition.arrives
        await session.record(_mark(item, index, disposition.mark))


@dataclass(frozen=True)
class Disposition:
    """What becomes of a chunk."""

    mark: Mark = "sent"
    arrives: bool = True


OUTCOMES = (
    Disposition(),
    Disposition(),
    Disposition(mark="unsent", arrives=False),
    Disposition(mark="failed", arrives=False),
    Disposition(mark="unknown"),
    Disposition(mark="unknown", arrives=False),
)


def _next(state: SessionState) -> OutboxItem | None:
    """Return the oldest outbox item that something can be done about; a question may just wait."""
    waits = {approval.call_id for approval in state.open_approvals}
    return next((p for p in state.outbox if not p.is_delivered or p.call_id not in waits), None)


def _mark(item: OutboxItem, index: int, mark: Mark) -> ChunkMarked:
    return ChunkMarked(item=item.seq, chunk=index, mark=mark)


class Deliveries(Turns):
    """One chat, whatever happens around it."""

    def __init__(self) -> None:
        super().__init__()
        self.post = Post(self.held)
        self.told = 0
        self.announced = 0
        self.confirmed: dict[str, int] = {}
        "Idempotency key -> event, of announcements that are known to be durable."

    def make_world(self) -> World:
        return MemoryWorld()

    @asynccontextmanager
    async def opening(self) -> AsyncGenerator[tuple[TestService, CrashingStore]]:
        """Open a service whose process can end, with the delivery port."""
        async with self.world.open() as inner:
            store = CrashingStore(inner)
            async with open_test_service(
                provider=cast("ScriptedProvider", self.held),
                spec=self.spec,
                tools=self.tools,
                store=store,
                clock=self.clock,
                model_statistics=self.observed,
                gate=self.gate,
                delivery_ports={"test": self.post},
            ) as test:
                yield test, store

    def moves(self) -> dict[Callable[[st.DataObject], None], int]:
        """Return what may happen next, and how likely it is."""
        moves = super().moves()
        moves.pop(self.everybody_leaves)
        return {
            **moves,
            self.a_chunk_ends: 8 if self.post.sending else 0,
            self.somebody_writes_a_burst: 2,
            self.something_is_said_beside: 1,
            self.a_job_says_something: 1,
        }

    # --- the people ---

    def somebody_writes_a_burst(self, data: st.DataObject) -> None:
        """Messages that are held; the first may be changed while it waits."""
        for text in data.draw(st.sampled_from([("look",), ("luok", "at this")]), label="burst"):
            number = len(self.sent) + 1
            inbound = IncomingMessage(
                text=text,
                key=self.test.key(),
                sender="ann",
                idempotency_key=f"key {number}",
                reply_to=f"{number}",
                queueing=Queueing(debounce_s=1.5),
            )
            self.sent.append(inbound)
            said = self.do(partial(self.test.service.submit, inbound))
            if isinstance(said, Submission):
                self.accepted[inbound.idempotency_key] = said.seq
                self.session_id = said.session_id
            key = inbound.idempotency_key
            self.do(partial(self.test.service.conversations.edit, self.test.key(), key, "look"))
        if not self.session_id:
            found = self.do(lambda: self.test.store.bound(self.test.key()))
            self.session_id = found if isinstance(found, str) else ""
        self.settle()

    def something_is_said_beside(self, data: st.DataObject) -> None:
        """A message that does not speak to the agent."""
        if not self.session_id:
            return
        self.told += data.draw(st.sampled_from([0, 1, 1]), label="a new one")
        key = f"beside {self.told}"
        aside = IncomingMessage(
            kind="ambient", text=key, key=self.test.key(), sender="eve", idempotency_key=key
        )
        self.do(lambda: self.test.service.submit(aside))
        self.settle()

    def a_job_says_something(self, data: st.DataObject) -> None:
        """What is said without a turn, handed in again where the last one may not be there."""
        if not self.session_id:
            return
        self.announced += data.draw(st.sampled_from([0, 1, 1]), label="a new one")
        key = f"job {self.announced}"
        said = IncomingMessage(
            kind="announcement",
            text=f"{key} says",
            key=self.test.key(),
            sender="schedule",
            idempotency_key=key,
        )
        told = self.do(lambda: self.test.service.submit(said))
        if isinstance(told, Submission):
            known = self.confirmed.setdefault(key, told.seq)
            assert known == told.seq, "the same announcement was said twice"
        self.settle()

    # --- the platform ---

    def a_chunk_ends(self, data: st.DataObject) -> None:
        """It is there, or not, or nobody knows."""
        self.end(self.post.sending[0], data.draw(st.sampled_from(OUTCOMES), label="disposition"))
        self.settle()

    def takes_up(self) -> bool:
        """Let something come to its end; a chunk, too, and what waits for the clock."""
        if self.post.sending:
            self.end(self.post.sending[0], Disposition())
            return True
        if self.held.model or self.held.tools or self.live is None or not self.live.is_due:
            return super().takes_up()
        self.portal.call(self.clock.advance, 61)  # a burst is held, or somebody is asked
        return True

    def finish(self) -> None:
        """Check what arrived against the whole log."""
        super().finish()
        if not hasattr(self, "log"):
            return
        now: SessionState | None = None
        outbox: dict[int, OutboxItem] = {}
        unknown: Counter[tuple[int, int]] = Counter()
        asides: Counter[int] = Counter()
        announced: list[str] = []
        for event in self.log:
            now = apply(now, event)
            outbox.update((item.seq, item) for item in now.outbox)
            body = event.body
            if isinstance(body, ChunkMarked):
                place = (body.item, body.chunk)
                unknown[place] += body.mark in {"unknown", "failed"}
                assert body.mark != "sent" or self.post.arrived[place], "it never arrived"
            if isinstance(body, TurnStarted):
                asides.update(body.ambient)
            if isinstance(body, Announced):
                announced.append(body.idempotency_key)
                assert event.seq in outbox, "nobody is told of it"
        assert now is None or not now.outbox, "something is lost"
        for place, times in self.post.arrived.items():
            assert times <= 1 + unknown[place], "it is there twice, and was known to be"
        assert all(times == 1 for times in asides.values()), "a turn was told twice"
        assert len(set(announced)) == len(announced), "the same was said twice"
        assert set(self.confirmed) <= set(announced), "what was confirmed is not there"


Deliveries.TestCase.settings = examples(8, steps=40)
TestDeliveries = Deliveries.TestCase
