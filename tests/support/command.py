"""The installed command, run as a person runs it: in a folder, through pipes or in a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import pexpect
from pexpect.fdpexpect import fdspawn
from support.patience import WAIT_S
from support.warm_start import open_everturn

DEADLINE_S = WAIT_S  # a machine that runs other things as well needs its time
NOWHERE = "/nonexistent/everturn"  # what whoever runs the tests has set up is not found
_REST_S = 0.3  # what it began may hold its end of the pipe
_HAND_S = 0.05  # before each key: who types at once may be faster than what is asked
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][0-9A-Z]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command: this one without what would change its behaviour."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("EVERTURN_", "OPENAI_"))}
    kept.pop("NO_COLOR", None)
    kept["EVERTURN_HOME"] = NOWHERE
    return {**kept, "LANG": "C.UTF-8", "USER": "ann", "LOGNAME": "ann", **(extra or {})}


async def everturn(
    *arguments: str | bytes,
    cwd: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    has_platforms: bool = False,
) -> Done:
    """Run `everturn` to its end and return what it said.

    Args:
        arguments: What follows its name.
        cwd: Its folder.
        stdin: What it reads.
        env: Besides this environment.
        has_platforms: Whether it finds the libraries of chats imported, which takes seconds.
    """
    async with start(*arguments, cwd=cwd, env=env, has_platforms=has_platforms) as running:
        return await running.end(stdin)


async def _until(text: str, stream: anyio.abc.ByteReceiveStream | None) -> str:
    assert stream is not None
    said = b""
    with anyio.fail_after(DEADLINE_S):
        while text.encode() not in said:
            said += await stream.receive()
    return said.decode()


@dataclass(slots=True, kw_only=True)
class Running:
    """A command that runs."""

    process: anyio.abc.Process

    async def until(self, text: str) -> str:
        """Read stdout until `text` has come; return all of it."""
        return await _until(text, self.process.stdout)

    async def until_error(self, text: str) -> str:
        """Read stderr until `text` has come; return all of it."""
        return await _until(text, self.process.stderr)

    async def write(self, text: str) -> None:
        """Write to its stdin."""
        assert self.process.stdin is not None
        await self.process.stdin.send(text.encode())

    async def end(self, last: bytes = b"") -> Done:
        """Write `last`, close its stdin, wait for its end, and return the rest of what it says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        stdin, said = self.process.stdin, {"out": b"", "err": b""}

        async def write() -> None:
            with contextlib.suppress(anyio.BrokenResourceError):  # it reads no more
                await stdin.send(last)
            await stdin.aclose()

        async def read(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
            async for chunk in stream:
                said[name] += chunk

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tg:
                tg.start_soon(write)
                tg.start_soon(read, "out", self.process.stdout)
                tg.start_soon(read, "err", self.process.stderr)
            code = await self.process.wait()
        out, err = said["out"].decode(), said["err"].decode()
        assert "Traceback" not in out + err, err
        return Done(code=code, out=out, err=err)

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)


@asynccontextmanager
async def start(
    *arguments: str | bytes,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    has_platforms: bool = False,
) -> AsyncGenerator[Running]:
    """Start `everturn`; it is gone when the block ends."""
    process = await open_everturn(
        arguments,
        cwd=cwd,
        environment=environment(env),
        stdin=subprocess.PIPE,
        has_platforms=has_platforms,
    )
    async with process:
        try:
            yield Running(process=process)
        finally:
            if process.returncode is None:
                process.kill()
            await _show_rest(process)


async def _show_rest(process: anyio.abc.Process) -> None:
    """Print what it logged and nobody read: the report of a test that failed has it."""
    assert process.stderr is not None
    with anyio.move_on_after(_REST_S, shield=True), contextlib.suppress(anyio.ClosedResourceError):
        async for chunk in process.stderr:
            sys.stderr.write(chunk.decode(errors="replace"))


class Terminal:
    """A person's terminal: a real pty with the command in it."""

    def __init__(self, screen: fdspawn[str], process: anyio.abc.Process) -> None:
        self._screen, self._process = screen, process

    async def expect(self, *texts: str) -> str:
        """Wait until these texts have appeared, one after the other; return what came with them."""
        seen = ""
        for text in texts:
            try:
                await anyio.to_thread.run_sync(self._screen.expect_exact, text, DEADLINE_S)
            except (pexpect.TIMEOUT, pexpect.EOF) as error:
                msg = f"{text!r} did not appear after {seen!r}, but {plain(self._before())!r}"
                raise AssertionError(msg) from error
            seen += plain(self._before()) + text
        return seen

    async def type(self, text: str) -> None:
        r"""Press keys; `\r` is Enter, `\x1b\r` is Alt-Enter."""
        await anyio.sleep(_HAND_S)
        await anyio.to_thread.run_sync(self._screen.send, text)

    async def enter(self, text: str) -> None:
        """Type a line and Enter."""
        await self.type(f"{text}\r")

    async def press_control(self, letter: str) -> None:
        """Press Ctrl and a letter."""
        await self.type(chr(ord(letter.upper()) - ord("@")))

    def hang_up(self) -> None:
        """Close the terminal, as its window does; the command lives on or not."""
        self._screen.close()

    def signal(self, number: int) -> None:
        """Send the command a signal."""
        self._process.send_signal(signal.Signals(number))

    async def end(self, *, escapes: bool = False) -> tuple[int, str]:
        """Wait for the command's end; return its exit code and the rest of what it said.

        With `escapes`, what it said is as it was written.
        """
        await anyio.to_thread.run_sync(self._screen.expect, pexpect.EOF, DEADLINE_S)
        code = await self._process.wait()
        said = self._before() if escapes else plain(self._before())
        assert "Traceback" not in said
        return max(code, 0), said

    async def press_until_end(self, letter: str) -> tuple[int, str]:
        """Press Ctrl and a letter, again and again until the command ends; return as `end` does.

        A Ctrl-C between a question and Python's reading of the answer is acted on only with the
        next key, so a person presses again.
        """

        def is_over() -> bool:
            return self._screen.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=1) == 0

        for _ in range(int(DEADLINE_S)):
            await self.press_control(letter)
            if await anyio.to_thread.run_sync(is_over):
                break
        return await self.end()

    def _before(self) -> str:
        before = self._screen.before
        return before if isinstance(before, str) else ""


@asynccontextmanager
async def terminal(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> AsyncGenerator[Terminal]:
    """Start `everturn` in a terminal of its own; it is gone when the block ends."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (40, 120))
    screen = fdspawn(ours, timeout=DEADLINE_S, encoding="utf-8")
    with os.fdopen(theirs, "r+b", buffering=0) as line:
        process = await open_everturn(
            arguments,
            cwd=cwd,
            environment=environment({"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(env or {})}),
            stdin=line,
            stdout=line,
            stderr=line,
            has_terminal=True,
        )
    async with process:
        try:
            yield Terminal(screen, process)
        finally:
            screen.close()
            if process.returncode is None:
                process.kill()


def plain(text: str) -> str:
    """Return what a terminal shows of `text`."""
    return _ESCAPES.sub("", text).replace("\r", "")


def write_agent(
    folder: Path,
    name: str = "helper",
    *,
    provider: str = "builtin",
    model: str = "builtin",
    base_url: str = "",
) -> Path:
    """Write an agent; without more words it has the built-in responder."""
    lines = [f"    provider: {provider}", f"    name: {model}"]
    lines += [f'    base_url: "{base_url}"'] if base_url else []
    agent = folder / "agents" / name / "agent.yaml"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text(
        "apiVersion: duragent/v1alpha1\nkind: Agent\n"
        f"metadata:\n  name: {name}\nspec:\n  model:\n" + "\n".join(lines) + "\n",
        encoding="utf-8",
    )
    return agent


def write_scripted(folder: Path, script: str, name: str = "helper") -> Path:
    """Write an agent whose replies stand in a file."""
    agent = write_agent(folder, name, provider="scripted", model="replies.yaml")
    (agent.parent / "replies.yaml").write_text(script, encoding="utf-8")
    return agent
