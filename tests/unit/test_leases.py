"""What a process asks the referee for, by what it knows."""

from __future__ import annotations

import anyio
from msgspec.structs import replace
from support.patience import WAIT_S
from support.referee import MemoryReferee

from everturn_actors.cluster.heartbeat import Heartbeat
from everturn_actors.cluster.leases import (
    BACK_S,
    TTL_S,
    Answer,
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
    """It was away until all leases had run out; the others ask in this moment, too."""
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


def test_who_said_goodbye_or_went_while_the_referee_was_there_is_not_waited_for() -> None:
    """Only a referee that was away keeps who lives from saying so."""
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
