"""What can happen to a job, and what follows from it. Pure: no IO, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.codec import Count, Timestamp, Value
from everturn_gateway.scheduler.jobs import JobState, Run, RunOutcome, Span
from everturn_gateway.scheduler.rules.cron import TICK
from everturn_gateway.scheduler.rules.spans import joined, merged, without

SPANS: Final = 32  # stretches of a kind that are remembered; of what was missed, the longest ones
RECENT: Final = 50  # runs that are finished; what came before them is forgotten


# --- records -------------------------------------------------------------------------------------


class _Line(Value, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    at: Timestamp
    "When it was written down, UTC; of `Kept`, when the last of the lines before was."


class Armed(_Line, frozen=True, kw_only=True):
    """The times of the job are new: what was before does not count for them."""

    schedule: str
    "Names the times."
    since: Timestamp
    "No run is older."


class Began(_Line, frozen=True, kw_only=True):
    """A run is about to be tried."""

    scheduled_at: Timestamp
    attempt: Count = 1
    by_hand: bool = False


class Accepted(_Line, frozen=True, kw_only=True):
    """The task of an open run is in a session, durably."""

    scheduled_at: Timestamp
    session_id: str
    seq: Count


class Finished(_Line, frozen=True, kw_only=True):
    """An open run came to its end."""

    scheduled_at: Timestamp
    outcome: RunOutcome
    turn: Count = 0
    error: str = ""


class Misfire(_Line, frozen=True, kw_only=True):
    """Runs were passed over."""

    first: Timestamp
    "The oldest of them."
    scheduled_at: Timestamp
    "The newest of them."
    count: Count
    error: str = ""
    "Why."


class Paused(_Line, frozen=True, kw_only=True):
    """Somebody paused the job."""

    in_file: bool = False
    "By its definition."


class Resumed(_Line, frozen=True, kw_only=True):
    """Somebody let it go on, with what comes due from now on."""

    in_file: bool = False
    "By its definition."


class Cancelled(_Line, frozen=True, kw_only=True):
    """The job was called off, or is gone."""


class Rebased(_Line, frozen=True, kw_only=True):
    """The clock was set back: runs are settled up to another instant than before.

    Those that were said to be missed beyond that instant were not: the clock had been ahead.
    """

    cursor: Timestamp
    anchor: Timestamp | None = None
    "Where the clock stands before the moment since which there is the job: since when it is now."


Record: TypeAlias = (
    Armed | Began | Accepted | Finished | Misfire | Paused | Resumed | Cancelled | Rebased
)
"What happened to a job."


class Kept(_Line, frozen=True, kw_only=True):
    """What a shortened log begins with: all that the lines before said."""

    job_state: JobState


Line: TypeAlias = Record | Kept
"What a line of a run log says."


# --- what follows from them ----------------------------------------------------------------------


def fold(job_state: JobState, line: Line) -> JobState:
    """Return how far a job is after `line`.

    Every line has a meaning: what cannot be where it stands, such as the end of a run that
    is not open, changes nothing, or no more than how far the runs are settled.
    """
    return fold_all(job_state, (line,)).job_state


class Folded(Struct, frozen=True, kw_only=True):
    """What follows from some lines."""

    job_state: JobState
    gone: tuple[Run, ...]
    "The runs that `recent` had no room for any more, oldest first."


def fold_all(job_state: JobState, lines: Iterable[Line]) -> Folded:
    """Return how far a job is after `lines`; see `fold`."""
    draft = Draft(job_state)
    for line in lines:
        draft.apply(line)
    return draft.result()


class _Open(Struct, kw_only=True):
    """A run that is under way."""

    scheduled_at: datetime
    started_at: datetime
    attempt: int
    by_hand: bool
    session_id: str = ""
    seq: int = 0

    def run(self) -> Run:
        return Run(
            scheduled_at=self.scheduled_at,
            started_at=self.started_at,
            attempt=self.attempt,
            by_hand=self.by_hand,
            session_id=self.session_id,
            seq=self.seq,
        )

    def finished(self, line: Finished) -> Run:
        return replace(
            self.run(),
            outcome=line.outcome,
            turn=line.turn,
            error=line.error,
            finished_at=line.at,
        )


class Draft:
    """A state of a job that is being written.

    It is changed in place: a log has hundreds of lines, and a gateway many logs.
    """

    __slots__ = (
        "_anchor",
        "_armed",
        "_cancelled",
        "_cursor",
        "_left_out",
        "_open",
        "_paused",
        "_paused_in_file",
        "_ran",
        "_recent",
        "_resolved",
        "_schedule",
        "_skipped",
    )

    def __init__(self, job_state: JobState) -> None:
        self._take(job_state)

    def _take(self, job_state: JobState) -> None:
        self._schedule, self._anchor = job_state.schedule, job_state.anchor
        self._cursor, self._ran = job_state.cursor, job_state.ran
        self._armed = job_state.armed
        self._skipped, self._resolved = job_state.skipped, job_state.resolved
        self._left_out = job_state.left_out
        self._paused, self._paused_in_file = job_state.paused, job_state.paused_in_file
        self._cancelled = job_state.cancelled
        self._recent = list(job_state.recent)
        self._open = {
            run.scheduled_at: _Open(
                scheduled_at=run.scheduled_at,
                started_at=run.started_at,
                attempt=run.attempt,
                by_hand=run.by_hand,
                session_id=run.session_id,
                seq=run.seq,
            )
            for run in job_state.open
        }

    def result(self) -> Folded:
        """Return what follows from all lines so far."""
        job_state = JobState(
            schedule=self._schedule,
            anchor=self._anchor,
            cursor=self._cursor,
            armed=self._armed,
            skipped=self._skipped,
            left_out=self._left_out,
            resolved=self._resolved,
            ran=self._ran,
            open=tuple([run.run() for run in self._open.values()]),
            recent=tuple(self._recent[-RECENT:]),
            paused=self._paused,
            paused_in_file=self._paused_in_file,
            cancelled=self._cancelled,
        )
        return Folded(job_state=job_state, gone=tuple(self._recent[:-RECENT]))

    def apply(self, line: Line) -> None:
        """Go on with one more line; see `fold`."""
        match line:
            case Began():
                self._begin(line)
            case Accepted():
                run = self._open.get(line.scheduled_at)
                if run is not None:
                    run.session_id, run.seq = line.session_id, line.seq
            case Finished():
                run = self._open.pop(line.scheduled_at, None)
                if run is not None:
                    self._recent.append(run.finished(line))
            case Misfire():
                self._miss(line)
            case Armed():
                self._schedule = line.schedule
                self._anchor = self._armed = self._cursor = line.since
                self._skipped = self._left_out = self._resolved = ()
                # Who paused a job does not expect that an edit of its times lets it run.
                self._paused = self._paused and not self._cancelled
                self._ran, self._cancelled = 0, False
            case Paused(in_file=in_file):
                self._pause(in_file=in_file, paused=True)
            case Resumed(in_file=in_file):
                self._pause(in_file=in_file, paused=False)
                self._leave_out(line.at)
            case Cancelled():
                self._cancelled = True
            case Rebased():
                self._rebase(line)
            case Kept():
                self._take(line.job_state)
            case _:
                assert_never(line)

    def _pause(self, *, in_file: bool, paused: bool) -> None:
        if in_file:
            self._paused_in_file = paused
        else:
            self._paused = paused

    def _settle(self, scheduled_at: datetime) -> None:
        """Runs up to `scheduled_at` need not be looked at any more."""
        if self._cursor is None or self._cursor < scheduled_at:
            self._cursor = scheduled_at
            self._resolved = tuple([each for each in self._resolved if each.ends > scheduled_at])

    def _skip(self, line: Misfire) -> None:
        """Remember which runs were missed."""
        missed = without(Span(begins=line.first - TICK, ends=line.scheduled_at), self._resolved)
        skipped = joined((*self._skipped, *missed))
        longest = sorted(skipped, key=lambda each: each.ends - each.begins)[-SPANS:]
        self._skipped = tuple([each for each in skipped if each in longest])

    def _leave_out(self, until: datetime) -> None:
        """Pass over what nobody misses."""
        if self._cursor is not None and self._cursor < until:
            self._left_out = without(Span(begins=self._cursor, ends=until), self._resolved)
        self._settle(until)

    def _catch_up(self, now: datetime) -> None:
        """Leave out what is older than the job, by a clock that has come to its arming again."""
        if self._armed is not None and now >= self._armed:
            self._leave_out(self._armed)

    def _rebase(self, line: Rebased) -> None:
        back, cursor, anchor = line.cursor, self._cursor, self._anchor
        if cursor is not None and anchor is not None and back < cursor:
            # What was passed over beyond is still to come; all else there has run.
            gaps = (*self._skipped, *self._left_out, Span(begins=back, ends=anchor))
            ran = without(Span(begins=back, ends=cursor), gaps)
            self._resolved = merged(joined((*self._resolved, *ran)), SPANS)
            self._skipped = _before(back, self._skipped)
            self._left_out = _before(back, self._left_out)
            self._anchor = min(anchor, line.anchor or back)
        self._cursor = back
        self._recent = [
            run for run in self._recent if run.outcome != "misfired" or run.scheduled_at <= back
        ]

    def _begin(self, line: Began) -> None:
        if not line.by_hand:
            self._catch_up(line.at)
            self._settle(line.scheduled_at)
        known = self._open.get(line.scheduled_at)
        if known is None:
            self._ran += not line.by_hand and line.attempt == 1
            self._open[line.scheduled_at] = _Open(
                scheduled_at=line.scheduled_at,
                started_at=line.at,
                attempt=line.attempt,
                by_hand=line.by_hand,
            )
        elif line.attempt > known.attempt:
            # Where the try before ran still says where to look, until this one is somewhere.
            known.attempt, known.seq = line.attempt, 0

    def _miss(self, line: Misfire) -> None:
        self._skip(line)
        self._catch_up(line.at)
        self._settle(line.scheduled_at)
        self._recent.append(
            Run(
                scheduled_at=line.scheduled_at,
                started_at=line.at,
                outcome="misfired",
                error=line.error,
                finished_at=line.at,
                misfired=line.count,
                first_misfired=line.first,
            )
        )


def _before(scheduled_at: datetime, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return what of some spans is not after an instant."""
    return joined([replace(each, ends=min(each.ends, scheduled_at)) for each in spans])
