"""Whose a session is: by its id, or by the seat that its agent or its channel goes with."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.cluster.leases import Held as Lease
from everturn_actors.cluster.leases import Member, View, is_awaited, to_leave, wanted
from everturn_actors.cluster.partitions import partition_of
from everturn_actors.cluster.placement import NOWHERE, Placement
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Node

SESSION, OTHER = "20261121T224956123-3f9a2c1b", "20261121T224956123-00070000"
CODER = ConversationKey(channel="http", chat="c", agent="coder")
MATRIX = ConversationKey(channel="matrix", chat="c", agent="helper")
BOTH = ConversationKey(channel="matrix", chat="c", agent="coder")
PLAIN = ConversationKey(channel="http", chat="c", agent="helper")


def test_sessions_go_with_a_seat_only_where_one_says_so() -> None:
    """Who is not known is nobody's: nothing begins on a folder that may be the wrong one."""
    placement = Placement()
    assert placement.is_known(SESSION)
    assert placement.partition(SESSION) == partition_of(SESSION)

    placement.bind({"coder"}, {"matrix"})
    assert not placement.is_known(SESSION)
    assert placement.partition(SESSION) == NOWHERE
    assert placement.lease(NOWHERE) == ""
    leases = {
        key: placement.lease(placement.partition(SESSION, key))
        for key in (CODER, MATRIX, BOTH, PLAIN)
    }
    assert leases == {
        CODER: "agent:coder",
        MATRIX: "channel:matrix",
        BOTH: "agent:coder",
        PLAIN: f"partition:{partition_of(SESSION)}",
    }
    placement.note_key(SESSION, CODER)
    number = placement.partition(SESSION)
    assert placement.number("agent:coder") == number

    placement.bind((), {"matrix"})
    assert placement.number("agent:coder") is None
    assert placement.partition(SESSION) == partition_of(SESSION)
    placement.bind({"coder", "other"}, ())
    assert placement.partition(SESSION) == number  # numbers stay what they were
    assert placement.partition(OTHER) == NOWHERE


def member(name: str, *seats: str, prefers: tuple[str, ...] = (), drains: bool = False) -> Member:
    """Return a process that lives."""
    return Member(node=Node(name=name), instance=name, seats=seats, prefers=prefers, drains=drains)


def test_a_seat_goes_where_it_is_wanted_and_stays_where_no_other_may_have_it() -> None:
    """An operator's word counts before chance; a home that stops is nobody else's."""
    a, b = member("a", "seat"), member("b", "seat", prefers=("seat",))
    held = {"seat": Lease(1, 10.0)}
    view = View(me=a, members=(a, b), held=held)
    assert to_leave(view) == {"seat"}
    assert "seat" in wanted(View(me=b, members=(a, b)))
    assert "seat" not in wanted(View(me=a, members=(a, b)))

    own = member("a", "agent:coder", drains=True)
    stopping = View(me=own, members=(own, member("b")), held={"agent:coder": Lease(1, 10.0)})
    assert to_leave(stopping) == frozenset()
    assert not is_awaited(stopping)  # nobody has to be waited for

    told_off = replace(stopping, me=member("a"), members=(member("a"), member("b")))
    assert to_leave(told_off) == {"agent:coder"}
