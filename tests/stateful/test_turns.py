"""Whole turns with tools against crashes: people, a model, tools and a clock, in any order.

Hypothesis plays the model, the tools, the people and the clock around a real service: nothing ends
unless a rule ends it, so that a crash, a cancel, a pause, a message or a word can fall between any
two things. What is on the disk is compared with what the live session said, at every restart.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast, get_args

import anyio
from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.crashing import CrashingStore, Moment, check_calls, check_log, check_request
from support.examples import examples
from support.patience import WAIT_S
from support.stores import FileWorld, MemoryWorld, World
from support.tool_doubles import Rules

from everturn_actors.context.render import render
from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    ModelRefusedError,
    NotAnApproverError,
    ToolFailedError,
    UnknownApprovalError,
)
from everturn_actors.events import Event
from everturn_actors.model import (
    Decision,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    UserMessage,
)
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolOutput, Verdict
from everturn_actors.service import Submission
from everturn_actors.spec import AgentSpec, ModelSpec, SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
)
from everturn_actors.turn.model_statistics import InMemoryModelStatistics

T = TypeVar("T")

QUIET = 40  # rounds of the loop in which nothing touches the disk
CAPABILITIES = {
    "read": ToolCapabilities(read_only=True),
    "look": ToolCapabilities(read_only=True),
    "note": ToolCapabilities(repeatable=True),
    "send": ToolCapabilities(),
    "ask": ToolCapabilities(),
    "always": ToolCapabilities(),
    "never": ToolCapabilities(),
}
VERDICTS = {
    "ask": Verdict(effect="ask", timeout_s=60),
    "always": Verdict(effect="ask", pattern="builtin:always", timeout_s=60),
    "look": Verdict(effect="ask", timeout_s=60, approvers=("alice", "b*")),
    "never": Verdict(effect="deny", reason="never"),
}
MOMENTS: tuple[Moment, ...] = get_args(Moment)
WORDS: tuple[Decision, ...] = ("allow_once", "allow_once", "allow_always", "deny")
OUTCOMES = ("calls", "calls", "calls", "calls", "calls", "answers", "broken", "fails")
OUTPUTS = st.sampled_from(
    [
        ToolOutput(text="short"),
        ToolOutput(text="a page\n", untrusted=True),
        ToolOutput(text="line of a log\n" * 4_000),
        ToolOutput(text="漢字" * 6_000, untrusted=True),
        ToolOutput(text="no such file", is_error=True),
        ToolFailedError("it did not work"),
        ValueError("a bug"),
    ]
)


@dataclass
class Pending:
    """Something that waits for a rule to end it."""

    name: str
    ended: anyio.Event = field(default_factory=anyio.Event)
    gives: object = None


class Held:
    """The model and the tools: each call waits for a rule, and may be called off."""

    def __init__(self) -> None:
        self.model: list[Pending] = []
        self.tools: list[Pending] = []
        self.runs: Counter[str] = Counter()
        self.named: dict[str, str] = {}
        "Call id -> tool, of all that ever ran."
        self.requests = 0
        self.faults: list[str] = []

    async def wait(self, among: list[Pending], name: str) -> object:
        """Wait for a rule; what is called off no longer waits."""
        pending = Pending(name)
        among.append(pending)
        try:
            await pending.ended.wait()
        finally:
            if pending in among:
                among.remove(pending)
        return pending.gives

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer as a rule says."""
        self.requests += 1
        users = [message for message in request.messages if isinstance(message, UserMessage)]
        try:
            check_request(request)
            assert users, "a request without a question"
        except AssertionError as error:
            self.faults.append(str(error))
        said = await self.wait(self.model, "model")
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Reply)
        on_text(said.text)
        return said


class HeldTool:
    """A tool whose calls wait for a rule."""

    def __init__(self, name: str, held: Held) -> None:
        self.definition = ToolDefinition(name=name, description="", parameters={"type": "object"})
        self.capabilities = CAPABILITIES[name]
        self._held = held

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Count the call, and wait."""
        self._held.runs[call.call_id] += 1
        self._held.named[call.call_id] = call.name
        gives = await self._held.wait(self._held.tools, call.call_id)
        if isinstance(gives, Exception):
            raise gives
        assert isinstance(gives, ToolOutput)
        return gives


class Turns(RuleBasedStateMachine):
    """One conversation, whatever happens around it."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.portal = self.closing.enter_context(start_blocking_portal())
        self.world = self.make_world()
        self.held = Held()
        self.clock = ManualClock()
        self.gate = Rules(VERDICTS)
        self.observed = InMemoryModelStatistics()
        self.tools: dict[str, Tool] = {name: HeldTool(name, self.held) for name in CAPABILITIES}
        self.accepted: dict[str, int] = {}
        self.sent: list[IncomingMessage] = []
        self.submissions: list[Submission] = []
        self.calls = 0
        self.session_id = ""
        self.live: SessionState | None = None
        "What the session last said of itself, when nothing was going on."

    def make_world(self) -> World:
        """Return an empty disk."""
        raise NotImplementedError

    @initialize(
        steering=st.booleans(),
        policy=st.sampled_from(["everturn", "everturn", "duragent", "jutul", "baseagent"]),
        window=st.sampled_from([6_000, 40_000]),
    )
    def it_begins(self, policy: str, window: int, *, steering: bool) -> None:
        plain = make_spec()
        session = SessionSpec(steering=steering)
        self.spec: AgentSpec = replace(
            plain,
            model=ModelSpec(provider="scripted", name="scripted", context_window=window),
            session=replace(session, context=replace(session.context, policy=POLICIES[policy])),
        )
        self.open = ExitStack()
        self.start()

    # --- the process ---

    def start(self) -> None:
        """Start a process on what the disk holds."""
        opened = self.portal.wrap_async_context_manager(self.opening())
        self.test, self.store = self.open.enter_context(opened)
        self.settle()

    @asynccontextmanager
    async def opening(self) -> AsyncGenerator[tuple[TestService, CrashingStore]]:
        """Open a service whose process can end."""
        async with self.world.open() as inner:
            store = CrashingStore(inner)
            async with open_test_service(
                provider=cast("ScriptedProvider", self.held),
                spec=self.spec,
                tools=self.tools,
                store=store,
                clock=self.clock,
                model_statistics=self.observed,
                gate=self.gate,
            ) as test:
                yield test, store

    def do(self, work: Callable[[], Awaitable[T]]) -> T | CoreError:
        """Do something in the service; return what came of it."""

        async def doing() -> T | CoreError:
            with anyio.fail_after(WAIT_S):
                try:
                    return await work()
                except CoreError as error:
                    return error

        return self.portal.call(doing)

    def settle(self) -> None:
        """Wait until nothing goes on; where the process ended meanwhile, start the next one."""

        async def quiet() -> None:
            with anyio.fail_after(WAIT_S):
                rounds = 0
                while rounds < QUIET:
                    await anyio.sleep(0.0005 if self.store.working else 0)
                    rounds = 0 if self.store.working else rounds + 1

        self.portal.call(quiet)
        assert not self.held.faults, self.held.faults
        if self.store.ended.is_set():
            self.restart()
        elif self.session_id:
            state = self.do(lambda: self.test.service.view(self.session_id))
            if isinstance(state, SessionState):
                self.live = state
            elif self.store.ended.is_set():
                self.restart()

    def restart(self) -> None:
        """Look at what is on the disk, and start a process on it."""
        self.open.close()
        before = self.look_at_disk()
        self.start()
        if before is not None and self.live is not None:
            self.check_approvals(before, self.live)

    def look_at_disk(self) -> SessionState | None:
        """Check that all ways to the state lead to the same one, that of the live session."""

        async def read() -> tuple[SessionState | None, list[Event]]:
            async with self.world.open() as store:
                loaded = await store.load(self.session_id)
                log = [*await store.read(self.session_id, after=0, limit=100_000)]
            recovered = recover(loaded.snapshot, loaded.events) if loaded else None
            return recovered.state if recovered else None, log

        if not self.session_id:
            return None
        state, log = self.portal.call(read)
        self.log = log
        now: SessionState | None = None
        for event in log:
            now = apply(now, event)
            if self.live is not None and event.seq == self.live.last_seq:
                assert now == self.live, "replay differs from what was live"
        assert now == state, "snapshot and log differ"
        if state is None:
            assert self.live is None
            return None
        assert self.live is None or state.last_seq >= self.live.last_seq, "something is lost"
        assert now is not None
        statistics = self.observed.of(self.spec.model)
        one, two = (
            render(each.conversation, self.spec, (), statistics) for each in (now, self.live or now)
        )
        if self.live is not None and self.live.last_seq == now.last_seq:
            assert one.request == two.request
            assert one.fingerprint == two.fingerprint
        check_request(one.request)
        return state

    def check_approvals(self, before: SessionState, after: SessionState) -> None:
        """Check that what was asked is still asked, unless a message or the time settled it."""
        for approval in before.open_approvals:
            overtaken = self.spec.session.steering and any(
                approval.may_answer(message.sender) for message in before.waiting
            )
            if not overtaken and self.clock.now() < approval.expires_at:
                assert approval in after.open_approvals, "a question is lost"

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        # One rule for all, so that no life is without those that let it go on.
        moves = [move for move, times in self.moves().items() for _ in range(times)]
        move = data.draw(st.sampled_from(moves), label="move")
        move(data)

    def moves(self) -> dict[Callable[[st.DataObject], None], int]:
        """Return what may happen next, and how likely it is."""
        live = self.live
        runs = live is not None and live.open_turn is not None
        return {
            self.somebody_says_something: 2 if runs else 8,
            self.somebody_decides: 6 if live is not None and live.open_approvals else 0,
            self.somebody_cancels: int(runs),
            self.everybody_leaves: (1 + bool(self.held.tools)) * (runs and bool(self.submissions)),
            self.somebody_comes_back: 4 if live is not None and live.status == "paused" else 0,
            self.the_model_replies: 10 if self.held.model else 0,
            self.a_tool_ends: 5 if self.held.tools else 0,
            self.time_passes: 1,
            self.the_process_ends: 2 if self.held.tools else int(runs),
            self.the_process_is_going_to_end: 1,
            self.the_service_is_stopped_and_started: int(runs),
        }

    # --- the people ---

    def somebody_says_something(self, data: st.DataObject) -> None:
        """A new message, or one that is repeated."""
        sender = data.draw(st.sampled_from(["alice", "bob"]), label="sender")
        if self.sent and data.draw(st.sampled_from([False, False, False, True]), label="again"):
            inbound = self.sent[-1]
        else:
            number = len(self.sent) + 1
            inbound = IncomingMessage(
                text=f"message {number}",
                key=self.test.key(),
                sender=sender,
                idempotency_key=f"key {number}",
            )
            self.sent.append(inbound)
        said = self.do(lambda: self.test.service.submit(inbound))
        if isinstance(said, Submission):
            known = self.accepted.setdefault(inbound.idempotency_key, said.seq)
            assert known == said.seq, "the same message was accepted twice"
            assert self.session_id in ("", said.session_id)
            self.session_id = said.session_id
            self.submissions.append(said)
        elif not self.session_id:
            found = self.do(lambda: self.test.store.bound(self.test.key()))
            self.session_id = found if isinstance(found, str) else ""
        self.settle()

    def somebody_decides(self, data: st.DataObject) -> None:
        """A word for the question that is open, or from somebody who has none."""
        word = data.draw(st.sampled_from(WORDS), label="word")
        by = data.draw(st.sampled_from(["alice", "bob", "", "mallory"]), label="by")
        assert self.live is not None
        approval = self.live.open_approvals[0]
        answer = self.do(
            lambda: self.test.service.decide(self.session_id, approval.call_id, word, by=by)
        )
        if by and not approval.may_answer(by):
            assert isinstance(answer, NotAnApproverError)
        elif self.clock.now() >= approval.expires_at:
            assert isinstance(answer, ApprovalClosedError | UnknownApprovalError)
        elif word == "allow_always" and not approval.pattern:
            assert isinstance(answer, ApprovalClosedError)
        else:
            assert answer is None or self.store.ended.is_set()
        self.settle()

    def somebody_cancels(self, data: st.DataObject) -> None:
        """/stop."""
        del data
        self.do(lambda: self.test.service.cancel(self.session_id))
        self.settle()

    def everybody_leaves(self, data: st.DataObject) -> None:
        """The turn is paused."""
        del data
        self.do(self.submissions[-1].leave)
        self.settle()
        self.clock_moves(0)

    def somebody_comes_back(self, data: st.DataObject) -> None:
        """The turn goes on."""
        del data
        self.come_back()
        self.settle()

    def come_back(self) -> None:
        """Let a paused turn go on."""
        self.do(lambda: self.test.service.resume(self.session_id))

    # --- the model, the tools, the clock ---

    def the_model_replies(self, data: st.DataObject) -> None:
        """An answer, calls, a reply that cannot be used, or a refusal."""
        disposition = data.draw(st.sampled_from(OUTCOMES), label="disposition")
        some = st.lists(st.sampled_from([*CAPABILITIES, "nothing"]), min_size=1, max_size=4)
        names = [] if disposition == "answers" else data.draw(some, label="calls")
        calls: list[ToolCall] = []
        for name in names:
            self.calls += 1
            call_id = f"c{self.calls}"
            arguments = "{cut" if disposition == "broken" else f'{{"n":"{call_id}"}}'
            calls.append(ToolCall(call_id=call_id, name=name, arguments=arguments))
        said = Reply(
            text="" if calls else "done",
            calls=tuple(calls),
            stop_reason="tool_calls" if calls else "stop",
        )
        self.end(self.held.model[0], ModelRefusedError("no") if disposition == "fails" else said)
        self.settle()

    def a_tool_ends(self, data: st.DataObject) -> None:
        """One of those that run, in any order."""
        gives = data.draw(OUTPUTS, label="gives")
        index = data.draw(st.integers(0, len(self.held.tools) - 1), label="which")
        self.end(self.held.tools[index], gives)
        self.settle()

    def end(self, pending: Pending, gives: object) -> None:
        """Let something end."""
        pending.gives = gives
        self.portal.call(pending.ended.set)

    def time_passes(self, data: st.DataObject) -> None:
        """A little, or too much for whoever is asked."""
        self.clock_moves(data.draw(st.sampled_from([1, 30, 61]), label="seconds"))

    def clock_moves(self, delay_s: float) -> None:
        """Move the clock."""
        self.portal.call(self.clock.advance, delay_s)
        self.settle()

    # --- what befalls it ---

    def the_process_ends(self, data: st.DataObject) -> None:
        """Now."""
        del data
        self.portal.call(self.store.end)
        self.settle()

    def the_process_is_going_to_end(self, data: st.DataObject) -> None:
        """At one of the next things it writes."""
        writes = data.draw(st.integers(1, 4), label="writes")
        self.store.at = len(self.store.writes) + writes, data.draw(st.sampled_from(MOMENTS))

    def the_service_is_stopped_and_started(self, data: st.DataObject) -> None:
        """In good order."""
        del data
        self.restart()

    # --- the end ---

    def carry_on(self) -> None:
        """Let everything come to its end, without a further crash."""
        self.store.at = None
        for _ in range(400):
            if not self.takes_up():
                return
            self.settle()
        msg = f"it does not come to its end: {self.live}"
        raise AssertionError(msg)

    def takes_up(self) -> bool:
        """Let something come to its end; whether there was anything."""
        if self.held.model:
            self.end(self.held.model[0], Reply(text="done"))
        elif self.held.tools:
            self.end(self.held.tools[0], ToolOutput(text="ok"))
        elif self.live is not None and self.live.status == "paused":
            self.come_back()
        elif self.live is not None and self.live.open_approvals:
            self.portal.call(self.clock.advance, 61)
        else:
            return self.live is not None and self.live.has_work
        return True

    def teardown(self) -> None:
        """Bring it to its end, and look at the whole."""
        try:
            if hasattr(self, "open"):
                self.finish()
        finally:
            if hasattr(self, "open"):
                self.open.close()
            self.closing.close()

    def finish(self) -> None:
        """Check the whole log."""
        if self.session_id:  # a crash may have come before anybody was awake
            self.do(lambda: self.test.service.view(self.session_id))
            self.settle()
        self.carry_on()
        self.open.close()
        if self.look_at_disk() is None:
            assert not self.accepted
            return
        check_log(self.log, [*self.accepted.values()])
        check_calls(self.log, self.gate.allowed)
        for call_id, times in self.held.runs.items():
            capabilities = CAPABILITIES[self.held.named[call_id]]
            assert times == 1 or capabilities.read_only or capabilities.repeatable, "it ran twice"
        assert "never" not in self.held.named.values()


class TurnsInMemory(Turns):
    """Over the memory store."""

    def make_world(self) -> World:
        return MemoryWorld()


class TurnsOnDisk(Turns):
    """Over the file store."""

    def make_world(self) -> World:
        folder = Path(tempfile.mkdtemp())
        self.closing.callback(shutil.rmtree, folder)
        return FileWorld(folder)


TurnsInMemory.TestCase.settings = examples(15, steps=40)
TurnsOnDisk.TestCase.settings = examples(6, steps=40)
TestTurnsInMemory = TurnsInMemory.TestCase
TestTurnsOnDisk = TurnsOnDisk.TestCase
