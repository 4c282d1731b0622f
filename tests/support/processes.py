"""A conversation with `background_process`: real processes, a real service, a scripted model."""

from __future__ import annotations

import json
import os
import select
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil
from anyio import to_thread
from support.patience import WAIT_S

from everturn_actors.events import Received
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ConversationKey, ToolCall
from everturn_actors.ports import Clock, SessionStore, ToolContext, ToolOutput
from everturn_actors.testing import ManualClock, TestService, open_test_service
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.marks import MarkedWorkspaces
from everturn_gateway.tools.processes.leftovers import end_leftovers
from everturn_gateway.tools.processes.notifications import SENDER
from everturn_gateway.tools.processes.table import ProcessTable, open_processes
from everturn_gateway.tools.processes.tool import BackgroundProcess
from everturn_gateway.tools.shell.confinement.sandbox import Confinement

DEADLINE_S = WAIT_S  # of anything that has to happen; all of it takes milliseconds
KEY = ConversationKey(channel="test", chat="chat", agent="test")


class TrustedConfinement(Confinement, frozen=True):
    """Plain commands whose output counts as the machine's own, as that of a cut-off sandbox."""

    @property
    def reaches_network(self) -> bool:
        """Whether what a command prints may come from the network."""
        return False


@dataclass(slots=True, kw_only=True)
class ProcessWorld:
    """An agent with the tool, in one conversation."""

    folder: Path
    test: TestService
    table: ProcessTable
    tool: BackgroundProcess
    environment: ToolEnvironment
    session_id: str

    @property
    def files(self) -> Path:
        """The agent's workspace."""
        return self.environment.files

    async def call(self, action: str, **arguments: object) -> ToolOutput:
        """Make a call of the tool as the loop does."""
        return await self.call_in(KEY, action, arguments)

    async def call_in(
        self, key: ConversationKey, action: str, arguments: Mapping[str, object]
    ) -> ToolOutput:
        """Make a call in some conversation."""
        call = ToolCall(
            call_id="c1",
            name="background_process",
            arguments=json.dumps({"action": action, **arguments}),
        )
        context = ToolContext(session_id=self.session_id, key=key, store=self.test.store)
        with anyio.fail_after(DEADLINE_S):
            output = await self.tool.run(call, context)
        return output if isinstance(output, ToolOutput) else ToolOutput(text=output)

    async def spawn(self, command: str, **arguments: object) -> str:
        """Start a process that goes on; return its handle."""
        said = (await self.call_in(KEY, "spawn", {"command": command, **arguments})).text
        assert said.startswith("started "), said
        return said.split()[1].rstrip(";")

    async def wait_for(self, command: str) -> ToolOutput:
        """Run a command to its end."""
        return await self.call("spawn", command=command, wait=True)

    async def until_ended(self, handle: str) -> None:
        """Wait until a process has ended and that is on disk."""
        with anyio.fail_after(DEADLINE_S):
            await self.table.find(KEY, handle).ended.wait()

    async def told(self, session_id: str = "") -> list[str]:
        """Return the messages about processes that a session has got, oldest first."""
        events = await self.test.service.history(session_id or self.session_id, after=0, limit=1000)
        bodies = (event.body for event in events)
        return [b.text for b in bodies if isinstance(b, Received) and b.sender == SENDER]

    async def next_told(self, count: int = 1) -> str:
        """Wait until the conversation has got so many messages in all; return the last."""
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for update in self.test.service.watch(self.session_id, after=0):
                body = getattr(update, "body", None)
                if isinstance(body, Received) and body.sender == SENDER:
                    seen += 1
                    if seen == count:
                        return body.text
        message = "the session ended"
        raise AssertionError(message)


def make_site(folder: Path, agent: str = "test") -> ToolEnvironment:
    """Return where an agent works below `folder`."""
    environment = ToolEnvironment(
        agent=agent,
        home=folder / "agents" / agent,
        files=folder / "files",
        state=folder / "state",
        environ={"PATH": os.environ["PATH"]},
        secrets=SecretRegistry(),
        link=ServiceLink(),
        marks=MarkedWorkspaces(folder / "state").of(folder / "files"),
    )
    for path in (environment.home, environment.files, environment.state):
        path.mkdir(parents=True, exist_ok=True)
    return environment


@asynccontextmanager
async def open_desk(
    folder: Path,
    *,
    disk: MemoryDisk | None = None,
    on_disk: bool = False,
    clock: Clock | None = None,
    trusted: bool = True,
    max_processes: int = 8,
    wait_s: float = 600,
    resume: bool = True,
    session_id: str = "",
    glance_s: float = 0.0,
) -> AsyncGenerator[ProcessWorld]:
    """Open the tool on `folder`; opened again with the same folder and disk, a restart.

    Whatever still runs in the folder when the block ends goes on running. A process that ends at
    once counts as started, unless `glance_s` gives it time to be seen to end. `on_disk` keeps the
    sessions in files, so that another process can go on with them.
    """
    clock = clock or ManualClock()
    environment = await to_thread.run_sync(make_site, folder)
    async with (
        open_processes(
            environment.state,
            clock,
            environment.link,
            environ=environment.environ,
            secrets=environment.secrets,
        ) as table,
        _open_store(environment.state, disk, on_disk=on_disk) as store,
        open_test_service(store=store, clock=clock) as test,
    ):
        environment.link.connect(test.service)
        if resume:
            table.resume()
        kind = TrustedConfinement if trusted else Confinement
        confinement = kind(sandbox="none")
        tool = BackgroundProcess(
            environment, table, confinement, max_processes, wait_s=wait_s, glance_s=glance_s
        )
        yield ProcessWorld(
            folder=folder,
            test=test,
            table=table,
            tool=tool,
            environment=environment,
            session_id=session_id or await test.service.conversations.create(KEY),
        )


def _open_store(
    state: Path, disk: MemoryDisk | None, *, on_disk: bool
) -> AbstractAsyncContextManager[SessionStore]:
    return open_file_store(state) if on_disk else open_memory_store(disk or MemoryDisk())


class Gate:
    """A FIFO that a command waits at: `read x < gate`, or `cat gate`."""

    def __init__(self, files: Path, name: str = "gate") -> None:
        """Make it in the workspace."""
        self.path = files / name
        os.mkfifo(self.path)

    async def open(self, text: str = "\n") -> None:
        """Let the command go on; returns when it was there, and has `text`."""
        with anyio.fail_after(DEADLINE_S):
            await to_thread.run_sync(self._write, text)

    async def passed(self) -> str:
        """Wait for a command that writes to it, `echo $x > gate`; return what it wrote."""
        with anyio.fail_after(DEADLINE_S):
            return await to_thread.run_sync(self.path.read_text)

    def _write(self, text: str) -> None:
        self.path.write_text(text)


def end_all(folder: Path) -> None:
    """Kill whatever a test left running below `folder`, supervisors included."""
    for path in folder.glob("**/processes/p*"):
        end_leftovers(path.name)


def is_running(pid: int) -> bool:
    """Whether a process of this id is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is nobody's child here. Blocking."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], DEADLINE_S)[0], f"process {pid} does not end"
    finally:
        os.close(fd)
