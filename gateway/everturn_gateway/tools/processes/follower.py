"""Follows processes to their end, and tells their conversations of it and of still screens."""

from __future__ import annotations

import logging
import secrets as random
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.ports import Clock
from everturn_actors.supervisor import TRANSIENT, Supervisor, attempt, contain
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.policy.outside.cleaning import clean, without_hidden
from everturn_gateway.tools.processes.files import ProcessFiles
from everturn_gateway.tools.processes.notifications import ScreenWatch, notify
from everturn_gateway.tools.processes.output import read_output
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.records import Watch
from everturn_gateway.tools.processes.texts import message_of_end
from everturn_gateway.tools.processes.tmux import Tmux

logger = logging.getLogger(__name__)

FINISHED_KEPT: Final = 30  # of an agent; each has up to 640 KB of output
_HOME: Final = "everturn-home-{}"  # of a process without a sandbox, by its handle, while it runs
_MESSAGE_LINES: Final = 30
_MESSAGE_CHARACTERS: Final = 3_000


def home_of(process: Process) -> Path:
    """Return the home of a process without a sandbox: where also another user gets to."""
    return Path(tempfile.gettempdir(), _HOME.format(process.record.handle))


class ProcessFollower(Struct, kw_only=True):
    """Waits for the end of each process, and looks at the screens that are watched."""

    processes: dict[str, Process]
    "All of them, by handle; those that are over leave it."
    files: ProcessFiles
    "What is behind them."
    clock: Clock
    link: ServiceLink
    "The way to the conversations."
    secrets: SecretRegistry
    "What no message may show."
    tmux: Tmux
    "Where screens are."
    group: anyio.abc.TaskGroup
    "In which they are followed."
    supervisor: Supervisor
    "Runs what follows each."
    on_ended: Callable[[str], Awaitable[None]] | None = None
    may_tell: anyio.Event = field(default_factory=anyio.Event)
    "Set once conversations may be told of ends."

    def resume(self) -> None:
        """Begin to tell conversations what has ended."""
        self.may_tell.set()

    def begin(self, process: Process) -> None:
        """Wait for its end from now on."""
        follow = partial(self._follow, process)
        name = f"process:{process.record.handle}"
        self.supervisor.start(self.group, name, follow, policy=TRANSIENT)

    def begin_watching(self, process: Process) -> None:
        """Look at its screen from now on."""
        process.watching = anyio.CancelScope()
        body = partial(self._watch, process, process.watching)
        name = f"process-watch:{process.record.handle}"
        self.supervisor.start(self.group, name, body, policy=TRANSIENT)

    async def watch(self, process: Process, quiet_s: float) -> None:
        """Tell the conversation whenever the screen of a process stands still for so long.

        Raises:
            OSError: That could not be recorded.
        """
        self._stop_watching(process)
        await process.set_watch(Watch(name=random.token_hex(4), quiet_s=quiet_s))
        self.begin_watching(process)

    async def unwatch(self, process: Process) -> None:
        """Watch it no longer.

        Raises:
            OSError: That could not be recorded.
        """
        self._stop_watching(process)
        await process.set_watch(None)

    async def remove(self, process: Process) -> None:
        """Keep nothing of a process that is over."""
        for folder in (home_of(process), process.folder):
            await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
        self.processes.pop(process.record.handle, None)

    async def _follow(self, process: Process) -> None:
        """Wait for the end of a process; then tell it, unless a call does.

        Where a step fails it is done again, and none of those before it.
        """
        await self.files.follow(process, has_gap=True)
        if process.ending is None:
            await self._take_end(process)
        await self._see_files_out(process)
        if not process.ended.is_set():
            if process.claims:
                await self._mark_told(process)
            process.ended.set()
            handle = process.record.handle
            await contain(f"end of process {handle}", partial(self._pass_on_end, handle))
        if process.forgotten:
            await self.remove(process)
            return
        if not process.record.told:
            await self._tell_end(process)
        await self._remove_old(process.record.agent)

    async def _take_end(self, process: Process) -> None:
        if not process.is_connected:
            await to_thread.run_sync(process.connect)
        try:
            ending = await process.until_gone()
        finally:
            process.disconnect()
        await to_thread.run_sync(partial(shutil.rmtree, home_of(process), ignore_errors=True))
        process.ending = ending
        if process.watching is not None:
            process.watching.cancel()
        fields = {"handle": process.record.handle, "status": ending.status}
        logger.info("a background process has ended", extra=fields)

    async def _see_files_out(self, process: Process) -> None:
        failure = await attempt(partial(self.files.look, process, ends=True))
        if failure is not None:
            logger.warning(
                "it cannot be recorded what was behind a process",
                extra={"handle": process.record.handle, "error": str(failure)},
            )

    async def _pass_on_end(self, handle: str) -> None:
        if self.on_ended is None:
            return
        try:
            await self.on_ended(handle)
        except OSError as error:  # seen at the next start, where the process does not run
            logger.warning(
                "the end of a process cannot be passed on",
                extra={"handle": handle, "error": str(error)},
            )

    async def _tell_end(self, process: Process) -> None:
        record, ending = process.record, process.ending
        assert ending is not None, "only an end is told"
        await self.may_tell.wait()
        output = await to_thread.run_sync(read_output, process.folder)
        # What came from outside has to be asked for: a message could not say that it is untrusted.
        shown = () if record.untrusted else output.last(_MESSAGE_LINES, _MESSAGE_CHARACTERS)
        text = self._cleaned(message_of_end(record, ending, shown, output.total))
        if await notify(self.link.service, self.clock, record, "exit", text):
            await self._mark_told(process)

    def _cleaned(self, text: str) -> str:
        return without_hidden(clean(text, self.secrets))

    async def _mark_told(self, process: Process) -> None:
        # Whatever fails there: in memory it holds, and whoever waits for the end is told of it. It
        # is told again at the next start, where the session knows it.
        failure = await attempt(process.mark_told)
        if failure is not None:
            logger.warning(
                "it cannot be recorded that a process was told",
                extra={"handle": process.record.handle, "error": str(failure)},
            )

    async def _remove_old(self, agent: str) -> None:
        over = [
            each
            for each in self.processes.values()
            if each.record.agent == agent and each.ended.is_set() and each.record.told
        ]
        over.sort(key=lambda each: each.record.began_at)
        for process in over[: max(0, len(over) - FINISHED_KEPT)]:
            await self.remove(process)

    @staticmethod
    def _stop_watching(process: Process) -> None:
        if process.watching is not None:
            process.watching.cancel()
            process.watching = None

    async def _watch(self, process: Process, scope: anyio.CancelScope) -> None:
        with scope:
            await self.may_tell.wait()
            look = partial(self.files.look, process)
            watch = ScreenWatch(
                process=process,
                tmux=self.tmux,
                service=self.link.service,
                clock=self.clock,
                clean=self._cleaned,
                look=look,
            )
            await watch.run()
