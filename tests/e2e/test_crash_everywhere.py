"""SIGKILL at a durable operation: a fixed spread, one or two for each part of the scenario.

Every operation of every part is `python benchmarks/crashes.py`: over a thousand kills, by the same
code. Here each part is run once without a kill, and once for each of a few operations that are
picked by what they do, so that they stay the same when others come or go.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import pytest
from support.killing.accounts import Account, Rule, Talk, Turn, audit, compare
from support.killing.hook.kill_points import KillPoint, Moment
from support.killing.lives import Part
from support.killing.parts import PARTS
from support.killing.starting import Launcher, open_launcher
from support.killing.table import Outcome, kill, make_ready
from support.tables import table

PICKED: Final[Mapping[str, Sequence[tuple[str, int, Moment]]]] = {
    "first start, burst, Telegram": [("replace .everturn/channels/telegram.json", 1, "before")],
    "steered turn with parallel calls": [("pwrite events.jsonl", 4, "half")],
    "approvals: once, always": [("replace policy.local.yaml", 1, "after")],
    "summary, compaction, snapshot": [("fdatasync events.archive.jsonl", 1, "after")],
    "long answer, Telegram": [("fdatasync events.jsonl", 4, "after")],
    "long answer, Discord": [("fdatasync events.jsonl", 4, "after")],
    "scheduled message and task": [("fdatasync runs/said.jsonl", 2, "after")],
    "background process that calls back": [("replace record.json", 1, "after")],
    "HTTP with Idempotency-Key": [("fdatasync events.jsonl", 1, "after")],
}
"Of each part: an operation, the how-manieth of its kind, and when it is killed."
SIDE_BY_SIDE: Final = 3


def find(trace: Sequence[str], wanted: tuple[str, int, Moment]) -> KillPoint:
    """Return where the how-manieth operation of a kind is in a trace."""
    kind, _, end = wanted[0].partition(" ")
    found = (n for n, each in enumerate(trace, 1) if each.startswith(kind) and each.endswith(end))
    number = next(itertools.islice(found, wanted[1] - 1, None), 0)
    assert number, f"no {wanted[0]} among {trace}"
    return KillPoint(number=number, moment=wanted[2])


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_kill_at_a_durable_operation_changes_nothing_but_what_is_documented(
    tmp_path: Path,
) -> None:
    """The promise, from outside, in every part: lost, doubled or out of order is nothing."""
    outcomes: list[Outcome] = []
    limiter = anyio.Semaphore(SIDE_BY_SIDE)

    async def go_through(part: Part, folder: Path, launcher: Launcher) -> None:
        async with limiter:
            ready = await make_ready(part, folder, launcher)
            for number, wanted in enumerate(PICKED[part.name]):
                at = find(ready.expected.trace, wanted)
                outcomes.append(await kill(ready, at, folder / f"kill-{number}", launcher))

    async with open_launcher() as launcher, anyio.create_task_group() as tasks:
        for number, part in enumerate(PARTS):
            tasks.start_soon(go_through, part, tmp_path / str(number), launcher)

    assert len(outcomes) == sum(map(len, PICKED.values()))
    assert not [outcome for outcome in outcomes if not outcome.is_reached]
    assert not [(each.operation, each.failure) for each in outcomes if each.failure]


SAID = Turn(messages=("hi",), steps=({"text": "re: hi", "calls": [], "results": []},), outcome="ok")
TALK = Talk(turns=(SAID,), outbox=(), announced=(), decided=(), summaries=(), hidden=())
PLAIN = Account(talks={"ann": TALK}, chats={"1": ("re: hi",)}, witness={"ran": 1})


@table(
    ("got", "why"),
    [
        (Account(talks={}, chats=PLAIN.chats, witness=PLAIN.witness), "a conversation is lost"),
        (Account(talks=PLAIN.talks, chats={}, witness=PLAIN.witness), "an answer is lost"),
        (
            Account(talks=PLAIN.talks, chats={"1": ("re: hi", "re: hi")}, witness={"ran": 1}),
            "an answer came twice, and nobody was in doubt",
        ),
        (
            Account(talks=PLAIN.talks, chats=PLAIN.chats, witness={"ran": 2}, unknown=1),
            "a side effect happened twice",
        ),
        (
            Account(talks=PLAIN.talks, chats=PLAIN.chats, witness=PLAIN.witness, surplus={"1": 1}),
            "a message stands there that no log knows",
        ),
    ],
)
def test_what_is_lost_or_doubled_is_no_documented_difference(got: Account, why: str) -> None:
    """An oracle that forgives everything proves nothing."""
    forgiven: frozenset[Rule] = frozenset({"repeated", "interrupted", "lost process", "summary"})

    assert compare(PLAIN, got, forgiven).difference, why


def test_a_message_in_doubt_may_come_once_more_and_no_more() -> None:
    """It says that it may be a repeat; two of them are one too many."""
    label = "(This may be a repeat.)\n"
    once = Account(
        talks=PLAIN.talks,
        chats={"1": ("re: hi", f"{label}re: hi")},
        witness=PLAIN.witness,
        unknown=1,
    )
    twice = Account(
        talks=PLAIN.talks,
        chats={"1": ("re: hi", f"{label}re: hi", f"{label}re: hi")},
        witness=PLAIN.witness,
        unknown=1,
    )

    assert compare(PLAIN, once, frozenset({"repeated"})).rules == ("repeated",)
    assert not compare(PLAIN, once, frozenset({"repeated"})).difference
    assert compare(PLAIN, once, frozenset()).difference
    assert compare(PLAIN, twice, frozenset({"repeated"})).difference


@table(
    ("marks", "is_right"),
    [
        (("sending", "sent"), True),
        (("sending", "unknown", "sending", "unknown", "sending", "sent"), True),
        (("sending", "unknown", "unknown", "sending", "sent"), False),
        (("sending", "unknown", "sent"), False),
        (("sending", "unknown"), False),
        (("sending", "sent", "sending", "sent"), False),
    ],
)
def test_doubt_stays_owed_until_the_platform_decides(
    marks: tuple[str, ...], *, is_right: bool
) -> None:
    """A chunk may be in doubt any number of times; each time it is sent once more."""
    log: list[dict[str, object]] = [
        {"type": "delivery_planned", "item": 1, "chunks": ["hi"]},
        *({"type": "chunk_marked", "item": 1, "chunk": 0, "mark": mark} for mark in marks),
    ]
    numbered = [{**event, "seq": seq} for seq, event in enumerate(log, 1)]

    assert (not audit({"telegram/1/helper": numbered}, {})) == is_right


def test_there_are_no_more_labelled_copies_than_doubts() -> None:
    """Each doubt costs one copy, which says so."""
    marks = ["sending", "unknown", "sending", "unknown", "sending", "sent"]
    log = [
        {"seq": seq, "type": "chunk_marked", "item": 1, "chunk": 0, "mark": mark}
        for seq, mark in enumerate(marks, 1)
    ]
    label = "(This may be a repeat.)\n"

    def wrong(copies: int) -> list[str]:
        return audit({"telegram/1/helper": log}, {"1": ["hi"] + [f"{label}hi"] * copies})

    assert not wrong(2)
    assert wrong(3)
