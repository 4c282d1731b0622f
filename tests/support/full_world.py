"""Everybody outside of a gateway in the full scenario: people, platforms, a model, tools, webhooks.

`World` is what stays when the gateway dies: what people were told, what platforms show, what
tools have done. It is plain data, so that it can be kept with each point of a trace.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from support.scripted_adapter import Platform, ScriptedAdapter, capabilities

from everturn_actors.model import (
    ConversationKey,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    UserMessage,
)
from everturn_actors.ports import ALLOW, Tool, ToolCapabilities, ToolContext, ToolOutput, Verdict
from everturn_actors.testing import START, ManualClock, ScriptedProvider
from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder

CHAT = ConversationKey(channel="tg", chat="chat", agent="talker")
CREW = ConversationKey(channel="dc", chat="crew", agent="worker")
BUILD = ConversationKey(channel="dc", chat="build", agent="worker")
API = ConversationKey(channel="api", chat="client", agent="reader")
KEYS = {"chat": CHAT, "crew": CREW, "build": BUILD, "api": API}
"Conversations by the name that the scenario gives them."

LARGE = "line of a page\n" * 4_000
SUMMARY = "They talked about long texts."
ASK_S = 3600
"How long there is to answer a question about a call."
MAY_RUN_AGAIN = ("read1", "page1", "read2", "read3", "note1")
"Calls of tools that only read, or that declare themselves repeatable."
HEADS = ("[Scheduled task", "process ", "burst", "tools", "build", "ask")


@dataclass
class World:
    """What stays."""

    tg: Platform = field(default_factory=Platform)
    "Knows no nonce again; shows replies as they come."
    dc: Platform = field(default_factory=lambda: Platform(dedupes=True))
    now: datetime = START
    step: int = 0
    "Which step of the script is under way."
    accepted: dict[str, tuple[str, str]] = field(default_factory=dict)
    "Idempotency key -> conversation and text, of messages whose sender was told."
    answers: dict[str, str] = field(default_factory=dict)
    "Idempotency key -> what the client was answered."
    runs: Counter[str] = field(default_factory=Counter)
    "How often each call ran."
    allowed: set[str] = field(default_factory=set)
    "Calls that the gate let pass without asking."
    posts: list[tuple[str, str]] = field(default_factory=list)
    "Idempotency key and text, of requests to the webhook."
    supervisors: dict[str, Literal["running", "ended"]] = field(default_factory=dict)
    "Background processes, by handle."
    faults: list[str] = field(default_factory=list)
    "What people were told when something failed."

    def pack(self, now: datetime) -> bytes:
        """Return it as bytes."""
        self.now = now
        return pickle.dumps(self)

    @staticmethod
    def unpack(data: bytes) -> World:
        """Return the world of bytes; of none, the one in which nothing has happened."""
        if not data:
            return World()
        world = pickle.loads(data)  # noqa: S301 - our own bytes
        assert isinstance(world, World)
        return world


Mark: TypeAlias = Callable[[str], None]
"Notes in the trace that something happened outside."


def calls(*each: tuple[str, str]) -> Reply:
    """Return a reply with these calls: pairs of call id and tool."""
    made = tuple(ToolCall(call_id=i, name=name, arguments=f'{{"n":"{i}"}}') for i, name in each)
    return Reply(text="let me see", calls=made, stop_reason="tool_calls")


def long_text(about: str) -> str:
    """Return a text of three chunks, no part of which stands in another one."""
    return " ".join(f"{about}.{number}" for number in range(100))[:250]


SPAWN = ToolCall(
    call_id="spawn1",
    name="background_process",
    arguments=json.dumps({"action": "spawn", "command": "make"}),
)
PLANS: Mapping[str, tuple[Reply, ...]] = {
    "tools": (
        calls(("read1", "read"), ("page1", "page"), ("read2", "read")),
        calls(("send1", "send"), ("note1", "note"), ("ask1", "ask")),
        calls(("steered1", "steered"), ("send2", "send")),
        calls(("ask2", "careful"), ("read3", "read")),
        Reply(text=long_text("tools")),
    ),
    "build": (Reply(calls=(SPAWN,), stop_reason="tool_calls"), Reply(text="it is built now")),
    "process ": (Reply(text="it is built"),),
    "[Scheduled task": (Reply(text=long_text("task")),),
}


class Model(ScriptedProvider):
    """Says the same at the same place, whichever process asks it."""

    def __init__(
        self, clock: ManualClock, mark: Mark, settle: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__()
        self._clock, self._mark, self._settle = clock, mark, settle

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer by what stands after the newest beginning of a turn."""
        self._mark("the model is asked")
        users = [(n, m.text) for n, m in enumerate(request.messages) if isinstance(m, UserMessage)]
        start, head = next(
            (n, head) for n, text in reversed(users) for head in HEADS if head in text[:400]
        )
        done = sum(isinstance(message, Reply) for message in request.messages[start:])
        plan = PLANS.get(head, ())
        if done < len(plan):
            reply = plan[done]
        else:
            last = max(
                (n for n, m in enumerate(request.messages) if isinstance(m, Reply)), default=-1
            )
            about = "+".join(t[:8].strip().replace(" ", "-") for n, t in users if n > last)
            reply = Reply(text=long_text(about) if head == "burst" else f"re {about}")
        if reply.text:
            on_text(reply.text[:50])
            if head in ("burst", "[Scheduled task"):  # in which it can be shown as it comes
                self._clock.advance(1)
                await self._settle()
            on_text(reply.text[50:])
        return reply


class Writer(ScriptedProvider):
    """Writes summaries."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Say the same of everything."""
        del request, on_text
        return Reply(text=SUMMARY)


class Doing:
    """A tool that counts how often each call of it ran, whichever process ran it."""

    def __init__(
        self,
        name: str,
        world: World,
        mark: Mark,
        *,
        gives: str = "",
        capabilities: ToolCapabilities | None = None,
        first: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.definition = ToolDefinition(name=name, description="", parameters={"type": "object"})
        self.capabilities = capabilities or ToolCapabilities()
        self._world, self._mark, self._gives, self._first = world, mark, gives, first

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Do it."""
        del context
        self._world.runs[call.call_id] += 1
        self._mark(f"{call.call_id} ran")
        if self._first is not None:
            await self._first()
        return ToolOutput(text=self._gives or f"{call.call_id} done")


class Asks:
    """A gate that asks about two tools, and remembers what it let pass."""

    def __init__(self, world: World, mark: Mark) -> None:
        self._world, self._mark = world, mark

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say what the rules say."""
        del tool, context
        if call.name in ("ask", "careful"):
            return Verdict(effect="ask", timeout_s=ASK_S, approvers=("alice",))
        self._world.allowed.add(call.call_id)
        self._mark(f"{call.call_id} may run")
        return ALLOW

    async def remember(self, pattern: str) -> None:
        """Nothing is allowed for good."""
        raise AssertionError(pattern)


class Postbox:
    """A webhook."""

    def __init__(self, world: World, mark: Mark) -> None:
        self._world, self._mark = world, mark

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Take what is sent."""
        del url
        self._world.posts.append((key, str(data.get("text", ""))))
        self._mark(f"webhook {key} taken")


def adapter_to(name: Literal["tg", "dc"], world: World, mark: Mark) -> ScriptedAdapter:
    """Return an adapter whose calls are marked before and after the platform did its part."""
    platform: Platform = getattr(world, name)
    adapter = ScriptedAdapter(platform, able=capabilities(preview_s=1 if name == "tg" else 0))
    adapter.name = name

    def on_call(call: str, when: str) -> None:
        what = {"before": "begins", "after": "is carried out"}[when]
        method, _, payload = call.partition(" ")
        mark(f"{name}: {method} {payload[:12]!r} {what}")

    adapter.on_call = on_call
    return adapter


IN_SUPERVISOR: ContextVar[bool] = ContextVar("IN_SUPERVISOR", default=False)
"Whether what is done here is done by a supervisor process, another program than the gateway."


@contextmanager
def _as_supervisor() -> Generator[None]:
    token = IN_SUPERVISOR.set(True)
    try:
        yield
    finally:
        IN_SUPERVISOR.reset(token)


class Supervisors:
    """Supervisors of background processes; they run beside the gateway, and outlive it."""

    def __init__(self, folder: Path, world: World, mark: Mark) -> None:
        self._folder, self._world, self._mark = folder, world, mark
        self._lines: dict[str, int] = {}

    def take_up(self) -> None:
        """Hold the lines of those that run, as they did all the time. Blocking."""
        for handle, state in self._world.supervisors.items():
            if state == "running":
                self._hold(handle)

    def _hold(self, handle: str) -> None:
        path = self._folder / "processes" / handle / supervisor_folder.ALIVE
        self._lines[handle] = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def begin(self, folder: Path) -> None:
        """Do what a supervisor process does first. Blocking."""
        self._world.supervisors[folder.name] = "running"
        self._mark("a supervisor process runs")
        with _as_supervisor():
            (folder / supervisor_folder.START).rename(folder / supervisor_folder.CLAIMED)
            (folder / supervisor_folder.CLAIMED).unlink()
        self._hold(folder.name)
        os.write(self._lines[folder.name], supervisor_folder.STARTED)

    def end_all(self) -> None:
        """Let all processes end well. Blocking."""
        ending: supervisor_folder.Ending = {
            "status": "completed", "exit_code": 0, "signal": "", "duration_s": 1.0, "note": "",
        }  # fmt: skip
        for handle in [*self._lines]:
            path = self._folder / "processes" / handle / supervisor_folder.ENDING
            with _as_supervisor():
                supervisor_folder.replace_file(path, json.dumps(ending).encode())
            self._world.supervisors[handle] = "ended"
            self._mark("the process has ended")
            os.close(self._lines.pop(handle))

    def let_go(self) -> None:
        """Close the lines without a word. Blocking."""
        for line in self._lines.values():
            os.close(line)
        self._lines.clear()
