"""The scheduler over real files and a real service: what runs when, once, across restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest
from support.patience import WAIT_S
from support.tables import table
from support.ticking import CHAT, WallClock, World, at, refusal

from everturn_actors.model import IncomingMessage
from everturn_actors.testing import ManualClock
from everturn_gateway.channels.running import LaterDeliveryPort
from everturn_gateway.scheduler.definitions.job_store import CANCELLED_KEPT, JobStore
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import JobFixedError, JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.job_runner import WebhookError
from everturn_gateway.scheduler.jobs import At, JobView, Made, RunTask
from everturn_gateway.scheduler.run_attempts import RUNNING_TASKS
from everturn_gateway.scheduler.run_logs.files import RunLogError

DAY_S = 86_400
NINE = at("2026-11-23T09:00:00+00:00")  # a Monday
DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}


def world_at(tmp_path: Path, scheduled_at: str) -> World:
    """Return a world whose clock shows an instant, with a chat platform that takes nothing yet."""
    return World(
        folder=tmp_path / "schedules",
        clock=ManualClock(at(scheduled_at)),
        delivery_ports={"test": LaterDeliveryPort()},
    )


def log_lines(world: World, job_id: str) -> list[dict[str, object]]:
    """Return what stands in a run log."""
    path = world.folder / "runs" / f"{job_id}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def has_run(times: int, view: JobView) -> bool:
    """Return whether a job has run so often, and is done with it."""
    return view.job_state.ran == times and not view.job_state.open


async def test_a_message_is_said_at_its_instant_and_no_model_is_called(tmp_path: Path) -> None:
    """The plainest job: a reminder in a chat."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("standup", message="Stand-up!", label="Stand-up", **DAILY)

    async with world.opened() as live:
        assert live.scheduler.job("standup").next_at == NINE
        await live.clock.until_sleeping(30)
        live.clock.advance(3599)
        await live.clock.until_sleeping(30)
        assert not live.scheduler.job("standup").job_state.recent
        live.clock.advance(1)
        (run,) = await live.runs("standup", 1)

        assert (run.scheduled_at, run.outcome) == (NINE, "sent")
        assert await live.said() == ("Stand-up!",)
        assert not world.provider.requests


async def test_a_task_is_a_turn_in_the_chat_and_its_answer_is_owed_there(tmp_path: Path) -> None:
    """The conversation knows what was asked, and its people get what came of it."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.write("digest", task="Sum up the news.", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        (run,) = await live.runs("digest", 1)

        assert (run.outcome, run.turn, run.attempt) == ("answered", 1, 1)
        assert run.session_id == await live.service.conversations.current(CHAT)
        assert await live.said() == ("reply 1",)
        (request,) = world.provider.requests
        asked = request.messages[-1]
        assert "digest" in asked.text
        assert asked.text.endswith("Sum up the news.")


async def test_an_isolated_task_has_a_session_of_its_own_and_announces_in_the_chat(
    tmp_path: Path,
) -> None:
    """What the task read does not fill the chat's history; the chat is told the result, once."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.write("digest", task="Sum up.", session="isolated", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        (run,) = await live.runs("digest", 1)

        own = await live.service.view(run.session_id)
        assert own.key.channel == "schedule"
        assert await live.said() == ("reply 1",)
        chat = await live.service.view(await live.service.conversations.current(CHAT))
        assert not chat.held_turns
        answer = await live.service.submit(IncomingMessage(text="What was that?", key=CHAT))
        await answer.result()
        told = world.provider.requests[-1].messages[-1].text
        assert "reply 1" in told
        assert "digest" in told


async def test_cr_01_run_once_makes_up_for_what_was_missed_while_down(tmp_path: Path) -> None:
    """08:30 in New York, down from 08:29:47 to 08:31:05."""
    world = world_at(tmp_path, "2026-11-23T08:00:00-05:00")
    world.write("run", cron="30 8 * * *", timezone="America/New_York")
    world.write("skip", cron="30 8 * * *", timezone="America/New_York", misfire="skip")

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(29 * 60 + 47)
    live.clock.advance(78)
    async with world.opened() as live:
        (made_up,) = await live.runs("run", 1)
        (passed,) = await live.runs("skip", 1)

        assert (made_up.scheduled_at, made_up.outcome) == (at("2026-11-23T08:30:00-05:00"), "sent")
        assert (passed.outcome, passed.misfired) == ("misfired", 1)
        assert live.scheduler.job("skip").next_at == at("2026-11-24T08:30:00-05:00")
        assert await live.said() == ("Now.",)


async def test_cr_03_a_restart_at_night_does_not_run_what_is_due_in_the_morning(
    tmp_path: Path,
) -> None:
    """`0 9 * * *` in Shanghai, restarted at 01:24 there."""
    world = world_at(tmp_path, "2026-11-23T08:59:00+08:00")
    world.write("morning", cron="0 9 * * *", timezone="Asia/Shanghai")
    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(60)
        await live.runs("morning", 1)
        live.clock.advance(16 * 3600 + 24 * 60)

    async with world.opened() as live:
        view = live.scheduler.job("morning")

        assert view.next_at == at("2026-11-24T09:00:00+08:00")
        assert len(view.job_state.recent) == 1


async def test_cr_05_a_one_shot_that_was_moved_runs_at_its_new_time_only(tmp_path: Path) -> None:
    """Moved from 08:45 to 23:27 while the gateway was down; the old time has passed meanwhile."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("once", at="2026-11-23T08:45:00+00:00")
    async with world.opened():
        pass
    world.write("once", at="2026-11-23T23:27:00+00:00")
    world.clock.advance(2 * 3600)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        assert not live.scheduler.job("once").job_state.recent
        live.clock.advance(13 * 3600 + 27 * 60)
        (run,) = await live.runs("once", 1)

        assert run.scheduled_at == at("2026-11-23T23:27:00+00:00")
        assert live.scheduler.job("once").state == "done"
        assert await live.said() == ("Now.",)


async def test_cr_06_one_run_for_all_that_a_sleep_left_behind(tmp_path: Path) -> None:
    """The machine sleeps over five due instants of an hourly job."""
    world = world_at(tmp_path, "2026-11-23T08:30:00+00:00")
    world.write("hourly", cron="0 * * * *", timezone="UTC")

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(5 * 3600)
        passed, ran = await live.runs("hourly", 2)

        assert (passed.outcome, passed.misfired) == ("misfired", 4)
        assert (ran.scheduled_at, ran.outcome) == (at("2026-11-23T13:00:00+00:00"), "sent")
        assert await live.said() == ("Now.",)


async def test_run_all_runs_each_within_its_grace(tmp_path: Path) -> None:
    """A job that must not leave one out, as long as it is not too old."""
    world = world_at(tmp_path, "2026-11-23T08:30:00+00:00")
    world.write("all", cron="0 * * * *", timezone="UTC", misfire="run_all", grace_seconds=3 * 3600)
    async with world.opened():
        pass
    world.clock.advance(5 * 3600)

    async with world.opened() as live:
        runs = await live.runs("all", 4)

        assert [(run.scheduled_at.hour, run.outcome) for run in runs] == [
            (10, "misfired"),
            (11, "sent"),
            (12, "sent"),
            (13, "sent"),
        ]
        assert runs[0].misfired == 2


async def test_what_began_before_a_stop_is_finished_after_it_and_asked_once(
    tmp_path: Path,
) -> None:
    """CR-04: a one-shot whose turn was cut short is answered, and its message stands there once."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.write("once", at="2026-11-23T09:00:00+00:00", task="Think.")
    world.provider.hold()
    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await world.provider.until_called()
    world.provider.release()

    async with world.opened() as live:
        (run,) = await live.runs("once", 1)
        state = await live.service.view(run.session_id)

        assert run.outcome == "answered"
        assert state.turns == 1
        assert await live.said() == ("reply 2",)
        assert [line["kind"] for line in log_lines(world, "once")] == [
            "armed",
            "began",
            "accepted",
            "finished",
        ]


async def test_a_task_that_fails_is_tried_again_and_reported_when_all_tries_failed(
    tmp_path: Path,
) -> None:
    """A one-shot is recorded as failed, its people are told once, and not of every try."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.provider.script = [refusal(), refusal()]
    retries = {"max": 1, "backoff_seconds": 10}
    world.write("once", at="2026-11-23T09:00:00+00:00", task="Think.", retries=retries)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await live.until("once", lambda view: view.job_state.open[:1] != ())
        await world.provider.until_called(1)
        await live.clock.until_sleeping(12)
        live.clock.advance(12)
        (run,) = await live.runs("once", 1)

        assert (run.outcome, run.attempt) == ("failed", 2)
        assert "refused" in run.error
        (line,) = await live.said()
        assert "once" in line
        assert "refused" in line
        assert live.scheduler.job("once").state == "done"


async def test_a_recurring_job_that_fails_keeps_its_next_run_and_complains_once(
    tmp_path: Path,
) -> None:
    """D8: a failed run must not end the job; a chat is not told of the same outage each day."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.provider.script = [refusal(), refusal()]
    world.write("daily", task="Think.", retries={"max": 0}, **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await live.runs("daily", 1)
        await live.clock.until_sleeping(30)
        live.clock.advance(DAY_S)
        await live.runs("daily", 2)
        await live.clock.until_sleeping(30)
        live.clock.advance(DAY_S)
        runs = await live.runs("daily", 3)

        assert [run.outcome for run in runs] == ["failed", "failed", "answered"]
        assert len(await live.said()) == 2  # one complaint, one answer
        assert live.scheduler.job("daily").next_at == NINE + timedelta(days=3)


async def test_every_counts_from_when_it_was_first_seen_and_does_not_drift(tmp_path: Path) -> None:
    """D20: neither a slow run nor a restart moves the instants."""
    world = world_at(tmp_path, "2026-11-23T09:00:00+00:00")
    world.write("tick", every=600)
    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(607)
        await live.runs("tick", 1)
    world.clock.advance(400)

    async with world.opened() as live:
        view = live.scheduler.job("tick")

        assert view.job_state.recent[0].scheduled_at == at("2026-11-23T09:10:00+00:00")
        assert view.next_at == at("2026-11-23T09:20:00+00:00")


async def test_a_webhook_gets_the_result_with_a_name_and_is_tried_again(tmp_path: Path) -> None:
    """The receiver can tell a repeat from a new result."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.postbox.failures = [WebhookError("status 503")]
    retries = {"max": 1, "backoff_seconds": 10}
    to = {"webhook": "https://hooks.example/secret"}
    world.write("hook", task="Sum up.", to=to, retries=retries, **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await world.provider.until_called(1)
        await live.clock.until_sleeping(12)
        live.clock.advance(12)
        (run,) = await live.runs("hook", 1)

        assert run.outcome == "answered"
        (post,) = world.postbox.posts
        assert post.data["text"] == "reply 1"
        assert post.key == "schedule:hook:2026-11-23T09:00:00.000000Z:said"
        assert "secret" not in json.dumps(log_lines(world, "hook"))


async def test_a_paused_job_does_not_run_and_goes_on_with_what_comes_after(tmp_path: Path) -> None:
    """Also across a restart: a pause is durable, and what it left out is not made up for."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("daily", **DAILY)
    async with world.opened() as live:
        await live.scheduler.pause("daily")
    world.clock.advance(DAY_S)

    async with world.opened() as live:
        assert live.scheduler.job("daily").state == "paused"
        await live.scheduler.resume("daily")

        view = live.scheduler.job("daily")
        assert (view.state, view.next_at) == ("scheduled", NINE + timedelta(days=1))
        assert not view.job_state.recent


async def test_a_job_can_be_run_by_hand_beside_its_times(tmp_path: Path) -> None:
    """Trying a job out takes nothing from what is scheduled."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("daily", max_runs=1, **DAILY)

    async with world.opened() as live:
        begun = await live.scheduler.run_now("daily")
        run = await live.scheduler.wait("daily", begun.scheduled_at)

        assert (run.outcome, run.by_hand) == ("sent", True)
        view = live.scheduler.job("daily")
        assert (view.state, view.next_at, view.job_state.ran) == ("scheduled", NINE, 0)


async def test_a_cancelled_job_leaves_its_file_and_its_past(tmp_path: Path) -> None:
    """Nothing is lost by calling a job off; a new one of that id begins anew."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    path = world.write("daily", **DAILY)
    text = path.read_text()

    async with world.opened() as live:
        await live.scheduler.cancel("daily")

        with pytest.raises(UnknownJobError):
            live.scheduler.job("daily")
        assert not path.exists()
        assert (world.folder / "cancelled" / "daily.yaml").read_text() == text
        assert log_lines(world, "daily")[-1]["kind"] == "cancelled"


async def test_jobs_of_agents_are_theirs_to_change(tmp_path: Path) -> None:
    """Cancelling one by command would come back with the next reload; it can be paused."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    path = world.write("daily", **DAILY)
    async with world.opened(serve=False) as live:
        job = live.scheduler.job("daily").job
    path.unlink()
    made = {"job_id": "test.daily", "made": Made(by="agent")}
    world.shelf.own = (type(job)(**{name: getattr(job, name) for name in job.__slots__} | made),)

    async with world.opened() as live:
        with pytest.raises(JobFixedError, match="pause"):
            await live.scheduler.cancel("test.daily")
        await live.scheduler.pause("test.daily")

        assert live.scheduler.job("test.daily").state == "paused"


async def test_a_bad_file_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    """It stays as it is, is named with its line, and runs when it is right again."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.write("good", **DAILY)
    bad = world.write("bad", cron="0 9 30 2 *", timezone="UTC")
    text = bad.read_text()

    async with world.opened() as live:
        (fault,) = live.scheduler.faults()
        assert (fault.file, fault.field) == (bad, "cron")
        assert fault.line
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await live.runs("good", 1)

        assert bad.read_text() == text


async def test_a_job_whose_agent_or_channel_is_missing_waits_and_says_so(tmp_path: Path) -> None:
    """It runs when they are there, and what it missed by then is judged by its policy."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.shelf.agents = ()
    world.write("daily", **DAILY)
    world.write("elsewhere", to={"channel": "nowhere", "chat": "1"}, **DAILY)

    async with world.opened() as live:
        assert live.scheduler.job("daily").state == "waiting"
        await live.clock.until_sleeping(30)
        live.clock.advance(60)
        world.shelf.agents = ("test",)
        world.shelf.changed()
        (run,) = await live.runs("daily", 1)

        assert run.outcome == "sent"
        (fault,) = live.scheduler.faults()
        assert "nowhere" in fault.message


async def test_an_instant_that_was_past_when_it_was_written_is_said_to_be(tmp_path: Path) -> None:
    """It neither runs at once, which nobody asked for, nor vanishes."""
    world = world_at(tmp_path, "2027-11-23T09:00:00+00:00")
    path = world.write("old", at="2026-01-01T09:00:00+00:00")

    async with world.opened() as live:
        (fault,) = live.scheduler.faults()
        assert (fault.file, "past" in fault.message) == (path, True)
        assert live.scheduler.job("old").next_at is None


async def test_added_jobs_are_files_and_refused_ones_leave_nothing(tmp_path: Path) -> None:
    """Who adds one learns at once why it cannot be."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    section = JobSettings.model_validate(
        {
            "agent": "test",
            "every": "15m",
            "message": "Again: ${HOME}",
            "to": {"channel": "test", "chat": 42},
        }
    )
    made = Made(by="cli", at=world.clock.now())

    async with world.opened() as live:
        view = await live.scheduler.add(section, job_id="again", made=made)
        assert (view.job.made.by, view.state) == ("cli", "scheduled")
        assert "${HOME}" in (world.folder / "again.yaml").read_text()
        with pytest.raises(JobRefusedError, match="taken"):
            await live.scheduler.add(section, job_id="again", made=made)
        with pytest.raises(JobRefusedError, match="limit"):
            await live.scheduler.add(section, made=made, max_jobs=1)
        past = section.model_copy(update={"every": None, "at": "2026-11-23T07:00:00Z"})
        with pytest.raises(JobRefusedError, match="in the past"):
            await live.scheduler.add(past, made=made)
        lost = section.model_copy(update={"agent": "nobody"})
        with pytest.raises(JobRefusedError, match="nobody"):
            await live.scheduler.add(lost, made=made)

        assert [path.name for path in world.folder.glob("*.yaml")] == ["again.yaml"]


async def test_a_job_that_was_made_for_a_process_ends_with_it(tmp_path: Path) -> None:
    """A check on something that is over would run for ever; also where it ended meanwhile."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.processes = {"p1", "p2"}
    made = {"by": "tool", "at": "2026-11-23T07:00:00Z"}
    world.write("watch", every=60, process="p1", made=made)
    world.write("other", every=60, process="p2", made=made)
    async with world.opened():
        pass
    world.processes = {"p1"}

    async with world.opened() as live:
        assert [view.job.job_id for view in live.scheduler.jobs()] == ["watch"]
        await live.scheduler.process_ended("p1")

        assert not live.scheduler.jobs()


async def test_a_clock_that_was_wrong_does_not_silence_a_job_for_years(tmp_path: Path) -> None:
    """It jumps to 2030 and back: the job goes on, none runs twice, and none of 2030 was missed."""
    world = world_at(tmp_path, "2026-11-23T08:59:00+00:00")
    world.clock = clock = WallClock(NINE - timedelta(minutes=1))
    world.write("daily", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(4 * 366 * DAY_S)
        await live.runs("daily", 2)
        await live.clock.until_sleeping(30)
        clock.set(NINE - timedelta(minutes=1))
        await live.until("daily", lambda view: view.next_at == NINE)
        ran = (await live.runs("daily", 1))[0].scheduled_at
        coming = live.scheduler.coming("daily", count=4 * 366)
        assert coming[0] == NINE
        assert ran < coming[-1]
        assert ran not in coming
        await live.clock.until_sleeping(30)
        live.clock.advance(60)
        runs = await live.runs("daily", 2)

        assert [run.outcome for run in runs] == ["sent", "sent"]
        assert runs[0].scheduled_at == NINE.replace(year=2030, day=runs[0].scheduled_at.day)
        assert runs[1].scheduled_at == NINE


async def test_a_job_that_was_made_by_a_clock_that_was_ahead_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    """It is made in 2030, as it seems: it runs when it is due today, and nothing was missed."""
    world = world_at(tmp_path, "2026-11-23T08:59:00+00:00")
    world.clock = clock = WallClock(NINE.replace(year=2030))
    world.write("daily", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        clock.set(NINE - timedelta(minutes=1))
        await live.until("daily", lambda view: view.next_at == NINE)
        await live.clock.until_sleeping(30)
        live.clock.advance(60)
        runs = await live.runs("daily", 1)

    assert [(run.scheduled_at, run.outcome) for run in runs] == [(NINE, "sent")]


async def test_a_clock_that_was_behind_makes_no_misfires(tmp_path: Path) -> None:
    """It loses a day and finds it again: nothing was missed, and nothing ran before it was made."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.clock = clock = WallClock(NINE - timedelta(hours=1))
    made = clock.now()
    world.write("often", cron="* * * * *", timezone="UTC", misfire="run_all")

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(300)
        await live.runs("often", 5)
        await live.clock.until_sleeping(30)
        clock.set(made - timedelta(days=1))
        await live.clock.until_sleeping(30)
        live.clock.advance(120)
        await live.clock.until_sleeping(30)
        clock.set(made + timedelta(seconds=360))
        runs = await live.runs("often", 6)

    assert [run.outcome for run in runs] == ["sent"] * 6
    assert min(run.scheduled_at for run in runs) > made


async def test_a_file_that_changes_is_taken_over_while_it_runs(tmp_path: Path) -> None:
    """People edit schedules without restarting anything."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("daily", **DAILY)

    async with world.opened() as live:
        world.write("daily", cron="0 10 * * *", timezone="UTC")
        new = NINE + timedelta(hours=1)
        view = await live.until("daily", lambda view: view.next_at == new)

        assert view.state == "scheduled"


async def test_a_folder_that_goes_away_for_a_while_calls_nothing_off(tmp_path: Path) -> None:
    """A disk that was not there for a minute: the jobs and what is known of them are as before."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("daily", **DAILY)
    world.write("tick", every=60)
    away = tmp_path / "away"

    async with world.opened() as live:
        await live.scheduler.pause("daily")
        await live.clock.until_sleeping(30)
        world.folder.rename(away)
        live.clock.advance(60)
        await live.clock.until_sleeping(30)
        with pytest.raises(RunLogError, match="No such file"):
            await live.scheduler.run_now("tick")
        assert not world.folder.exists()
        away.rename(world.folder)
        live.clock.advance(30)
        (run,) = await live.runs("tick", 1)

        assert run.scheduled_at == at("2026-11-23T08:01:00+00:00")
        assert live.scheduler.job("daily").state == "paused"


async def test_a_pause_outlives_an_edit_of_the_times(tmp_path: Path) -> None:
    """Who stopped a job that did harm does not expect that a changed hour starts it again."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("daily", **DAILY)
    async with world.opened() as live:
        await live.scheduler.pause("daily")
    world.write("daily", cron="0 10 * * *", timezone="UTC")

    async with world.opened() as live:
        assert live.scheduler.job("daily").state == "paused"


async def test_the_sessions_of_old_isolated_runs_are_deleted_with_them(tmp_path: Path) -> None:
    """A job of each minute would else leave thousands of sessions behind."""
    world = world_at(tmp_path, "2026-11-23T09:00:00+00:00")
    world.write("tick", every=60, task="Look.", to=None, session="isolated")

    async with world.opened() as live:
        for count in range(1, 53):
            await live.clock.until_sleeping(30)
            live.clock.advance(60)
            await live.until("tick", partial(has_run, count))
        kept = {run.session_id for run in live.scheduler.job("tick").job_state.recent}

        assert len(kept) == 50
        assert {s.session_id for s in await live.service.reader.sessions(limit=100)} == kept


@table(
    "fields",
    [
        {"every": 3600, "end": "2026-01-01T00:00:00Z"},
        {"cron": "0 9 1 1 *", "timezone": "UTC", "end": "2026-12-01T00:00:00Z"},
    ],
    ids=["end past", "end before the first"],
)
async def test_a_job_of_which_nothing_is_to_come_is_said_to_be(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    """It would else look as if it were done."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    path = world.write("never", **fields)

    async with world.opened() as live:
        (fault,) = live.scheduler.faults()

        assert fault.file == path
        assert "none of its times" in fault.message


async def test_a_job_that_could_not_be_armed_is_armed_when_the_disk_is_well_again(
    tmp_path: Path,
) -> None:
    """A reminder made while the disk was full for a second is not to be lost."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.write("first", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        runs = world.folder / "runs"
        runs.rename(tmp_path / "runs")
        runs.write_text("no folder")
        world.write("daily", **DAILY)
        section = JobSettings.model_validate(
            {"agent": "test", "every": 60, "message": "x", "to": {"channel": "test", "chat": "1"}}
        )
        with pytest.raises(OSError, match="File exists"):
            await live.scheduler.add(section, job_id="added", made=Made(by="cli"))
        assert not (world.folder / "added.yaml").exists()
        assert live.scheduler.job("daily").state == "waiting"
        runs.unlink()
        (tmp_path / "runs").rename(runs)
        await live.clock.until_sleeping(30)
        live.clock.advance(30)
        view = await live.until("daily", lambda view: view.state == "scheduled")

        assert view.next_at == NINE


@table("how", ["cancel", "pause", "change"])
async def test_what_waits_for_its_next_try_heeds_what_is_done_to_its_job(
    tmp_path: Path, how: str
) -> None:
    """Ten tries take hours: who calls a job off, stops it or sets it right is to be heard."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.provider.script = [refusal()]
    retries = {"max": 3, "backoff_seconds": 20}
    world.write("daily", task="Think.", retries=retries, **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await world.provider.until_called(1)
        await live.clock.until_sleeping(25)
        if how == "cancel":
            await live.scheduler.cancel("daily")
        elif how == "pause":
            await live.scheduler.pause("daily")
        else:
            world.write("daily", task="Think again.", retries=retries, **DAILY)
            await live.until("daily", lambda view: view.job.payload == RunTask(text="Think again."))
        live.clock.advance(25)
        if how == "change":
            (run,) = await live.runs("daily", 1)
            assert run.outcome == "answered"
            assert world.provider.requests[-1].messages[-1].text.endswith("Think again.")
        if how == "pause":
            await live.clock.until_sleeping(30)
            live.clock.advance(60)
            await live.scheduler.resume("daily")
            await live.clock.until_sleeping(25)
            assert len(world.provider.requests) == 1
            live.clock.advance(25)
            (run,) = await live.runs("daily", 1)
            assert (run.outcome, run.attempt) == ("answered", 2)
    if how == "cancel":
        assert len(world.provider.requests) == 1


async def test_a_process_that_is_not_there_keeps_a_job_waiting_and_its_file_where_it_is(
    tmp_path: Path,
) -> None:
    """A slip in a handle must not move what somebody wrote."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.processes = {"p1"}
    path = world.write("slip", every=60, process="p-slip")
    fine = world.write("fine", every=60, process="p1")

    async with world.opened() as live:
        (fault,) = live.scheduler.faults()
        assert "'p-slip'" in fault.message
        world.processes.clear()
        await live.scheduler.process_ended("p1")

        assert live.scheduler.job("fine").state == "waiting"
        assert path.exists()
        assert fine.exists()


@table(
    ("answer", "said"),
    [
        ("HEARTBEAT_OK", None),
        ("**heartbeat_ok**", None),
        ("HEARTBEAT_OK\n\nNothing to report.", None),
        ("HEARTBEAT_OK but the disk is full", "HEARTBEAT_OK but the disk is full"),
        ("The disk is full. " * 8 + "\nHEARTBEAT_OK", ("The disk is full. " * 8).strip()),
    ],
)
async def test_an_answer_that_says_nothing_is_not_passed_on(
    tmp_path: Path, answer: str, said: str | None
) -> None:
    """Models put the word in bold and a phrase beside it; people want to read neither."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.provider.script = [answer]
    world.write("look", every=60, task="Look.", session="isolated")
    async with world.opened(serve=False) as live:
        job = live.scheduler.job("look").job
    (world.folder / "look.yaml").unlink()
    task = RunTask(text="Look.", silent_answer="HEARTBEAT_OK")
    world.shelf.own = (replace(job, job_id="test.heartbeat", payload=task),)

    async with world.opened() as live:
        begun = await live.scheduler.run_now("test.heartbeat")
        run = await live.scheduler.wait("test.heartbeat", begun.scheduled_at)

        assert run.outcome == ("silent" if said is None else "answered")
        assert (await live.said() if said else ()) == ((said,) if said else ())


async def test_what_was_due_while_a_definition_said_paused_is_not_made_up_for(
    tmp_path: Path,
) -> None:
    """Paused for the weekend: on Monday nobody wants Friday's digest; the runs so far count on."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    rest = {"misfire": "run_all", "max_runs": 2}
    world.write("daily", **DAILY, **rest)
    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await live.runs("daily", 1)
    world.write("daily", paused=True, **DAILY, **rest)
    async with world.opened() as live:
        assert live.scheduler.job("daily").state == "paused"
    world.clock.advance(3 * DAY_S)
    world.write("daily", **DAILY, **rest)

    async with world.opened() as live:
        view = live.scheduler.job("daily")

        assert (view.state, view.next_at) == ("scheduled", NINE + timedelta(days=4))
        assert (view.job_state.ran, len(view.job_state.recent)) == (1, 1)


async def test_tasks_that_wait_for_people_do_not_hold_up_those_of_others(tmp_path: Path) -> None:
    """32 questions that nobody answers would else stop every task of every agent for an hour."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.provider.hold()
    for number in range(RUNNING_TASKS + 1):
        world.write(f"job-{number}", task="Wait.", to={"channel": "test", "chat": number}, **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await world.provider.until_called(RUNNING_TASKS)
        assert len(world.provider.requests) == RUNNING_TASKS
        await live.clock.until_sleeping(60)
        live.clock.advance(60)
        with anyio.fail_after(WAIT_S):
            await world.provider.until_called(RUNNING_TASKS + 1)


async def test_files_that_were_put_away_are_bounded(tmp_path: Path) -> None:
    """Every reminder that was ever made would else be kept, texts and addresses included."""
    folder = tmp_path / "schedules"
    book = JobStore(folder)
    folder.mkdir()
    for number in range(CANCELLED_KEPT + 3):
        (folder / f"job-{number}.yaml").write_text("x")
        await book.put_away(folder / f"job-{number}.yaml")

    kept = {path.name for path in (folder / "cancelled").iterdir()}
    assert len(kept) == CANCELLED_KEPT
    assert "job-0.yaml" not in kept
    assert f"job-{CANCELLED_KEPT + 2}.yaml" in kept


async def test_a_job_for_a_session_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """It would fail at its first instant, and nobody could be told."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")

    async with world.opened() as live:
        there = await live.service.conversations.create(CHAT)
        for session_id, why in (("20261122T134004332-ab1d0227", "no session"), (there, "")):
            section = JobSettings.model_validate(
                {"agent": "test", "every": 60, "message": "x", "to": {"session": session_id}}
            )
            if why:
                with pytest.raises(JobRefusedError, match=why):
                    await live.scheduler.add(section, made=Made(by="cli"))
            else:
                view = await live.scheduler.add(section, made=Made(by="cli"))
                assert view.state == "scheduled"


async def test_a_one_shot_that_is_moved_while_it_waits_for_its_next_try_runs_then(
    tmp_path: Path,
) -> None:
    """CR-05 holds for one that has failed once as well: it runs at its new time only."""
    world = world_at(tmp_path, "2026-11-23T08:59:59+00:00")
    world.provider.script = [refusal()]
    retries = {"max": 3, "backoff_seconds": 20}
    world.write("once", at="2026-11-23T09:00:00Z", task="Think.", retries=retries)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        await world.provider.until_called(1)
        await live.clock.until_sleeping(25)
        world.write("once", at="2026-11-23T23:27:00Z", task="Think.", retries=retries)
        moved = At(scheduled_at=at("2026-11-23T23:27:00+00:00"))
        await live.until("once", lambda view: view.job.when == moved)
        live.clock.advance(25)
        (first,) = await live.runs("once", 1)
        await live.clock.until_sleeping(30)
        live.clock.advance(15 * 3600)
        _, second = await live.runs("once", 2)

        assert (first.outcome, second.outcome) == ("cancelled", "answered")
        assert second.scheduled_at == moved.scheduled_at
        assert len(world.provider.requests) == 2


async def test_a_job_of_a_process_that_runs_is_not_called_off_for_another_reason(
    tmp_path: Path,
) -> None:
    """Its agent is missing for a moment at the start: that is no reason to move its file."""
    world = world_at(tmp_path, "2026-11-23T08:00:00+00:00")
    world.processes = {"p1"}
    world.shelf.agents = ()
    made = {"by": "tool", "at": "2026-11-23T07:00:00Z"}
    path = world.write("watch", every=60, process="p1", made=made)

    async with world.opened() as live:
        assert live.scheduler.job("watch").state == "waiting"
        assert path.exists()
