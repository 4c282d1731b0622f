"""The audit of the soak finds what it is there to find, so "nothing found" means something."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.tables import table

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
soak_audit = importlib.import_module("soak_audit")
soak_ledger = importlib.import_module("soak_ledger")

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
CHAT, HTTP, JOB = "1001", "a client's", "says"
SESSION = "20261122T120000000-00000001"
INSTANT = "2026-11-22T12:00:00.000000Z"

Event = dict[str, Any]


def reply(marker: str, parts: int = 1) -> list[str]:
    """Return the parts of a reply to a message."""
    return [f"{marker}-{n}of{parts} and so on {marker}-{n}end" for n in range(1, parts + 1)]


def at(seconds: float) -> str:
    """Return a moment as logs have it."""
    return (NOON + timedelta(seconds=seconds)).isoformat()


@dataclass
class Case:
    """A soak in which all is well, until a test changes something."""

    folder: Path
    ledger: Any
    shown: dict[tuple[str, str], list[Any]]
    logs: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    effects: list[str] = field(default_factory=list[str])
    runs: list[Event] = field(default_factory=list[Event])

    def log(self, session: str, channel: str, chat: str, *events: Event) -> None:
        """Write the log of a session; numbers and types of events come by themselves."""
        begin = {"type": "session_started", "key": {"channel": channel, "chat": chat}}
        self.logs[session] = [begin, *events]
        for seq, event in enumerate(self.logs[session], 1):
            event |= {"seq": seq, "at": event.get("at", at(seq))}

    def find(self, session: str, kind: str, number: int = 0) -> Event:
        """Return an event of a session."""
        return [e for e in self.logs[session] if e["type"] == kind][number]

    def findings(self) -> list[str]:
        """Write all files and return what the audit finds."""
        state = self.folder / ".everturn"
        for session, events in self.logs.items():
            home = state / "sessions" / session
            home.mkdir(parents=True)
            for name, part in (("archive.", events[:3]), ("", events[3:])):
                lines = "".join(json.dumps(event) + "\n" for event in part)
                (home / f"events.{name}jsonl").write_text(lines)
        work = state / "files" / soak_ledger.AGENT
        work.mkdir(parents=True)
        (work / soak_ledger.WITNESS).write_text("".join(f"{each}\n" for each in self.effects))
        runs = state / "schedules" / "runs"
        runs.mkdir(parents=True)
        (runs / f"{JOB}.jsonl").write_text("".join(json.dumps(run) + "\n" for run in self.runs))
        return [f.what for f in soak_audit.audit(self.ledger, self.shown, self.folder).findings]


def message(case: Case, marker: str, kind: str, chat: str, **fields: object) -> None:
    """Put a message into the book."""
    values = {"parts": 1, "uses_tool": False, "phase": "calm", "sent_s": 0.0, **fields}
    text = f"{marker} parts"
    made = soak_ledger.Message(marker=marker, kind=kind, chat=chat, text=text, **values)
    case.ledger.messages[marker] = made


def marked(chunk: int, mark: str, **fields: object) -> Event:
    """Return an event about a chunk of the reply in `talk`."""
    return {"type": "chunk_marked", "item": 7, "chunk": chunk, "mark": mark, **fields}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Return a case where all is well."""
    return well(tmp_path)


def well(tmp_path: Path) -> Case:
    """Return a talk on Telegram, with a reply in two parts and a repeat, one by HTTP, a job."""
    made = Case(tmp_path, soak_ledger.Ledger(random.Random(1)), {})  # noqa: S311 - no secret
    tool, told = "mk000000z", "mk000001z"
    message(made, tool, "telegram chat", CHAT, parts=2, uses_tool=True)
    message(made, told, "http waiting", HTTP)
    made.ledger.messages[told].answers = ["\n\n".join(reply(told))] * 2
    made.ledger.jobs[JOB] = "telegram", "2002"
    killed = soak_ledger.Life(number=1, began_at=NOON, end="SIGKILL")
    killed.ended_at = NOON + timedelta(seconds=10.5)
    made.ledger.lives.append(killed)
    first, second = reply(tool, 2)
    texts = (first, second, f"{soak_ledger.LABEL}\n\n{second}")
    numbers = (50, 51, 52)
    made.shown["telegram", CHAT] = [
        soak_audit.Shown(number=n, text=t) for n, t in zip(numbers, texts, strict=True)
    ]
    made.shown["telegram", "2002"] = [soak_audit.Shown(number=60, text="soak: tick")]
    call = f"call-{tool}"
    made.log(
        SESSION,
        "telegram",
        CHAT,
        {"type": "received", "text": f"{tool} parts"},
        {"type": "turn_started", "turn": 1, "received": [2]},
        {"type": "model_replied", "text": "", "calls": [call]},
        {"type": "call_started", "call_id": call},
        {"type": "call_finished", "call_id": call, "text": "done"},
        {"type": "model_replied", "text": f"{first}\n\n{second}"},
        {"type": "turn_finished", "turn": 1, "outcome": "answered"},
        {"type": "delivery_planned", "item": 7, "chunks": ["one", "two"]},
        marked(0, "sending", at=at(9)),
        marked(0, "sent", platform_id="50", at=at(9.5)),
        marked(1, "sending", at=at(10)),
        marked(1, "unknown", error="cut short", at=at(20)),
        marked(1, "sending", at=at(20)),
        marked(1, "sent", platform_id="52", at=at(21)),
    )
    made.log(
        "20261122T120000000-00000002",
        "http",
        HTTP,
        {"type": "received", "text": f"{told} parts"},
        {"type": "turn_started", "turn": 1, "received": [2]},
        {"type": "model_replied", "text": reply(told)[0]},
        {"type": "turn_finished", "turn": 1, "outcome": "answered"},
    )
    key = f"schedule:{JOB}:{INSTANT}"
    made.log(
        "20261122T120000000-00000003",
        "telegram",
        "2002",
        {"type": "announced", "text": "soak: tick", "idempotency_key": key},
    )
    made.effects = [tool]
    made.runs = [
        {"kind": "began", "scheduled_at": INSTANT},
        {"kind": "finished", "scheduled_at": INSTANT},
    ]
    return made


def test_where_all_is_well_nothing_is_found(case: Case) -> None:
    """A checker that cries wolf is switched off."""
    assert case.findings() == []


def test_a_run_log_that_was_shortened_within_a_run_is_in_order(case: Case) -> None:
    """Its first line counts the run that was open then; that one is not two."""
    missed = {
        "scheduled_at": "2026-11-22T11:59:00.000000Z",
        "outcome": "misfired",
    }  # and began nothing
    job_state = {"ran": 1, "open": [{"scheduled_at": INSTANT}], "recent": [missed]}
    case.runs[0] = {"kind": "kept", "job_state": job_state}
    assert case.findings() == []


def _lose_the_message(case: Case) -> None:
    case.find(SESSION, "received")["text"] = "something else"


def _receive_it_again(case: Case) -> None:
    case.logs[SESSION].append({"type": "received", "seq": 16, "at": at(30), "text": "mk000000z x"})


def _read_it_in_two_turns(case: Case) -> None:
    again = {"type": "steered", "turn": 1, "received": [2], "seq": 16, "at": at(30)}
    case.logs[SESSION].append(again)


def _leave_the_turn_open(case: Case) -> None:
    case.find(SESSION, "turn_finished")["type"] = "status_changed"


def _fail_the_turn(case: Case) -> None:
    case.find(SESSION, "turn_finished")["outcome"] = "failed"


def _drop_an_event(case: Case) -> None:
    del case.logs[SESSION][5]


def _reply_to_somebody_else(case: Case) -> None:
    case.find(SESSION, "model_replied", 1)["text"] = reply("mk000000z", 2)[0]


def _show_a_part_less(case: Case) -> None:
    del case.shown["telegram", CHAT][0]


def _show_nothing(case: Case) -> None:
    del case.shown["telegram", CHAT]


def _show_a_part_twice(case: Case) -> None:
    texts = case.shown["telegram", CHAT]
    texts.append(soak_audit.Shown(number=53, text=texts[0].text))


def _label_without_a_doubt(case: Case) -> None:
    texts = case.shown["telegram", CHAT]
    texts[0] = soak_audit.Shown(number=50, text=f"{soak_ledger.LABEL}\n\n{texts[0].text}")


def _show_parts_the_wrong_way_round(case: Case) -> None:
    case.shown["telegram", CHAT].reverse()


def _doubt_without_a_kill(case: Case) -> None:
    case.ledger.lives.clear()


def _send_what_was_sent(case: Case) -> None:
    case.logs[SESSION] += [{**marked(0, "sending"), "seq": 16, "at": at(30)}]


def _leave_a_chunk_under_way(case: Case) -> None:
    case.logs[SESSION].pop()


def _run_the_tool_twice(case: Case) -> None:
    case.effects *= 2


def _never_run_the_tool(case: Case) -> None:
    case.effects.clear()


def _answer_otherwise_the_second_time(case: Case) -> None:
    case.ledger.messages["mk000001z"].answers[1] += " or so"


def _answer_with_half(case: Case) -> None:
    case.ledger.messages["mk000001z"].answers = ["mk000001z-1of1 and"]


def _never_answer(case: Case) -> None:
    case.ledger.messages["mk000001z"].answers = []


def _leave_a_run_open(case: Case) -> None:
    case.runs.pop()


def _announce_twice(case: Case) -> None:
    (log,) = (events for events in case.logs.values() if events[-1]["type"] == "announced")
    log.append(log[-1] | {"seq": 3})


def _say_it_twice(case: Case) -> None:
    case.shown["telegram", "2002"] *= 2


def _show_a_preview_beside_the_reply(case: Case) -> None:
    texts = case.shown["telegram", CHAT]
    texts.insert(0, soak_audit.Shown(number=49, text=texts[0].text))
    case.ledger.shown_at["telegram", "49"] = NOON + timedelta(seconds=2)


def _surprise_a_client(case: Case) -> None:
    case.ledger.problems.append("418 from /api/v1/sessions")


def test_what_a_kill_left_behind_is_counted_and_no_double(case: Case) -> None:
    """The same part follows, labelled; without a kill that explains it, it would be a double."""
    texts = case.shown["telegram", CHAT]
    texts.insert(1, soak_audit.Shown(number=49, text=texts[1].text))
    case.ledger.shown_at["telegram", "49"] = NOON + timedelta(seconds=10)

    assert case.findings() == []


@table(
    ("change", "found"),
    [
        (_lose_the_message, "lost: no log has it"),
        (_receive_it_again, "doubled: received more than once"),
        (_read_it_in_two_turns, "read by other than one turn"),
        (_leave_the_turn_open, "a turn did not end once"),
        (_fail_the_turn, "lost: its turn was not answered"),
        (_drop_an_event, "a log is not whole"),
        (_reply_to_somebody_else, "lost: no reply in the log names it"),
        (_show_a_part_less, "lost: a part of its reply was not shown"),
        (_show_nothing, "lost: its chat shows no answer at all"),
        (_show_a_part_twice, "doubled: shown twice without a label"),
        (_show_a_preview_beside_the_reply, "doubled: shown twice without a label"),
        (_label_without_a_doubt, "a label without a doubt"),
        (_show_parts_the_wrong_way_round, "shown in another order than said"),
        (_doubt_without_a_kill, "in doubt without a reason"),
        (_send_what_was_sent, "a message to people went wrong"),
        (_leave_a_chunk_under_way, "a message to people went wrong"),
        (_run_the_tool_twice, "doubled: its tool ran twice"),
        (_never_run_the_tool, "lost: its tool did not run"),
        (_answer_otherwise_the_second_time, "the same key, another answer"),
        (_answer_with_half, "lost: its client was told something else"),
        (_never_answer, "lost: its client has no answer"),
        (_leave_a_run_open, "a run did not end once"),
        (_announce_twice, "a run was not taken once"),
        (_say_it_twice, "a run was not said once"),
        (_surprise_a_client, "a client saw what it must not see"),
    ],
)
def test_whatever_is_lost_or_doubled_is_found(
    tmp_path: Path, change: Callable[[Case], None], found: str
) -> None:
    """The figure "none lost" is worth what the checker can find."""
    case = well(tmp_path)
    change(case)

    assert found in case.findings()
