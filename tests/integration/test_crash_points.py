"""GW-02: one rich turn, killed at every single thing that it writes.

The turn reads side by side, keeps a large result apart, gets a reply that cannot be used, does
things with effects, asks and is allowed, refused and left alone, is steered, and waits twice for a
model that is out of reach, before its first reply and behind results. It is run once to
count its writes; then the process ends before, in the middle of and after each of them, and a new
one has to bring everything to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace
from support.crashing import CrashingStore, Moment, check_calls, check_log, check_request
from support.examples import LONG_RUN
from support.patience import WAIT_S
from support.stores import FileWorld, MemoryWorld, World
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.context.render import render
from everturn_actors.errors import CoreError, RateLimitedError
from everturn_actors.events import ModelCallFailed
from everturn_actors.model import (
    Decision,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    UserMessage,
)
from everturn_actors.ports import Agent, ToolCapabilities, ToolContext, ToolOutput, Verdict
from everturn_actors.service import Submission, TurnService
from everturn_actors.spec import ModelSpec, SessionSpec
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

MOMENTS: tuple[Moment, ...] = ("before", "half", "after")
AGAIN = (1, 2, 4)
"At which of its writes the next process ends as well: by day one of them, in turns, at night each."
MAY_RUN_AGAIN = ("read", "page", "note")
LARGE = "line of a page\n" * 4_000
WORDS: dict[str, Decision | None] = {"ask1": "allow_always", "ask2": "deny", "ask3": None}
"What people say to a call that asks; None = nothing, and it expires."


def ask(pattern: str) -> Verdict:
    """Return a question whose answer can be remembered."""
    return Verdict(effect="ask", pattern=pattern, timeout_s=60, approvers=("alice",))


def calls(*each: tuple[str, str]) -> Reply:
    """Return a reply with these calls: pairs of call id and tool."""
    made = tuple(ToolCall(call_id=i, name=name, arguments=f'{{"n":"{i}"}}') for i, name in each)
    return Reply(text="let me see", calls=made, stop_reason="tool_calls")


PLAN: tuple[Reply | None, ...] = (
    calls(("read1", "read"), ("page1", "page"), ("read2", "read"), ("gone", "nothing")),
    calls(("send1", "send"), ("note1", "note"), ("ask1", "ask")),
    calls(("never1", "never"), ("ask2", "careful"), ("steered1", "steered"), ("send2", "send")),
    calls(("ask3", "careful"), ("read3", "read")),
    None,
)
"The replies of the first turn; None = it answers."


OUTAGES = (0, 2)
"After so many replies the model is out of reach for a while."
FAILURES = 2
ASKED_S = 20


class Planned(ScriptedProvider):
    """A model that does the same at the same place, whichever process asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.broke: set[int] = set()
        self.failed: Counter[int] = Counter()

    async def complete(self, request: ModelRequest, on_text: object) -> Reply:
        """Answer by what stands after the newest beginning of a turn."""
        del on_text
        self.requests.append(request)
        check_request(request)
        await anyio.lowlevel.checkpoint()
        messages = request.messages
        start = max(
            n
            for n, message in enumerate(messages)
            if isinstance(message, UserMessage) and message.text.startswith("turn")
        )
        if not messages[start].text.startswith("turn 1"):
            return Reply(text="you are welcome")
        done = sum(isinstance(message, Reply) for message in messages[start:])
        if done in OUTAGES and self.failed[done] < FAILURES:
            self.failed[done] += 1
            raise RateLimitedError(retry_after_s=ASKED_S)
        if done == 1 and done not in self.broke:
            self.broke.add(done)
            broken = ToolCall(call_id="x", name="send", arguments='{"cut')
            return Reply(calls=(broken,), stop_reason="tool_calls")
        return PLAN[done] or Reply(text="that is all")


@dataclass
class Life:
    """What outlives the process: the disk, the people, and what tools have done."""

    world: World
    provider: Planned = field(default_factory=Planned)
    clock: ManualClock = field(default_factory=ManualClock)
    accepted: dict[str, int] = field(default_factory=dict)
    "Idempotency key -> seq, of messages whose sender was told."
    tried: dict[str, str] = field(default_factory=dict)
    "Idempotency key -> text, of messages that somebody has begun to send."
    gate: Rules = field(
        default_factory=lambda: Rules(
            {
                "ask": ask("builtin:ask"),
                "careful": replace(ask(""), pattern=""),
                "never": Verdict(effect="deny", reason="never"),
            }
        )
    )
    observed: InMemoryModelStatistics = field(default_factory=InMemoryModelStatistics)
    test: TestService | None = None

    def __post_init__(self) -> None:
        reads = ToolCapabilities(read_only=True)
        life = self

        class Steers(Deed):
            async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
                await life.send("steer", "not that one")
                return await super().run(call, context)

        self.tools = (
            Deed("read", capabilities=reads),
            Deed(
                "page", capabilities=reads, gives=lambda _: ToolOutput(text=LARGE, untrusted=True)
            ),
            Deed("note", capabilities=ToolCapabilities(repeatable=True)),
            *(Deed(name) for name in ("send", "ask", "careful", "never")),
            Steers("steered"),
        )

    @property
    def runs(self) -> Counter[str]:
        """How often each call ran."""
        return sum((tool.runs for tool in self.tools), Counter[str]())

    def agent_spec(self) -> Agent:
        """Return the agent, for rendering."""
        return Agent(spec=SPEC, provider=self.provider, tools=by_name(*self.tools))

    async def send(self, key: str, text: str) -> Submission:
        """Send a message as a client does that repeats what was not acknowledged."""
        assert self.test is not None
        self.tried[key] = text
        inbound = IncomingMessage(
            text=text, key=self.test.key(), sender="alice", idempotency_key=key
        )
        submission = await self.test.service.submit(inbound)
        self.accepted[key] = submission.seq
        return submission


SPEC = replace(
    make_spec(),
    model=ModelSpec(provider="scripted", name="scripted", context_window=40_000),
    session=SessionSpec(on_disconnect="continue"),
)


async def people(life: Life, service: TurnService, session_id: str) -> None:
    """Answer what is asked, or let it expire; nobody can where the process ends."""
    with suppress(CoreError):
        async for _ in service.watch(session_id, after=0):
            for approval in (await service.view(session_id)).open_approvals:
                word = WORDS[approval.call_id]
                if word is None:
                    await life.clock.until_sleeping(60)
                    life.clock.advance(60)
                else:
                    await service.decide(session_id, approval.call_id, word, by="alice")
            await wait_for_the_model(life, service, session_id)


async def wait_for_the_model(life: Life, service: TurnService, session_id: str) -> None:
    """Let the time of an outage go by; in the first one somebody writes more."""
    turn = (await service.view(session_id)).open_turn
    if turn is None or turn.outage is None or turn.outage.retry_at <= life.clock.now():
        return
    if not turn.steps and "early" not in life.tried:
        await life.send("early", "and be quick")
    await life.clock.until_sleeping(ASKED_S * 1.25)
    life.clock.advance(ASKED_S * 1.25)


async def carry(life: Life, tasks: TaskGroup) -> str:
    """Send what was not acknowledged, and both turns' messages; wait for their answers."""
    for key, text in [*life.tried.items()]:
        if key not in life.accepted:
            await life.send(key, text)
    first = await life.send("1", "turn 1")
    assert life.test is not None
    tasks.start_soon(people, life, life.test.service, first.session_id)
    await first.result()
    second = await life.send("2", "turn 2")
    await second.result()
    return first.session_id


async def process(life: Life, *, at: tuple[int, Moment] | None) -> tuple[str, CrashingStore]:
    """Run one process until all is answered, or until it ends at a write.

    Returns:
        The session, empty where the process ended before all was answered, and what was written.
    """
    session_id = ""
    async with life.world.open() as inner:
        store = CrashingStore(inner)
        store.at = at
        with anyio.fail_after(WAIT_S):
            async with open_test_service(
                provider=life.provider,
                spec=SPEC,
                tools=by_name(*life.tools),
                store=store,
                clock=life.clock,
                gate=life.gate,
                model_statistics=life.observed,
            ) as test:
                life.test = test
                async with anyio.create_task_group() as tasks:

                    async def work() -> None:
                        nonlocal session_id
                        try:
                            session_id = await carry(life, tasks)
                        except CoreError:
                            assert store.ended.is_set(), "nothing ended, and yet it failed"
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(work)
                    await store.ended.wait()
                    tasks.cancel_scope.cancel()
    return session_id, store


async def check(life: Life, session_id: str, *, crashed: bool) -> None:
    """Check what came of it, on the disk itself."""
    async with life.world.open() as store:
        log = await store.read(session_id, after=0, limit=10_000)
        loaded = await store.load(session_id)
        result = await store.read_result(session_id, "1-1-2.txt")
    assert loaded is not None
    check_log(log, [*life.accepted.values()])
    check_calls(log, life.gate.allowed)
    once = {name: times for name, times in life.runs.items() if name[:4] not in MAY_RUN_AGAIN}
    assert set(once.values()) <= {1}, f"run twice: {once}"
    assert not life.runs.keys() & {"never1", "ask2", "ask3", "gone"}
    assert life.gate.kept == ["builtin:ask"]
    assert result == LARGE
    by_snapshot, from_zero = recover(loaded.snapshot, loaded.events), recover(None, log)
    assert by_snapshot is not None
    assert from_zero is not None
    assert by_snapshot.state == from_zero.state
    assert same_bytes(life, by_snapshot.state, from_zero.state)
    notices = [e for e in log if isinstance(e.body, ModelCallFailed) and e.body.tells]
    assert len(notices) == 1
    outcomes = [turn.outcome for turn in from_zero.state.held_turns]
    assert set(outcomes) == {"answered"}
    if not crashed:
        assert life.runs == dict.fromkeys(
            ("read1", "page1", "read2", "send1", "note1", "ask1", "steered1", "read3"), 1
        )


def same_bytes(life: Life, one: SessionState, two: SessionState) -> bool:
    """Whether both render the same next request."""
    agent, statistics = life.agent_spec(), life.observed.of(SPEC.model)
    made = [
        render(state.conversation, SPEC, agent.offered(statistics, state.open_turn), statistics)
        for state in (one, two)
    ]
    return made[0].request == made[1].request and made[0].fingerprint == made[1].fingerprint


async def count_writes(world: World) -> Sequence[str]:
    """Return the writes of a run in which nothing goes wrong."""
    life = Life(world)
    session_id, store = await process(life, at=None)
    await check(life, session_id, crashed=False)
    return store.writes


async def die_at(life: Life, at: tuple[int, Moment]) -> None:
    """Let a process end there, and the next one bring everything to its end."""
    await process(life, at=at)
    session_id, _ = await process(life, at=None)
    await check(life, session_id, crashed=True)


@table("moment", MOMENTS)
async def test_a_turn_survives_the_end_of_the_process_at_every_write(moment: Moment) -> None:
    """Whatever the instant: nothing accepted is lost, nothing is done twice, the turn goes on."""
    writes = await count_writes(MemoryWorld())

    assert len(writes) > 30
    for number in range(1, len(writes) + 1):
        await die_at(Life(MemoryWorld()), (number, moment))


async def test_a_turn_survives_the_end_of_the_process_while_it_recovers() -> None:
    """A machine that crashes once tends to crash again, in the middle of setting things right."""
    writes = await count_writes(MemoryWorld())

    for number in range(1, len(writes) + 1):
        for again in AGAIN if LONG_RUN else (AGAIN[number % len(AGAIN)],):
            life = Life(MemoryWorld())
            await process(life, at=(number, "after"))
            await die_at(life, (again, "half"))


async def test_the_files_survive_the_end_of_the_process_at_every_write(tmp_path: Path) -> None:
    """The same on a real disk, where an append, a result and a snapshot are several files."""
    writes = await count_writes(FileWorld(tmp_path / "whole"))

    for number in range(1, len(writes) + 1):
        await die_at(Life(FileWorld(tmp_path / str(number))), (number, MOMENTS[number % 3]))
