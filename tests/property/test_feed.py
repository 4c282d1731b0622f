"""Followers of a session have its events and the text of its reply, whenever they came.

Memory holds three events here, so that whoever comes late or falls behind reads the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

import anyio
from anyio.lowlevel import checkpoint
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from everturn_actors.events import (
    Body,
    Event,
    ModelReplied,
    ReplyBroken,
    SessionEnded,
    StatusChanged,
    StepStarted,
)
from everturn_actors.protocol.feed import Feed, TextDelta
from everturn_actors.protocol.subscription import follow

AT = datetime(2026, 11, 23, tzinfo=UTC)
TURN = 1
ROUNDS = 3  # of the event loop, after which not every follower waits
MOST_ROUNDS = 400  # after which each does: what they read in one was never more than sixty events
RECENT = 3

Name: TypeAlias = Literal[
    "again", "next", "rest", "break off", "let run", "settle", "busy", "free", "join", "unshown"
]
"""rest: a while between a reply and the next step; break off: the reply cannot be used.

unshown: an event that only the log holds, as where an append failed and was there all the same.
"""
Move: TypeAlias = tuple[Literal["say"], str] | Name
says = st.tuples(st.just("say"), st.text("ab\n€😀", min_size=1, max_size=5))
moves = st.lists(
    st.one_of(says, st.just("let run"), st.sampled_from(get_args(Name))),
    max_size=30,
)


@dataclass(slots=True)
class Reader:
    """One who follows, and what it has on its screen."""

    screen: str = ""
    step: int = 0
    is_whole: bool = False
    "Whether the reply has come to its end."
    is_busy: bool = False
    fails: bool = False
    seen: list[int] = field(default_factory=list[int])
    "The events that it was given."
    misplaced: list[TextDelta] = field(default_factory=list[TextDelta])

    def read(self, delta: TextDelta) -> None:
        """Put a piece where it belongs."""
        if self.is_whole or delta.step != self.step or delta.offset > len(self.screen):
            self.misplaced.append(delta)  # not raised: who fails at a piece gets it again
        self.screen = self.screen[: delta.offset] + delta.text

    def take(self, delta: TextDelta) -> bool:
        """Take a piece at once, unless there is something else to do."""
        if self.is_busy and self.fails:
            raise RuntimeError(delta.text)
        if not self.is_busy:
            self.read(delta)
        return not self.is_busy

    async def follow(self, feed: Feed, log: Sequence[Event], *, takes: bool) -> None:
        """Read all that there is, and look at the reply when it is whole."""
        take = self.take if takes else None

        async def read_log(after: int, limit: int, at_least: int) -> tuple[Event, ...]:
            await checkpoint()
            assert log[-1].seq >= at_least
            return tuple(log[after : after + limit])

        async for update in follow(feed, 0, read_log, last_seq=0, pieces="all", take=take):
            if isinstance(update, TextDelta):
                self.read(update)
                continue
            self.seen.append(update.seq)
            match update.body:
                case StepStarted(step=step):
                    self.screen, self.step, self.is_whole = "", step, False
                case ModelReplied(text=text):
                    assert self.screen == text
                    self.is_whole = True
                case _:
                    pass
            await checkpoint()  # as a follower that writes to somebody


async def some_rounds() -> None:
    """Let followers go on, and not all of them to where they wait."""
    for _ in range(ROUNDS):
        await checkpoint()


@examples(45)
@given(moves)
@example(["let run", "next", ("say", "a")])
@example([("say", "a"), "let run", "again", ("say", "b")])
@example([("say", "a"), "settle", "again", "settle"])
@example([("say", "ab"), "settle", "again", "next"])
@example([("say", "a"), "settle", "break off", ("say", "ab"), "next"])
@example([("say", "a"), "rest", ("say", "b")])
@example(["settle", "unshown", "next", "settle"])
@example(["settle", *["next"] * RECENT, "settle"])  # the next one has just left memory
@example([("say", "a"), *["next"] * RECENT, ("say", "b"), "join", "settle", ("say", "c")])
def test_each_follower_has_each_event_and_piece_once_and_in_its_place(
    script: Sequence[Move],
) -> None:
    """Who takes pieces at once, who cannot for a while, who fails at it, and who only reads."""
    readers = [Reader(), Reader(fails=True), Reader()]

    async def play() -> None:
        feed, log, newest = Feed(), list[Event](), 0
        feed.recent = deque(maxlen=RECENT)

        def tell(body: Body, *, is_shown: bool = True) -> None:
            nonlocal newest
            log.append(Event(seq=len(log) + 1, at=AT, body=body))
            if is_shown:
                newest = len(log)
                feed.publish(log[-1:])

        async def until_read() -> None:
            for _ in range(MOST_ROUNDS):
                if all(each.seen[-1:] >= [newest] and each.screen == live.text for each in readers):
                    break
                await checkpoint()
            await some_rounds()

        def begin(reader: Reader, *, takes: bool) -> None:
            tasks.start_soon(lambda: reader.follow(feed, log, takes=takes))

        async with anyio.create_task_group() as tasks:
            for number, reader in enumerate(readers):
                begin(reader, takes=number < len(readers) - 1)
            step = 1
            tell(StepStarted(turn=TURN, step=step, model="m"))
            live = feed.begin_reply(TURN, step)
            for move in script:
                match move:
                    case "again":
                        live = feed.begin_reply(TURN, step)
                    case "next" | "rest" | "break off":
                        if move == "break off":
                            tell(ReplyBroken(turn=TURN, step=step, reason="it is cut"))
                        else:
                            tell(ModelReplied(text=live.text))
                        if move == "rest":
                            await until_read()
                        step += 1
                        tell(StepStarted(turn=TURN, step=step, model="m"))
                        live = feed.begin_reply(TURN, step)
                    case "unshown":
                        tell(StatusChanged(status="paused"), is_shown=False)
                    case "join":
                        readers.append(Reader())
                        begin(readers[-1], takes=True)
                    case "let run":
                        await some_rounds()
                    case "settle":
                        await until_read()
                        assert [each.screen for each in readers] == [live.text] * len(readers)
                    case "busy" | "free":
                        for each in readers[:2]:
                            each.is_busy = move == "busy"
                    case (_, text):
                        feed.add_text(live, text)
            tell(ModelReplied(text=live.text))
            tell(SessionEnded(reason="reset"))
        every = [event.seq for event in log]
        assert [each.seen for each in readers] == [every] * len(readers)

    anyio.run(play)
    assert [delta for each in readers for delta in each.misplaced] == []


async def test_what_is_taken_at_once_wakes_nobody() -> None:
    """A piece is with its reader before the call that says it returns."""
    feed, reader = Feed(), Reader(step=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: reader.follow(feed, [], takes=True))
        await anyio.wait_all_tasks_blocked()
        live = feed.begin_reply(TURN, 1)
        feed.add_text(live, "now")

        assert reader.screen == "now"
        feed.close()
