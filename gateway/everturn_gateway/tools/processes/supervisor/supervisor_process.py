"""Keeps one background process: runs its command, without the gateway and beyond its end.

Run as `python -I -S run.py FOLDER`: it needs the standard library and its own four modules, and
loads them at its start, so that it begins at once and lasts through updates of the gateway. The
folder holds `start.json`, which says what to run, and three FIFOs that the gateway made:

    alive     open here as long as this program runs: at its end the gateway reads end-of-file
    control   one letter a command: `k` end the process, `e` close its input
    input     bytes for its standard input

What it writes: `output.<byte>.<line>`, pieces of the output, named by where they begin: the first
and the newest are kept; `exit.json`, durable before this program ends.

In a terminal (`interactive`) the command runs on a pseudo-terminal of its own, and what passes
between the two is copied.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
import tty
from pathlib import Path
from typing import Final

from everturn_gateway.tools.processes.supervisor.folder import (
    ALIVE,
    CLAIMED,
    CLOSE_INPUT,
    CONTROL,
    ENDING,
    ERRORS,
    GRACE_S,
    INPUT,
    KILL,
    PIDS,
    START,
    STARTED,
    Ending,
    Start,
    open_fifo,
    replace_file,
)
from everturn_gateway.tools.processes.supervisor.log import Copy, Log
from everturn_gateway.tools.processes.supervisor.system import (
    IS_LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    descendants,
    name_of,
    prctl,
    send_to,
    signal_name,
)

_GIVE_UP_S: Final = 10.0  # after this, what survives SIGKILL is left: it hangs in the kernel
_LOOK_AGAIN_S: Final = 0.1
_ENDING_TRIES: Final = 60  # one a second, for the record of the end
_FLOW_BYTES: Final = 16 * 1024 * 1024  # of output a second; who prints more has to wait
_DRAIN_BYTES: Final = 1024 * 1024  # of output that is still read when all has ended
_EXEC_FAILED: Final = 127


class SupervisorProcess:
    """One process, from its start to the record of its end."""

    def __init__(self, folder: Path, start: Start) -> None:
        self._folder, self._start = folder, start
        self._log = Log(folder)
        self._began = time.monotonic()
        self._reason = ""
        "Why it is being ended, as a status; empty = it is not."
        self._note = ""
        self._asked_at: float | None = None
        "When it, or what it left behind, was asked to end."
        self._exit: int | None = None
        "How the command ended: its exit code, or a signal as a negative number."
        self._closing = False
        self._second, self._flowed = self._began, 0
        "Since when output is counted, and where it was then."
        self._child = 0
        self._input: Copy | None = None
        self._control = open_fifo(folder, CONTROL)
        self._wake, wake_w = os.pipe()
        for fd in (self._wake, wake_w):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
            signal.signal(number, _noted)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._output = self._run_in_terminal() if start["interactive"] else self._run_plain()

    # --- start ---

    def _run_plain(self) -> Copy:
        out_r, out_w = os.pipe()
        if self._start["input"]:
            in_r, in_w = os.pipe()
            os.set_blocking(in_w, False)
            self._input = Copy(open_fifo(self._folder, INPUT), in_w)
        else:
            in_r = os.open(os.devnull, os.O_RDONLY)
        os.set_blocking(out_r, False)
        self._child = self._fork((in_r, out_w, out_w))
        os.close(in_r)
        os.close(out_w)
        return Copy(out_r, None, self._log)

    def _run_in_terminal(self) -> Copy:
        tty.setraw(0)
        master, slave = os.openpty()
        for fd in (0, 1, master):
            os.set_blocking(fd, False)
        self._terminal = master
        self._resize()
        self._child = self._fork((slave, slave, slave))
        os.close(slave)
        self._input = Copy(0, master)
        return Copy(master, 1, self._log)

    def _fork(self, standard: tuple[int, int, int]) -> int:
        error_r, error_w = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                self._become_the_command(standard)
            except (OSError, ValueError) as error:
                os.write(error_w, f"it could not be run: {error}".encode(errors="replace"))
            finally:
                os._exit(_EXEC_FAILED)
        os.close(error_w)
        with os.fdopen(error_r, "rb") as said:  # at its end when the command runs
            self._note = said.read().decode(errors="replace")
        return pid

    def _become_the_command(self, standard: tuple[int, int, int]) -> None:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if self._start["interactive"]:
            fcntl.ioctl(standard[0], termios.TIOCSCTTY, 0)
        for fd, mine in enumerate(standard):
            os.dup2(mine, fd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self._start["cwd"])
        argv = self._start["argv"]
        os.execvpe(argv[0], argv, self._start["environ"])

    def _resize(self) -> None:
        """Give the command's terminal the size of the one it is shown in."""
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    # --- the loop ---

    def run(self) -> Ending:
        """Keep the process to its end; return how it ended."""
        while not self._is_over():
            reads, writes = [self._wake, self._control], list[int]()
            rest_s = self._rest_s()
            output = None if rest_s else self._output
            copies = [copy for copy in (output, self._input) if copy is not None]
            for copy in copies:
                copy.wishes(reads, writes)
            pause_s = min(self._pause_s(), rest_s or self._start["timeout_s"])
            readable, writable, _ = select.select(reads, writes, [], pause_s)
            for copy in copies:
                copy.step(readable, writable)
            if self._wake in readable:
                self._heed(os.read(self._wake, 512))
            if self._control in readable:
                self._obey(os.read(self._control, 512))
            self._close_input()
            self._reap()
        drained = 0
        while drained < _DRAIN_BYTES and (size := self._output.read()):
            drained += size
        return self._ending()

    def _is_over(self) -> bool:
        """Whether nothing is left; ask what is left to end, and end it when it takes too long."""
        now = time.monotonic()
        if self._exit is None and not self._reason:
            if now < self._began + self._start["timeout_s"]:
                return False
            self._reason, self._asked_at = "timed_out", None
        if self._asked_at is None:
            # Also what the command left behind when it ended by itself: it ends with it.
            self._asked_at = now
            return not self._send(signal.SIGTERM) and self._exit is not None
        late_s = now - self._asked_at
        left = self._send(signal.SIGKILL if late_s >= GRACE_S else 0)
        if left and late_s >= GRACE_S + _GIVE_UP_S:
            self._note = "some of its processes could not be ended"
            return True
        return not left and self._exit is not None

    def _pause_s(self) -> float:
        if self._asked_at is not None:
            return _LOOK_AGAIN_S
        return max(0.0, self._began + self._start["timeout_s"] - time.monotonic())

    def _rest_s(self) -> float:
        """Return for how long no output is to be read: a flood must not take a whole processor."""
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._flowed = now, self._log.offset
        flows = self._log.offset - self._flowed < _FLOW_BYTES
        return 0.0 if flows else max(0.001, self._second + 1 - now)

    def _heed(self, signals: bytes) -> None:
        if signal.SIGWINCH in signals and self._start["interactive"]:
            self._resize()
        if signal.SIGHUP in signals and self._start["interactive"]:
            self._end("its terminal was closed")
        if signal.SIGTERM in signals:
            self._end("the system asked it to end")

    def _obey(self, commands: bytes) -> None:
        if KILL in commands:
            self._end("")
        if CLOSE_INPUT in commands:
            self._closing = True

    def _end(self, note: str) -> None:
        if not self._reason and self._exit is None:
            self._reason, self._note, self._asked_at = "killed", note, None

    def _close_input(self) -> None:
        """Close the command's input when all of it has been passed on, or nobody reads it."""
        copy = self._input
        if copy is None or self._start["interactive"]:
            return
        sink = copy.sink
        if sink is None or (self._closing and not copy.held and not copy.read()):
            if sink is not None:
                os.close(sink)
            os.close(copy.source)  # so that nobody can write to it any more
            self._input = None

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._child:
                self._exit = os.waitstatus_to_exitcode(status)

    def _send(self, number: int) -> bool:
        """Send a signal to all that the command started (0: to nobody); return if any is left."""
        if not IS_LINUX:
            return self._send_to_group(number)
        found = False
        for pid, began in descendants(os.getpid()):
            found = True
            # A sandbox would end at once what is inside, which is to have its time.
            if number and not (number == signal.SIGTERM and name_of(pid) == "bwrap"):
                send_to(pid, began, number)
                if number == signal.SIGTERM and self._start["interactive"]:
                    send_to(pid, began, signal.SIGHUP)  # a shell in a terminal ignores SIGTERM
        return found

    def _send_to_group(self, number: int) -> bool:
        try:
            os.killpg(self._child, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # some systems say so of a group of zombies
            return self._exit is None
        return True

    # --- the end ---

    def _ending(self) -> Ending:
        code = self._exit
        if self._log.lost_bytes:
            lost = f"the disk took no more: {self._log.lost_bytes} bytes of its output are missing"
            self._note = f"{self._note}; {lost}" if self._note else lost
        ended_by = "" if code is None or code >= 0 else signal_name(-code)
        return {
            "status": self._reason or ("completed" if code == 0 else "failed"),
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": ended_by,
            "duration_s": round(time.monotonic() - self._began, 3),
            "note": self._note,
        }

    def pids(self) -> str:
        """Return the id of the command's process, and of this one."""
        return f"{self._child} {os.getpid()}"


def _noted(_number: int, _frame: object) -> None:
    """Leave a signal to the loop, which is woken by it."""


def _record(folder: Path, ending: Ending) -> None:
    """Write the record of the end. A disk that is full is given a minute."""
    for _ in range(_ENDING_TRIES):
        try:
            replace_file(folder / ENDING, json.dumps(ending).encode())
        except OSError as error:
            print(f"the end cannot be recorded: {error}", file=sys.stderr, flush=True)
            time.sleep(1)
        else:
            return


def main(folder: Path) -> int:
    """Keep the process of a folder; return 1 where there is nothing to keep."""
    # What it holds is for its command alone: no other process of this user looks into it.
    prctl(PR_SET_DUMPABLE, 0)
    errors = os.open(folder / ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, 2, inheritable=False)
    alive = open_fifo(folder, ALIVE)
    claimed = folder / CLAIMED
    try:
        (folder / START).rename(claimed)
    except FileNotFoundError:  # the gateway gave it up: it started again before this program began
        return 1
    start: Start = json.loads(claimed.read_bytes())
    claimed.unlink()
    if not start["interactive"] and os.fork():
        # The one that was started ends, and nobody's child goes on: nobody has to wait for it.
        os._exit(0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    supervisor_process = SupervisorProcess(folder, start)
    try:
        fd = os.open(folder / PIDS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(supervisor_process.pids())
    except OSError as error:  # only people want to know them
        print(f"its process ids are not kept: {error}", file=sys.stderr, flush=True)
    os.write(alive, STARTED)
    _record(folder, supervisor_process.run())
    return 0
