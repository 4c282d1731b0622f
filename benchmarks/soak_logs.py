"""The gateway's own account, read from its files once it is stopped; with none of its code."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from soak_ledger import MARKER, TOKEN

Line: TypeAlias = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Log:
    """One session: its events, and where they lead."""

    session: str
    channel: str
    chat: str
    events: list[Line]
    overlaps: int = 0
    "Events that a kill left both in the log and in the archive, alike."
    faults: list[str] = field(default_factory=list[str])
    "What must not be in any log."

    def of(self, *kinds: str) -> Iterator[Line]:
        """Yield the events of some types, oldest first."""
        return (event for event in self.events if event["type"] in kinds)

    def turns_of(self, seq: int) -> list[int]:
        """Return the turns that read a received message."""
        return [e["turn"] for e in self.of("turn_started", "steered") if seq in e["received"]]

    def outcomes(self, turn: int) -> list[str]:
        """Return how a turn ended; more than one is a fault."""
        return [e["outcome"] for e in self.of("turn_finished") if e["turn"] == turn]

    def tokens(self) -> list[str]:
        """Return what the replies say, in order."""
        return [t for e in self.of("model_replied") for t in TOKEN.findall(e.get("text", ""))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A chunk of which it was not known whether it had arrived."""

    session: str
    item: int
    chunk: int
    sending_at: datetime
    unknown_at: datetime
    error: str

    @property
    def is_cut_short(self) -> bool:
        """Whether the process that sent it was gone before the answer came."""
        return self.error == "cut short"


def read_logs(folder: Path) -> list[Log]:
    """Return all sessions of a workspace."""
    homes = sorted((folder / ".everturn" / "sessions").iterdir())
    return [read_log(home) for home in homes if any(home.glob("events*.jsonl"))]


def read_log(home: Path) -> Log:
    """Return one session: archive and log put together by number."""
    by_seq: dict[int, str] = {}
    overlaps, faults = 0, []
    for name in ("events.archive.jsonl", "events.jsonl"):
        path = home / name
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
        before = 0
        for text in lines:
            seq = int(json.loads(text)["seq"])
            if seq <= before:
                faults.append(f"{name}: event {seq} stands behind {before}")
            before = seq
            if by_seq.setdefault(seq, text) != text:
                faults.append(f"event {seq} differs between log and archive")
            overlaps += name == "events.jsonl" and seq in by_seq and by_seq[seq] is not text
    if sorted(by_seq) != list(range(1, len(by_seq) + 1)):
        faults.append("the numbers of the events have holes")
    events = [json.loads(by_seq[seq]) for seq in sorted(by_seq)]
    key = events[0]["key"] if events else {"channel": "", "chat": ""}
    return Log(
        session=home.name,
        channel=key["channel"],
        chat=key["chat"],
        events=events,
        overlaps=overlaps,
        faults=faults,
    )


def where_received(logs: Iterable[Log]) -> dict[str, list[tuple[Log, int]]]:
    """Return where each marker was received: session and number."""
    found: dict[str, list[tuple[Log, int]]] = defaultdict(list)
    for log in logs:
        for event in log.of("received", "ambient_stored"):
            for marker in MARKER.findall(event["text"]):
                found[marker].append((log, event["seq"]))
    return found


def doubts(log: Log) -> tuple[list[Doubt], list[str]]:
    """Return the chunks of unknown outcome, and what was done to chunks that must not be."""
    found: list[Doubt] = []
    faults: list[str] = []
    states: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for event in log.of("chunk_marked"):
        key = event["item"], event["chunk"]
        before = [e["mark"] for e in states[key]]
        if "sent" in before and event["mark"] != "closed":
            faults.append(f"chunk {key} is {event['mark']} though it was known to be sent")
        error = event.get("error", "")
        if event["mark"] in {"failed", "given_up"}:
            faults.append(f"chunk {key} is {event['mark']}: {error}")
        if event["mark"] == "unknown":
            began = next(e for e in reversed(states[key]) if e["mark"] == "sending")
            found.append(
                Doubt(
                    session=log.session,
                    item=key[0],
                    chunk=key[1],
                    sending_at=datetime.fromisoformat(began["at"]),
                    unknown_at=datetime.fromisoformat(event["at"]),
                    error=error,
                )
            )
        states[key].append(event)
    for event in log.of("delivery_planned"):
        for number in range(len(event["chunks"])):
            marks = states[event["item"], number]
            if not marks or marks[-1]["mark"] not in {"sent", "failed", "given_up", "closed"}:
                faults.append(f"chunk {(event['item'], number)} was never brought to its end")
    return found, faults


def open_turns(log: Log) -> list[int]:
    """Return the turns that did not end once."""
    return [e["turn"] for e in log.of("turn_started") if len(log.outcomes(e["turn"])) != 1]


def interrupted_calls(logs: Sequence[Log]) -> dict[str, str]:
    """Return the results of the calls of the tool, by the marker they were made for."""
    results: dict[str, str] = {}
    for log in logs:
        for event in log.of("call_finished"):
            results[event["call_id"].removeprefix("call-")] = str(event["text"])
    return results
