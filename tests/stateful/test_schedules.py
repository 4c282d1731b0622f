"""Scheduled jobs against clocks, people and crashes: each run is settled, and settled once.

Hypothesis plays the clock, the files, the people and the crashes around a real scheduler and a real
service. All that ever comes into a run log is held against the definitions that were in force: what
began was due, what was due began or was passed over for a reason, nothing came to its end twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.crashing import Moment
from support.examples import examples
from support.lives import Lives, Process
from support.schedule_accounts import Account, Force
from support.schedule_left import left_by, standing_in
from support.ticking import Live

from everturn_actors.state.serialization import utc_text
from everturn_gateway.errors import GatewayError
from everturn_gateway.scheduler.jobs import Job, JobState
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import Began

NAMES = ("a", "b", "c")
BEGINS = ("2026-10-24T22:50:00+00:00", "2026-03-29T00:30:00+00:00", "2026-11-23T08:59:59+00:00")
CRONS = (
    ("30 2 * * *", "Europe/Berlin"),
    ("*/15 * * * *", "Europe/Berlin"),
    ("0 * * * *", "America/New_York"),
    ("0 9 * * mon-fri", "Asia/Shanghai"),
    ("0 0 1 * *", "UTC"),
)
SPANS_S = (1, 10, 30, 900, 900, 3_600, 3_600, 5 * 3_600, 9 * 86_400)
TEXTS = ("Think.", "It fails once.", "It always fails.")
MOMENTS: tuple[Moment, ...] = ("before", "half", "after")

TRIES_MAX = 100  # all that can be under way when nothing new comes due

names = st.sampled_from(NAMES)
spans = st.sampled_from(SPANS_S)


@st.composite
def definitions(draw: st.DrawFn, now: datetime) -> dict[str, object]:
    """Draw the fields of a job's file."""
    fields: dict[str, object] = {}
    match draw(st.sampled_from(["at", "every", "every", "cron", "cron"])):
        case "at":
            from_now = timedelta(seconds=draw(st.sampled_from([-3_600, *SPANS_S])))
            fields["at"] = (now + from_now).isoformat()
        case "every":
            fields["every"] = draw(st.sampled_from([900, 3_600, 25_000]))
        case _:
            fields["cron"], fields["timezone"] = draw(st.sampled_from(CRONS))
    if draw(st.booleans()):
        fields["task"] = draw(st.sampled_from(TEXTS))
        fields["session"] = draw(st.sampled_from(["conversation", "isolated"]))
        fields["retries"] = {"max": draw(st.integers(0, 1)), "backoff_seconds": 10}
    # The newest 50 runs are known when the clock goes back: no more can be in time.
    fields["misfire"] = draw(st.sampled_from(["run_all", "run_all", "run_once", "skip"]))
    fields["grace_seconds"] = draw(st.sampled_from([6 * 3_600, 3_600, 3_600, 10]))
    fields["jitter_seconds"] = draw(st.sampled_from([0, 0, 0, 300]))
    if draw(st.integers(0, 3)) == 0:
        fields["max_runs"] = draw(st.integers(1, 3))
    if draw(st.integers(0, 5)) == 0:
        fields["end"] = (now + timedelta(days=2)).isoformat()
    if draw(st.integers(0, 7)) == 0:
        fields["paused"] = True
    return fields


def is_held(job: Job, job_state: JobState, why: str) -> bool:
    """Whether nothing of a job may begin, or go on by itself after a restart."""
    return bool(why) or job.paused or job_state.paused


class Schedules(RuleBasedStateMachine):
    """The jobs of one gateway, whatever happens around them."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.portal = self.closing.enter_context(start_blocking_portal())
        self.place = Path(tempfile.mkdtemp())
        self.closing.callback(shutil.rmtree, self.place)
        self.accounts: dict[str, Account] = {}
        self.checked = 0
        "So many records are in `accounts`."
        self.held: set[str] = set()
        "Jobs of which nothing might begin when that was looked at the last time."
        self.life = ExitStack()
        self.process: Process | None = None

    @initialize(begins=st.sampled_from(BEGINS), data=st.data())
    def it_begins(self, begins: str, data: st.DataObject) -> None:
        self.lives = Lives(self.place / "schedules", begins, (), model_takes_s=7)
        self.clock = self.lives.clock
        for name in NAMES:
            self.write(name, data.draw(definitions(self.clock.now()), label=name))
        self.begin()

    def begin(self) -> None:
        """Start the gateway."""
        self.process = self.life.enter_context(
            self.portal.wrap_async_context_manager(self.lives.process())
        )
        self.live: Live = self.life.enter_context(
            self.portal.wrap_async_context_manager(self.lives.world.opened())
        )
        self.portal.call(self.process.settle)
        self.check()

    def stop(self) -> None:
        """Stop it, or leave what is left of it."""
        self.life.close()
        self.life = ExitStack()

    def teardown(self) -> None:
        """Bring everything to its end, and look at what people got."""
        try:
            if self.process is not None:
                self.lives.world.shelf.agents = ("test",)
                self.do_now(self.lives.world.shelf.changed)
                for _ in range(TRIES_MAX):
                    if not self.is_any_open():
                        break
                    self.clock_goes_on(20)
                assert not self.is_any_open(), "a run never comes to its end"
                self.stop()
                self.check_people()
        finally:
            self.stop()
            self.closing.close()

    def is_any_open(self) -> bool:
        """Whether some run of a job that can run is under way."""
        return any(
            job_state.open and not is_held(job, job_state, why)
            for job, job_state, why in self.found()
        )

    def do_now(self, act: Callable[[], object]) -> None:
        """Do something that needs no time; see `do`."""

        async def work() -> None:
            act()

        self.do(work)

    def do(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do something, and wait until all that follows is done; check what came of it."""
        process = self.process
        assert process is not None

        async def do() -> None:
            async with anyio.create_task_group() as tasks:

                async def work() -> None:
                    with suppress(GatewayError):  # it is refused, or there is no such job
                        await act()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(work)
                await process.ended.wait()
                tasks.cancel_scope.cancel()
            await process.settle()

        self.portal.call(do)
        if process.ended.is_set():
            self.stop()
            self.begin()
        else:
            self.check()

    # --- what happens ---

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        moves: dict[Callable[[st.DataObject], None], int] = {
            self.time_passes: 6,
            self.time_passes_while_it_is_down: 2,
            self.the_clock_is_set_back: 1,
            self.it_crashes: 1,
            self.it_will_crash: 4,
            self.a_job_is_written: 3,
            self.a_file_is_removed: 1,
            self.a_file_is_spoilt_for_a_while: 1,
            self.somebody_acts: 5,
            self.its_agent_goes_and_comes: 1,
        }
        ways = [move for move, times in moves.items() for _ in range(times)]
        data.draw(st.sampled_from(ways), label="move")(data)

    def time_passes(self, data: st.DataObject) -> None:
        """Wait, at once or bit by bit."""
        span_s = data.draw(spans, label="span")
        for _ in range(data.draw(st.sampled_from([1, 1, 3]), label="times")):
            self.clock_goes_on(span_s)

    def clock_goes_on(self, span_s: float) -> None:
        """Let some time pass."""
        self.do_now(partial(self.clock.advance, span_s))

    def time_passes_while_it_is_down(self, data: st.DataObject) -> None:
        """Stop, and start later, or what the clock says is later."""
        self.stop()
        span_s = data.draw(spans, label="span")
        if data.draw(st.integers(0, 4), label="set back") == 0:
            span_s = -span_s
        self.clock.set(self.clock.now() + timedelta(seconds=span_s))
        self.begin()

    def the_clock_is_set_back(self, data: st.DataObject) -> None:
        """Correct a clock that was ahead."""
        span_s = data.draw(spans, label="span")
        self.do_now(partial(self.clock.set, self.clock.now() - timedelta(seconds=span_s)))

    def it_crashes(self, _data: st.DataObject) -> None:
        """End the process now."""
        assert self.process is not None
        self.do_now(self.process.end)

    def it_will_crash(self, data: st.DataObject) -> None:
        """End the process at one of the next writes."""
        assert self.process is not None
        number = data.draw(st.integers(1, 6), label="write")
        moment = data.draw(st.sampled_from(MOMENTS), label="moment")
        self.process.at = (len(self.process.writes) + number, moment)

    def a_job_is_written(self, data: st.DataObject) -> None:
        """Write a file, of a new job or an old one."""
        name = data.draw(names, label="name")
        self.write(name, data.draw(definitions(self.clock.now()), label="fields"))
        self.tell_of_files()

    def write(self, name: str, fields: dict[str, object]) -> None:
        """Write a file at the time that the clock shows."""
        path = self.lives.world.write(name, **fields)
        age_s = 0 if "at" in fields else 3600  # as one that is copied there
        written = self.clock.now().timestamp() - age_s
        os.utime(path, (written, written))

    def a_file_is_removed(self, data: st.DataObject) -> None:
        """Take one away."""
        name = data.draw(names, label="name")
        (self.lives.world.folder / f"{name}.yaml").unlink(missing_ok=True)
        self.tell_of_files()

    def a_file_is_spoilt_for_a_while(self, data: st.DataObject) -> None:
        """Write a fault into one, and set it right."""
        path = self.lives.world.folder / f"{data.draw(names, label='name')}.yaml"
        if not path.exists():
            return
        text, written = path.read_text(), path.stat().st_mtime
        path.write_text(text + "cron: [\n")
        self.tell_of_files()
        if data.draw(st.booleans(), label="crash"):
            self.it_crashes(data)
        self.clock_goes_on(30)
        path.write_text(text)
        os.utime(path, (written, written))
        self.tell_of_files()

    def tell_of_files(self) -> None:
        """Let the gateway notice that a file has changed."""
        assert self.process is not None
        self.do_now(self.process.tell_of_files)

    def somebody_acts(self, data: st.DataObject) -> None:
        """Pause a job, let it go on, run it, or call it off."""
        name = data.draw(names, label="name")
        scheduler = self.live.scheduler
        acts = (scheduler.pause, scheduler.resume, scheduler.resume, scheduler.run_now)
        act = data.draw(st.sampled_from([*acts, scheduler.cancel]), label="act")

        async def work() -> None:
            self.clock.advance(1.000_001)  # so that it is no instant of its own
            await act(name)

        self.do(work)

    def its_agent_goes_and_comes(self, _data: st.DataObject) -> None:
        """Take the agent away, or bring it back."""
        shelf = self.lives.world.shelf
        shelf.agents = () if shelf.agents else ("test",)
        self.do_now(shelf.changed)

    # --- what has to be true ---

    def check(self) -> None:
        """Check what was written down since the last time, and how far each job is."""
        found = self.found()
        for job, job_state, _why in found:
            account = self.accounts.setdefault(job.job_id, Account())
            if job_state.anchor is not None:
                force = Force(job, job_state.anchor)
                if force not in account.forces:
                    account.forces.append(force)
        records = self.lives.past.records
        held = {job.job_id for job, job_state, why in found if is_held(job, job_state, why)}
        for job_id, record in records[self.checked :]:
            if job_id in held & self.held and isinstance(record, Began):
                assert record.by_hand or record.attempt > 1, "it begins and is paused, or waits"
            self.accounts.setdefault(job_id, Account()).take(record)
        self.checked, self.held = len(records), held
        now = self.clock.now()
        for job, job_state, why in found:
            path = self.lives.world.folder / "runs" / f"{job.job_id}.jsonl"
            if path.exists():
                assert job_state == standing_in(path), "memory and file differ"
            if is_held(job, job_state, why):
                assert job_state.paused_in_file or not job.paused or job_state.anchor is None
                continue
            dispatcher = self.live.scheduler.dispatcher
            for run in job_state.open:
                is_tried = dispatcher.attempts.is_in_hand(job.job_id, run.scheduled_at)
                assert is_tried or dispatcher.is_busy(job.job_id), "nobody goes on with what began"
            if job_state.anchor is not None:
                limit = now + timedelta(seconds=5)
                assert job_state.anchor <= limit, "it counts from the future"
                self._check_standing(job, job_state)
                if not job_state.open:
                    self._check_settled(job, job_state, job_state.anchor, now)

    def _check_standing(self, job: Job, job_state: JobState) -> None:
        """Check what is known of a job that can run against its definition and its past."""
        assert job_state.schedule == rules.schedule_name(job), "its times are those of another one"
        assert not job_state.paused_in_file, "its definition does not pause it any more"
        assert job_state.ran == self.accounts[job.job_id].ran, "it counts what is no run of its own"

    def found(self) -> list[tuple[Job, JobState, str]]:
        """Return all jobs, how far they are, and why they cannot run; nothing moves meanwhile."""
        views = self.live.scheduler.jobs()
        return [(view.job, view.job_state, view.why) for view in views]

    def _check_settled(
        self, job: Job, job_state: JobState, anchor: datetime, now: datetime
    ) -> None:
        """Check that all that was due of a job was begun, or passed over for a reason."""
        account = self.accounts[job.job_id]
        assert account.resolved is not None
        if job.max_runs is not None and job_state.ran >= job.max_runs:
            return
        if job_state.armed is not None and now >= job_state.armed:
            account.resolved = max(account.resolved, job_state.armed)
        until = now - timedelta(seconds=job.jitter_s)
        for scheduled_at in Force(job, anchor).between(account.resolved, until):
            assert account.is_accounted_for(scheduled_at), f"{utc_text(scheduled_at)} is lost"
        account.resolved = max(account.resolved, until)

    def check_people(self) -> None:
        """Check that each was told once."""
        left = left_by(self.lives)
        assert set(left.received.values()) <= {1}, "a task was handed in twice"
        assert set(left.announced.values()) <= {1}, "something was said twice"
        for job_id, account in self.accounts.items():
            for scheduled_at, end in account.ended.items():
                name = f"schedule:{job_id}:{utc_text(scheduled_at)}"
                if end.outcome == "sent":
                    assert left.announced[f"{name}:said"], "a message was not said"
                if end.outcome == "answered":
                    tries = [key for key in left.received if key.startswith(f"{name}:")]
                    assert tries, "a task was not handed in"


Schedules.TestCase.settings = examples(12, steps=25)
TestSchedules = Schedules.TestCase
