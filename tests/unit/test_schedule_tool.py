"""`schedule`: what an agent may plan for its conversation, and what it is told of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from msgspec import structs
from support.agents import MINIMAL, write_folder
from support.patience import WAIT_S
from support.policies import call, policy, step
from support.policies import context as plain_context
from support.scheduling import PaperScheduler, talk, utc
from support.tables import table
from support.tool_environments import tool_environment

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, tools_units
from everturn_actors.errors import ToolFailedError
from everturn_actors.model import Conversation, ConversationKey, ToolCall
from everturn_actors.ports import ToolContext, ToolOutput
from everturn_actors.service import TurnService
from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.scheduler.jobs import (
    Every,
    Job,
    JobState,
    JobView,
    Made,
    Run,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
)
from everturn_gateway.specs import load_agent
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.policy import GuardedTool, Policy, PolicyGate
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.records import Ending, ProcessRecord
from everturn_gateway.tools.processes.table import ProcessTable, open_processes
from everturn_gateway.tools.scheduling.plugin import ScheduleSettings
from everturn_gateway.tools.scheduling.texts import listing
from everturn_gateway.tools.scheduling.tool import ScheduleTool

KEY = ConversationKey(channel="telegram", chat="-1001", topic="7", agent="test")
START = utc("2026-11-23T09:00")
ANN = talk("ann")
TEA: Mapping[str, object] = {"action": "create", "at": "2026-12-01T08:30Z", "message": "Tea!"}


@dataclass(slots=True, kw_only=True)
class Talk:
    """An agent with the tool, in one conversation."""

    tool: ScheduleTool
    scheduler: PaperScheduler
    clock: ManualClock
    table: ProcessTable

    async def does(
        self,
        arguments: Mapping[str, object],
        *,
        key: ConversationKey = KEY,
        said: Conversation = ANN,
        call_id: str = "c1",
    ) -> ToolOutput:
        """Make a call, as the loop does."""
        made = ToolCall(call_id=call_id, name="schedule", arguments=json.dumps(arguments))
        context = structs.replace(plain_context(said), key=key)
        with anyio.fail_after(WAIT_S):
            output = await self.tool.run(made, context)
        return output if isinstance(output, ToolOutput) else ToolOutput(text=output)

    async def creates(self, **arguments: object) -> str:
        """Make a job; return its id."""
        call_id = f"c{len(self.scheduler.views) + 10}"
        said = await self.does({"action": "create", **arguments}, call_id=call_id)
        return said.text.split()[0]

    async def refused(self, arguments: Mapping[str, object], *, key: ConversationKey = KEY) -> str:
        """Make a call that fails; return what the model is told."""
        with pytest.raises(ToolFailedError) as failed:
            await self.does(arguments, key=key, call_id="c99")
        return str(failed.value)

    def only(self) -> Job:
        """Return the one job there is."""
        [view] = self.scheduler.jobs()
        return view.job

    def keep(self, view: JobView) -> None:
        """Have a job that somebody else made."""
        self.scheduler.views[view.job.job_id] = view


@asynccontextmanager
async def talking(
    folder: Path, *, timezone: str = "", max_jobs: int = 20, min_interval_s: int = 60
) -> AsyncGenerator[Talk]:
    """Open the tool on a desk of paper."""
    clock, link = ManualClock(START), ServiceLink()
    scheduler = PaperScheduler(clock=clock, timezone=timezone)
    link.connect(_no_service(), scheduler)
    async with open_processes(folder, clock, link, environ={}, secrets=SecretRegistry()) as table:
        tool = ScheduleTool(
            tool_environment(link=link),
            clock,
            table,
            max_jobs=max_jobs,
            min_interval_s=min_interval_s,
        )
        yield Talk(tool=tool, scheduler=scheduler, clock=clock, table=table)


def _no_service() -> TurnService:
    return None  # type: ignore[return-value]  # the tool asks the desk alone


def _job(job_id: str, *, made: Made | None = None, key: ConversationKey = KEY) -> Job:
    """Return an hourly job for a conversation."""
    return Job(
        job_id=job_id,
        agent=key.agent,
        when=Every(interval_s=3600),
        payload=SendMessage(text="the owner's words"),
        to=ToChat(channel=key.channel, chat=key.chat, topic=key.topic),
        made=made or Made(by="file"),
    )


def _process(folder: Path, handle: str = "p0123456789", key: ConversationKey = KEY) -> Process:
    """Return a process that runs, as far as its record says."""
    record = ProcessRecord(
        handle=handle,
        agent=key.agent,
        session_id="",
        key=key,
        command="make",
        label="",
        workdir="/",
        interactive=False,
        timeout_s=60,
        began_at=START,
        files="/f",
        since_ns=0,
        outside=(),
    )
    return Process(folder=folder / handle, record=record)


# --- create ---


async def test_a_message_is_scheduled_for_the_conversation_it_was_asked_in(tmp_path: Path) -> None:
    """It reaches those who asked, and nobody else, and the model can tell them when."""
    async with talking(tmp_path) as talk_:
        said = await talk_.does({**TEA, "label": "Tea time"})
        job = talk_.only()

    assert job.to == ToChat(channel="telegram", chat="-1001", topic="7")
    assert (job.agent, job.payload, job.label) == ("test", SendMessage(text="Tea!"), "Tea time")
    assert (job.made.by, job.made.at, job.made.key) == ("tool", START, KEY)
    assert not job.made.untrusted
    assert said.text == f"{job.job_id} is scheduled, once\ndue Tue 2026-12-01 08:30 UTC"


@table(
    ("timezone", "arguments", "told"),
    [
        (
            "",
            {
                "cron": "30 8 * * mon-fri",
                "timezone": "America/New_York",
                "task": "Look at the weather.",
                "max_runs": 9,
            },
            (
                "cron 30 8 * * mon-fri, at most 9 runs\n"
                "due Mon 2026-11-23 08:30 America/New_York; Tue 2026-11-24 08:30 America/New_York;"
                " Wed 2026-11-25 08:30 America/New_York; and so on"
            ),
        ),
        # People say `at half past eight`, and mean their own clock.
        (
            "Europe/Berlin",
            {"at": "2026-12-01T08:30", "message": "Tea!"},
            "once\ndue Tue 2026-12-01 08:30 Europe/Berlin",
        ),
        # A model that has to add to a clock makes mistakes; it is never earlier than was asked.
        ("", {"in_minutes": 20, "message": "Tea!"}, "once\ndue Mon 2026-11-23 09:20:01 UTC"),
        # Models write both words and numbers, whatever the schema says.
        *(
            (
                "",
                {"every": every, "message": "Tea!"},
                (
                    "every 15m\ndue Mon 2026-11-23 09:15 UTC; Mon 2026-11-23 09:30 UTC;"
                    " Mon 2026-11-23 09:45 UTC; and so on"
                ),
            )
            for every in ("15m", 900, "900")
        ),
    ],
)
async def test_times_are_told_in_the_zone_of_the_job(
    tmp_path: Path, timezone: str, arguments: dict[str, object], told: str
) -> None:
    """A time in another zone than the person's would be passed on wrongly."""
    async with talking(tmp_path, timezone=timezone) as talk_:
        talk_.clock.advance(0.25 if "in_minutes" in arguments else 0)
        said = await talk_.does({"action": "create", **arguments})
        job = talk_.only()

    assert said.text == f"{job.job_id} is scheduled, {told}"
    assert "every" not in arguments or job.when == Every(interval_s=900)


@table("isolated", [False, True])
async def test_a_task_runs_here_or_apart(tmp_path: Path, *, isolated: bool) -> None:
    """Work that fills a conversation with results can be kept out of it."""
    async with talking(tmp_path) as talk_:
        await talk_.does({"action": "create", "every": "1d", "task": "Sum.", "isolated": isolated})
        job = talk_.only()

    assert job.payload == RunTask(text="Sum.")
    assert job.where == ("isolated" if isolated else "conversation")
    assert job.to == ToChat(channel="telegram", chat="-1001", topic="7")


@table(
    ("channel", "may"),
    [
        ("http", True),
        ("terminal", True),
        ("delegate", False),
        ("once", False),
        ("schedule", False),
    ],
)
async def test_a_job_is_made_where_somebody_can_be_reached_later(
    tmp_path: Path, channel: str, *, may: bool
) -> None:
    """Without a platform it waits to be read; else it would be said to nobody."""
    key = ConversationKey(channel=channel, chat="ann", agent="test")
    async with talking(tmp_path) as talk_:
        if may:
            await talk_.does(TEA, key=key)

            assert talk_.only().to == ToChat(channel=channel, chat="ann")
        else:
            said = await talk_.refused(TEA, key=key)

            assert "nobody can be reached in this conversation" in said
            assert talk_.scheduler.views == {}


WRONG: list[tuple[dict[str, object], str]] = [
    ({"message": "x"}, "when: give exactly one of at, in_minutes, every, cron; none is there"),
    (
        {"message": "x", "every": "1h", "cron": "* * * * *"},
        "when: give exactly one of at, in_minutes, every, cron; not every and cron together",
    ),
    ({"every": "1h"}, "what: give exactly one of message, task; none is there"),
    ({"every": "1h", "message": "x", "isolated": True}, "isolated: is for a task"),
    ({"every": "1h", "message": "x", "job": "j1"}, "job: is for cancel"),
    ({"every": "sometimes", "message": "x"}, "every: must be whole seconds, or a text like 15m"),
    ({"at": "tomorrow", "message": "x"}, "at: 'tomorrow' is no date with a time"),
    ({"at": "2026-12-01T08:30", "message": "x"}, "at: needs a time zone"),
    ({"cron": "0 9 * * *", "message": "x"}, "timezone: is required with cron"),
    (
        {"cron": "0 9 * * *", "message": "x", "timezone": "Europe/Berln"},
        "timezone: 'Europe/Berln' is no time zone that is known; did you mean Europe/Berlin?",
    ),
    ({"in_minutes": 0, "message": "x"}, "in_minutes: must be more than 0"),
    ({"in_minutes": 1e300, "message": "x"}, "in_minutes: must be more than 0, and at most ten"),
    ({"in_minutes": 1, "message": "x", "max_runs": 0}, "max_runs: Input should be greater than"),
    ({"every": "1h", "message": ""}, "message: must not be empty"),
    ({"every": "1h", "message": "x", "label": "a\nb"}, "label: must be one line"),
    ({"every": "1h", "message": "x" * 70_000}, "message: has 70,000 bytes, and 65,536 are the"),
    ({"every": "1h", "message": "x", "to": "telegram:1"}, "to: Extra inputs are not permitted"),
    ({"every": "1h", "message": "x", "process": "p1"}, "there is no process 'p1' here"),
]


@table(("arguments", "told"), WRONG, ids=[told for _, told in WRONG])
async def test_what_makes_no_sense_is_refused_with_the_field(
    tmp_path: Path, arguments: dict[str, object], told: str
) -> None:
    """The model corrects what is named."""
    async with talking(tmp_path) as talk_:
        said = await talk_.refused({"action": "create", **arguments})

        assert said.startswith(told)
        assert talk_.scheduler.views == {}


@table(
    ("arguments", "told"),
    [
        ({"every": "59m"}, "every: at least 1h has to lie between two runs"),
        ({"cron": "*/30 * * * *"}, "cron: at least 1h has to lie between two runs"),
        ({"cron": "0,20 8 1 * *", "timezone": "Asia/Tokyo"}, "cron: at least 1h has to lie"),
    ],
)
async def test_jobs_that_run_too_often_are_refused(
    tmp_path: Path, arguments: dict[str, object], told: str
) -> None:
    """Every run of a task costs its owner money."""
    async with talking(tmp_path, timezone="UTC", min_interval_s=3600) as talk_:
        said = await talk_.refused({"action": "create", "message": "x", **arguments})
        hourly = await talk_.creates(cron="0 * * * *", message="x")
        also_hourly = await talk_.creates(every="1h", message="x")
        once = await talk_.creates(in_minutes=1, message="x")

    assert said.startswith(told)
    assert len({hourly, also_hourly, once}) == 3


async def test_the_desk_is_told_how_many_jobs_there_may_be(tmp_path: Path) -> None:
    """Only who counts them can keep two conversations from making the last one both."""
    async with talking(tmp_path, max_jobs=3) as talk_:
        await talk_.does(TEA)

        assert talk_.scheduler.limits == [3]


@table(
    ("said", "may"),
    [
        (talk("schedule"), False),
        (talk("schedule", "background_process"), False),
        (talk("session:20261122T000000000-00000000:1"), False),
        (talk("schedule", ambient="ann"), False),
        (talk(), False),
        (talk(""), True),
        (talk("schedule", "ann"), True),
    ],
    ids=["a job", "programs", "another session", "a job, and others talk", "nobody", "api", "ann"],
)
async def test_a_job_does_not_breed_jobs(tmp_path: Path, said: Conversation, *, may: bool) -> None:
    """An agent that schedules itself would go on for ever, at its owner's cost."""
    async with talking(tmp_path) as talk_:
        if may:
            await talk_.does(TEA, said=said)
        else:
            with pytest.raises(ToolFailedError, match="only where a person asks for it"):
                await talk_.does(TEA, said=said)

        assert len(talk_.scheduler.views) == may


async def test_a_turn_of_a_job_may_look_and_call_off(tmp_path: Path) -> None:
    """A task can end itself when its work is done."""
    async with talking(tmp_path) as talk_:
        job_id = await talk_.creates(every="1h", task="Look.")
        by_job = talk("schedule")
        seen = await talk_.does({"action": "list"}, said=by_job)
        off = await talk_.does({"action": "cancel", "job": job_id}, said=by_job)

    assert job_id in seen.text
    assert off.text == f"{job_id} is called off"


async def test_a_call_that_is_run_again_makes_no_second_job(tmp_path: Path) -> None:
    """A crash between the job and its result must not double what a person asked for once."""
    async with talking(tmp_path) as talk_:
        first = await talk_.does(TEA)
        again = await talk_.does(TEA)
        other = await talk_.does(TEA, call_id="c2")
        later = await talk_.does(TEA, said=talk("ann", steps=(step(call()),)))
        # Open turns go on as soon as a gateway starts; the scheduler may still be reading.
        talk_.scheduler.is_loaded = False
        early = await talk_.does(TEA)

        assert len(talk_.scheduler.views) == 3
    assert again.text == early.text == first.text.replace("is scheduled", "was scheduled before")
    assert len({each.text.split()[0] for each in (first, other, later)}) == 3


async def test_what_was_made_before_is_found_whoever_asks_now(tmp_path: Path) -> None:
    """A message that came meanwhile must not turn the job's own call into an error."""
    async with talking(tmp_path) as talk_:
        await talk_.does(TEA)
        [view] = talk_.scheduler.jobs()
        run = Run(scheduled_at=START, started_at=START, outcome="sent")
        talk_.keep(
            structs.replace(view, state="done", next_at=None, job_state=JobState(recent=(run,)))
        )
        talk_.clock.advance(30 * 86_400)
        again = await talk_.does(TEA, said=talk("schedule"))

    assert again.text.endswith(
        "was scheduled before, once\ndone; last sent (Mon 2026-11-23 09:00 UTC)"
    )


@table("how", ["result", "message"])
async def test_a_job_of_a_tainted_turn_is_marked(tmp_path: Path, how: str) -> None:
    """What a web page says must not become an order by waiting for tomorrow."""
    read = talk("ann", steps=(step(call("web_fetch"), untrusted=True),))
    said = read if how == "result" else talk("ann", untrusted=True)
    async with talking(tmp_path) as talk_:
        await talk_.does(TEA, said=said)
        seen = await talk_.does({"action": "list"})

        assert talk_.only().made.untrusted
    assert seen.untrusted


async def test_a_job_can_last_as_long_as_a_process(tmp_path: Path) -> None:
    """`Tell me every ten minutes while the build runs` ends by itself."""
    async with talking(tmp_path) as talk_:
        process = _process(tmp_path)
        talk_.table._processes[process.record.handle] = process
        made = {"action": "create", "every": "10m", "message": "x", "process": "p0123456789"}

        async def end() -> None:
            process.ending = Ending(status="completed")

        # Its end was told when the job was not there yet, so nothing else would end the job.
        talk_.scheduler.on_add = end
        meanwhile = await talk_.refused(made)
        assert talk_.scheduler.views == {}

        process.ending, talk_.scheduler.on_add = None, None
        said = await talk_.does(made)
        process.ending = Ending(status="completed")
        ended = await talk_.refused(made)
        other = await talk_.refused(made, key=structs.replace(KEY, chat="other"))

        assert talk_.only().process == "p0123456789"
    assert "has ended" in meanwhile
    assert "every 10m, until p0123456789 ends\n" in said.text
    assert ended.startswith("process: p0123456789 has ended")
    assert other.startswith("there is no process")


async def test_a_call_that_is_stopped_leaves_no_job(tmp_path: Path) -> None:
    """Whoever stops the turn is told that the call did not end; then it must not fire either."""
    async with talking(tmp_path) as talk_:
        with anyio.CancelScope() as scope:

            async def stop() -> None:
                scope.cancel()

            talk_.scheduler.on_add = stop
            await talk_.does(TEA)

        assert scope.cancelled_caught
        assert talk_.scheduler.limits == [20]
        assert talk_.scheduler.views == {}


async def test_what_cannot_be_kept_is_said_so(tmp_path: Path) -> None:
    """A promise that nobody keeps is worse than a refusal; a full disk is no traceback."""
    async with talking(tmp_path) as talk_:
        job_id = await talk_.creates(every="1h", message="x")
        talk_.scheduler.fails = {
            "add": OSError(28, "No space left on device"),
            "cancel": OSError(30, "Read-only file system"),
        }
        made = await talk_.refused(TEA)
        off = await talk_.refused({"action": "cancel", "job": job_id})
        talk_.tool._environment.link.connect(_no_service())
        said = [await talk_.refused({"action": each}) for each in ("create", "list", "cancel")]

    assert made == "the job could not be written: No space left on device"
    assert off == f"{job_id} could not be called off: Read-only file system"
    assert set(said) == {
        "this gateway runs no scheduled jobs, so none can be made, listed or called off"
    }


# --- list and cancel ---


async def test_the_list_shows_this_conversation_alone(tmp_path: Path) -> None:
    """What others plan is theirs; what an owner wrote into a task is not for the people here."""
    others = Made(by="tool", key=structs.replace(KEY, chat="other"))
    async with talking(tmp_path) as talk_:
        empty = await talk_.does({"action": "list"})
        mine = await talk_.creates(every="1h", task="Look at the oven.", label="Oven")
        apart = replace(_job("apart"), to=None, made=Made(by="tool", key=KEY))
        session = replace(_job("told"), to=ToSession(session_id=plain_context().session_id))
        for job in (
            _job("standup"),
            _job("other-topic", key=structs.replace(KEY, topic="8")),
            _job("other-agent", key=structs.replace(KEY, agent="digest")),
            _job("other-chat", made=others, key=structs.replace(KEY, chat="other")),
            apart,
            session,
        ):
            talk_.keep(JobView(job=job, state="scheduled", next_at=START + timedelta(days=1)))
        said = await talk_.does({"action": "list"})

    assert empty.text == "nothing is scheduled in this conversation"
    rows = dict(row.removeprefix("- ").split(" ", 1) for row in said.text.splitlines())
    assert list(rows) == [mine, "apart:", "standup:", "told:"]
    assert rows[mine] == (
        "“Oven”: task “Look at the oven.”, every 1h; next Mon 2026-11-23 10:00 UTC"
    )
    assert rows["standup:"] == "message, every 1h; next Tue 2026-11-24 09:00 UTC"
    assert not said.untrusted


def test_the_list_tells_how_each_job_fares_and_is_bounded() -> None:
    """`It did not come` needs a reason."""
    failed = Run(scheduled_at=START, started_at=START, outcome="failed", error="out of\nreach")
    past = JobState(recent=(failed,))
    views = [
        JobView(job=_job("a"), state="done", job_state=past),
        JobView(job=_job("b"), state="waiting", why="there is no channel 'telegram'"),
        JobView(job=_job("c"), state="paused"),
        JobView(job=_job("d"), state="scheduled", next_at=START),
        JobView(job=_job("e"), state="running", next_at=START),
    ]

    assert listing(views, ()).splitlines() == [
        "- d: message, every 1h; next Mon 2026-11-23 09:00 UTC",
        "- e: message, every 1h; running",
        "- b: message, every 1h; cannot run: there is no channel 'telegram'",
        "- c: message, every 1h; paused",
        "- a: message, every 1h; done; last failed (Mon 2026-11-23 09:00 UTC): out of reach",
    ]

    # A result that has no end hides what matters.
    long = replace(_job("x"), payload=RunTask(text="many words " * 500), label="y" * 100)
    views = [JobView(job=replace(long, job_id=f"j{n}"), state="scheduled") for n in range(100)]
    said = listing(views, {view.job.job_id for view in views})

    assert len(said) < 10_000
    assert said.endswith("\nand 70 more, of those that are due last or done")


async def test_only_what_was_made_here_is_called_off(tmp_path: Path) -> None:
    """The owner's jobs are the owner's, and other people's are theirs."""
    async with talking(tmp_path) as talk_:
        mine = await talk_.creates(every="1h", message="x")
        elsewhere = structs.replace(KEY, chat="other")
        talk_.keep(JobView(job=_job("standup"), state="scheduled"))
        talk_.keep(
            JobView(
                job=_job("theirs", made=Made(by="tool", key=elsewhere), key=elsewhere),
                state="scheduled",
            )
        )
        owners = await talk_.refused({"action": "cancel", "job": "standup"})
        nameless = await talk_.refused({"action": "cancel"})
        theirs = await talk_.does({"action": "cancel", "job": "theirs"})
        off = await talk_.does({"action": "cancel", "job": f" {mine} "})
        again = await talk_.does({"action": "cancel", "job": mine})

        assert sorted(talk_.scheduler.views) == ["standup", "theirs"]
    assert owners == "standup was not made with this tool here; only its owner can call it off"
    assert nameless == "job: cancel needs the id of a job; list shows them"
    assert theirs.text == (
        "'theirs' is not, or no longer, scheduled in this conversation; to be called off"
        f" there are: {mine}"
    )
    assert off.text == f"{mine} is called off"
    assert again.text.endswith("to be called off there are: none")


# --- how it is offered and judged ---


async def test_its_definition_is_small(tmp_path: Path) -> None:
    """It goes out with every request of the agent."""
    async with talking(tmp_path) as talk_:
        units = tools_units([talk_.tool.definition])

    assert units / UNITS_PER_TOKEN < 450


@table(
    ("rules", "words"),
    [
        (policy(), ("ask", "allow", "allow")),
        (policy(mode="restrict"), ("deny", "allow", "allow")),
        (policy(mode="dangerous"), ("allow", "allow", "allow")),
        (policy("builtin:schedule:create"), ("allow", "allow", "allow")),
        (policy("builtin:schedule_task"), ("allow", "allow", "allow")),
        (policy(deny=["builtin:schedule"]), ("deny", "deny", "deny")),
        (policy(deny=["builtin:schedule_task"]), ("deny", "allow", "allow")),
        (policy(deny=["builtin:list_schedules"]), ("ask", "deny", "allow")),
        (policy(deny=["builtin:cancel_schedule"]), ("ask", "allow", "deny")),
    ],
)
@table("is_guarded", [True, False])
async def test_making_a_job_asks_and_the_rest_does_not(
    tmp_path: Path, rules: Policy, words: tuple[str, ...], *, is_guarded: bool
) -> None:
    """A job acts when nobody looks; to look at jobs, or to call one's own off, harms nobody."""
    async with talking(tmp_path) as talk_:
        tool = (
            GuardedTool(talk_.tool, agent="test", secrets=SecretRegistry(), policy=rules)
            if is_guarded
            else talk_.tool
        )
        verdicts = [
            await PolicyGate(rules, Path("/nowhere")).evaluate(
                call("schedule", action=action), tool, plain_context()
            )
            for action in ("create", "list", "cancel")
        ]

    assert tuple(each.effect for each in verdicts) == words
    if words[0] == "ask":
        assert verdicts[0].pattern == "builtin:schedule:create"


async def test_a_call_is_judged_by_who_could_be_asked_and_by_what_was_read(tmp_path: Path) -> None:
    """A web page may want a job, or may want one gone."""
    read: ToolContext = plain_context(talk("ann", untrusted=True))
    async with talking(tmp_path) as talk_:
        gate = PolicyGate(policy("builtin:schedule"), Path("/nowhere"))
        words = [
            (await gate.evaluate(call("schedule", action=action), talk_.tool, read)).effect
            for action in ("create", "list", "cancel")
        ]
        assert words == ["ask", "allow", "ask"]

        # A person's time is not for the model's spelling mistakes.
        gate = PolicyGate(policy(), Path("/nowhere"))
        made = call("schedule", action="create", message=7)
        assert (await gate.evaluate(made, talk_.tool, plain_context())).effect == "allow"
        with pytest.raises(ToolFailedError, match="message: Input should be a valid string"):
            await talk_.tool.run(made, plain_context())

        # No person is in an isolated task; a question would wait for an hour and fail.
        isolated = plain_context(talk("schedule"), channel="schedule")
        verdict = await gate.evaluate(call("schedule", action="create"), talk_.tool, isolated)
        assert (verdict.effect, "nobody can be asked" in verdict.reason) == ("deny", True)


NAMES = ("schedule", "schedule_task", "list_schedules", "cancel_schedule")


@table(
    ("entries", "numbers"),
    [
        *((f"name: {name}", (20, 60)) for name in NAMES),
        # An entry that says nothing must not undo what another one says.
        (
            (
                "name: schedule, max_jobs: 5 | name: list_schedules"
                " | name: schedule_task, min_interval_seconds: 900"
            ),
            (5, 900),
        ),
    ],
)
def test_older_names_give_the_same_tool_and_all_together_one(
    tmp_path: Path, entries: str, numbers: tuple[int, int]
) -> None:
    """An agent that was written for Duragent keeps what it could do."""
    tools = "".join(f"    - {{type: builtin, {each}}}\n" for each in entries.split(" | "))
    folder = write_folder(tmp_path / "test", f"{MINIMAL.format(name='test')}  tools:\n{tools}")
    file = load_agent(folder, environ={})

    assert file.inactive == ()
    assert planned(file.tool_config) == ScheduleSettings(
        max_jobs=numbers[0], min_interval_seconds=numbers[1]
    )


def planned(config: ToolConfig) -> object:
    """Return the numbers of the one tool of an agent."""
    (use,) = config.uses
    return use.plan.settings
