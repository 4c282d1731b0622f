"""Sessions that fail: whoever asks is told why, once; nobody else notices; there is a way out."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio
import pytest
from msgspec.structs import replace
from support.faulty_store import FaultyStore, open_faulty_store
from support.pictures import picture
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    CommandFailedError,
    CoreError,
    FencedError,
    JournalWriteError,
    OutOfFilesError,
    SessionQuarantinedError,
    StoreAwayError,
    UnknownAgentError,
)
from everturn_actors.events import AmbientStored, CallFinished, Event, ModelReplied, TurnFinished
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    ToolCall,
    ToolDefinition,
)
from everturn_actors.ports import Agent, ToolCapabilities, ToolContext
from everturn_actors.service import ServicePorts, ServiceSettings, Update, open_service
from everturn_actors.session.quarantine import FAILURES_MAX
from everturn_actors.spec import ModelSpec, SessionSpec
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import (
    START,
    ManualClock,
    ScriptedProvider,
    StaticAgents,
    TestService,
    calling,
    make_spec,
    open_test_service,
    texts,
)
from everturn_actors.turn.model_statistics import InMemoryModelStatistics

Command: TypeAlias = Callable[[TestService, str], Awaitable[Any]]

WAIT_S = 25  # for what takes milliseconds: less than anybody else waits, who would end it otherwise
PATIENT = ServiceSettings(leave_grace_s=0, drain_s=0, resume=False)
AT_ONCE = ServiceSettings(passivate_after_s=0.001, leave_grace_s=0, drain_s=0, sweep_s=10**8)
PRIVATE = "sk-0123456789"


def fault() -> RuntimeError:
    """Return what no part should raise, with a text that nobody should be shown."""
    return RuntimeError(f"the key is {PRIVATE}")


@asynccontextmanager
async def with_open_turn(
    settings: ServiceSettings = PATIENT,
) -> AsyncGenerator[tuple[TestService, FaultyStore, str]]:
    """Open a service on a session whose second turn was cut short, and that rests."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        await (await test.service.submit(IncomingMessage(text="one", key=test.key()))).result()
        test.provider.hold()
        left = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        await test.provider.until_called(2)
    async with (
        open_faulty_store(disk) as store,
        open_test_service(store=store, settings=settings) as test,
    ):
        yield test, store, left.session_id


async def _first_update(test: TestService, session_id: str) -> None:
    async for _ in test.service.watch(session_id, after=0):
        return


COMMANDS: dict[str, Command] = {
    "submit": lambda test, at: test.service.submit(IncomingMessage(text="three", session_id=at)),
    "announce": lambda test, at: test.service.submit(
        IncomingMessage(kind="announcement", text="so", session_id=at)
    ),
    "keep_aside": lambda test, _: test.service.submit(
        IncomingMessage(kind="ambient", text="by the way", key=test.key())
    ),
    "edit": lambda test, _: test.service.conversations.edit(test.key(), "key", "better"),
    "withdraw": lambda test, _: test.service.conversations.withdraw(test.key(), "key"),
    "flush": lambda test, _: test.service.conversations.flush(test.key()),
    "view": lambda test, at: test.service.view(at),
    "watch": _first_update,
    "resume": lambda test, at: test.service.resume(at),
    "cancel": lambda test, at: test.service.cancel(at),
    "retry": lambda test, at: test.service.retry(at),
    "decide": lambda test, at: test.service.decide(at, "call", "allow_once"),
    "compact": lambda test, at: test.service.compact(at),
    "reset": lambda test, at: test.service.reset(at),
    "delete": lambda test, at: test.service.delete(at),
}


def _refusal() -> JournalWriteError:
    return JournalWriteError("no")


def _turn_raises(test: TestService) -> None:
    """Let whatever works on a turn fail."""

    async def prepare() -> None:
        await anyio.lowlevel.checkpoint()
        raise fault()

    agents = test.agents.agents
    agents["test"] = replace(agents["test"], prepare=prepare)


TROUBLES: dict[str, Callable[[TestService, FaultyStore], None]] = {
    "an append fails": lambda _, store: store.break_method("append", fault),
    "an append is refused": lambda _, store: store.break_method("append", _refusal),
    "a load fails": lambda _, store: store.break_method("load", fault),
    "a snapshot fails": lambda _, store: store.break_method("save_snapshot", fault),
    "the disk is full": lambda _, store: store.fill_disk(),
    "the turn raises": lambda test, _: _turn_raises(test),
}


async def answer_to(command: Command, test: TestService, session_id: str) -> CoreError | None:
    """Return why a command could not be done; None where it was."""
    with anyio.fail_after(WAIT_S):
        try:
            await command(test, session_id)
        except CoreError as error:
            return error
    return None


@table("trouble", TROUBLES)
@table("command", COMMANDS)
async def test_every_command_gets_one_answer_with_the_reason(command: str, trouble: str) -> None:
    """None waits for ever, none is told of a stop that is none, none starts a session for ever."""
    async with with_open_turn() as (test, store, session_id):
        TROUBLES[trouble](test, store)
        error = await answer_to(COMMANDS[command], test, session_id)

        assert not isinstance(error, ActorStoppedError)
        assert store.loads <= 3
        assert PRIVATE not in str(error)
        store.faults.clear()
        other = await test.service.submit(IncomingMessage(text="hello", key=test.key("other")))
        with anyio.fail_after(WAIT_S):
            assert (await other.result()).outcome in {"answered", "failed"}


# --- the boundary around a turn ---


class Facts(InMemoryModelStatistics):
    """What is known of models, which cannot be asked."""

    def of(self, model: ModelSpec) -> ModelStatistics:
        """Fail."""
        del model
        raise fault()


class Broken:
    """A tool that cannot even say what it is."""

    capabilities = ToolCapabilities()

    @property
    def definition(self) -> ToolDefinition:
        """Fail."""
        raise fault()

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Never run."""
        raise NotImplementedError


def _cancelled() -> BaseException:
    return anyio.get_cancelled_exc_class()("by a library")


FAULTS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": fault,
    "OSError": lambda: OSError(5, PRIVATE),
    "TimeoutError": TimeoutError,
    "CancelledError": _cancelled,
}


@table("kind", FAULTS)
async def test_a_fault_in_the_work_on_a_turn_ends_the_turn_and_not_the_session(kind: str) -> None:
    """The message was accepted and never answered, and nor was any after it."""
    async with open_faulty_store() as store, open_test_service(store=store) as test:

        async def prepare() -> None:
            error = FAULTS[kind]()
            raise error

        sound = test.agents.agents["test"]
        test.agents.agents["test"] = replace(sound, prepare=prepare)
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        with anyio.fail_after(WAIT_S):
            failed = await first.result()
        test.agents.agents["test"] = sound
        second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        with anyio.fail_after(WAIT_S):
            answered = await second.result()

        assert failed.outcome == "failed"
        assert failed.error == (
            f"the turn could not go on: {kind}, a fault in the program and not in the message;"
            " the log of the gateway tells more"
        )
        assert answered.outcome == "answered"
        assert store.loads == 1


@table("part", ["model_statistics", "tools", "provider", "agents"])
async def test_whatever_a_turn_asks_may_fail(part: str) -> None:
    """Each turn ends in words, within a second; the session lives on."""
    provider = ScriptedProvider()
    async with (
        open_faulty_store() as store,
        open_test_service(
            store=store,
            provider=provider,
            model_statistics=Facts() if part == "model_statistics" else None,
            tools={"broken": Broken()} if part == "tools" else None,
        ) as test,
    ):
        if part == "provider":

            def cancel(_request: ModelRequest) -> str:
                raise _cancelled()

            provider.script = [cancel, cancel]
        submitted = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        if part == "agents":
            await submitted.result()

            test.agents.agents = _Unreadable()
        for text in ("two", "three"):
            if part == "agents":
                with pytest.raises(UnknownAgentError, match="RuntimeError"):
                    await test.service.submit(
                        IncomingMessage(text=text, session_id=submitted.session_id)
                    )
                continue
            with anyio.fail_after(WAIT_S):
                result = await submitted.result()
            assert result.outcome == "failed"
            assert PRIVATE not in result.error
            submitted = await test.service.submit(IncomingMessage(text=text, key=test.key()))

        assert store.loads == 1


class _Unreadable(dict[str, Agent]):
    """Agents that cannot be looked up."""

    def __contains__(self, name: object) -> bool:
        """Fail."""
        raise fault()


async def test_the_turn_s_own_deadline_is_still_told_as_one() -> None:
    """Only it is: what timed out elsewhere is a fault."""
    spec = replace(make_spec(), session=SessionSpec(turn_timeout_s=0.01))
    async with open_test_service(spec=spec) as test:
        test.provider.hold()
        submitted = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        with anyio.fail_after(WAIT_S):
            result = await submitted.result()

        assert result.error == "the turn took longer than its 0.01 s"


class Stopped:
    """A tool whose call asks something, until that has stopped."""

    definition = ToolDefinition(name="act", description="Act.", parameters={"type": "object"})
    capabilities = ToolCapabilities(timeout_s=30)

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.ask: Callable[[], Awaitable[object]] | None = None

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Ask again and again; with nobody to ask, meet a stop at once."""
        del call, context
        self.called.set()
        while self.ask is not None:
            await self.ask()
            await anyio.lowlevel.checkpoint()
        raise ActorStoppedError


async def test_a_tool_that_is_stopped_with_the_gateway_did_not_take_too_long() -> None:
    """The model would believe it; what became of the call is told at the next start."""
    disk, tool = MemoryDisk(), Stopped()
    provider = ScriptedProvider(calling(("c1", "act")))
    settings = ServiceSettings(leave_grace_s=0, drain_s=5)
    async with open_test_service(
        disk=disk, provider=provider, tools={"act": tool}, settings=settings
    ) as test:
        other = await test.service.conversations.create(test.key("other"))
        tool.ask = partial(test.service.cancel, other)
        left = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        with anyio.fail_after(WAIT_S):
            await tool.called.wait()
    async with open_test_service(disk=disk) as test:
        with anyio.fail_after(WAIT_S):
            again = await test.service.submit(
                IncomingMessage(text="two", session_id=left.session_id)
            )
            await again.result()
        log = await test.service.history(left.session_id, after=0, limit=100)
        results = [e.body.text for e in log if isinstance(e.body, CallFinished)]

        assert results == ["interrupted by a restart, outcome unknown"]


@table("kind", FAULTS)
async def test_who_waits_for_an_answer_is_told_that_the_session_failed(kind: str) -> None:
    """Also where what failed only looked like a stop: nobody had called it off."""
    async with open_faulty_store() as store, open_test_service(store=store) as test:
        test.provider.hold()
        submitted = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        store.break_method("append", FAULTS[kind])
        test.provider.release()
        with anyio.fail_after(WAIT_S), pytest.raises(ActorFailedError, match=f"failed: {kind}"):
            await submitted.result()
        store.faults.clear()
        again = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        with anyio.fail_after(WAIT_S):
            assert (await again.result()).outcome == "answered"


async def test_a_turn_whose_tool_met_a_stop_of_something_else_ends_in_words() -> None:
    """Only where the gateway itself stops does it wait for the next start."""
    provider = ScriptedProvider(calling(("c1", "act")))
    async with open_test_service(provider=provider, tools={"act": Stopped()}) as test:
        submitted = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        with anyio.fail_after(WAIT_S):
            result = await submitted.result()

        assert (result.outcome, result.error) == ("failed", "what it asked for had stopped")


async def test_a_fault_of_a_summary_costs_the_summary() -> None:
    """Whoever asked for it is told; the conversation goes on."""
    session = SessionSpec(compaction="discard")
    spec = replace(make_spec(), session=session)
    async with (
        open_faulty_store() as store,
        open_test_service(store=store, spec=spec) as test,
    ):
        session_id = await test.service.conversations.create(test.key())
        for number in range(10):
            said = IncomingMessage(text=f"{number} " + "word " * 100, key=test.key())
            await (await test.service.submit(said)).result()
        store.faults["save_result"] = fault
        error = await answer_to(COMMANDS["compact"], test, session_id)
        after = await test.service.submit(IncomingMessage(text="still there?", key=test.key()))

        assert isinstance(error, CommandFailedError)
        assert PRIVATE not in str(error)
        assert (await after.result()).outcome == "answered"
        assert store.loads == 0, "it was begun here, and nothing ended its actor"


class Blind:
    """An observer that fails at whatever it is told."""

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Fail."""
        del before, after, events
        raise fault()

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """Fail."""
        del session_id
        raise fault()

    @contextmanager
    def answering(self, state: SessionState, turn: int, agent: Agent | None) -> Generator[None]:
        """Fail at the end."""
        del state, turn, agent
        yield
        raise fault()


async def test_an_observer_that_fails_ends_nothing() -> None:
    """Nothing depends on what it makes of what it is told."""
    async with open_faulty_store() as store, open_faulty_store() as scratch:
        provider = ScriptedProvider()
        agents = StaticAgents({"test": Agent(spec=make_spec(), provider=provider)})
        async with open_service(
            store=store,
            scratch=scratch,
            agents=agents,
            clock=ManualClock(),
            ports=ServicePorts(observer=Blind()),
        ) as service:
            key = ConversationKey(channel="test", chat="chat", agent="test")
            for text in ("one", "two"):
                submitted = await service.submit(IncomingMessage(text=text, key=key))
                with anyio.fail_after(WAIT_S):
                    assert (await submitted.result()).outcome == "answered"

        assert store.loads == 1


# --- quarantine ---


def _poison(store: FaultyStore) -> None:
    """Let the end of every turn be what no journal takes."""
    store.append_fault = lambda bodies: (
        fault() if any(isinstance(body, ModelReplied) for body in bodies) else None
    )


@asynccontextmanager
async def poisoned() -> AsyncGenerator[tuple[TestService, FaultyStore, str]]:
    """Open a service on a session that fails whenever its turn goes on, until it is left alone."""
    async with with_open_turn() as (test, store, session_id):
        _poison(store)
        for _ in range(FAILURES_MAX):
            error = await answer_to(COMMANDS["submit"], test, session_id)
            await _until_gone(test)
            assert error is None or isinstance(error, ActorFailedError)
        yield test, store, session_id


async def _until_gone(test: TestService) -> None:
    with anyio.fail_after(WAIT_S):
        while (await test.service.activity.load()).active:
            await anyio.wait_all_tasks_blocked()


async def test_a_session_that_fails_again_and_again_is_left_alone() -> None:
    """Each message started it anew, to fail of the same: now it says what to do."""
    async with poisoned() as (test, store, session_id):
        before = store.loads
        refused = [
            await answer_to(COMMANDS[name], test, session_id)
            for name in ("submit", "announce", "edit", "flush", "decide", "compact", "resume")
        ]

        assert {type(error) for error in refused} == {SessionQuarantinedError}
        assert "cancel its turn, reset it, or delete it" in str(refused[0])
        assert PRIVATE not in str(refused[0])
        assert (await test.service.activity.load()).quarantined == 1
        state = await test.service.view(session_id)
        assert state.open_turn is not None
        assert len(test.provider.requests) == FAILURES_MAX
        await _until_gone(test)
        assert store.loads - before <= 3  # `edit` and `flush` look which session it is


@table("way_out", ["cancel", "reset", "delete"])
async def test_there_is_a_way_out_that_does_not_let_the_turn_go_on(way_out: str) -> None:
    """Today's fault must not need a shell on the machine."""
    async with poisoned() as (test, store, session_id):
        store.append_fault = lambda bodies: fault() if isinstance(bodies[0], ModelReplied) else None
        test.provider.hold()
        assert await answer_to(COMMANDS[way_out], test, session_id) is None
        log = await test.service.history(session_id, after=0, limit=100)
        ends = [e.body.outcome for e in log if isinstance(e.body, TurnFinished)]
        assert ends == ([] if way_out == "delete" else ["answered", "cancelled"])
        store.append_fault = None
        test.provider.release()
        after = await test.service.submit(IncomingMessage(text="and now?", key=test.key()))
        with anyio.fail_after(WAIT_S):
            assert (await after.result()).outcome == "answered"

        assert (after.session_id == session_id) == (way_out == "cancel")
        assert (await test.service.activity.load()).quarantined == 0


async def test_the_next_start_of_the_gateway_tries_again() -> None:
    """What was mended meanwhile goes on by itself, and everything is answered."""
    async with poisoned() as (_, store, session_id):
        disk = store.disk
    async with open_test_service(disk=disk) as test:
        with anyio.fail_after(WAIT_S):
            while (await test.service.view(session_id)).has_work:
                await anyio.wait_all_tasks_blocked()
        state = await test.service.view(session_id)

        assert [turn.outcome for turn in state.held_turns] == ["answered"] * 3


async def test_a_full_disk_leaves_no_session_alone() -> None:
    """When there is room again, everybody is taken again."""
    async with with_open_turn() as (test, store, session_id):
        store.fill_disk()
        for _ in range(FAILURES_MAX + 1):
            error = await answer_to(COMMANDS["submit"], test, session_id)
            assert isinstance(error, JournalWriteError)
        store.faults.clear()

        assert await answer_to(COMMANDS["submit"], test, session_id) is None


async def _until_at_rest(test: TestService) -> None:
    with anyio.fail_after(WAIT_S):
        while (await test.service.activity.load()).active:
            await anyio.wait_all_tasks_blocked()


async def _until_started_again(test: TestService, store: FaultyStore, clock: ManualClock) -> None:
    """Let the time pass until a session that failed is started once more, and its actor is gone."""
    starts = store.loads
    with anyio.fail_after(WAIT_S):
        await clock.until_sleeping(60)
        clock.advance(60)
        while store.loads == starts:
            await anyio.wait_all_tasks_blocked()
    await _until_at_rest(test)
    assert store.loads == starts + 1


async def test_a_turn_that_a_full_disk_cut_short_goes_on_when_there_is_room() -> None:
    """Its sender was told that it was received, and has no reason to come back."""
    clock = ManualClock()
    async with (
        open_faulty_store() as store,
        open_test_service(store=store, clock=clock, settings=AT_ONCE) as test,
    ):
        test.provider.hold()
        left = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        store.fill_disk()
        test.provider.release()
        for _ in range(3):  # as long as the disk is full it is tried now and then
            await _until_started_again(test, store, clock)
        store.faults.clear()
        await _until_started_again(test, store, clock)
        state = await test.service.view(left.session_id)
        asked = len(test.provider.requests)
        clock.advance(3600)
        await anyio.wait_all_tasks_blocked()

        assert [turn.outcome for turn in state.held_turns] == ["answered"]
        assert len(test.provider.requests) == asked  # and then it is left in peace


@table(
    ("error", "told"),
    [
        (StoreAwayError("the database is away"), StoreAwayError),
        (OSError(errno.EMFILE, "Too many open files"), OutOfFilesError),
    ],
)
async def test_a_turn_waits_for_a_store_that_cannot_be_asked(
    error: Exception, told: type[CoreError]
) -> None:
    """What it reads is there: neither is the turn at fault, nor is the picture gone."""
    clock = ManualClock()
    async with (
        open_faulty_store() as store,
        open_test_service(store=store, clock=clock, settings=AT_ONCE) as test,
    ):
        store.break_method("read_media", lambda: error)
        said = IncomingMessage(text="look", key=test.key(), attachments=(picture(),))
        left = await test.service.submit(said)
        with pytest.raises(told):
            await left.result()
        store.faults.clear()
        await _until_started_again(test, store, clock)
        state = await test.service.view(left.session_id)

    assert [turn.outcome for turn in state.held_turns] == ["answered"]
    assert len(test.provider.requests) == 1, "nothing was asked without the picture"


async def test_a_session_with_nothing_open_is_not_started_again_by_itself() -> None:
    """What was refused was refused: its sender knows."""
    clock = ManualClock()
    async with (
        open_faulty_store() as store,
        open_test_service(store=store, clock=clock, settings=AT_ONCE) as test,
    ):
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await first.result()
        await _until_at_rest(test)
        store.break_method("append", _refusal)
        error = await answer_to(COMMANDS["submit"], test, first.session_id)
        await _until_at_rest(test)
        starts = store.loads
        clock.advance(3600)
        await anyio.wait_all_tasks_blocked()

        assert isinstance(error, JournalWriteError)
        assert store.loads == starts


# --- another writer ---


def _write_beside(disk: MemoryDisk, session_id: str) -> None:
    """Append an event as another process would."""
    stored = disk.sessions[session_id]
    body = AmbientStored(text="from elsewhere", sender="else")
    stored.write([Event(seq=stored.last_seq + 1, at=START, body=body)])


async def test_another_writer_costs_a_load_and_nothing_else() -> None:
    """What it wrote is kept, what was asked for is done, and followers miss nothing."""
    async with open_faulty_store() as store, open_test_service(store=store) as test:
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await first.result()
        seen: list[Event] = []

        def note(update: Update) -> None:
            if isinstance(update, Event):
                seen.append(update)

        async def watch() -> None:
            async for update in test.service.watch(first.session_id, after=0):
                note(update)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            _write_beside(store.disk, first.session_id)
            second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
            with anyio.fail_after(WAIT_S):
                assert (await second.result()).outcome == "answered"
                while not seen or seen[-1].seq < store.disk.sessions[first.session_id].last_seq:
                    await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert sum(isinstance(event.body, AmbientStored) for event in seen) == 1
        assert store.loads == 2
        assert "from elsewhere" in str(texts(test.provider.requests[-1]))


async def test_another_writer_in_the_middle_of_a_turn_lets_it_go_on() -> None:
    """The reply may be asked for again; it is answered once, and a cancel still has its answer."""
    async with open_faulty_store() as store, open_test_service(store=store) as test:
        test.provider.hold()
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await test.provider.until_called()
        _write_beside(store.disk, first.session_id)
        test.provider.release()
        with anyio.fail_after(WAIT_S):
            assert (await first.result()).outcome == "answered"
        test.provider.hold()
        asked = len(test.provider.requests)
        second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
        await test.provider.until_called(asked + 1)
        _write_beside(store.disk, first.session_id)
        with anyio.fail_after(WAIT_S):
            assert await test.service.cancel(first.session_id)
            assert (await second.result()).outcome == "cancelled"
        log = await test.service.history(first.session_id, after=0, limit=100)

        assert [e.body.outcome for e in log if isinstance(e.body, TurnFinished)] == [
            "answered",
            "cancelled",
        ]


async def test_a_second_writer_in_a_row_is_told_as_the_reason() -> None:
    """Two that write at once for ever would load for ever."""
    async with open_faulty_store() as store, open_test_service(store=store) as test:
        first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
        await first.result()
        store.faults["append"] = lambda: FencedError("the log ends elsewhere")
        error = await answer_to(COMMANDS["submit"], test, first.session_id)
        store.faults.clear()

        assert isinstance(error, FencedError)
        assert store.loads == 2
        assert await answer_to(COMMANDS["submit"], test, first.session_id) is None
