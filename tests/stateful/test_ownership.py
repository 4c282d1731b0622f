"""Never do two processes believe at once that a lease is theirs, whatever is late or lost."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Struct, field
from msgspec.structs import replace
from support.examples import examples
from support.referee import MemoryReferee

from everturn_actors.cluster.leases import (
    Answer,
    Beat,
    Change,
    Held,
    Member,
    View,
    heard,
    next_beat,
    passed,
    to_leave,
)
from everturn_actors.ports.ownership import Node

NAMES = st.sampled_from(("a", "b"))
DELAYS = st.sampled_from((0.0, 0.0, 0.5, 1.0, 2.5, 3.9, 4.0, 5.0))
SEATS = ("scheduler", "channel:bot")


class Asked(Struct, eq=False):
    """A beat on its way."""

    beat: Beat
    sent_s: float
    answer: Answer | None = None


class Process(Struct, eq=False):
    """One run of a node."""

    view: View
    offset_s: float
    "Of its clock."
    asked: Asked | None = None
    "What it waits for."
    late: list[Asked] = field(default_factory=list[Asked])
    "Beats that it does not wait for any more; they may be done all the same."


class Leases(RuleBasedStateMachine):
    """Two processes, a referee, and what is between them."""

    def __init__(self) -> None:
        super().__init__()
        self.time_s, self.runs = 0.0, 0
        self.referee = MemoryReferee(lambda: self.time_s + 1e6)
        self.processes: dict[str, Process] = {}

    def now_s(self, process: Process) -> float:
        return self.time_s + process.offset_s

    @initialize()
    def share(self) -> None:
        """The first has all when the second comes; what moves has not moved yet."""
        self.starts("a", 17.3)
        self.starts("b", -1000.0)
        for name in "aabba":
            self.round_trip(name, 0.0, 0.0, is_heard=True)

    @rule(delay_s=DELAYS)
    def time_passes(self, delay_s: float) -> None:
        self.time_s += delay_s

    @rule(name=NAMES, offset_s=st.sampled_from((0.0, 17.3, -1000.0)))
    def starts(self, name: str, offset_s: float) -> None:
        """Kill a node, and start it again."""
        self.runs += 1
        me = Member(node=Node(name=name), instance=f"{name}{self.runs}", seats=SEATS)
        self.processes[name] = Process(view=View(me=me), offset_s=offset_s)

    @rule(name=NAMES, before_s=DELAYS, after_s=DELAYS, is_heard=st.booleans())
    def round_trip(self, name: str, before_s: float, after_s: float, *, is_heard: bool) -> None:
        self.asks(name)
        self.time_s += before_s
        self.each_lease_is_one_process_s_and_by_the_referee_too()
        self.is_decided(name, late=False)
        self.time_s += after_s
        self.each_lease_is_one_process_s_and_by_the_referee_too()
        if is_heard:
            self.hears(name)

    @rule(name=NAMES)
    def asks(self, name: str) -> None:
        """Ask; whatever was asked before is not waited for any more, and done all the same."""
        process = self.processes[name]
        if process.asked is not None:
            process.late.append(process.asked)
        process.asked = Asked(next_beat(process.view), self.now_s(process))

    @rule(name=NAMES, late=st.booleans())
    def is_decided(self, name: str, *, late: bool) -> None:
        process = self.processes[name]
        asked = process.late.pop(0) if late and process.late else process.asked
        if asked is not None and asked.answer is None:
            asked.answer = self.referee.decide(asked.beat)

    @rule(name=NAMES)
    def hears(self, name: str) -> None:
        process = self.processes[name]
        asked = process.asked
        if asked is None or asked.answer is None:
            return
        process.asked, now_s = None, self.now_s(process)
        change = heard(process.view, asked.beat, asked.answer, sent_s=asked.sent_s, now_s=now_s)
        self.take_over(process, change)

    @rule(name=NAMES)
    def looks_at_its_clock(self, name: str) -> None:
        process = self.processes[name]
        self.take_over(process, passed(process.view, self.now_s(process)))

    @rule(name=NAMES, has_ended=st.booleans())
    def lets_go(self, name: str, *, has_ended: bool) -> None:
        """What runs by leases that should move comes to its end, or does not yet."""
        process = self.processes[name]
        view = process.view
        leaving = view.leaving | to_leave(view)
        process.view = replace(view, leaving=leaving, left=leaving if has_ended else view.left)

    @rule(name=NAMES, drains=st.booleans())
    def drains(self, name: str, *, drains: bool) -> None:
        process = self.processes[name]
        process.view = replace(process.view, me=replace(process.view.me, drains=drains))

    def take_over(self, process: Process, change: Change) -> None:
        before, process.view = process.view, change.view
        # Who is told what came and went knows what is held.
        assert change.taken <= process.view.held.keys()
        assert change.lost <= before.held.keys()
        assert process.view.left <= process.view.leaving <= process.view.held.keys()

    @invariant()
    def each_lease_is_one_process_s_and_by_the_referee_too(self) -> None:
        owners: dict[str, str] = {}
        for process in self.processes.values():
            now_s, instance = self.now_s(process), process.view.me.instance
            for lease in process.view.held:
                epoch = process.view.epoch(lease, now_s)
                if epoch is not None:
                    assert owners.setdefault(lease, instance) == instance
                    assert self.referee.owner(lease) == (instance, epoch)


TestLeases = Leases.TestCase
TestLeases.settings = examples(60, steps=40)


def test_what_is_quiet_comes_to_rest_where_it_should() -> None:
    """Nodes that come and go get what should be theirs, and a kill costs the length of a lease."""
    machine = Leases()

    def go_on(seconds: float, *names: str) -> None:
        until_s = machine.time_s + seconds
        while machine.time_s < until_s:
            for name in names:
                process = machine.processes[name]
                machine.take_over(process, passed(process.view, machine.now_s(process)))
                beat, sent_s = next_beat(process.view), machine.now_s(process)
                answer = machine.referee.decide(beat)
                change = heard(process.view, beat, answer, sent_s=sent_s, now_s=sent_s)
                machine.take_over(process, change)
                gone = to_leave(process.view)
                process.view = replace(process.view, leaving=gone, left=gone)
                assert all(process.view.epoch(each, sent_s) is None for each in gone)
            machine.time_s += 0.5
            machine.each_lease_is_one_process_s_and_by_the_referee_too()

    def shares() -> list[int]:
        return [len(process.view.held) for _, process in sorted(machine.processes.items())]

    machine.starts("a", 0.0)
    go_on(1.0, "a")
    assert shares() == [66]
    machine.starts("b", 17.3)
    machine.starts("c", 0.0)
    go_on(2.0, "a", "b", "c")
    assert sum(shares()) == 66
    assert min(shares()) > 10

    moved = {lease: machine.referee.owner(lease) for lease in machine.processes["a"].view.held}
    del machine.processes["b"]  # killed
    go_on(6.0, "a", "c")
    assert sum(shares()) == 66
    assert all(machine.referee.owner(lease) == owner for lease, owner in moved.items())

    process = machine.processes["a"]
    process.view = replace(process.view, me=replace(process.view.me, drains=True))
    go_on(2.0, "a", "c")
    assert shares() == [0, 66]


def test_what_is_renewed_after_it_ran_out_begins_anew() -> None:
    """Meanwhile nothing could be begun by it; whatever gave up then is looked for again."""
    me = Member(node=Node(name="a"), instance="a-1")
    view = View(me=me, held={"partition:1": Held(1, 4.0), "partition:2": Held(1, 5.0)})
    beat, answer = next_beat(view), Answer(granted={"partition:1": 1, "partition:2": 1})
    change = heard(view, beat, answer, sent_s=3.9, now_s=4.1)
    assert change.lost == change.taken == {"partition:1"}
    assert change.view.epoch("partition:1", 4.1) == 1
