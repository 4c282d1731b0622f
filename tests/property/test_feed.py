"""Followers of a session have the text of its reply, whatever they take at once or read later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from everturn_actors.events import (
    Body,
    Event,
    ModelReplied,
    SessionEnded,
    StepStarted,
)
from everturn_actors.protocol.feed import Feed, TextDelta
from everturn_actors.protocol.subscription import follow

AT = datetime(2026, 11, 23, tzinfo=UTC)
TURN = 1
ROUNDS = 5  # of the event loop, after which each follower waits

Move: TypeAlias = tuple[Literal["say"], str] | Literal["again", "next", "let run", "busy", "free"]
says = st.tuples(st.just("say"), st.text("ab\n€😀", min_size=1, max_size=5))
moves = st.lists(
    st.one_of(says, st.just("let run"), st.sampled_from(["again", "next", "busy", "free"])),
    max_size=40,
)


@dataclass(slots=True)
class Reader:
    """One who follows, and what it has on its screen."""

    screen: str = ""
    step: int = 0
    is_busy: bool = False
    fails: bool = False
    seen: list[int] = field(default_factory=list[int])
    "The events that it was given."
    misplaced: list[TextDelta] = field(default_factory=list[TextDelta])

    def read(self, delta: TextDelta) -> None:
        """Put a piece where it belongs."""
        if delta.step != self.step or delta.offset > len(self.screen):
            self.misplaced.append(delta)  # not raised: who fails at a piece gets it again
        self.screen = self.screen[: delta.offset] + delta.text

    def take(self, delta: TextDelta) -> bool:
        """Take a piece at once, unless there is something else to do."""
        if self.is_busy and self.fails:
            raise RuntimeError(delta.text)
        if not self.is_busy:
            self.read(delta)
        return not self.is_busy

    async def follow(self, feed: Feed, *, takes: bool) -> None:
        """Read all that there is, and look at the reply when it is whole."""
        take = self.take if takes else None
        async for update in follow(feed, 0, _nothing, last_seq=0, pieces="all", take=take):
            if isinstance(update, TextDelta):
                self.read(update)
                continue
            self.seen.append(update.seq)
            match update.body:
                case StepStarted(step=step):
                    self.screen, self.step = "", step
                case ModelReplied(text=text):
                    assert self.screen == text
                case _:
                    pass
            await checkpoint()  # as a follower that writes to somebody


async def _nothing(_after: int, _limit: int, _at_least: int) -> tuple[Event, ...]:
    return ()


@examples(45)
@given(moves)
@example(["let run", "next", ("say", "a")])
@example([("say", "a"), "let run", "again", ("say", "b")])
def test_each_follower_has_each_piece_once_and_in_its_place(script: Sequence[Move]) -> None:
    """Who takes pieces at once, who cannot for a while, who fails at it, and who only reads."""
    quick, faulty, reading = Reader(), Reader(fails=True), Reader()

    async def play() -> None:
        feed, last_seq = Feed(), 0

        def tell(body: Body) -> None:
            nonlocal last_seq
            last_seq += 1
            feed.publish([Event(seq=last_seq, at=AT, body=body)])

        async with anyio.create_task_group() as tasks:
            for reader in (quick, faulty, reading):
                tasks.start_soon(lambda each: each.follow(feed, takes=each is not reading), reader)
            step = 1
            tell(StepStarted(turn=TURN, step=step, model="m"))
            live = feed.begin_reply(TURN, step)
            for move in script:
                match move:
                    case "again":
                        live = feed.begin_reply(TURN, step)
                    case "next":
                        tell(ModelReplied(text="".join(live.pieces)))
                        step += 1
                        tell(StepStarted(turn=TURN, step=step, model="m"))
                        live = feed.begin_reply(TURN, step)
                    case "let run":
                        for _ in range(ROUNDS):
                            await checkpoint()
                    case "busy" | "free":
                        quick.is_busy = faulty.is_busy = move == "busy"
                    case (_, text):
                        feed.add_text(live, text)
            tell(ModelReplied(text="".join(live.pieces)))
            tell(SessionEnded(reason="reset"))

    anyio.run(play)
    assert quick.seen == faulty.seen == reading.seen
    assert [*quick.misplaced, *faulty.misplaced, *reading.misplaced] == []


async def test_what_is_taken_at_once_wakes_nobody() -> None:
    """A piece is with its reader before the call that says it returns."""
    feed, reader = Feed(), Reader(step=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: reader.follow(feed, takes=True))
        await anyio.wait_all_tasks_blocked()
        live = feed.begin_reply(TURN, 1)
        feed.add_text(live, "now")

        assert reader.screen == "now"
        feed.close()
