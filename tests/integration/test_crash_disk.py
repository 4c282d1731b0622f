"""The whole scenario, crashed at the level of the disk, and held against the run that never was.

Everything durable that a gateway does is recorded once. Here: what people relied on is looked for
at every operation of that trace; every write of a log is cut at every 211th byte and read; and new
gateways go on after a spread of operations, for each kind of crash. `benchmarks/crash_disk.py` does
all of it: every operation, every byte, every way of failing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.disk_model import Disk, Naming, Node, Write
from support.examples import LONG_RUN
from support.full_checks import Model, Outcome, Point
from support.full_cuts import cut_all
from support.full_proof import Proof
from support.tables import table

INDEX = "index.sqlite"  # a cache that nothing relies on: each crash point finds it empty
CUT_STEP = 211  # bytes between two cuts; the benchmark cuts at every byte
TWICE_STRIDE = 53 if LONG_RUN else 97
MODELS: tuple[tuple[Model, int], ...] = (
    ("killed", 37 if LONG_RUN else 67),
    ("torn", 23 if LONG_RUN else 61),
    ("power lost", 43 if LONG_RUN else 71),
    ("power lost, some written", 53 if LONG_RUN else 79),
)
"Every so manyth point of each; at night more, and the benchmark proves all."


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """The run that never crashed."""
    return Proof(tmp_path_factory.mktemp("proof"))


def report(outcomes: Iterable[Outcome]) -> str:
    """Return each failure, with its operation and the difference."""
    failed = (each for each in outcomes if each.verdict == "failed")
    return "\n".join(f"{each.point}: {each.why}" for each in failed)


def test_nothing_durable_passes_by_the_recorder(proof: Proof) -> None:
    """A write that is not in the trace is a crash point that nobody looks at."""
    *_, (_, replay) = proof.trace.walk()
    recorded, real = replay.disk.after_kill(), dict(proof.folder_after)

    assert recorded.pop(INDEX) != real.pop(INDEX)  # SQLite writes it, past the recorder
    assert recorded == real
    kinds = {operation.kind for operation in proof.trace.operations}
    assert kinds >= {"create", "write", "truncate", "sync", "rename", "remove", "mkdir", "mark"}
    assert len(proof.trace.operations) > 400


def test_the_scenario_has_all_its_parts(proof: Proof) -> None:
    """Where the summary or the compaction does not happen, no crash in it is proved."""
    told = {each[0] for each in proof.stories["crew"]}
    names = {path.rpartition("/")[2] for o in proof.trace.operations for path in (o.path, o.to)}

    assert told >= {"turn", "steered", "reply", "result", "end"}
    assert ("summary",) in proof.stories["api"]
    assert [t[0] for t in proof.stories["chat"]].count("announced") == 1
    assert any("has ended, exit code 0" in str(t) for t in proof.stories["build"])
    assert names >= {"state.yaml.tmp", "events.archive.jsonl", "1-1-2.txt", "exit.json"}
    assert len(proof.world.posts) == 1
    assert sum(len(shown.states) > 1 for shown in proof.world.tg.messages.values()) == 2


def test_nobody_relies_on_what_is_not_durable(proof: Proof) -> None:
    """At every operation: what was acknowledged, answered or begun survives a loss of power."""
    assert proof.broken_promises() == []


def test_a_write_of_a_log_may_be_cut_anywhere(proof: Proof, tmp_path: Path) -> None:
    """Whatever is left of a line, the next start finds the lines before it and nothing else."""
    found = [*cut_all(proof, tmp_path, step=CUT_STEP)]

    assert [str(cut.operation) + cut.wrong[0] for cut in found if cut.wrong] == []
    assert sum(cut.count for cut in found) > 500


def test_what_a_killed_gateway_did_not_sync_is_synced_before_it_is_relied_on(
    proof: Proof,
) -> None:
    """The next gateway reads it like all the rest; then the machine loses power as well."""
    found = [*proof.broken_after_kill(every=TWICE_STRIDE, offset=TWICE_STRIDE // 2)]

    assert [f"{b.operation}: {b.promises[0]}" for b in found if b.promises] == []
    assert len(found) >= 4


@table(("model", "stride"), MODELS, parts=2)
def test_a_new_gateway_goes_on_after_a_crash(proof: Proof, model: Model, stride: int) -> None:
    """Nothing lost, nothing twice, nobody left without an answer, and the same told as ever."""
    points = [*proof.points(model)][stride // 2 :: stride]
    outcomes = [proof.prove(point) for point in points]

    assert not report(outcomes)
    assert len(outcomes) >= 6
    assert any(each.verdict == "equal" for each in outcomes)


def test_a_crash_that_loses_what_was_accepted_is_seen(proof: Proof) -> None:
    """A proof that cannot fail proves nothing: here a log loses its last line behind its back."""
    *_, last = proof.points("killed")
    point = next(p for p in proof.points("killed") if p.operation.path == "b3 is acknowledged")
    name = next(n for n in point.picture if n.endswith("/events.jsonl"))
    lines = (point.picture[name] or b"").splitlines(keepends=True)
    robbed = Point(
        model="killed",
        operation=point.operation,
        what=", robbed",
        picture={**point.picture, name: b"".join(lines[:-1])},
        world=point.world,
    )

    outcome = proof.prove(robbed)
    assert outcome.verdict == "failed"
    assert "an accepted message is lost" in outcome.why
    assert proof.prove(last).verdict == "equal"


# --- the model of the disk -----------------------------------------------------------------------


def test_a_name_is_lost_until_its_folder_is_synced() -> None:
    """The bytes of a file are worth nothing without its name."""
    disk = Disk()
    node = Node("file")
    disk.put("a", node)
    node.change(Write(0, b"x"))
    node.sync()

    assert disk.after_power_loss() == {}
    assert disk.after_kill() == {"a": b"x"}
    disk.root.sync()
    assert disk.after_power_loss() == {"a": b"x"}


def test_a_rename_is_undone_until_its_folder_is_synced() -> None:
    """The old file stands there again, whole."""
    disk = Disk()
    for name in ("a", "a.tmp"):
        node = Node("file")
        disk.put(name, node)
        node.change(Write(0, name.encode()))
        node.sync()
    disk.root.sync()
    disk.rename("a.tmp", "a")

    assert disk.after_kill() == {"a": b"a.tmp"}
    assert disk.after_power_loss() == {"a": b"a", "a.tmp": b"a.tmp"}


def test_what_was_not_synced_may_be_there_in_part() -> None:
    """A disk writes what it likes, when it likes; only the order in one file is certain."""
    disk = Disk()
    node = Node("file", data=b"old\n", synced=b"old\n")
    disk.root.names = disk.root.synced_names = {"a": node}
    node.change(Write(4, b"new\n"))
    found = {disk.after_some_writeback(seed)["a"] for seed in range(200)}

    assert {b"old\n", b"old\nnew\n", b"old\n\0\0\0\0", b"old\nne"} <= found


def test_no_rename_between_folders_loses_a_file() -> None:
    """File systems move a name as one; a model that loses it finds faults that are none."""
    disk = Disk()
    for name in ("one", "two"):
        disk.put(name, Node("folder"))
    disk.put("one/a", Node("file"))
    for path in ("", "one", "two"):
        node = disk.find(path)
        assert node is not None
        node.sync()
    disk.rename("one/a", "two/a")
    assert isinstance(disk.root.names["one"].namings[0], Naming)

    for seed in range(50):
        picture = disk.after_some_writeback(seed)
        assert picture.keys() & {"one/a", "two/a"}, seed
