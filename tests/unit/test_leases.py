"""What a process asks the referee for, by what it knows."""

from __future__ import annotations

import anyio
import anyio.lowlevel
from msgspec.structs import replace
from support.patience import WAIT_S
from support.referee import MemoryReferee

from everturn_actors.cluster.heartbeat import Heartbeat
from everturn_actors.cluster.leases import (
    BACK_S,
    SAFE_S,
    TTL_S,
    Answer,
    Beat,
    Member,
    View,
    heard,
    next_beat,
    wanted,
)
from everturn_actors.cluster.ownership import LeaseOwnership
from everturn_actors.ports.ownership import Node
from everturn_gateway.clock import SystemClock

A, B, C = (Member(node=Node(name=name), instance=name) for name in "abc")


def told(view: View, now_s: float, *members: Member) -> View:
    """Return what a view becomes by an answer: who lives; nobody holds anything."""
    answer = Answer(granted={}, members=members)
    return heard(view, next_beat(view), answer, sent_s=now_s, now_s=now_s).view


def test_who_hears_the_referee_first_leaves_the_others_their_share() -> None:
    """And waits for nobody who went."""
    # It was away until all leases had run out; the others ask in this moment, too.
    view = told(View(me=A), 100.0, A, B, C)
    share = wanted(view)
    assert 0 < len(share) < len(wanted(told(View(me=A), 100.0, A)))

    back_s = 100.0 + TTL_S
    view = told(view, back_s, A)
    assert wanted(view) == share
    view = told(view, back_s + 0.1, A, B)
    assert wanted(view) == share

    view = told(view, back_s + BACK_S, A, B)  # one did not come back
    assert set(wanted(view)) > set(share)
    assert wanted(view) == wanted(told(View(me=A), 0.0, A, B))

    # Who said goodbye or went while the referee was there is not waited for. Only a referee that
    # was away keeps who lives from saying so.
    view = told(View(me=A), 100.0, A, replace(B, drains=True))
    assert wanted(told(view, 100.0 + TTL_S, A)) == wanted(told(View(me=A), 0.0, A))
    view = told(View(me=A), 100.0, A, B)
    assert wanted(told(view, 101.0, A)) == wanted(told(View(me=A), 0.0, A))


async def test_a_referee_that_was_silent_for_hours_is_heard_again() -> None:
    """However often it did not answer in time."""
    ownership = LeaseOwnership(A)
    ownership.begun.set()
    heartbeat = Heartbeat(MemoryReferee(anyio.current_time), ownership, SystemClock(), drain_s=0)
    heartbeat._late = 2_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat.run)
        with anyio.fail_after(WAIT_S):
            while not ownership.view.members:
                await ownership.changed()
        tasks.cancel_scope.cancel()

    assert ownership.view.members == (A,)


async def test_what_has_run_out_is_let_go_then_and_not_a_heartbeat_later() -> None:
    """People wait for the next owner from that moment on; who is away is not asked without end."""
    late_s, now_s, over_s, held_to_s, asked = 0.3, 0.0, 0.0, 0.0, 0

    class Late(SystemClock):
        """Its pauses pass at once, each longer than it should be."""

        async def sleep(self, seconds: float) -> None:
            nonlocal now_s, over_s
            if held_to_s and not ownership.view.held:
                over_s = over_s or now_s
            now_s += seconds + late_s
            await anyio.lowlevel.checkpoint()

    class Referee(MemoryReferee):
        async def beat(self, beat: Beat) -> Answer:
            nonlocal asked
            asked += bool(over_s)
            if over_s and now_s > over_s + 30:
                tasks.cancel_scope.cancel()
            return await super().beat(beat)

    referee = Referee(lambda: now_s)
    ownership = LeaseOwnership(A, elapsed=lambda: now_s)
    was_lost = False

    async def take(_partitions: frozenset[int]) -> None:
        nonlocal held_to_s
        held_to_s = min(held.until_s for held in ownership.view.held.values())
        referee.fault = "it is away"

    async def lose(_partitions: frozenset[int], _drain_s: float) -> None:
        nonlocal was_lost
        was_lost = True

    ownership.begin(take, lose)
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(WAIT_S):
            await Heartbeat(referee, ownership, Late(), drain_s=0).run()
    assert was_lost
    assert SAFE_S <= held_to_s <= over_s <= held_to_s + late_s
    assert 30 / 2 < asked < 30 * 2  # it is found within a second when it is back
