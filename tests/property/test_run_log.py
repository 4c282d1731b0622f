"""What stands in a run log is what was written, however it is cut, changed or shortened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from support.run_records import DAWN, standing_after

from everturn_gateway.scheduler.jobs import JobState, RunOutcome
from everturn_gateway.scheduler.rules.records import (
    RECENT,
    Accepted,
    Armed,
    Began,
    Cancelled,
    Finished,
    Kept,
    Line,
    Misfire,
    Paused,
    Rebased,
    Record,
    Resumed,
    fold,
    fold_all,
)
from everturn_gateway.scheduler.run_logs.lines import (
    DamagedError,
    encode,
    from_line,
    read_log,
    to_line,
)

few = st.integers(0, 5).map(lambda hours: DAWN + timedelta(hours=hours))
"Few instants, so that records are about the same runs."
wild = st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
numbers = st.integers(0, 3)
outcomes = st.sampled_from(get_args(RunOutcome))
texts = st.text(max_size=20)


def records(scheduled_times: st.SearchStrategy[datetime]) -> st.SearchStrategy[Record]:
    """Return any record at all."""
    began = st.builds(
        Began,
        at=scheduled_times,
        scheduled_at=scheduled_times,
        attempt=st.integers(1, 3),
        by_hand=st.booleans(),
    )
    finished = st.builds(
        Finished,
        at=scheduled_times,
        scheduled_at=scheduled_times,
        outcome=outcomes,
        turn=numbers,
        error=texts,
    )
    return st.one_of(
        began,
        st.builds(
            Accepted,
            at=scheduled_times,
            scheduled_at=scheduled_times,
            session_id=texts,
            seq=numbers,
        ),
        finished,
        st.builds(
            Misfire,
            at=scheduled_times,
            first=scheduled_times,
            scheduled_at=scheduled_times,
            count=numbers,
            error=texts,
        ),
        st.builds(Armed, at=scheduled_times, schedule=texts, since=scheduled_times),
        st.builds(
            Rebased, at=scheduled_times, cursor=scheduled_times, anchor=st.none() | scheduled_times
        ),
        *(st.builds(kind, at=scheduled_times) for kind in (Paused, Resumed, Cancelled)),
    )


logs = st.lists(records(few), max_size=30)


def ends(lines: list[Record]) -> list[int]:
    """Return where each line ends, without its newline; what is behind the first is 0."""
    return [0, *(end - 1 for end in accumulate(len(to_line(line)) for line in lines))]


@given(records(wild))
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    """What is written is what a restart goes on from."""
    assert from_line(to_line(record)) == record


@given(logs)
def test_a_log_says_what_its_records_say(lines: list[Record]) -> None:
    """Memory follows the records, a restart follows the file: they must agree."""
    data = encode(lines)
    story = read_log(data)

    assert story.job_state == standing_after(lines) == fold_all(JobState(), lines).job_state
    assert (story.lines, story.size_bytes) == (len(lines), len(data))


@given(logs, st.data())
def test_a_log_that_is_cut_anywhere_says_what_a_first_part_of_its_records_says(
    lines: list[Record], data: st.DataObject
) -> None:
    """A crash cuts at any byte: what was whole before it must count, and nothing else."""
    whole = encode(lines)
    cut = data.draw(st.integers(0, len(whole)), label="cut")
    story = read_log(whole[:cut])

    count = sum(end <= cut for end in ends(lines)) - 1
    assert story.job_state == standing_after(lines[:count])
    assert story.lines == count


@given(logs.filter(bool), st.data())
def test_a_changed_byte_is_never_believed(lines: list[Record], data: st.DataObject) -> None:
    """A disk that forgets a bit may stop a job; it must not let it run twice."""
    changed = bytearray(encode(lines))
    place = data.draw(st.integers(0, len(changed) - 1), label="place")
    changed[place] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    try:
        story = read_log(bytes(changed))
    except DamagedError:
        return

    assert story.lines >= len(lines) - 2  # the last line, and the one whose newline went
    assert story.job_state == standing_after(lines[: story.lines])


@given(logs, logs)
def test_a_shortened_log_says_the_same_for_ever(before: list[Record], after: list[Record]) -> None:
    """Nobody may notice that a log was shortened, least of all the times of a job."""
    kept: list[Line] = []
    if before:
        kept.append(Kept(at=before[-1].at, job_state=standing_after(before)))
    shortened, long = read_log(encode([*kept, *after])), read_log(encode([*before, *after]))

    assert shortened.job_state == long.job_state
    assert shortened.last_at == long.last_at


@given(logs)
def test_what_is_known_of_a_job_always_makes_sense(lines: list[Record]) -> None:
    """The scheduler decides from it what runs: whatever a log holds, it must not be misled."""
    job_state = JobState()
    for line in lines:
        before, job_state = job_state, fold(job_state, line)

        assert all(run.outcome is None and run.finished_at is None for run in job_state.open)
        assert len({run.scheduled_at for run in job_state.open}) == len(job_state.open)
        assert all(run.outcome and run.finished_at for run in job_state.recent)
        assert len(job_state.recent) <= RECENT
        if before.cursor is not None and not isinstance(line, Armed | Rebased):
            assert job_state.cursor is not None
            assert job_state.cursor >= before.cursor
        if isinstance(line, Began) and not line.by_hand:
            assert job_state.cursor is not None
            assert job_state.cursor >= line.scheduled_at
        assert job_state.ran - before.ran in (
            {0, 1} if not isinstance(line, Armed) else {-before.ran}
        )


@given(st.lists(st.integers(1, 40), max_size=4))
def test_every_run_stays_or_is_given_back(sizes: list[int]) -> None:
    """A run that left without being named leaves a session that nobody deletes."""
    job_state, gone, made = JobState(), 0, 0
    for size in sizes:
        batch = [
            Misfire(at=DAWN, first=DAWN, scheduled_at=DAWN, count=made + index)
            for index in range(1, size + 1)
        ]
        folded = fold_all(job_state, batch)
        made += size

        assert [run.misfired for run in folded.gone] == list(
            range(gone + 1, max(gone, made - RECENT) + 1)
        )
        job_state, gone = folded.job_state, gone + len(folded.gone)
    assert [run.misfired for run in job_state.recent] == list(range(gone + 1, made + 1))
