"""All background processes of a gateway: started, followed to their end, told of, kept for a while.

A process belongs to the conversation that started it. It runs beside the gateway
(`supervisor`), so when the gateway starts again it finds what still runs, and what has
ended meanwhile.
"""

from __future__ import annotations

import logging
import secrets as random
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_actors.supervisor import Supervisor
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.marks import MarkedFiles, MarkedWorkspaces, now_ns
from everturn_gateway.tools.processes.files import ProcessFiles
from everturn_gateway.tools.processes.follower import ProcessFollower, home_of
from everturn_gateway.tools.processes.output import Output, read_output
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.records import (
    BadRecordError,
    Ending,
    ProcessRecord,
    create,
    give_up,
    read_ending,
    read_record,
)
from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder
from everturn_gateway.tools.processes.tmux import Tmux
from everturn_gateway.tools.shell.confinement.environment import home_environ
from everturn_gateway.tools.shell.confinement.run_as import give_folder

logger = logging.getLogger(__name__)

FOLDER: Final = "processes"
_CANCEL_S: Final = 1.0


class Order(Struct, frozen=True, kw_only=True):
    """A process that is to be started."""

    agent: str
    session_id: str
    key: ConversationKey
    command: str
    "As the model gave it."
    argv: tuple[str, ...]
    "What runs: the command in its sandbox."
    cwd: Path
    environ: Mapping[str, str]
    has_home: bool
    "Whether its sandbox makes the home that `environ` names; else it gets one for a while."
    runs_as: str = ""
    "The user that it becomes, to whom that home belongs; empty = the gateway's own."
    label: str
    interactive: bool
    takes_input: bool
    timeout_s: float
    marks: MarkedFiles
    "Those of the workspace."
    outside: tuple[str, ...]
    "The text from outside that is behind it, by source."
    max_processes: int
    "How many of the agent may run at the same time."


class ProcessTable:
    """The processes of a gateway; `open_processes` makes it."""

    def __init__(
        self,
        *,
        folder: Path,
        processes: dict[str, Process],
        files: ProcessFiles,
        follower: ProcessFollower,
        clock: Clock,
        tmux: Tmux,
    ) -> None:
        """Only `open_processes` makes one."""
        self.tmux = tmux
        self.clock = clock
        self.files, self.follower = files, follower
        self._folder = folder
        self._processes = processes

    @property
    def on_ended(self) -> Callable[[str], Awaitable[None]] | None:
        """Called with the handle of each process that has ended, once that is recorded.

        It may raise `OSError`, which is logged. Of what ended before, `is_running` tells.
        """
        return self.follower.on_ended

    @on_ended.setter
    def on_ended(self, call: Callable[[str], Awaitable[None]] | None) -> None:
        self.follower.on_ended = call

    def resume(self) -> None:
        """Begin to tell conversations what has ended; call it when the service is open."""
        self.follower.resume()

    # --- finding ---

    def of(self, key: ConversationKey) -> tuple[Process, ...]:
        """Return the processes of a conversation, oldest first."""
        mine = [each for each in self._processes.values() if each.record.key == key]
        return tuple(sorted(mine, key=lambda each: each.record.began_at))

    def find(self, key: ConversationKey, handle: str) -> Process:
        """Return a process of a conversation.

        Raises:
            ToolFailedError: The conversation has none of this handle; names those it has.
        """
        found = self._processes.get(handle)
        if found is None or found.record.key != key:
            known = ", ".join(each.record.handle for each in self.of(key)) or "none"
            msg = f"there is no process {handle[:40]!r} here; there are: {known}"
            raise ToolFailedError(msg)
        return found

    def is_running(self, handle: str) -> bool:
        """Return whether there is a process of this handle, of any conversation, and it runs."""
        found = self._processes.get(handle)
        return found is not None and found.ending is None

    # --- starting and ending ---

    async def spawn(self, order: Order) -> Process:
        """Start a process; return when its command runs.

        Raises:
            ToolFailedError: Too many run, or it could not be started; then it never will.
        """
        self._check_room(order)
        handle = self._new_handle()
        record = ProcessRecord(
            handle=handle,
            agent=order.agent,
            session_id=order.session_id,
            key=order.key,
            command=order.command,
            label=order.label,
            workdir=str(order.cwd),
            interactive=order.interactive,
            timeout_s=order.timeout_s,
            began_at=self.clock.now(),
            files=str(order.marks.root),
            since_ns=now_ns(),
            outside=order.outside,
        )
        process = Process(folder=self._folder / handle, record=record)
        self._processes[handle] = process
        try:
            await self.files.follow(process)
            await to_thread.run_sync(self._prepare, process, order)
            await process.start(self.tmux)
        except OSError as error:
            await self._undo(process)
            msg = f"the process could not be started: {error.strerror or error}"
            raise ToolFailedError(msg) from error
        except BaseException:
            await self._undo(process)
            raise
        self.follower.begin(process)
        return process

    def _new_handle(self) -> str:
        while True:
            handle = f"p{random.token_hex(5)}"
            if handle not in self._processes:
                return handle

    def _check_room(self, order: Order) -> None:
        running = [
            each.record
            for each in self._processes.values()
            if each.record.agent == order.agent and each.ending is None
        ]
        if len(running) >= order.max_processes:
            mine = [each.handle for each in running if each.key == order.key]
            here = f"; of this conversation: {', '.join(mine)}" if mine else ""
            msg = (
                f"{len(running)} processes of this agent run already, which is its limit{here};"
                " kill one, or wait for one to end"
            )
            raise ToolFailedError(msg)

    @staticmethod
    def _prepare(process: Process, order: Order) -> None:
        environ = {**order.environ, supervisor_folder.COOKIE: process.record.handle}
        if not order.has_home:
            environ |= home_environ(str(home_of(process)))
        start: supervisor_folder.Start = {
            "argv": list(order.argv),
            "cwd": str(order.cwd),
            "environ": environ,
            "timeout_s": order.timeout_s,
            "interactive": order.interactive,
            "input": order.takes_input,
        }
        create(process.folder, process.record, start)
        if not order.has_home:
            home_of(process).mkdir(mode=0o700)
            if order.runs_as:
                give_folder(home_of(process), order.runs_as)
        process.connect()

    async def _undo(self, process: Process) -> None:
        """Take back a start that failed or was cancelled: it never runs, or is killed."""
        with anyio.move_on_after(_CANCEL_S, shield=True):
            if not process.is_connected or await to_thread.run_sync(give_up, process.folder):
                process.disconnect()
                await self.files.let_go(process)
                await self.follower.remove(process)
                return
        process.claims += 1  # nobody has to be told
        process.command(supervisor_folder.KILL)
        self.follower.begin(process)

    async def wait(self, process: Process, limit_s: float) -> bool:
        """Wait for the end of a process; return whether it came in time. Then no message tells it.

        Cancellation kills the process.
        """
        process.claims += 1
        try:
            with anyio.move_on_after(limit_s):
                await process.ended.wait()
        except BaseException:
            process.command(supervisor_folder.KILL)  # it stays claimed: nobody wants to be told
            raise
        if process.ending is None:
            process.claims -= 1
            return False
        await process.ended.wait()
        return True

    async def kill(self, process: Process) -> Ending:
        """End a process, without a message about it; return how it ended.

        Raises:
            ToolFailedError: It does not end.
        """
        process.claims += 1
        try:
            return await process.kill()
        finally:
            process.claims -= 1

    async def forget(self, session_id: str) -> None:
        """Kill what a session has started, and keep nothing of it; for a session that is deleted.

        Returns when that is begun: what runs gets some seconds to end.
        """
        for process in tuple(self._processes.values()):
            if process.record.session_id != session_id:
                continue
            process.forgotten = True
            if process.ended.is_set():
                await self.follower.remove(process)
            else:
                process.claims += 1
                process.command(supervisor_folder.KILL)

    async def output(self, process: Process) -> Output:
        """Return what is kept of what a process printed."""
        return await to_thread.run_sync(read_output, process.folder)

    # --- after a restart ---

    def take_up(self) -> None:
        """Follow what an earlier gateway started, and tell what has ended meanwhile."""
        for process in self._processes.values():
            if process.ending is None:
                self.follower.begin(process)
                if process.record.watch is not None:
                    self.follower.begin_watching(process)
                continue
            process.ended.set()
            if not process.record.told:
                self.follower.begin(process)


@asynccontextmanager
async def open_processes(
    state: Path,
    clock: Clock,
    link: ServiceLink,
    *,
    environ: Mapping[str, str],
    secrets: SecretRegistry,
    marks: MarkedWorkspaces | None = None,
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[ProcessTable]:
    """Open the table of a workspace, with all that runs and has ended there.

    Nothing is told before `ProcessTable.resume`. What runs when the block ends goes on running.

    Args:
        state: The gateway's workspace; the table lives in `processes/` there.
        clock: The time.
        link: The way to the conversations.
        environ: Where tmux is looked for: its PATH.
        secrets: What no message may show.
        marks: Which files of workspaces hold text from outside; by default looked at anew.
        supervisor: Runs what follows each process; by default one of its own.
    """
    folder = state / FOLDER
    try:
        processes = await to_thread.run_sync(_load, folder)
    except OSError as error:  # conversations need none of them
        logger.error(
            "background processes cannot be taken up, and none can be started",
            extra={"path": str(folder), "error": str(error)},
        )
        processes = {}
    try:
        async with anyio.create_task_group() as group:
            tmux, files = Tmux(folder, environ), ProcessFiles(marks or MarkedWorkspaces(state))
            follower = ProcessFollower(
                processes=processes,
                files=files,
                clock=clock,
                link=link,
                secrets=secrets,
                tmux=tmux,
                group=group,
                supervisor=supervisor or Supervisor(clock),
            )
            table = ProcessTable(
                folder=folder,
                processes=processes,
                files=files,
                follower=follower,
                clock=clock,
                tmux=tmux,
            )
            table.take_up()
            try:
                yield table
            finally:
                group.cancel_scope.cancel()
    finally:
        for process in processes.values():
            process.disconnect()


def _load(folder: Path) -> dict[str, Process]:
    """Return what the folder holds, by handle; remove what was never begun to be."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # With its name all that is kept in it would be lost; a crash may have kept it from this before.
    supervisor_folder.sync_folder(folder.parent)
    found: dict[str, Process] = {}
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            continue
        try:
            record = read_record(path)
            if record is None:
                shutil.rmtree(path, ignore_errors=True)
                continue
            process = Process(folder=path, record=record, ending=read_ending(path))
            if process.ending is None:
                process.connect()
        except (BadRecordError, OSError) as error:
            logger.warning("a background process cannot be taken up", extra={"error": str(error)})
            continue
        found[record.handle] = process
    return found
