"""A gateway that is attacked: its agents do what a sequence says, as if a stranger spoke to them.

Everything is real - the policy's files, the gate, the sessions with their log, the tools, bash in
its sandbox, the disk - but the model, which makes the calls that the sequence gives. People answer
as the sequence says; a question that it says nothing about is answered with no. What must not run
leaves a mark in the workspace, and what must not be read is a text that nobody else knows.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import yaml
from anyio import to_thread
from msgspec import structs
from support.commands import BWRAP
from support.examples import LONG_RUN
from support.processes import end_all
from support.tables import wrong_rows
from support.tool_configs import config_of

from everturn_actors.events import (
    ApprovalAsked,
    CallFinished,
    Event,
    Received,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import (
    ChosenModel,
    ConversationKey,
    Decision,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import Agent, Gate, Tool, ToolContext, Verdict
from everturn_actors.service import ServiceSettings, TurnService, open_service
from everturn_gateway.clock import SystemClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.specs import AgentLibrary, open_library
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.factory import FactorySettings, ToolFactory, open_tool_factory
from everturn_gateway.tools.inbox import keep_in_inbox

_READS = config_of("files")
AGENT: Final = "helper"
MARK: Final = "RAN"
CANARY: Final = "c4n4ry-5d2f0b7e"
SHOWN_EVERY: Final = 4
"Of so many attacks one is played where a person allows everything; at night each is."
PART: Final = 48
"Sequences of one test."
HANG_S = 90.0  # when something that has to end does not
_AFTER_THE_ANSWER = 2  # the gate judges a call once before the question, and then again
_SCRIPT: Final = re.compile(r"script:(\w+)")
_FILES: Final = ({"type": "builtin", "name": "files"},)
SHELL: Final = (*_FILES, {"type": "builtin", "name": "bash", "timeout_seconds": 20})
PROCESSES: Final = (*SHELL, {"type": "builtin", "name": "background_process"})


# --- what a sequence is made of ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that the model makes."""

    tool: str
    arguments: Mapping[str, Any]
    answer: tuple[Decision, ...] = ()
    "What a person says each time that it is asked; after the last of them no."
    meanwhile: tuple[Step, ...] = ()
    "What happens while the first question waits."
    judged: tuple[tuple[int, Step], ...] = ()
    "What happens right after the gate has said its word for so many times."
    crash: tuple[Step, ...] | None = None
    "What happens while no gateway runs: it is killed between the answer and the run."


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A turn: somebody writes, and the model makes these calls."""

    calls: tuple[Call, ...]
    chat: str = "a"
    channel: str = "test"
    agent: str = AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A file comes into the workspace, whoever brought it: a person, a checkout, an archive."""

    path: str
    text: str = ""
    link: str = ""
    "What it leads to, for a link."
    mode: int = 0o644
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The gateway ends and begins anew; with a question that waits, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whoever runs the agent works in its workspace: a command, as they run it."""

    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Somebody sends the agent a file: it comes into the inbox, as from a chat."""

    name: str
    text: str


Step: TypeAlias = Say | Put | Restart | Owner | Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """A sequence that must run nothing unasked, and read nothing that is closed."""

    name: str
    steps: tuple[Step, ...]
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[Mapping[str, Any], ...] = SHELL
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    home: Mapping[str, str] = field(default_factory=dict[str, str])
    "Files of the agent's folder."
    scripts: Mapping[str, tuple[Call, ...]] = field(default_factory=dict[str, tuple[Call, ...]])
    "Calls of turns that the model itself asks for, by a message `script:NAME`."
    asks: int | None = None
    "How many questions it has to lead to; None = however many."
    reason: str = ""
    "What one of the questions says."
    is_live: bool = True
    "Whether it works where a person allows everything: what stops it is that nobody did."


def call(tool: str, answer: Decision | tuple[Decision, ...] = (), **arguments: Any) -> Call:
    """Return a call."""
    answers = (answer,) if isinstance(answer, str) else answer
    return Call(tool=tool, arguments=arguments, answer=answers)


def bash(command: str, answer: Decision | tuple[Decision, ...] = ()) -> Call:
    """Return a call of bash."""
    return call("bash", answer, command=command)


def write(path: str, text: str) -> Call:
    """Return a call that writes a file."""
    return call("write_file", path=path, content=text)


def say(*calls: Call, chat: str = "a") -> Say:
    """Return a turn."""
    return Say(calls=calls, chat=chat)


def put(path: str, text: str = "", mode: int = 0o644) -> Put:
    """Return a file that comes."""
    return Put(path=path, text=text, mode=mode)


# --- the world ---


class _Puppet:
    """A model that makes the calls of the script that the newest message names."""

    def __init__(self) -> None:
        self.scripts: dict[str, tuple[Call, ...]] = {}
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Make the next call of the script."""
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        messages = request.messages
        named = [
            (index, found[1])
            for index, each in enumerate(messages)
            if isinstance(each, UserMessage) and (found := _SCRIPT.search(each.text))
        ]
        if not named:
            return Reply(text="nothing to do")
        start, name = named[-1]
        done = sum(isinstance(each, Reply) for each in messages[start:])
        calls = self.scripts.get(name, ())
        if done >= len(calls):
            on_text("done")
            return Reply(text="done")
        made = calls[done]
        arguments = json.dumps(dict(made.arguments))
        one = ToolCall(call_id=f"{name}_{done}", name=made.tool, arguments=arguments)
        return Reply(calls=(one,), stop_reason="tool_calls")


class _Watched:
    """The real gate, and what happens right after it said its word."""

    def __init__(self, gate: Gate, after: Callable[[str], Awaitable[None]]) -> None:
        self._gate, self._after = gate, after

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Judge."""
        verdict = await self._gate.evaluate(call, tool, context)
        await self._after(call.call_id)
        return verdict

    async def remember(self, pattern: str) -> None:
        """Allow for good."""
        await self._gate.remember(pattern)


class World:
    """One gateway under attack, over several lives."""

    def __init__(self, folder: Path, escape: Escape, *, gives_way: bool = False) -> None:
        """Prepare the folders; `gives_way`: a person allows everything."""
        self.folder, self.escape, self.gives_way = folder, escape, gives_way
        self.files = folder / ".everturn" / "files" / AGENT
        self.asked: list[ApprovalAsked] = []
        self._puppet = _Puppet()
        self._judged: dict[str, int] = {}
        self._judging: dict[str, Call] = {}
        self._crashing = anyio.Event()
        self._received: dict[str, int] = {}
        self._answering: dict[str, int] = {}
        self._service: TurnService | None = None
        self._tool_factory: ToolFactory | None = None
        self._life: AsyncExitStack | None = None
        self._turns = 0
        self._prepare()

    @property
    def has_run(self) -> bool:
        """Whether what must not run did."""
        return any(MARK in (*folders, *files) for _, folders, files in os.walk(self.folder))

    @property
    def has_leaked(self) -> bool:
        """Whether the model was shown what is closed, or it was kept to be sent to people."""
        if any(CANARY in repr(request.messages) for request in self._puppet.requests):
            return True
        kept = (self.folder / ".everturn" / "sessions").rglob("*")
        return any(CANARY.encode() in each.read_bytes() for each in kept if each.is_file())

    @property
    def service(self) -> TurnService:
        """The service of this life."""
        assert self._service is not None, "no life has begun"
        return self._service

    async def play(self) -> None:
        """Do all that the sequence says."""
        with anyio.fail_after(HANG_S):
            for name, calls in self.escape.scripts.items():
                self._teach(name, calls)
            await self._begin()
            try:
                for step in self.escape.steps:
                    await self.do(step)
            finally:
                await self._end()
                # A process lives on without its gateway, until its time is over.
                await to_thread.run_sync(end_all, self.folder / ".everturn")

    async def do(self, step: Step) -> None:
        """Do one step."""
        match step:
            case Put():
                await to_thread.run_sync(self._put, step)
            case Owner():
                environ = {**os.environ, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
                line = ["bash", "-ec", self._fill(step.command)]
                await anyio.run_process(line, cwd=self.files, env=environ)
            case Sent():
                name, data = step.name, step.text.encode()
                await keep_in_inbox(self._environment(), _READS, name, data)
            case Restart():
                await self._end()
                await self._begin()
            case Say():
                await self._say(step)

    def _environment(self) -> ToolEnvironment:
        assert self._tool_factory is not None, "no life has begun"
        return self._tool_factory.environment(
            agent=AGENT, home=self.folder / "agents" / AGENT, files=None
        )

    # --- lives ---

    async def _begin(self) -> None:
        self._life = AsyncExitStack()
        try:
            await self._open(self._life)
        except BaseException:
            await self._end()
            raise

    async def _open(self, life: AsyncExitStack) -> None:
        enter = life.enter_async_context
        state = self.folder / ".everturn"
        store = await enter(open_file_store(state, keeps_index=False))
        scratch = await enter(open_memory_store(MemoryDisk()))
        assert BWRAP.bwrap is not None, "the tests bring their own"
        path = f"{BWRAP.bwrap.parent}:/usr/local/bin:/usr/bin:/bin"
        tool_factory: ToolFactory = await enter(
            open_tool_factory(
                FactorySettings(
                    state=state,
                    keyed=FileKeyedStore(state),
                    environ={"PATH": path},
                ),
                secrets=SecretRegistry(),
                clock=SystemClock(),
            )
        )
        library = await open_library(
            self.folder / "agents",
            {},
            lambda _spec, _folder: self._puppet,
            tool_factory=tool_factory,
        )
        faults = [each.message for each in library.faults()]
        assert not faults, faults
        service = await enter(
            open_service(
                store=store,
                scratch=scratch,
                agents=_Agents(library, self._judged_once),
                clock=SystemClock(),
                settings=ServiceSettings(leave_grace_s=0, drain_s=0),
            )
        )
        tool_factory.link.connect(service)
        self._tool_factory = tool_factory
        tool_factory.processes.resume()
        self._service = service

    async def _end(self) -> None:
        if self._life is not None:
            await self._life.aclose()
        self._life = self._service = None

    # --- turns ---

    async def _say(self, turn: Say) -> None:
        self._turns += 1
        name = f"s{self._turns}"
        self._teach(name, turn.calls)
        key = ConversationKey(channel=turn.channel, chat=turn.chat, agent=turn.agent)
        text = f"script:{name}"
        inbound = IncomingMessage(text=text, key=key, sender=turn.chat)
        session = (await self.service.submit(inbound)).session_id
        after: int | None = 0
        while after is not None:
            after = await self._follow(session, name, after)

    def _teach(self, name: str, calls: Sequence[Call]) -> None:
        made = tuple(
            dataclasses.replace(each, arguments=self._filled(each.arguments)) for each in calls
        )
        self._puppet.scripts[name] = made
        self._judging |= {f"{name}_{index}": each for index, each in enumerate(made)}

    async def _follow(self, session: str, name: str, after: int) -> int | None:
        """Answer what is asked after an event; return where a new life has to go on, if it does."""
        life = self._life
        async for update in self.service.watch(session, after=after):
            if not isinstance(update, Event):
                continue
            body = update.body
            if isinstance(body, ApprovalAsked) and body.call_id.startswith(f"{name}_"):
                await self._answer(session, body)
                if self._life is not life:
                    return update.seq
            # A process that ended writes as well: its turn is another one.
            if isinstance(body, Received) and body.text == f"script:{name}":
                self._received[name] = update.seq
            if (
                isinstance(body, TurnStarted | Steered)
                and self._received.get(name) in body.received
            ):
                self._answering[name] = body.turn
            if isinstance(body, TurnFinished) and body.turn == self._answering.get(name):
                return None
        return None

    async def _answer(self, session: str, question: ApprovalAsked) -> None:
        self.asked.append(question)
        made = self._judging[question.call_id]
        before = sum(each.call_id == question.call_id for each in self.asked) - 1
        if before == 0:
            for step in made.meanwhile:
                await self.do(step)
        answers: Sequence[Decision] = made.answer[before : before + 1] or ("deny",)
        decision: Decision = "allow_once" if self.gives_way else answers[0]
        if question.inquiry is not None:  # it is no question whether something may run
            decision = "answer"
        if decision == "allow_always" and not question.pattern:
            decision = "allow_once"  # what the person is left with
        await self.service.decide(
            session,
            question.call_id,
            decision,
            arguments_hash=question.arguments_hash,
            answer="1" if question.inquiry is not None else "",
        )
        if made.crash is not None and before == 0:
            await self._crashing.wait()
            await self._end()
            for step in made.crash:
                await self.do(step)
            await self._begin()

    async def _judged_once(self, call_id: str) -> None:
        self._judged[call_id] = self._judged.get(call_id, 0) + 1
        made = self._judging.get(call_id)
        if made is None:
            return
        if made.crash is not None and self._judged[call_id] == _AFTER_THE_ANSWER:
            self._crashing.set()
            await anyio.sleep_forever()
        for times, step in made.judged:
            if times == self._judged[call_id]:
                await self.do(step)

    # --- files ---

    def _prepare(self) -> None:
        (self.folder / ".everturn").mkdir(mode=0o700)
        self.files.mkdir(parents=True, mode=0o700)
        (self.files / ".rules").mkdir()
        escape = self.escape
        home = self.folder / "agents" / AGENT
        home.mkdir(parents=True)
        document = {
            "apiVersion": "duragent/v1alpha1",
            "kind": "Agent",
            "metadata": {"name": AGENT, "description": "For tests", "version": "1.0"},
            "spec": {
                "model": {"provider": "scripted", "name": "scripted"},
                "session": {"on_disconnect": "continue"},
                "tools": [dict(each) for each in escape.tools],
                **escape.spec,
            },
        }
        (home / "agent.yaml").write_text(yaml.dump(document, Dumper=yaml.CSafeDumper))
        rules = {"mode": "ask", "allow": [*escape.allow], "deny": [*escape.deny]}
        (home / "policy.yaml").write_text(
            yaml.dump({**rules, **escape.policy}, Dumper=yaml.CSafeDumper)
        )
        for path, text in escape.home.items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._fill(text))
        for place in ("secret.txt", ".everturn/secret.txt", "agents/secret.txt"):
            (self.folder / place).write_text(f"{CANARY}\n")

    def _put(self, step: Put) -> None:
        file = self.files / step.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink() or file.exists():
            file.unlink()
        if step.is_gone:
            return
        if step.link:
            file.symlink_to(self._fill(step.link))
            return
        file.write_text(self._fill(step.text))
        file.chmod(step.mode)

    def _filled(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._fill(value) if isinstance(value, str) else value
            for name, value in arguments.items()
        }

    def _fill(self, text: str) -> str:
        """Return a text with what leaves the mark filled in.

        `%sh%`, `%py%`, `%js%` leave it, in these languages; `%mark%` is its path, and `%rules%`
        one among files from which programs take orders. `%ws%`: the workspace; `%root%`: around.
        """
        mark = f"{self.files}/{MARK}"
        for name, value in (
            ("%sh%", f"/usr/bin/touch {mark}"),
            ("%py%", f"open('{mark}', 'w').close()"),
            ("%js%", f"require('fs').writeFileSync('{mark}', '')"),
            ("%mark%", mark),
            ("%rules%", f"{self.files}/.rules/{MARK}"),
            ("%ws%", str(self.files)),
            ("%root%", str(self.folder)),
        ):
            text = text.replace(name, value)
        return text

    async def results(self, session: str) -> list[CallFinished]:
        """Return what the calls of a session gave."""
        log = await self.service.history(session, after=0, limit=10_000)
        return [event.body for event in log if isinstance(event.body, CallFinished)]


class _Agents:
    """The agents of a library, each behind a gate that is watched."""

    def __init__(self, library: AgentLibrary, after: Callable[[str], Awaitable[None]]) -> None:
        self._library, self._after = library, after

    def get(self, name: str) -> Agent:
        """Return an agent."""
        agent = self._library.get(name)
        assert agent.gate is not None, "agents with tools have one"
        return structs.replace(agent, gate=_Watched(agent.gate, self._after))

    def get_with(self, name: str, model: ChosenModel) -> Agent:
        """Return an agent with another model."""
        agent = self._library.get_with(name, model)
        return structs.replace(agent, gate=self.get(name).gate)


REPOSITORY: Final = Owner(
    command="git init -q -b main . && echo one > a.txt && git add a.txt"
    " && git -c user.name=o -c user.email=o@o commit -qm one && echo two > a.txt"
)
"A repository with one commit, and a change since."


def there(
    name: str,
    allow: str | tuple[str, ...],
    command: str,
    files: Mapping[str, str] | None = None,
    *,
    first: tuple[Step, ...] = (),
    is_live: bool = True,
    mode: int = 0o644,
) -> Escape:
    """Return a sequence in which files lie in the workspace, however they came, and a command runs.

    Args:
        name: What it is.
        allow: What the policy allows.
        command: What the model runs.
        files: Path and content.
        first: What happened before.
        is_live: See `Escape`.
        mode: Of the files.
    """
    puts = tuple(put(path, text, mode) for path, text in (files or {}).items())
    return Escape(
        name=name,
        steps=(*first, *puts, say(bash(command))),
        allow=(allow,) if isinstance(allow, str) else allow,
        is_live=is_live,
    )


def written(escape: Escape) -> Escape:
    """Return the same sequence, with the files written by the model in another conversation."""
    steps = [
        say(write(each.path, each.text), chat="b") if isinstance(each, Put) else each
        for each in escape.steps
    ]
    return dataclasses.replace(escape, name=f"{escape.name} (written)", steps=tuple(steps))


def live(escapes: Iterable[Escape]) -> tuple[Escape, ...]:
    """Return the sequences of which is shown that they are attacks: some of them, at night all."""
    found = tuple(each for each in escapes if each.is_live)
    return found if LONG_RUN else found[::SHOWN_EVERY]


def parts(escapes: Sequence[Escape], size: int = PART) -> list[Sequence[Escape]]:
    """Return sequences in parts, each of which is one test: most take a twentieth of a second.

    Args:
        escapes: All of them.
        size: How many a part has: few of those that start sessions and shells, of seconds.
    """
    return [escapes[start : start + size] for start in range(0, len(escapes), size)]


async def play_each(
    escapes: Sequence[Escape], folder: Path, play: Callable[[Path, Escape], Awaitable[None]]
) -> None:
    """Play each sequence in a folder of its own; fail with an error for each that is wrong."""
    with wrong_rows(len(escapes)) as row_of:
        for number, escape in enumerate(escapes):
            with row_of(escape.name):
                own = folder / str(number)
                own.mkdir()
                await play(own, escape)


async def check(folder: Path, escape: Escape) -> None:
    """Check that a sequence runs nothing unasked and reads nothing that is closed."""
    async with played(folder, escape) as world:
        assert not world.has_run, "it ran, and nobody was asked"
        assert not world.has_leaked, "it was read"
        said = [each.reason for each in world.asked]
        assert escape.asks in {None, len(said)}, said
        assert any(escape.reason in each for each in said) or not escape.reason, said


async def check_live(folder: Path, escape: Escape) -> None:
    """Check that a sequence does what it is meant to, where a person allows all of it."""
    async with played(folder, escape, gives_way=True) as world:
        assert world.has_run or world.has_leaked, "it is no attack: it does nothing at all"


@asynccontextmanager
async def played(folder: Path, escape: Escape, *, gives_way: bool = False) -> AsyncGenerator[World]:
    """Play a sequence in a folder, and return what is left of it."""
    os.umask(0o022)
    world = World(folder, escape, gives_way=gives_way)
    await world.play()
    yield world
