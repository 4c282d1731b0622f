"""One gateway that does all that a gateway does, on real files, and that may die at any moment.

A burst of messages that become one turn, shown as it comes and sent in three messages; a turn with
tools side by side, a large result, an approval that is given and one that expires, and a message
that steers it; a client over an API whose conversation is summarised, saved and compacted; a
scheduled message, a scheduled task and a webhook; a background process that tells its end.

The script is a list of steps. People repeat what was not acknowledged, under the same name, so a
gateway that is started again goes on with the step that was under way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from unittest import mock

import anyio
import yaml
from anyio import to_thread
from anyio.lowlevel import checkpoint
from support.full_world import (
    API,
    ASK_S,
    BUILD,
    CREW,
    KEYS,
    LARGE,
    Asks,
    Doing,
    Mark,
    Model,
    Postbox,
    Supervisors,
    World,
    Writer,
    adapter_to,
)
from support.patience import WAIT_S
from support.processes import TrustedConfinement
from support.ticking import Shelf

from everturn_actors.errors import CoreError
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.journal.writer import Writer as JournalWriter
from everturn_actors.model import IncomingMessage, Queueing
from everturn_actors.ports import Agent, Summariser, Tool, ToolCapabilities
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.spec import AgentSpec, ModelSpec, SessionSpec
from everturn_actors.testing import ManualClock, StaticAgents
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_channels.delivery import Deliverer
from everturn_channels.delivery.rate_limiter import DOUBT_S, RateLimiter
from everturn_channels.settings import ChannelSettings
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.job_registry import JobNeeds
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.scheduler import JobStorage, open_scheduler
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.marks import MarkedWorkspaces
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.table import open_processes
from everturn_gateway.tools.processes.tmux import Tmux
from everturn_gateway.tools.processes.tool import BackgroundProcess

QUIET = 30  # rounds of the loop in which nothing touches a disk
REST_S = 300.0
RESTS = 6  # waits of five minutes; what is pending takes one or two of them
READS = ToolCapabilities(read_only=True)
QUESTIONS = 12  # of the client: enough for a summary and a snapshot
HOLD_S = 1.5

JOBS: dict[str, dict[str, Any]] = {
    "says": {
        "at": "2026-01-02T08:00:00+00:00", "message": "It is eight.",
        "to": {"channel": "tg", "chat": "chat"},
    },
    "thinks": {
        "at": "2026-01-02T08:10:00+00:00", "task": "Think.",
        "to": {"channel": "tg", "chat": "chat"},
    },
    "posts": {
        "at": "2026-01-02T08:20:00+00:00", "message": "It is twenty past.",
        "to": {"webhook": "https://hooks.example/1"},
    },
}  # fmt: skip


def spec(name: str, *, window: int = 40_000, **session: Any) -> AgentSpec:
    """Return the values of an agent."""
    model = ModelSpec(
        provider="scripted", name="scripted", context_window=window, max_output_tokens=500
    )
    return AgentSpec(
        name=name, model=model, session=SessionSpec(on_disconnect="continue", **session)
    )


SPECS = {
    "talker": spec("talker"),
    "worker": spec("worker"),
    "reader": spec("reader", window=4_000),
}


def prepare(folder: Path) -> None:
    """Write what an operator writes: the jobs. Blocking."""
    jobs = folder / "schedules"
    jobs.mkdir(parents=True)
    for name, fields in JOBS.items():
        (jobs / f"{name}.yaml").write_text(yaml.safe_dump({"agent": "talker", **fields}))


class Threads:
    """Counts the worker threads that are at work, so that one can wait until none is."""

    def __init__(self) -> None:
        self.held = 0
        "Of them, how many a test keeps from going on."
        self._working = 0
        self._real = to_thread.run_sync

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count for a block."""

        async def run_sync(*args: Any, **more: Any) -> Any:
            self._working += 1
            try:
                return await self._real(*args, **more)
            finally:
                self._working -= 1

        hand_over, done = JournalWriter._hand_over, JournalWriter._done

        def counted_hand_over(writer: JournalWriter) -> None:
            was_working = bool(writer._batch)
            hand_over(writer)
            self._working += bool(writer._batch) - was_working

        def counted_done(writer: JournalWriter, took_s: float, fault: BaseException | None) -> None:
            self._working -= 1
            done(writer, took_s, fault)

        with (
            mock.patch.object(to_thread, "run_sync", run_sync),
            mock.patch.object(JournalWriter, "_hand_over", counted_hand_over),
            mock.patch.object(JournalWriter, "_done", counted_done),
        ):
            yield

    async def settle(self) -> None:
        """Wait until nothing goes on that does not wait for the clock, or for a test."""
        quiet = 0
        while quiet < QUIET:
            quiet = 0 if self._working > self.held else quiet + 1
            if quiet:
                await checkpoint()
            else:
                await anyio.sleep(0.0002)  # a thread works: let it have the machine


@dataclass
class Gateway:
    """A gateway that lives, and the people around it."""

    folder: Path
    world: World
    clock: ManualClock
    mark: Mark
    threads: Threads
    supervisors: Supervisors
    service: TurnService
    patience: int = 2 * RESTS
    "How many waits for what is pending there are in a rest."
    is_slow: Callable[[], bool] = lambda: False
    "Whether a disk keeps somebody waiting: the script does not go on then."

    # --- what people do; where it was done, nothing happens ---

    async def say(self, name: str, text: str, *, to: str, debounce_s: float = 0) -> None:
        """Send a message, as a platform that hands in again what was not acknowledged."""
        if name in self.world.accepted:
            return
        await self.service.submit(
            IncomingMessage(
                text=text,
                key=KEYS[to],
                sender="alice",
                idempotency_key=name,
                reply_to=name if to != "api" else "",
                queueing=Queueing(debounce_s=debounce_s),
            )
        )
        self.world.accepted[name] = (to, text)
        self.mark(f"{name} is acknowledged")

    async def ask(self, name: str, text: str) -> None:
        """Ask over the API, and wait for the answer; ask again where the connection broke."""
        if name in self.world.answers:
            return
        inbound = IncomingMessage(text=text, key=API, idempotency_key=name)
        submission = await self.service.submit(inbound)
        self.world.accepted[name] = ("api", text)
        self.mark(f"{name} is acknowledged")
        result = await submission.result()
        assert result.outcome == "answered", result
        self.world.answers[name] = result.text
        self.mark(f"{name} is answered")

    async def allow(self, call_id: str) -> None:
        """ButtonClick the button of a question that is open."""
        session_id = await self.service.conversations.current(CREW)
        for approval in (await self.service.view(session_id)).open_approvals:
            if approval.call_id == call_id:
                await self.service.decide(session_id, call_id, "allow_once", by="alice")
                self.mark(f"{call_id} is allowed")

    # --- time ---

    async def settle(self) -> None:
        """Wait until nothing goes on that does not wait for the clock."""
        await self.threads.settle()
        while self.is_slow():
            await anyio.sleep(0.001)
            await self.threads.settle()

    async def rest(self) -> None:
        """Wait until nothing is pending but an answer of a person; let doubts pass for that."""
        await self.settle()
        for number in range(self.patience):
            if not await self._owes():
                return
            self.clock.advance(REST_S if number % 2 else DOUBT_S)
            await self.settle()

    async def _owes(self) -> bool:
        for key in KEYS.values():
            session_id = await self.service.conversations.current(key)
            if not session_id:
                continue
            try:
                state = await self.service.view(session_id)
            except CoreError:  # it was bound, and never began
                continue
            if state.open_approvals:
                continue
            if state.open_turn is not None or state.waiting or state.outbox:
                return True
        return False

    async def advance_to(self, moment: str) -> None:
        """Let the clock go on, unless it is later already."""
        left_s = (datetime.fromisoformat(moment) - self.clock.now()).total_seconds()
        if left_s > 0:
            self.clock.advance(left_s)
            self.mark(f"it is {moment[11:16]}")


Record: TypeAlias = Callable[[str, bytes], None]
Step: TypeAlias = Callable[[Gateway], Awaitable[None]]


def burst(number: int) -> Step:
    """Return a message of a burst."""
    return lambda g: g.say(f"b{number}", f"burst {number}", to="chat", debounce_s=HOLD_S)


async def end_burst(gateway: Gateway) -> None:
    """Let the turn begin that waits for more of the burst."""
    gateway.clock.advance(HOLD_S)
    await gateway.rest()


async def expire(gateway: Gateway) -> None:
    """Let the question expire that nobody answers."""
    await gateway.settle()
    gateway.clock.advance(ASK_S)
    await gateway.rest()


async def steer(gateway: Gateway) -> None:
    """Steer, where that was not acknowledged."""
    await gateway.say("steer", "not that one", to="crew")
    await gateway.rest()


def question(number: int) -> Step:
    """Return a question of the client."""
    return lambda g: g.ask(f"q{number}", f"ask {number:02} " + f"word{number} " * 150)


def due(name: str) -> Step:
    """Return the time of a job."""

    async def step(gateway: Gateway) -> None:
        await gateway.advance_to(JOBS[name]["at"])
        await gateway.rest()

    return step


async def build(gateway: Gateway) -> None:
    """Ask for a process in the background."""
    await gateway.say("p1", "build it", to="build")
    await gateway.rest()


async def end_process(gateway: Gateway) -> None:
    """Let it end."""
    await to_thread.run_sync(gateway.supervisors.end_all)
    await gateway.rest()
    for _ in range(100):  # its end comes by a pipe, and is seen when the loop looks
        if not gateway.world.supervisors or "p1" not in gateway.world.accepted:
            break
        session_id = await gateway.service.conversations.current(BUILD)
        if (await gateway.service.view(session_id)).turns > 1:
            break
        await anyio.sleep(0.002)
        await gateway.rest()
    await gateway.rest()


SCRIPT: tuple[tuple[str, Step], ...] = (
    *((f"burst {number}", burst(number)) for number in (1, 2, 3)),
    ("burst ends", end_burst),
    ("tools", lambda g: g.say("t1", "tools, please", to="crew")),
    ("approval", lambda g: g.allow("ask1")),
    ("expiry", expire),
    ("steering", steer),
    *((f"question {number}", question(number)) for number in range(1, QUESTIONS + 1)),
    *((f"job {name}", due(name)) for name in JOBS),
    ("process", build),
    ("process ends", end_process),
)
PARTS = (
    *("burst",) * 4, *("tools",) * 4, *("summary",) * QUESTIONS, *("jobs",) * len(JOBS),
    *("process",) * 2, "stop",
)  # fmt: skip
"The part of the scenario that each step belongs to; the last one is the stop of the gateway."


def _tools(gateway: Callable[[], Gateway], world: World, mark: Mark) -> dict[str, Tool]:
    async def steer_now() -> None:
        await gateway().say("steer", "not that one", to="crew")

    made = (
        Doing("read", world, mark, capabilities=READS),
        Doing("page", world, mark, capabilities=READS, gives=LARGE),
        Doing("note", world, mark, capabilities=ToolCapabilities(repeatable=True)),
        *(Doing(name, world, mark) for name in ("send", "ask", "careful")),
        Doing("steered", world, mark, first=steer_now),
    )
    return {tool.definition.name: tool for tool in made}


@contextmanager
def _edges(supervisors: Supervisors) -> Generator[None]:
    """Put doubles in the place of two edges: the supervisor, and the watch on the job files."""

    async def start(process: Process, tmux: Tmux) -> None:
        del tmux
        await to_thread.run_sync(supervisors.begin, process.folder)

    async def watch(book: JobStore, on_change: Callable[[], Awaitable[object]]) -> NoReturn:
        del book
        await on_change()
        await anyio.sleep_forever()
        raise AssertionError

    with mock.patch.object(Process, "start", start), mock.patch.object(JobStore, "watch", watch):
        yield


@asynccontextmanager
async def open_gateway(
    folder: Path, world: World, record: Record, *, threads: Threads | None = None
) -> AsyncGenerator[Gateway]:
    """Open a gateway on a folder, in a world; leave it as a stop does.

    `record` is told of all that happens outside, with the world as it stands then.
    """
    threads = threads or Threads()
    clock = ManualClock(world.now)

    def mark(what: str) -> None:
        record(what, world.pack(clock.now()))

    supervisors = Supervisors(folder, world, mark)
    model = Model(clock, mark, threads.settle)
    link = ServiceLink()
    environment = ToolEnvironment(
        agent="worker", home=folder.parent / "home", files=folder.parent / "files", state=folder,
        environ={"PATH": "/usr/bin:/bin"}, secrets=SecretRegistry(), link=link,
        marks=MarkedWorkspaces(folder).of(folder.parent / "files"),
    )  # fmt: skip
    here: list[Gateway] = []
    async with AsyncExitStack() as stack:
        stack.enter_context(threads.counted())
        stack.enter_context(_edges(supervisors))
        await to_thread.run_sync(supervisors.take_up)
        stack.callback(supervisors.let_go)
        store = await stack.enter_async_context(open_file_store(folder))
        scratch = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        table = await stack.enter_async_context(
            open_processes(
                folder, clock, link, environ=environment.environ, secrets=environment.secrets
            )
        )
        process = BackgroundProcess(
            environment, table, TrustedConfinement(sandbox="none"), 8, wait_s=600, glance_s=0
        )
        tools: dict[str, Tool] = {"background_process": process}
        tools |= _tools(lambda: here[0], world, mark)
        summariser = Summariser(provider=Writer(), model=SPECS["reader"].model)
        agents = {
            name: Agent(
                spec=each, provider=model, tools=tools if name == "worker" else {},
                gate=Asks(world, mark), summariser=summariser if name == "reader" else None,
            )
            for name, each in SPECS.items()
        }  # fmt: skip
        delivery_ports = {
            name: Deliverer(
                adapter_to(name, world, mark), settings=ChannelSettings(streaming=name == "tg"),
                clock=clock, limiter=RateLimiter(clock, lambda: 0.0),
            )
            for name in ("tg", "dc")
        }  # fmt: skip
        service = await stack.enter_async_context(
            open_service(
                store=store, scratch=scratch, agents=StaticAgents(agents), clock=clock,
                settings=ServiceSettings(leave_grace_s=0, drain_s=0),
                ports=ServicePorts(
                    model_statistics=InMemoryModelStatistics(), delivery_ports=delivery_ports
                ),
            )
        )  # fmt: skip
        scheduler = await stack.enter_async_context(
            open_scheduler(
                JobStorage(folder=folder / "schedules", keyed=FileKeyedStore(folder)),
                runner=JobRunner(service, Postbox(world, mark)),
                needs=JobNeeds(
                    agents=Shelf(agents=tuple(SPECS)), channels=frozenset(("tg", "dc")),
                    is_running=table.is_running,
                ),
                clock=clock,
            )
        )  # fmt: skip
        link.connect(service, scheduler)
        gateway = Gateway(folder, world, clock, mark, threads, supervisors, service)
        here.append(gateway)
        table.on_ended = scheduler.process_ended
        table.resume()
        async with anyio.create_task_group() as tasks:
            await scheduler.load()
            tasks.start_soon(scheduler.serve)
            yield gateway
            tasks.cancel_scope.cancel()


async def live(gateway: Gateway) -> None:
    """Go on with the script from the step that is under way."""
    await gateway.settle()
    if gateway.world.step:
        await gateway.rest()
    while gateway.world.step < len(SCRIPT):
        await SCRIPT[gateway.world.step][1](gateway)
        await gateway.settle()
        gateway.world.step += 1
        gateway.mark(f"step {gateway.world.step} is done")


async def live_through(folder: Path, world: World, record: Record) -> None:
    """Open a gateway, let it live to the end of the script, and stop it."""
    with anyio.fail_after(WAIT_S):
        async with open_gateway(folder, world, record) as gateway:
            await live(gateway)
