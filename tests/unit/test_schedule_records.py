"""What the records of a run log mean, and how they stand in it."""

from __future__ import annotations

import re
import zlib
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace
from support.run_records import DAWN, a_life, armed, done, hour, standing_after
from support.tables import table

from everturn_actors.checksums import sealed, unsealed
from everturn_gateway.scheduler.jobs import JobState, Run
from everturn_gateway.scheduler.rules.records import (
    RECENT,
    Accepted,
    Began,
    Cancelled,
    Finished,
    Kept,
    Misfire,
    Paused,
    Rebased,
    Record,
    Resumed,
    fold,
    fold_all,
)
from everturn_gateway.scheduler.run_logs.lines import (
    BadRecordError,
    DamagedError,
    encode,
    from_line,
    read_log,
    to_line,
)

BEGAN = Began(at=hour(1.01), scheduled_at=hour(1))
ACCEPTED = Accepted(at=hour(1.02), scheduled_at=hour(1), session_id="s1", seq=7)


def finished(scheduled_at: datetime = BEGAN.scheduled_at) -> Finished:
    """Return the end of a run."""
    return Finished(
        at=hour(2), scheduled_at=scheduled_at, outcome="failed", turn=3, error="no answer"
    )


# --- what follows ---


def test_a_run_is_followed_from_its_beginning_to_its_end() -> None:
    """This is what people see of it, and what a restart goes on from."""
    begun = standing_after([armed(), BEGAN])
    accepted = fold(begun, ACCEPTED)
    ended = fold(accepted, finished())

    run = Run(scheduled_at=hour(1), started_at=hour(1.01))
    assert begun.open == (run,)
    run = replace(run, session_id="s1", seq=7)
    assert accepted.open == (run,)
    run = replace(run, outcome="failed", turn=3, error="no answer", finished_at=hour(2))
    assert (ended.open, ended.recent, ended.last) == ((), (run,), run)
    assert (ended.ran, ended.cursor, ended.anchor) == (1, hour(1), DAWN)


def test_arming_begins_anew_and_forgets_nothing_that_ran() -> None:
    """New times must not run what the old ones settled, nor stop what is under way."""
    before = standing_after([*a_life(2), BEGAN, Paused(at=hour(3)), Cancelled(at=hour(4))])
    after = fold(before, replace(armed("cron"), at=hour(6), since=hour(5)))

    assert after == replace(
        before,
        schedule="cron",
        armed=hour(5),
        anchor=hour(5),
        cursor=hour(5),
        ran=0,
        paused=False,
        cancelled=False,
    )
    assert after.open
    assert len(after.recent) == 2


def test_another_try_keeps_its_beginning_and_the_session_of_the_one_before() -> None:
    """Until the new try is somewhere, the old place is the only one where there is something."""
    second = Began(at=hour(1.5), scheduled_at=hour(1), attempt=2)
    job_state = standing_after([armed(), BEGAN, ACCEPTED, second])

    assert job_state.open == (
        Run(scheduled_at=hour(1), started_at=hour(1.01), attempt=2, session_id="s1", seq=0),
    )
    assert job_state.ran == 1  # one run, however many tries
    moved = fold(job_state, replace(ACCEPTED, session_id="s2", seq=9))
    assert (moved.open[0].session_id, moved.open[0].seq) == ("s2", 9)

    # Said twice, it must not lose the place of its task, or count as two.
    under_way = standing_after([armed(), BEGAN, second, ACCEPTED])
    for attempt in (1, 2):
        again = Began(at=hour(2), scheduled_at=hour(1), attempt=attempt)
        assert fold(under_way, again) == under_way

    # What counts against `max_runs` is the first try; this one can only be a stray line.
    stray = standing_after([armed(), replace(second, at=hour(1))])
    assert (stray.ran, stray.cursor, stray.open[0].attempt) == (0, hour(1), 2)


def test_a_run_by_hand_is_none_of_the_jobs_own() -> None:
    """It takes nothing from `max_runs`, and the next run is still due."""
    by_hand = Began(at=hour(5), scheduled_at=hour(5), by_hand=True)
    job_state = standing_after([armed(), by_hand, finished(hour(5))])

    assert (job_state.ran, job_state.cursor) == (0, DAWN)
    assert job_state.recent[0].by_hand


def test_misfired_runs_are_settled_and_told_as_one() -> None:
    """Thousands may be missed at once; each of them would push real runs out of sight."""
    missed = Misfire(at=hour(9), first=hour(2), scheduled_at=hour(8), count=7, error="too late")
    job_state = standing_after([armed(), missed])

    assert job_state.cursor == hour(8)
    assert job_state.recent == (
        Run(
            scheduled_at=hour(8),
            started_at=hour(9),
            outcome="misfired",
            error="too late",
            finished_at=hour(9),
            misfired=7,
            first_misfired=hour(2),
        ),
    )
    assert job_state.ran == 0


@table(
    ("record", "paused", "cursor"),
    [
        (Paused(at=hour(4)), True, hour(3)),
        (Resumed(at=hour(4)), False, hour(4)),
        (Resumed(at=hour(2)), False, hour(3)),
        (Rebased(at=hour(4), cursor=hour(1)), False, hour(1)),
    ],
    ids=["paused", "resumed", "resumed, clock set back", "rebased"],
)
def test_what_moves_the_cursor(record: Record, paused: bool, cursor: datetime) -> None:
    """After a pause nothing old runs; only a clock that was set lets runs come again."""
    job_state = fold(standing_after(a_life(3)), record)

    assert (job_state.paused, job_state.cursor) == (paused, cursor)


def test_what_is_under_way_when_a_job_is_called_off_is_still_finished() -> None:
    """Its task is in a session already; somebody has to write down how it ends."""
    job_state = standing_after([armed(), BEGAN, Cancelled(at=hour(2)), finished()])

    assert job_state.cancelled
    assert job_state.recent[0].outcome == "failed"


def test_what_is_said_of_no_open_run_changes_nothing() -> None:
    """A log is read whatever stands in it; the rest of it still counts."""
    job_state = standing_after([*a_life(2), BEGAN])
    for record in (finished(hour(9)), replace(ACCEPTED, scheduled_at=hour(9))):
        assert fold(job_state, record) == job_state, record

    # Twice in the list, a run would look as if it had run twice.
    ended = standing_after([armed(), BEGAN, finished()])
    assert fold(ended, finished()) == ended


def test_the_oldest_runs_leave_and_are_named() -> None:
    """Their sessions are of no more use to anybody, and whoever deletes them has to know them."""
    full = standing_after(a_life(RECENT))
    folded = fold_all(full, [*done(RECENT + 1), *done(RECENT + 2)])

    assert len(folded.job_state.recent) == RECENT
    assert folded.gone == full.recent[:2]
    assert folded.job_state.recent[:-2] == full.recent[2:]
    assert folded.job_state.ran == RECENT + 2
    assert fold_all(JobState(), a_life(RECENT)).gone == ()


# --- lines ---


def test_a_line_is_json_that_people_can_read() -> None:
    """An operator looks into it with the tools at hand, and an older log must stay readable."""
    line = to_line(replace(BEGAN, by_hand=True))

    assert line == (
        b'{"kind":"began","at":"2026-11-21T07:00:36Z",'
        b'"scheduled_at":"2026-11-21T07:00:00Z","by_hand":true,"crc":"cd25d0be"}\n'
    )
    assert from_line(line) == from_line(line[:-1]) == replace(BEGAN, by_hand=True)

    # A log is shortened to it, and nothing may be lost.
    job_state = standing_after([*a_life(3), BEGAN, ACCEPTED, Paused(at=hour(4))])
    line = to_line(Kept(at=hour(4), job_state=job_state))

    assert line.startswith(
        b'{"kind":"kept","at":"2026-11-21T10:00:00Z","job_state":{"schedule":"every 3600",'
    )
    assert from_line(line) == Kept(at=hour(4), job_state=job_state)
    assert fold(JobState(paused=False), from_line(line)) == job_state

    # What is misfired now was called missed.
    run = Run(
        scheduled_at=hour(8),
        started_at=hour(9),
        outcome="misfired",
        error='"missed": 3',
        misfired=7,
        first_misfired=hour(2),
    )
    kept = Kept(at=hour(9), job_state=JobState(recent=(run,)))
    plain = unsealed(to_line(kept).removesuffix(b"\n"))
    before = plain.replace(b'"misfired"', b'"missed"').replace(
        b'"first_misfired"', b'"first_missed"'
    )

    assert before != plain
    assert from_line(sealed(before, 0)) == kept

    # The zone of the machine may change; the log must not mean something else then.
    east = timezone(timedelta(hours=9))

    assert from_line(to_line(Paused(at=hour(0).astimezone(east)))) == Paused(at=hour(0))


def test_a_long_error_is_shortened_and_any_text_can_be_written() -> None:
    """Errors come from anywhere, fifty of them stay in each log, and none may stop the job."""
    record = replace(finished(), error="\ud800 no " + "x" * 5000)
    written = from_line(to_line(record))

    assert isinstance(written, Finished)
    assert written.error.startswith("\ud800 no xxx")
    assert written.error.endswith("x…")
    assert len(written.error) == 1000
    assert from_line(to_line(written)) == written


def line_of(text: str) -> bytes:
    """Return a line with this JSON object and the right checksum."""
    body = text.encode()[:-1]
    return b'%b,"crc":"%08x"}' % (body, zlib.crc32(body))


AT = '"at":"2026-11-21T07:00:00Z"'


@table(
    ("text", "said"),
    [
        (f'{{"kind":"dreamt",{AT}}}', "kind is 'dreamt', which is none of those it may be"),
        (f"{{{AT}}}", "kind is missing"),
        (f'{{"kind":"paused",{AT},"why":"x"}}', "why is a field that this version does not know"),
        ('{"kind":"paused"}', "at is missing"),
        ('{"kind":"paused","at":"noon"}', "at cannot stand: Invalid RFC3339"),
        ('{"kind":"paused","at":"2026-11-21T07:00:00"}', "timezone"),
        ('{"kind":"paused","at":7}', "at must be datetime, not int"),
        (f'{{"kind":"armed",{AT},"since":"2026-11-21T07:00:00Z"}}', "schedule is missing"),
        (f'{{"kind":"armed",{AT},"schedule":7}}', "schedule must be str"),
        (f'{{"kind":"began",{AT},"attempt":true}}', "attempt must be int"),
        (f'{{"kind":"began",{AT},"attempt":-1}}', "attempt must be"),
        (f'{{"kind":"began",{AT},"by_hand":1}}', "by_hand must be bool"),
        (f'{{"kind":"finished",{AT},"outcome":"lost"}}', "outcome is 'lost', which is none of"),
        (f'{{"kind":"kept",{AT},"job_state":7}}', "job_state must be object"),
        (f'{{"kind":"kept",{AT},"job_state":{{"open":7}}}}', "job_state.open must be array"),
        (
            f'{{"kind":"kept",{AT},"job_state":{{"recent":[{{"seq":"1"}}]}}}}',
            "job_state.recent[0].seq must be int",
        ),
        (
            f'{{"kind":"kept",{AT},"job_state":{{"open":[{{}}]}}}}',
            "job_state.open[0].scheduled_at is missing",
        ),
        ('["kind"]', "it must be object"),
    ],
)
def test_a_line_of_another_version_says_what_is_unknown(text: str, said: str) -> None:
    """Taken for a write that a crash cut short, it would be thrown away."""
    with pytest.raises(BadRecordError, match=re.escape(said)) as caught:
        from_line(line_of(text))

    assert caught.value.is_whole


@table(
    ("line", "said"),
    [
        (b"", "cut short"),
        (b'{"kind":"paused"}', "checksum"),
        (to_line(BEGAN)[:-5], "cut short"),
        (to_line(BEGAN).replace(b"07:00:00", b"08:00:00"), "checksum"),
        (b"\x00" * 99, "cut short or damaged"),
        (to_line(BEGAN)[:40] + to_line(BEGAN), "checksum"),
    ],
)
def test_a_damaged_line_is_told_from_one_of_another_version(line: bytes, said: str) -> None:
    """At the end of a log it is what a crash leaves, and nobody was promised it."""
    with pytest.raises(BadRecordError, match=said) as caught:
        from_line(line)

    assert not caught.value.is_whole


# --- logs ---


def test_a_log_says_how_far_the_job_is_and_how_long_it_is() -> None:
    """An append goes to its end, and no further back."""
    data = encode(a_life(4))
    story = read_log(data)

    assert story.job_state == standing_after(a_life(4))
    assert (story.lines, story.size_bytes, story.last_at) == (13, len(data), hour(4.5))
    assert read_log(b"").lines == 0
    assert read_log(b"").last_at is None


def test_a_torn_end_is_left_out() -> None:
    """A crash cuts writes short; whoever wrote it was never told that it was done."""
    whole = encode(a_life(2))
    for last in (b'{"kind":"paus', b"\x00" * 50, b"\x00" * 50 + b"\n", b"\n", b"\xff\n"):
        story = read_log(whole + last)

        assert story.job_state == standing_after(a_life(2)), last
        assert story.size_bytes == len(whole)

    # Editors take the last newline away; a run must not run twice for that.
    assert read_log(whole[:-1]) == read_log(whole)


@table(
    ("number", "bad", "said"),
    [
        (2, b'{"kind":"beg\n', "line 2: it is cut short"),
        (3, b"\n", "line 3: it is cut short"),
        (7, line_of(f'{{"kind":"dreamt",{AT}}}') + b"\n", "line 7: .*'dreamt'"),
    ],
    ids=["torn", "empty", "another version, at the end"],
)
def test_damage_that_no_crash_leaves_stops_and_names_the_line(
    number: int, bad: bytes, said: str
) -> None:
    """To go on from a guess could run something twice."""
    lines = encode(a_life(2)).splitlines(keepends=True)
    lines[number - 1 : number] = [bad]
    with pytest.raises(DamagedError, match=said) as caught:
        read_log(b"".join(lines))

    assert caught.value.line == number
