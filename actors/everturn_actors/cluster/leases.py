"""What a process holds, how long, and what it asks the referee for. Values and pure functions.

A *lease* names a partition of sessions, or a seat: something that one process does for all, like
a channel. The referee is the store that all share. It grants a lease for `TTL_S` by its own clock;
the holder counts from before it asked, by a clock that never jumps, and stops at `SAFE_S`. So
whoever believes that a lease is its own is right by the referee's clock, whatever is late or lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.cluster.partitions import PARTITIONS, lease_of, partition_in, should_hold
from everturn_actors.ports.ownership import Node

TTL_S: Final = 5.0
"How long the referee keeps a lease that is not renewed."
SAFE_S: Final = 0.8 * TTL_S
"How long its holder begins anything by it, from before it asked."
BACK_S: Final = 2.0
"How long those who lived before the referee was away count as living when it is back."

Epochs: TypeAlias = Mapping[str, int]
"The number of each lease; it grows whenever the lease is taken."

_PARTITION_LEASES: Final = tuple(lease_of(number) for number in range(PARTITIONS))


class Member(Struct, frozen=True, kw_only=True):
    """A process that lives, as the others see it."""

    node: Node
    instance: str
    "Names its run: a process that was started anew has none of the leases of the one before."
    seats: tuple[str, ...] = ()
    "What it can do for all, beside its share of the partitions."
    prefers: tuple[str, ...] = ()
    "Those of `seats` that it should have before others, by an operator's word."
    channels: tuple[str, ...] = ()
    "Those of its configuration, whether it may have their seats or not."
    drains: bool = False
    "It goes, and gives back what it holds."
    digest: str = ""
    "Of its agents: where two differ, they answer differently."


class Beat(Struct, frozen=True, kw_only=True):
    """What a process tells the referee once a second."""

    member: Member
    keep: Epochs = {}
    "Leases to renew."
    give: Epochs = {}
    "Leases to give back."
    claim: tuple[str, ...] = ()
    "Leases to take where nobody has them."
    leaves: bool = False
    "It is gone after this."


class Answer(Struct, frozen=True, kw_only=True):
    """What the referee says to a beat."""

    granted: Epochs
    "Those of `keep` and `claim` that are this process's for `TTL_S` from now on."
    found: Epochs = {}
    "What else stands as its own: an answer was lost. It may run out at once; ask to keep it."
    others: Mapping[str, str] = {}
    "By lease: the name of another process that has it."
    members: tuple[Member, ...] = ()
    "Who lives, by name, this process included."


class Share(Struct, frozen=True, kw_only=True):
    """What a process holds of what all share."""

    member: Member
    partitions: int
    "How many parts of the sessions it works on."
    seats: tuple[str, ...]
    "What it does for all, sorted."


class Referee(Protocol):
    """Says who holds what; only its own clock counts. One for all that share a store."""

    async def prepare(self) -> None:
        """Open what the next `beat` needs, where that is not open: it takes no lease's time then.

        Raises:
            JournalError: It could not be opened.
        """
        ...

    async def beat(self, beat: Beat) -> Answer:
        """Renew, give back and take leases, all of it or nothing; return what holds afterwards.

        A lease of `keep` and `give` is the caller's where its run and its epoch stand there and
        it has not run out. One of `claim` is granted where it is free, with a greater epoch than
        ever before.

        Raises:
            JournalError: It could not be asked; what was asked for may have been done.
        """
        ...


class Held(Struct, frozen=True):
    """A lease of this process."""

    epoch: int
    until_s: float
    "By the clock of this process: nothing is begun by it from then on."


class View(Struct, frozen=True, kw_only=True):
    """What a process knows of all leases."""

    me: Member
    held: Mapping[str, Held] = field(default_factory=dict[str, Held])
    "Its own, those that are being let go included."
    leaving: frozenset[str] = frozenset()
    "Those of `held` by which nothing is begun any more: what runs comes to its end."
    left: frozenset[str] = frozenset()
    "Those of `leaving` of which nothing runs any more: they are given back."
    found: Epochs = field(default_factory=dict[str, int])
    "Its own by the last answer, though it did not know."
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    members: tuple[Member, ...] = ()
    "Who lives; empty before the first answer."
    heard_s: float = 0.0
    "When the last answer came, by the clock of this process."
    back_until_s: float = 0.0
    "Until when those of `members` count as living who have not spoken since the referee was away."

    def epoch(self, lease: str, now_s: float) -> int | None:
        """Return the epoch of a lease by which something may be begun; None = by none."""
        held = self.held.get(lease)
        if held is None or now_s >= held.until_s or lease in self.leaving:
            return None
        return held.epoch


class Change(Struct, frozen=True, kw_only=True):
    """What a step made of a view."""

    view: View
    taken: frozenset[str] = frozenset()
    "Leases that are held from now on."
    lost: frozenset[str] = frozenset()
    "Leases that are not held any more, though they were not given back."


def next_beat(view: View) -> Beat:
    """Return what to ask the referee for."""
    keep = {name: held.epoch for name, held in view.held.items() if name not in view.left}
    give = {name: view.held[name].epoch for name in view.left if name in view.held}
    keep |= {name: epoch for name, epoch in view.found.items() if name not in view.held}
    claim = (*wanted(view), *_coming(view)) if view.members else ()
    return Beat(member=view.me, keep=keep, give=give, claim=claim)


def wanted(view: View) -> tuple[str, ...]:
    """Return the leases that it should have and that nobody holds, as far as it knows."""
    if view.me.drains:
        return ()
    return tuple(
        name
        for name in _known(view)
        if name not in view.held
        and name not in view.others
        and _target(view, name) == view.me.node.name
    )


def _coming(view: View) -> tuple[str, ...]:
    """Return the leases of others that it should have: they may be free by now."""
    if view.me.drains:
        return ()
    me = view.me.node.name
    return tuple(name for name in _known(view) if name in view.others and _target(view, name) == me)


def is_moving(view: View) -> bool:
    """Return whether a lease is on its way to the process that should have it."""
    me = view.me.node.name
    return any(
        target not in {"", me if name in view.held else view.others.get(name)}
        for name in {*_known(view), *view.others}
        for target in (_target(view, name),)
    )


def to_leave(view: View) -> frozenset[str]:
    """Return the leases that are not this process's any more, and that are not let go yet.

    Another living process should have them, or they are seats that it may not have now.
    """
    return frozenset(name for name in view.held if name not in view.leaving and _goes(view, name))


def _goes(view: View, lease: str) -> bool:
    target = _target(view, lease)
    return target != view.me.node.name if target else lease not in _known(view)


def is_awaited(view: View) -> bool:
    """Return whether another living process should have something of what is held."""
    me = view.me.node.name
    return any(_target(view, name) not in {"", me} for name in view.held)


def heard(view: View, beat: Beat, answer: Answer, *, sent_s: float, now_s: float) -> Change:
    """Return what an answer makes of a view.

    Args:
        view: As it is now; it may have changed since the beat was made.
        beat: What was asked.
        answer: What came back.
        sent_s: When it was asked, by the clock of this process.
        now_s: When it was answered.
    """
    until_s = sent_s + SAFE_S
    held = {
        name: Held(epoch, until_s)
        for name, epoch in answer.granted.items()
        if now_s < until_s  # what was answered so late is asked for anew
    }
    before = view.held
    # What ran by a lease that ran out meanwhile may have found that it is nobody's: it begins anew.
    is_anew = {
        name
        for name in held
        if name in before
        and (before[name].epoch != held[name].epoch or now_s >= before[name].until_s)
    }
    lost = (before.keys() - held.keys() - beat.give.keys()) | is_anew
    leaving = view.leaving & held.keys() - is_anew
    # All leases ran out while the referee was away. Whoever asks first would take those of the
    # others, who ask in this moment as well, and give them back later.
    is_back = bool(view.members) and sent_s - view.heard_s >= SAFE_S
    back_until_s = now_s + BACK_S if is_back else view.back_until_s
    return Change(
        view=replace(
            view,
            heard_s=now_s,
            back_until_s=back_until_s,
            held=held,
            leaving=leaving,
            left=view.left & leaving,
            found={name: epoch for name, epoch in answer.found.items() if name not in held}
            | {name: epoch for name, epoch in answer.granted.items() if name not in held},
            others=answer.others,
            members=_living(view, answer, is_back=now_s < back_until_s),
        ),
        taken=frozenset((held.keys() - before.keys()) | is_anew),
        lost=frozenset(lost),
    )


def _living(view: View, answer: Answer, *, is_back: bool) -> tuple[Member, ...]:
    """Return who lives; with `is_back` those as well who had no time yet to say so."""
    if not is_back:
        return answer.members
    found = {each.node.name: each for each in view.members if not each.drains}
    found |= {each.node.name: each for each in answer.members}
    return tuple(found[name] for name in sorted(found))


def passed(view: View, now_s: float) -> Change:
    """Return what time makes of a view: leases that were not renewed are held no more."""
    over = frozenset(name for name, held in view.held.items() if now_s >= held.until_s)
    if not over:
        return Change(view=view)
    left = {name: held for name, held in view.held.items() if name not in over}
    return Change(
        view=replace(view, held=left, leaving=view.leaving - over, left=view.left - over),
        lost=over,
    )


def shares(members: Iterable[Member], holders: Mapping[str, str]) -> tuple[Share, ...]:
    """Return what each of `members` holds, by the names of who holds each lease."""
    found: list[Share] = []
    for member in members:
        held = sorted(lease for lease, name in holders.items() if name == member.node.name)
        seats = tuple(lease for lease in held if partition_in(lease) is None)
        found.append(Share(member=member, partitions=len(held) - len(seats), seats=seats))
    return tuple(found)


def _known(view: View) -> tuple[str, ...]:
    return (*_PARTITION_LEASES, *view.me.seats)


def _target(view: View, lease: str) -> str:
    """Return who should hold a lease; "" = nobody."""
    is_partition = lease in _PARTITIONS_SET
    able = [
        member
        for member in view.members
        if not member.drains and (is_partition or lease in member.seats)
    ]
    preferred = () if is_partition else [each for each in able if lease in each.prefers]
    return should_hold(lease, (member.node.name for member in preferred or able))


_PARTITIONS_SET: Final = frozenset(_PARTITION_LEASES)
