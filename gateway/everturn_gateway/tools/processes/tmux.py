"""Terminals for interactive processes: tmux sessions on a server of the gateway's own.

The server's socket lies in the gateway's state, where no confined command sees it: whoever reaches
it can run anything. A session has the handle of its process as its name.
Source: tmux(1), 3.3a.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired, run
from typing import Final

from anyio import to_thread

from everturn_actors.errors import ToolFailedError

_SOCKET: Final = "tmux.sock"
_DEADLINE_S: Final = 10.0  # of one command; it takes milliseconds
_COLUMNS: Final = 120
_ROWS: Final = 40
_SOCKET_CHARACTERS: Final = 100  # how long the path of a socket may be, with some room


class Tmux:
    """The tmux server of one workspace; it runs while it has sessions, gateway or not."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Put the socket into `folder`; find tmux on the PATH of `environ`."""
        self._folder = folder
        self._path = environ.get("PATH")
        # A socket's path may be too long for the system: commands run in its folder and name it
        # from there. What the server gets here, every session of every agent gets.
        self._environ = {"PATH": self._path or "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

    async def open(self, handle: str, argv: Sequence[str]) -> None:
        """Start a session with a program in it.

        Raises:
            ToolFailedError: There is no tmux, or it refuses.
        """
        size = ("-x", str(_COLUMNS), "-y", str(_ROWS))
        await self._run("new-session", "-d", "-s", handle, *size, "--", *argv)

    async def screen(self, handle: str) -> str:
        """Return what the screen of a session shows, without the empty lines below.

        Raises:
            ToolFailedError: There is no such session.
        """
        return (await self._run("capture-pane", "-p", "-t", f"={handle}:")).rstrip()

    async def paste(self, handle: str, text: str) -> None:
        """Type a text as it stands; line ends are Enter.

        Raises:
            ToolFailedError: There is no such session.
        """
        # Through standard input: an argument may be no longer than 16 KB, and tmux reads `;` in it.
        load = ("load-buffer", "-b", handle, "-", ";")
        paste = ("paste-buffer", "-d", "-b", handle, "-t", f"={handle}:")
        await self._run(*load, *paste, given=text.encode())

    async def press(self, handle: str, keys: Sequence[str]) -> None:
        """Press keys, by tmux's names of them.

        Raises:
            ToolFailedError: There is no such session.
        """
        await self._run("send-keys", "-t", f"={handle}:", "--", *keys)

    def attach_line(self, handle: str) -> str:
        """Return the command with which a person takes part in a session."""
        socket = self._folder / _SOCKET
        if len(str(socket)) <= _SOCKET_CHARACTERS:
            return shlex.join(("tmux", "-S", str(socket), "attach", "-t", handle))
        return f"cd {shlex.quote(str(self._folder))} && tmux -S {_SOCKET} attach -t {handle}"

    async def _run(self, *command: str, given: bytes | None = None) -> str:
        # In a thread, not by the event loop: uvloop leaves its children copies of their pipes
        # beside 0, 1 and 2, the server keeps them, and the end of its output would never come.
        done = await to_thread.run_sync(
            partial(self._run_blocking, command, given or b""), abandon_on_cancel=True
        )
        if done.returncode:
            msg = f"tmux: {done.stderr.decode(errors='replace').strip() or 'failed'}"
            raise ToolFailedError(msg)
        return done.stdout.decode(errors="replace")

    def _run_blocking(self, command: tuple[str, ...], given: bytes) -> CompletedProcess[bytes]:
        program = self._program()
        try:
            return run(
                [program, "-u", "-S", _SOCKET, "-f", "/dev/null", *command],
                input=given,
                capture_output=True,
                check=False,
                cwd=self._folder,
                env=self._environ,
                timeout=_DEADLINE_S,
            )
        except TimeoutExpired as error:
            msg = "tmux cannot be used: it does not answer"
            raise ToolFailedError(msg) from error
        except OSError as error:
            msg = f"tmux cannot be used: {error}"
            raise ToolFailedError(msg) from error

    def _program(self) -> str:
        found = shutil.which("tmux", path=self._path)
        if found is None:
            msg = (
                "an interactive process needs tmux, and it is not installed here; leave out"
                " interactive, or ask whoever runs this agent to install tmux"
            )
            raise ToolFailedError(msg)
        return found
