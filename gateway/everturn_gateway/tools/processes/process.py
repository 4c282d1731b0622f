"""One process as the gateway holds it: its record, the lines to its supervisor, and its end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.errors import ToolFailedError
from everturn_actors.outside import together
from everturn_gateway.tools.marks import Run
from everturn_gateway.tools.processes.leftovers import end_leftovers
from everturn_gateway.tools.processes.records import (
    Ending,
    ProcessRecord,
    Watch,
    give_up,
    last_words,
    read_ending,
    write_ending,
    write_record,
)
from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder
from everturn_gateway.tools.processes.supervisor import run
from everturn_gateway.tools.processes.tmux import Tmux

logger = logging.getLogger(__name__)

_START_S: Final = 15.0  # how long a supervisor process may take to begin; it takes 50 ms
_LOOK_AGAIN_S: Final = 0.02
_END_S: Final = supervisor_folder.GRACE_S + 5.0  # how long a supervisor process may take to end all
_SWEEP_S: Final = 5.0
_WRITE_S: Final = 10.0  # how long a process may take to read what is written to it


class Process(Struct, kw_only=True):
    """A process, running or ended; its supervisor process lives while somebody has `alive` open."""

    folder: Path
    record: ProcessRecord
    ending: Ending | None = None
    "None while it runs."
    ended: anyio.Event = field(default_factory=anyio.Event)
    "Set when it has ended and that is on disk."
    claims: int = 0
    "How many calls wait for its end and will tell it; then no message does."
    forgotten: bool = False
    "Nothing of it is kept when it has ended."
    watching: anyio.CancelScope | None = None
    run: Run | None = None
    "What its marked files are followed by; None where they are not yet."
    beginning: anyio.Lock = field(default_factory=anyio.Lock)
    "Held while that begins."
    _alive: int = -1
    _control: int = -1
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    _saving: anyio.Lock = field(default_factory=anyio.Lock)

    # --- its supervisor process ---

    def connect(self) -> None:
        """Open the lines to the supervisor process. Blocking; `disconnect` closes them.

        Raises:
            OSError: The folder is damaged.
        """
        self._alive = os.open(self.folder / supervisor_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        try:
            # Open for both directions, what is written waits for a supervisor process that is not
            # there yet.
            self._control = os.open(
                self.folder / supervisor_folder.CONTROL, os.O_RDWR | os.O_NONBLOCK
            )
        except OSError:
            self.disconnect()
            raise

    @property
    def is_connected(self) -> bool:
        """Whether the lines to the supervisor process are open."""
        return self._control >= 0

    def disconnect(self) -> None:
        """Close the lines; the process goes on."""
        for fd in (self._alive, self._control):
            if fd >= 0:
                os.close(fd)
        self._alive = self._control = -1

    def command(self, letter: bytes) -> None:
        """Tell the supervisor process something; one that is gone hears nothing."""
        if self._control >= 0:
            os.write(self._control, letter)

    async def start(self, tmux: Tmux) -> None:
        """Start the supervisor process; return when the command runs.

        Raises:
            ToolFailedError: No supervisor process began in time, or there is no terminal for it.
            OSError: The system refuses to start one.
        """
        program = [sys.executable, "-I", "-S", run.__file__, str(self.folder)]
        if self.record.interactive:
            mark = f"{supervisor_folder.COOKIE}={self.record.handle}"
            await tmux.open(self.record.handle, ["/usr/bin/env", mark, *program])
        else:
            await anyio.run_process(
                program,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env={supervisor_folder.COOKIE: self.record.handle},
                start_new_session=True,
                check=False,
            )
        with anyio.move_on_after(_START_S):
            while True:
                if await self._has_begun():
                    return
                await anyio.sleep(_LOOK_AGAIN_S)
        msg = (
            "the process could not be started: its supervisor process does not begin within"
            f" {_START_S:g} s"
        )
        raise ToolFailedError(msg)

    async def _has_begun(self) -> bool:
        """Whether the supervisor process has said so, or is already done."""
        if await self._said():
            return True
        return await to_thread.run_sync((self.folder / supervisor_folder.ENDING).exists)

    async def until_gone(self) -> Ending:
        """Wait until its supervisor has gone; return how it ended. What it left is killed."""
        while True:
            while await self._said():
                pass
            ending = await to_thread.run_sync(self._settle)
            if ending is not None:
                return ending

    async def _said(self) -> bytes:
        """Return what the supervisor process says next; nothing once it has gone."""
        while True:
            try:
                return os.read(self._alive, 64)
            except BlockingIOError:
                await anyio.wait_readable(self._alive)

    def _settle(self) -> Ending | None:
        """Return how it ended; None where a supervisor process has begun meanwhile. Blocking."""
        ending = read_ending(self.folder)
        if ending is not None:
            return ending
        if give_up(self.folder):
            ending = Ending(status="lost", note="the gateway was stopped before it could begin")
        else:
            try:
                os.read(self._alive, 64)
            except BlockingIOError:
                return None
            # Read once more: it may have ended between the two looks.
            ending = read_ending(self.folder)
            if ending is not None:
                return ending
            why = last_words(self.folder)
            note = "its supervisor process was killed" + (f", it said: {why}" if why else "")
            ending = Ending(status="lost", note=note)
        end_leftovers(self.record.handle)
        try:
            write_ending(self.folder, ending)
        except OSError as error:  # the next start finds the same
            fields = {"handle": self.record.handle, "error": str(error)}
            logger.warning("the end of a process cannot be recorded", extra=fields)
        return ending

    # --- what can be done with it ---

    async def mark_told(self) -> None:
        """Record that its end was told; return when that is durable.

        Raises:
            OSError: It could not be written; in memory it holds all the same.
        """
        self.record = replace(self.record, told=True)
        await self._save()

    async def add_outside(self, sources: Iterable[str]) -> None:
        """Record the text from outside that is behind it; return when that is durable.

        Raises:
            OSError: It could not be written; in memory it holds all the same.
        """
        found = together(sources, self.record.outside)
        if set(found) != set(self.record.outside):
            self.record = replace(self.record, outside=found)
            await self._save()

    async def set_watch(self, watch: Watch | None) -> None:
        """Record whether it is watched; return when that is durable.

        Raises:
            OSError: It could not be written; in memory it holds all the same.
        """
        self.record = replace(self.record, watch=watch)
        await self._save()

    async def _save(self) -> None:
        async with self._saving:
            await to_thread.run_sync(write_record, self.folder, self.record)

    async def kill(self) -> Ending:
        """End it and all that it started; return how it ended, when it has.

        Raises:
            ToolFailedError: It does not end.
        """
        self.command(supervisor_folder.KILL)
        with anyio.move_on_after(_END_S):
            await self.ended.wait()
        if self.ending is None:  # its supervisor process hangs
            await to_thread.run_sync(end_leftovers, self.record.handle)
            with anyio.move_on_after(_SWEEP_S):
                await self.ended.wait()
        if self.ending is None:
            msg = f"process {self.record.handle} does not end; ask a person to look at it"
            raise ToolFailedError(msg)
        return self.ending

    async def write(self, data: bytes) -> None:
        """Write to its standard input; return when it has been taken.

        Raises:
            ToolFailedError: Its input is closed, or it does not read.
        """
        async with self._writing:
            try:
                fd = await to_thread.run_sync(_open_input, self.folder / supervisor_folder.INPUT)
            except OSError as error:
                msg = f"the input of {self.record.handle} is closed"
                raise ToolFailedError(msg) from error
            rest = data
            try:
                with anyio.fail_after(_WRITE_S):
                    while rest:
                        rest = await _write_some(fd, rest)
            except TimeoutError as error:
                msg = (
                    f"{self.record.handle} does not read its input; {len(data) - len(rest)} of"
                    f" {len(data)} bytes were written"
                )
                raise ToolFailedError(msg) from error
            except BrokenPipeError as error:
                msg = f"{self.record.handle} closed its input"
                raise ToolFailedError(msg) from error
            finally:
                os.close(fd)

    def close_input(self) -> None:
        """Let its standard input end after what was written."""
        self.command(supervisor_folder.CLOSE_INPUT)


def _open_input(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK)


async def _write_some(fd: int, data: bytes) -> bytes:
    """Write what fits; return the rest."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        await anyio.wait_writable(fd)
        return data
