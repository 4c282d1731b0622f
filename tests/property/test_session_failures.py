"""Whatever fails while whatever is asked of a session: one answer each, and nothing is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import anyio
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.faulty_store import FaultyStore, Method, disk_full, open_faulty_store
from support.patience import WAIT_S

from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    FencedError,
    JournalWriteError,
    SessionEndedError,
    UnknownSessionError,
)
from everturn_actors.events import Body, ModelReplied, Received, TurnFinished
from everturn_actors.model import IncomingMessage
from everturn_actors.service import ServiceSettings
from everturn_actors.testing import TestService, open_test_service

QUICK = ServiceSettings(leave_grace_s=0, drain_s=0)

Command: TypeAlias = Callable[[TestService, str], Awaitable[Any]]

COMMANDS: Final[dict[str, Command]] = {
    "submit": lambda test, at: test.service.submit(IncomingMessage(text="hello", session_id=at)),
    "announce": lambda test, at: test.service.submit(
        IncomingMessage(kind="announcement", text="so", session_id=at)
    ),
    "keep_aside": lambda test, _: test.service.submit(
        IncomingMessage(kind="ambient", text="so", key=test.key())
    ),
    "flush": lambda test, _: test.service.conversations.flush(test.key()),
    "view": lambda test, at: test.service.view(at),
    "resume": lambda test, at: test.service.resume(at),
    "cancel": lambda test, at: test.service.cancel(at),
    "decide": lambda test, at: test.service.decide(at, "call", "allow_once"),
    "compact": lambda test, at: test.service.compact(at),
    "reset": lambda test, at: test.service.reset(at),
    "delete": lambda test, at: test.service.delete(at),
}
FAULTS: Final[dict[str, Callable[[], BaseException]]] = {
    "fault": lambda: RuntimeError("a bug"),
    "system": lambda: OSError(5, "io"),
    "late": TimeoutError,
    "full": disk_full,
    "refused": lambda: JournalWriteError("no"),
    "fenced": lambda: FencedError("the log ends elsewhere"),
    "cancelled": lambda: anyio.get_cancelled_exc_class()("by a library"),
}
METHODS: Final[tuple[Method, ...]] = (
    "load",
    "append",
    "save_snapshot",
    "mark_active",
    "mark_passive",
)
Step: TypeAlias = tuple[str, str, str]
"A command, what fails meanwhile, and of what."

steps = st.lists(
    st.tuples(
        st.sampled_from(sorted(COMMANDS)),
        st.sampled_from(("", "", "reply", *METHODS)),
        st.sampled_from(sorted(FAULTS)),
    ),
    max_size=10,
)


def arrange(store: FaultyStore, where: str, fault: str) -> None:
    """Let something fail from now on, and nothing else."""
    store.faults.clear()
    store.append_fault = None
    if where == "reply":

        def of_reply(bodies: Sequence[Body]) -> BaseException | None:
            return FAULTS[fault]() if any(isinstance(b, ModelReplied) for b in bodies) else None

        store.append_fault = of_reply
    elif where:
        (method,) = (each for each in METHODS if each == where)
        store.break_method(method, FAULTS[fault])


async def play(story: Sequence[Step]) -> None:
    """Ask one thing after the other; then mend everything, and look that all was answered."""
    async with open_faulty_store() as store, open_test_service(store=store, settings=QUICK) as test:
        session_id = await test.service.conversations.create(test.key())
        accepted: list[int] = []
        for command, where, fault in story:
            arrange(store, where, fault)
            before = store.loads
            with anyio.fail_after(WAIT_S):
                try:
                    given_back = await COMMANDS[command](test, session_id)
                except ActorStoppedError:
                    raise
                except CoreError:
                    pass
                else:
                    if command == "submit":
                        accepted.append(given_back.seq)
            assert store.loads - before <= 3, (command, where, fault)
            await anyio.wait_all_tasks_blocked()
        arrange(store, "", "")
        with anyio.fail_after(WAIT_S):
            await check(test, session_id, accepted)


async def check(test: TestService, session_id: str, accepted: Sequence[int]) -> None:
    """Look that there is a way out, and that nothing was lost on the way to it."""
    try:
        await test.service.cancel(session_id)
        last = await test.service.submit(IncomingMessage(text="and now?", session_id=session_id))
    except (SessionEndedError, UnknownSessionError):
        other = await test.service.submit(IncomingMessage(text="and now?", key=test.key()))
        assert (await other.result()).outcome == "answered"
        return
    assert (await last.result()).outcome == "answered"
    state = await test.service.view(session_id)
    assert not state.has_work
    log = await test.service.history(session_id, after=0, limit=10_000)
    received = {event.seq for event in log if isinstance(event.body, Received)}
    ended = [event.body.turn for event in log if isinstance(event.body, TurnFinished)]
    assert received >= {*accepted, last.seq}
    assert ended == list(range(1, state.turns + 1))


@examples(15)
@given(steps)
def test_every_command_has_one_answer_whatever_fails(story: Sequence[Step]) -> None:
    """At most three starts each; afterwards a cancel lets every session go on, nothing is lost."""
    anyio.run(play, story)
