"""Small plug-ins written by a test, and an handler that a test looks into."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import anyio
from support.patience import WAIT_S

from everturn_actors.ports import Clock
from everturn_actors.testing import ManualClock
from everturn_channels.adapter import ChatRef, Command, InboundEvent
from everturn_channels.command_registry import CommandSpec, commands_for
from everturn_channels.errors import ChannelError
from everturn_channels.plugin.adapter import PluginAdapter, Restart
from everturn_channels.plugin.process import Program

PATIENCE_S = WAIT_S  # for a process on a busy machine
PRELUDE = """\
import json, os, sys

def say(**message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)

def hello(**more):
    say(type="hello", protocol="everturn-channel/1", name="test",
        capabilities={"chunk_units": 100, **more})

def connect(account="bot", **more):
    hello(**more)
    say(type="connected", account=account)

def message(id, chat="c", text="hi", **more):
    say(type="message", id=id, message_id=f"m{id}", chat={"id": chat},
        sender={"id": "u"}, text=text, **more)

def done(request, **more):
    say(type="result", request=request["request"], outcome="done", **more)

def stay():
    while True:
        hear()

greeting = hear()
"""


def write_plugin(
    folder: Path,
    body: str,
    *,
    restart: Restart = "always",
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> PluginAdapter:
    """Write a program into a folder, made if need be, and return the channel that it is."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "plugin.py"
    script.write_text(PRELUDE + dedent(body))
    return PluginAdapter(
        Program(
            channel="test",
            command=sys.executable,
            args=("-IS", str(script)),
            env=env or {},
            cwd=folder,
        ),
        restart=restart,
        clock=clock or ManualClock(),
    )


async def _at_once(_event: InboundEvent) -> None:
    pass


class OpenInlet:
    """Takes what comes as the test says, and remembers it."""

    def __init__(self, *, is_new: bool = False) -> None:
        self._is_new = is_new
        self._changed = anyio.Event()
        self.deal: Callable[[InboundEvent], Awaitable[None]] = _at_once
        "What `take` does."
        self.begun: list[InboundEvent] = []
        self.taken: list[InboundEvent] = []
        self.passed_over: list[tuple[ChatRef, int, str]] = []
        self.unread: list[tuple[str, str, ChatRef | None]] = []
        self.deletions: list[tuple[str, str]] = []
        self.logins: list[tuple[str, str]] = []
        self.heard = 0
        self.accounts: list[str] = []
        self.cursors: dict[str, str] = {}

    async def handle(self, event: InboundEvent) -> None:
        """Do what the test wants."""
        self.begun.append(event)
        self._tell()
        await self.deal(event)
        self.taken.append(event)
        self._tell()

    async def moved(self, old: str, new: str) -> None:
        """Expect none."""
        raise AssertionError((old, new))

    async def deleted(self, chat: str, message_id: str) -> None:
        """Remember it."""
        self.deletions.append((chat, message_id))
        self._tell()

    def needs_login(self, text: str, qr: str) -> None:
        """Remember it."""
        self.logins.append((text, qr))
        self._tell()

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Expect none."""
        raise AssertionError((chat, why, is_lost))

    def deliverable(self, chat: str) -> None:
        """Expect none."""
        raise AssertionError(chat)

    def menu(self) -> tuple[CommandSpec, ...]:
        """Offer what every bot does."""
        return commands_for("private")

    async def suggestions(self, command: Command) -> list[str]:
        """Suggest what is typed, and more of it."""
        return [command.argument, f"{command.argument}ing"]

    async def people(self) -> list[str]:
        """Know nobody."""
        return []

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        return not (person, chat, is_direct)

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Remember it."""
        self.passed_over.append((chat, count, why))
        self._tell()

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Remember it."""
        self.unread.append((kind, str(fault), chat))
        self._tell()

    def blocked(self, chat: str, why: str) -> float:
        """Remember nothing: plug-ins read no histories."""
        del chat, why
        return 0

    def unblocked(self, chat: str) -> None:
        """Remember nothing."""

    def received(self) -> None:
        """Count it."""
        self.heard += 1
        self._tell()

    def connected(self, account: str) -> None:
        """Remember it."""
        self.accounts.append(account)
        self._tell()

    def cursor(self, name: str) -> str:
        """Return what was kept."""
        return self.cursors.get(name, "")

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep it."""
        self.cursors[name] = value
        self._tell()

    @property
    def is_new(self) -> bool:
        """As the test says."""
        return self._is_new

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so that depends on what came."""
        with anyio.fail_after(PATIENCE_S):
            while not is_so():
                self._changed = anyio.Event()
                await self._changed.wait()

    async def until_connected(self) -> str:
        """Wait for the login; return under which name."""
        await self.until(lambda: bool(self.accounts))
        return self.accounts[-1]

    def _tell(self) -> None:
        self._changed.set()


class Serving:
    """A channel that runs."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: ChannelError | None = None

    async def end(self) -> ChannelError:
        """Wait until it has ended by itself; return what it raised."""
        with anyio.fail_after(PATIENCE_S):
            await self.over.wait()
        assert self.error is not None
        return self.error


@asynccontextmanager
async def serving(adapter: PluginAdapter, handler: OpenInlet) -> AsyncGenerator[Serving]:
    """Run a channel; it is cancelled when the block ends."""
    run = Serving()

    async def serve() -> None:
        try:
            await adapter.serve(handler)
        except ChannelError as error:
            run.error = error
        finally:
            run.over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield run
        finally:
            tasks.cancel_scope.cancel()


async def ended_with(adapter: PluginAdapter, handler: OpenInlet | None = None) -> ChannelError:
    """Run a channel that ends by itself; return what it raised."""
    async with serving(adapter, handler or OpenInlet()) as run:
        return await run.end()
