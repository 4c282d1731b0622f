"""Every part fails, one at a time: only that part stops, and nothing accepted is lost.

At night each of them fails in every way: `make nightly`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.examples import LONG_RUN
from support.fault_world import VICTIMS, Echo, Fault, Wiki, World, open_world, until, write_folder
from support.feeding_adapter import FeedingAdapter
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.documents import WriteBehind
from everturn_actors.events import Event, SessionStarted
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_channels.chats.cursors import Cursors
from everturn_channels.delivery.deliverer import Deliverer
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.run_logs.files import RunLogs
from everturn_gateway.scheduler.scheduler import Scheduler
from everturn_gateway.specs.library import AgentLibrary
from everturn_gateway.telemetry.telemetry import Telemetry
from everturn_gateway.tools.memory.tools import _Memory
from everturn_gateway.tools.policy.gate import PolicyGate
from everturn_gateway.tools.processes import process
from everturn_gateway.tools.processes.follower import ProcessFollower
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.table import ProcessTable
from everturn_gateway.tools.toolbox import Toolbox
from everturn_gateway.tools.web.posting import WebPoster
from everturn_gateway.usage.ledger import UsageLedger

KINDS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("a fault"),
    "OSError": lambda: OSError(errno.EIO, "Input/output error"),
    "TimeoutError": TimeoutError,
    "cancelled from elsewhere": asyncio.CancelledError,
}

ANSWER_S = 60  # what a machine that does other things as well may take for an answer
Poke = Callable[[World], Awaitable[object]]


async def talk(world: World) -> object:
    """Say something to the victim, in a conversation that goes on."""
    return await world.post("hello")


async def begin(world: World) -> object:
    """Begin a conversation with the victim."""
    body = {"agent": "victim", "chat": f"fresh-{next(world.numbers)}"}
    return (await world.http.post("/api/v1/sessions", json=body)).json()


async def look(world: World) -> object:
    """Look at the victim's session."""
    statuses = [await world.status(f"/api/v1/sessions/{each}") for each in VICTIMS]
    return statuses + [await world.status(f"/api/v1/sessions/{each}/messages") for each in VICTIMS]


async def rest(world: World) -> object:
    """Say something to the victim, and let its session go to rest."""
    said = await talk(world)
    await anyio.sleep(0.2)
    return said


async def note(world: World) -> object:
    """Let the victim use a tool."""
    return await world.post("note it")


async def write(world: World) -> object:
    """Write to the victim on its channel."""
    await world.write("one", "hello")
    return "taken"


async def reconnect(world: World) -> object:
    """Let the connection of the victim's channel break, and write when it is there again."""
    world.adapters["one"].break_off(None)
    await anyio.sleep(0.05)
    return "broken off"


async def reload(world: World) -> object:
    """Read the agents again."""
    return (await world.http.post("/api/v1/admin/reload")).json()


async def run_job(world: World) -> object:
    """Run a job of the victim now."""
    return (await world.http.post("/api/v1/schedules/standup/run")).json()


async def list_sessions(world: World) -> object:
    """Ask for the list of sessions."""
    return await world.status("/api/v1/sessions")


async def run_webhook(world: World) -> object:
    """Run a job of the victim that posts to a webhook."""
    return (await world.http.post("/api/v1/schedules/hook/run")).json()


async def add_job(world: World) -> object:
    """Schedule another message."""
    job = {"id": f"job-{next(world.numbers)}", "agent": "victim", "message": "x", "every": "1d"}
    to = {"session": world.victim}
    return (await world.http.post("/api/v1/schedules", json={**job, "to": to})).json()


async def spawn(world: World) -> object:
    """Let the victim start a process, of whose end a message tells."""
    return await world.post("spawn it")


async def run(world: World) -> object:
    """Let the victim start a process that ends at once, so that the call tells of it."""
    return await world.post("run it")


async def look_up(world: World) -> object:
    """Let the victim ask an MCP server, which answers at length."""
    return await world.post("look it up")


async def write_slowly(world: World) -> object:
    """Write to the victim on its channel; its answer is shown as it comes."""
    await world.write("one", f"slowly {next(world.numbers)}")
    await anyio.sleep(0.2)
    return "taken"


async def send_file(world: World) -> object:
    """Send a file to the victim."""
    file = {"media_type": "text/plain", "file_name": "a.txt", "data": "SGVsbG8="}
    return await world.post("look at this", attachments=[file])


async def fetch_file(world: World) -> object:
    """Fetch a file that was sent to the victim."""
    return await world.status(f"/api/v1/sessions/{world.victim}/media/{'0' * 64}.txt")


async def delete(world: World) -> object:
    """Delete a session of the victim."""
    made = await world.say("victim", "hello", chat=f"short-{next(world.numbers)}")
    VICTIMS.add(made.session_id)
    return (await world.http.delete(f"/api/v1/sessions/{made.session_id}")).status_code


async def wait(_world: World) -> object:
    """Give what works by the clock time to do so."""
    await anyio.sleep(0.3)
    return "waited"


def any_call(_arguments: tuple[Any, ...]) -> bool:
    """Whatever it is called for."""
    return True


def of_victim(arguments: tuple[Any, ...]) -> bool:
    """It is called for the victim's session or conversation."""
    return any(
        (isinstance(each, str) and each in VICTIMS)
        or getattr(each, "agent", "") == "victim"
        or getattr(each, "session_id", "") in VICTIMS
        or (isinstance(each, list) and _begins_with_victim(each))
        for each in arguments
    )


def _begins_with_victim(events: list[Event]) -> bool:
    body = events[0].body if events else None
    return isinstance(body, SessionStarted) and body.key.agent == "victim"


def is_channel_one(arguments: tuple[Any, ...]) -> bool:
    """It is called on the victim's bot."""
    return bool(arguments[0].name == "one")


@dataclass(frozen=True, slots=True)
class OfKey:
    """It is called for a value under this key, or for one that begins so."""

    key: str

    def __call__(self, arguments: tuple[Any, ...]) -> bool:
        owner, *rest = arguments
        if isinstance(owner, WriteBehind):
            return self.key in owner._document.place
        return str(rest[0]).startswith(self.key)


def is_cursor_of_one(arguments: tuple[Any, ...]) -> bool:
    """It is called for how far the victim's bot has read."""
    return "channels/one.json" in arguments[0]._writer._document.place


def of_model(arguments: tuple[Any, ...]) -> bool:
    """The request is the victim's: the other one is told other things."""
    return not any("other" in getattr(m, "text", "") for m in arguments[1].messages)


@dataclass(frozen=True, slots=True)
class Part:
    """A part that can fail."""

    owner: object
    method: str
    poke: Poke
    belongs: Callable[[tuple[Any, ...]], bool] = any_call
    is_for_all: bool = False
    "No turn can be worked on without it: while it fails, the others' fail as well."

    is_mended_by_start: bool = False
    "That the end of a process was told is recorded again by the next gateway, not by this one."

    def __str__(self) -> str:
        owner = str(getattr(self.owner, "__name__", self.owner)).rpartition(".")[2]
        of = f" of {self.belongs.key}" if isinstance(self.belongs, OfKey) else ""
        return f"{owner}.{self.method}{of}, {self.poke.__name__}"


PARTS = [
    Part(FileStore, "load", talk, of_victim),
    Part(FileStore, "append", talk, of_victim),
    Part(FileStore, "append", begin, of_victim),
    Part(FileStore, "save_snapshot", rest, of_victim),
    Part(FileStore, "inspect", look, of_victim),
    Part(FileStore, "read", look, of_victim),
    Part(FileStore, "bind", begin, of_victim),
    Part(FileStore, "bound", begin, of_victim),
    Part(FileStore, "mark_active", talk, of_victim),
    Part(FileStore, "mark_passive", rest, of_victim),
    Part(FileStore, "sessions", list_sessions),
    Part(Echo, "complete", talk, of_model),
    Part(_Memory, "remember", note),
    Part(PolicyGate, "evaluate", note),
    Part(Toolbox, "prepare", talk, is_for_all=True),
    Part(AgentLibrary, "get", talk, lambda arguments: arguments[1] == "victim"),
    Part(AgentLibrary, "reload", reload),
    Part(AgentLibrary, "access", write, lambda arguments: arguments[1] == "victim"),
    Part(StoredModelStatistics, "of", talk, is_for_all=True),
    Part(StoredModelStatistics, "record", talk, is_for_all=True),
    Part(FileKeyedStore, "put", wait, OfKey("models.json")),
    Part(Telemetry, "durable", talk),
    Part(Telemetry, "active", talk, of_victim),
    Part(Telemetry, "answering", talk),
    Part(UsageLedger, "add", talk),
    Part(UsageLedger, "today", talk, lambda arguments: arguments[1] == "victim"),
    Part(FileKeyedStore, "put", wait, OfKey("usage/")),
    Part(FeedingAdapter, "serve", reconnect, is_channel_one),
    Part(FeedingAdapter, "render", write, is_channel_one),
    Part(FeedingAdapter, "send", write, is_channel_one),
    Part(FeedingAdapter, "type", write, is_channel_one),
    Part(Deliverer, "deliver", write, lambda a: a[1].state.key.channel == "one"),
    Part(JobRunner, "perform", run_job),
    Part(RunLogs, "append", run_job),
    Part(WebPoster, "post", run_webhook),
    Part(ProcessTable, "spawn", spawn),
    Part(Process, "until_gone", spawn),
    Part(ProcessFollower, "_tell_end", spawn),
    Part(process, "write_record", run, is_mended_by_start=True),
    Part(Scheduler, "process_ended", spawn),
    Part(Wiki, "call", look_up),
    Part(FileKeyedStore, "put", write, OfKey("channels/one.json")),
    Part(FeedingAdapter, "edit", write_slowly, is_channel_one),
    Part(FileStore, "save_result", look_up, of_victim),
    Part(FileStore, "save_media", send_file, of_victim),
    Part(FileStore, "read_media", fetch_file, of_victim),
    Part(FileStore, "delete", delete, of_victim),
    Part(JobStore, "read", add_job),
]


def kinds_for(number: int) -> dict[str, Callable[[], BaseException]]:
    """Return how a part fails: in another way than the part before; at night in each."""
    one = (list(KINDS)[number % len(KINDS)],)
    return {kind: KINDS[kind] for kind in (KINDS if LONG_RUN else one)}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the log of what is meant to fail small."""
    caplog.set_level(logging.CRITICAL)


@table("part", PARTS, ids=str, parts=4)
async def test_a_fault_stops_the_part_that_it_belongs_to_and_nothing_else(
    part: Part, tmp_path: Path
) -> None:
    """Whoever waits is told one reason, everybody else is answered, and nothing is lost."""
    await anyio.to_thread.run_sync(write_folder, tmp_path)
    adapters: dict[str, FeedingAdapter] = {}
    fault = Fault()
    with fault.at(part.owner, part.method, part.belongs):
        async with open_world(tmp_path, adapters) as world:
            for kind, error in kinds_for(PARTS.index(part)).items():
                await world.prepare(kind)
                fault.arm(error)
                await fail_once(world, part, kind, fault)
    async with open_world(tmp_path, adapters) as world:
        await world.until_told()
        await world.until_answered()
        assert (await world.say("victim", "after a restart")).outcome == "answered"


async def fail_once(world: World, part: Part, kind: str, fault: Fault) -> None:
    """Let a part fail in one way, and look at everybody, while it does and afterwards."""
    said = await outcome(part.poke(world))
    assert said, (kind, "nobody was answered")
    answer = await outcome(world.say("other", f"other during {kind}"))
    assert "outcome='answered'" in answer or (part.is_for_all and answer), answer
    with anyio.fail_after(WAIT_S):
        await world.write("two", f"other two {kind}")
        assert await world.status("/livez") == 200, kind
        assert await world.status("/readyz") in {200, 503}, kind
        if not part.is_for_all:
            await world.until_read("two", f"re other two {kind}")
    with anyio.fail_after(WAIT_S):
        await until(fault.was_met)
    fault.disarm()
    assert (await world.say("victim", f"after {kind}")).outcome == "answered", kind
    await world.write("one", f"after one {kind}")
    await world.until_read("one", f"re after one {kind}")
    await world.until_kept("one")
    await world.until_answered()
    if not part.is_mended_by_start:
        await world.until_told()


FROM_THE_START = [
    Part(FileStore, "active", wait),
    Part(Cursors, "run", wait, is_cursor_of_one),
    Part(WriteBehind, "run", wait, OfKey("models.json")),
    Part(Scheduler, "serve", wait),
    Part(Wiki, "listing", look_up),
    Part(Wiki, "watch", look_up),
]


@table("part", FROM_THE_START, ids=str)
async def test_a_part_that_fails_from_the_start_takes_nothing_down(
    part: Part, tmp_path: Path
) -> None:
    """The rest begins and works, and what was under way at the stop goes on once that can."""
    await anyio.to_thread.run_sync(write_folder, tmp_path)
    adapters: dict[str, FeedingAdapter] = {}
    for kind, error in kinds_for(FROM_THE_START.index(part)).items():
        async with open_world(tmp_path, adapters) as world:
            await world.prepare(kind)
            victim = world.victim
            await world.leave_open(f"open at {kind}")
        fault = Fault()
        fault.arm(error)
        with fault.at(part.owner, part.method, part.belongs):
            async with open_world(tmp_path, adapters) as world:
                world.victim = victim
                assert await outcome(part.poke(world)), (kind, "nobody was answered")
                assert (await world.say("other", f"other at {kind}")).outcome == "answered", kind
                await world.write("two", f"other two at {kind}")
                await world.until_read("two", f"re other two at {kind}")
                assert await world.status("/livez") == 200, kind
                with anyio.fail_after(WAIT_S):
                    await until(fault.was_met)
                fault.disarm()
                assert (await world.say("victim", f"after {kind}")).outcome == "answered", kind
                await world.until_answered()


async def outcome(work: Awaitable[object]) -> str:
    """Return how something came out, in words; empty where it did not within the time."""
    with anyio.move_on_after(ANSWER_S):
        try:
            return repr(await work)
        except Exception as error:  # noqa: BLE001 - any answer is one
            return repr(error)
    return ""
