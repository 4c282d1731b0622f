"""What must be true of a gateway's disk and of the world around it, however often it died."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from support.crashing import check_calls, check_log
from support.disk_model import Picture
from support.disk_trace import Operation
from support.full_scenario import PARTS, SPECS
from support.full_world import KEYS, LARGE, MAY_RUN_AGAIN, World
from support.scripted_adapter import Platform

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.render import render
from everturn_actors.errors import JournalError
from everturn_actors.events import (
    Announced,
    CallFinished,
    ChunkMarked,
    DeliveryPlanned,
    Event,
    ModelReplied,
    Received,
    Steered,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.opening import open_file_store
from everturn_actors.ports import SessionStore
from everturn_actors.state.recovery import INTERRUPTED, recover
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.scheduler.run_logs.lines import read_log
from everturn_gateway.tools.processes.notifications import SENDER

Model: TypeAlias = Literal["killed", "torn", "power lost", "power lost, some written"]
Verdict: TypeAlias = Literal["equal", "closing", "failed"]

JOB_ENDS = {"says": "sent", "thinks": "answered", "posts": "sent"}
_HANDLE = re.compile(r"p[0-9a-f]{10}")
_LABEL = "(again) "
_NOT_STARTED = "the process could not be started: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One moment at which everything stops."""

    model: str
    "The name of what happened: one of `Model`, or of a fault."
    operation: Operation
    "The last one that was done; of a torn write the one that was cut."
    what: str
    "More of the moment, in words."
    picture: Picture
    world: bytes

    @property
    def key(self) -> bytes:
        """Return what is the same for all moments with the same outcome."""
        rest = (self.world, self.model.startswith("power"))
        return hashlib.sha256(pickle.dumps((sorted(self.picture.items()), rest))).digest()

    @property
    def part(self) -> str:
        """Return the part of the scenario."""
        return PARTS[World.unpack(self.world).step]

    def __str__(self) -> str:
        """Return what a person reads in a report."""
        return f"{self.model} at operation {self.operation}{self.what}"


@dataclass(slots=True, kw_only=True)
class Left:
    """What is on the disk of a gateway that was stopped."""

    logs: dict[str, list[Event]] = field(default_factory=dict)
    "By conversation; all events from the first one on."
    states: dict[str, SessionState] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    active: tuple[str, ...] = ()
    jobs: dict[str, list[str]] = field(default_factory=dict)
    "Outcomes of each job's runs."
    processes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one point."""

    point: Point
    verdict: Verdict
    why: str = ""


# --- what is left --------------------------------------------------------------------------------


async def read_left(folder: Path) -> Left:
    """Read what a gateway left that was stopped."""
    left = Left()
    names = {key: name for name, key in KEYS.items()}
    async with open_file_store(folder) as store:
        listed = await store.sessions(after="", limit=100)
        there = sorted(path.name for path in (folder / "sessions").iterdir())
        began = [name for name in there if any((folder / "sessions" / name).iterdir())]
        if sorted(each.session_id for each in listed) != began:
            left.wrong.append(f"sessions that cannot be listed: {began}")
        for each in listed:
            await _read_session(store, each.session_id, names[each.key], left)
        left.active = await store.active()
    for path in sorted((folder / "schedules" / "runs").glob("*.jsonl")):
        reductions = read_log(path.read_bytes()).job_state
        left.jobs[path.stem] = [run.outcome or "open" for run in reductions.recent]
        left.jobs[path.stem] += ["open" for _ in reductions.open]
    left.processes = len([*(folder / "processes").glob("*/record.json")])
    return left


async def _read_session(store: SessionStore, session_id: str, name: str, left: Left) -> None:
    if name in left.logs:
        left.wrong.append(f"{name} has two sessions")
    try:
        loaded = await store.load(session_id)
    except JournalError as error:
        left.wrong.append(f"{name}: {error}")
        return
    assert loaded is not None
    log = [*await store.read(session_id, after=0, limit=10_000)]
    by_snapshot, from_zero = recover(loaded.snapshot, loaded.events), recover(None, log)
    assert by_snapshot is not None
    assert from_zero is not None
    if by_snapshot.state != from_zero.state:
        left.wrong.append(f"{name}: snapshot and log tell different things")
    if not _same_bytes(by_snapshot.state, from_zero.state):
        left.wrong.append(f"{name}: snapshot and log give different requests")
    left.logs[name], left.states[name] = log, from_zero.state
    for event in log:
        if isinstance(event.body, CallFinished) and event.body.path:
            kept = await store.read_result(session_id, event.body.path.rpartition("/")[2])
            if kept != LARGE:
                left.wrong.append(f"{name}: the large result is not whole")


def _same_bytes(one: SessionState, two: SessionState) -> bool:
    spec = SPECS[one.key.agent]
    statistics: ModelStatistics = InMemoryModelStatistics().of(spec.model)
    made = [render(state.conversation, spec, (), statistics) for state in (one, two)]
    return made[0].request == made[1].request


# --- what must be true ---------------------------------------------------------------------------


def check(left: Left, world: World) -> None:
    """Check what has to be true however often it died; raises AssertionError."""
    assert not left.wrong, "; ".join(left.wrong)
    assert not left.active, f"marked as awake: {left.active}"
    for name, log in left.logs.items():
        try:
            _check_session(name, log, left.states[name], world)
        except AssertionError as error:
            message = f"{name}: {error}"
            raise AssertionError(message) from error
    said = Counter(
        event.body.idempotency_key
        for log in left.logs.values()
        for event in log
        if isinstance(event.body, Received | Announced)
    )
    twice = {key: times for key, times in said.items() if times > 1}
    assert not twice, f"accepted twice: {twice}"
    lost = world.accepted.keys() - said.keys()
    assert not lost, f"accepted messages are lost: {lost}"
    _check_effects(left, world)


def _check_session(name: str, log: Sequence[Event], state: SessionState, world: World) -> None:
    accepted = {key: text for key, (to, text) in world.accepted.items() if to == name}
    bodies = [event.body for event in log]
    seqs = {
        event.body.idempotency_key: event.seq for event in log if isinstance(event.body, Received)
    }
    texts = {body.idempotency_key: body.text for body in bodies if isinstance(body, Received)}
    assert accepted.items() <= texts.items(), "an accepted message is lost, or has another text"
    check_log(log, [seqs[key] for key in accepted])
    check_calls(log, world.allowed)
    assert state.open_turn is None, "a turn is open"
    assert not state.waiting, "messages wait"
    ends = [body.outcome for body in bodies if isinstance(body, TurnFinished)]
    assert set(ends) <= {"answered"}, f"turns ended as {ends}"
    if KEYS[name].channel != "api":
        _check_said(bodies, state, KEYS[name].chat, getattr(world, KEYS[name].channel))


def _check_said(bodies: Sequence[object], state: SessionState, chat: str, seen: Platform) -> None:
    """Check that people were sent all chunks, in order, once, or twice and labelled."""
    assert not state.outbox, f"pending: {[item.text for item in state.outbox]}"
    payloads: dict[tuple[int, int], str] = {}
    marks: dict[tuple[int, int], list[str]] = {}
    for body in bodies:
        if isinstance(body, DeliveryPlanned):
            payloads |= {(body.item, n): text for n, text in enumerate(body.chunks)}
        elif isinstance(body, ChunkMarked):
            marks.setdefault((body.item, body.chunk), []).append(body.mark)
    for chunk, each in marks.items():
        assert "sending" not in each[each.index("sent") :] if "sent" in each else True, (
            f"chunk {payloads[chunk][:20]!r} was known to be sent, and is sent again: {each}"
        )
        assert each.count("unknown") <= 2, f"chunk {payloads[chunk][:20]!r}: {each}"
        assert each[-1] in ("sent", "closed"), f"chunk {payloads[chunk][:20]!r}: {each}"
    planned = [text for chunk, text in payloads.items() if "sent" in marks.get(chunk, ())]
    shown: list[str] = []
    placed: set[str] = set()
    "What took the place of its preview: that may stand above what was pending then."
    for message in seen.messages.values():
        if message.message.chat_id != chat:
            continue
        asks = message.states[0].removeprefix(_LABEL).startswith("~May")
        text = message.states[0] if asks else message.text
        bare = text.removeprefix(_LABEL)
        is_left_over = text.startswith("~") and not asks
        if is_left_over or (text != bare and bare in shown):
            continue
        shown.append(bare)
        if message.states[0].startswith("~") and not asks:
            placed.add(bare)
    assert Counter(shown) == Counter(planned), (
        f"people see {[t[:20] for t in shown]}, not {[t[:20] for t in planned]}"
    )
    shown, planned = ([t for t in each if t not in placed] for each in (shown, planned))
    assert shown == planned, (
        f"people see {[t[:20] for t in shown]}, not {[t[:20] for t in planned]}"
    )


def _check_effects(left: Left, world: World) -> None:
    again = {
        call: times for call, times in world.runs.items() if times > 1 and call not in MAY_RUN_AGAIN
    }
    assert not again, f"done twice: {again}"
    assert "ask2" not in world.runs, "a call ran that nobody allowed"
    assert left.processes <= 1, "the process was started twice"
    told = sum(
        isinstance(event.body, Received) and event.body.sender == SENDER
        for event in left.logs.get("build", ())
    )
    assert told == left.processes, f"{left.processes} processes, and {told} ends were told"
    assert len(dict(world.posts)) == 1, f"the webhook got {world.posts}"
    assert len(world.posts) <= 2, f"the webhook got {world.posts}"
    assert left.jobs == {job: [end] for job, end in JOB_ENDS.items()}, f"jobs: {left.jobs}"


Story: TypeAlias = tuple[tuple[object, ...], ...]


def story(log: Sequence[Event]) -> Story:
    """Return what a conversation was about: messages, replies, results, in turns."""
    texts: dict[int, str] = {}
    told: list[tuple[object, ...]] = []
    for event in log:
        match event.body:
            case Received(text=text):
                texts[event.seq] = _HANDLE.sub("HANDLE", text)
            case TurnStarted(received=received):
                told.append(("turn", *(texts[seq] for seq in received)))
            case Steered(received=received):
                told.append(("steered", *(texts[seq] for seq in received)))
            case ModelReplied(text=text, calls=made):
                told.append(("reply", text, *(call.call_id for call in made)))
            case CallFinished(call_id=call_id, text=text):
                told.append(("result", call_id, _HANDLE.sub("HANDLE", text)))
            case TurnFinished(outcome=outcome):
                told.append(("end", outcome))
            case Announced(text=text):
                told.append(("announced", text))
            case Summarised():
                told.append(("summary",))
            case _:
                pass
    return tuple(told)


def _closed(told: Story) -> dict[str, int]:
    """Return the calls that were closed as interrupted."""
    return {str(each[1]): 1 for each in told if each[0] == "result" and each[2] == INTERRUPTED}


def compare(name: str, told: Story, expected: Story, point: Point) -> str:
    """Return the closing event that explains a difference; empty where there is none.

    Raises:
        AssertionError: Nothing that is documented explains it.
    """
    if told == expected:
        return ""
    closed = _closed(told)
    assert not closed.keys() & set(MAY_RUN_AGAIN), f"{name}: closed, and may run again: {closed}"

    def plain(each: Story) -> Story:
        return tuple(t for t in each if t[:1] != ("summary",) and not _is_result(t, closed))

    if plain(told) == plain(expected):
        return "interrupted call" if closed else "summary at another time"
    world = World.unpack(point.world)
    if name == "chat" and world.step <= 3 and len(_messages(told)) == len(_messages(expected)):
        return "burst answered in parts"
    if name == "crew" and "steer" not in world.accepted and world.step <= 7:
        return "steering came later"
    lost = [t for t in told if t[0] == "turn" and "lost, how it ended" in str(t)]
    if name == "build" and (lost or closed):
        is_late = point.model.startswith("power") or bool(closed)
        assert is_late, f"{name}: a process is lost, and nobody lost power"
        return "process lost"
    refused = [t for t in told if t[0] == "result" and str(t[2]).startswith(_NOT_STARTED)]
    if refused and point.model not in get_args(Model):  # the model reads why, and goes on
        return "tool failed"
    at = next(
        (n for n, (a, b) in enumerate(zip(told, expected, strict=False)) if a != b),
        min(len(told), len(expected)),
    )
    message = f"{name}: {_short(told[at : at + 2])} in place of {_short(expected[at : at + 2])}"
    raise AssertionError(message)


def _is_result(each: tuple[object, ...], closed: dict[str, int]) -> bool:
    return each[0] == "result" and each[1] in closed


def _messages(told: Story) -> list[object]:
    return [text for each in told if each[0] in ("turn", "steered") for text in each[1:]]


def _short(told: Story) -> str:
    return " ".join(str(tuple(str(part)[:40] for part in each)) for each in told) or "nothing"
