"""Calls that wait for a person: asked, answered, expired, overtaken, across restarts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import anyio
import pytest
from msgspec import structs
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    NotAnApproverError,
    UnknownApprovalError,
)
from everturn_actors.events import ApprovalAsked, ApprovalDecided, CallFinished, Event
from everturn_actors.ids import arguments_hash
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage, ToolCall, ToolDefinition
from everturn_actors.ports import ALLOW, Tool, ToolCapabilities, ToolContext, Verdict
from everturn_actors.service import Submission
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    open_test_service,
    texts,
)

ASK = Verdict(effect="ask", reason="it writes", pattern="builtin:act", timeout_s=60)


class Act:
    """A tool with effects."""

    definition = ToolDefinition(name="act", description="", parameters={"type": "object"})
    capabilities = ToolCapabilities()

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Run."""
        self.runs.append(call.call_id)
        return "acted"


class Asking:
    """A gate that says what it was told to say, and remembers what is allowed for good."""

    def __init__(self, verdict: Verdict = ASK, *, fails: Exception | None = None) -> None:
        self.verdict = verdict
        self.kept: list[str] = []
        self._fails = fails

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say it."""
        if self._fails is not None:
            raise self._fails
        return ALLOW if self.verdict.pattern in self.kept else self.verdict

    async def remember(self, pattern: str) -> None:
        """Keep it."""
        if self._fails is not None:
            raise self._fails
        self.kept.append(pattern)


async def until_asked(test: TestService, session_id: str) -> ApprovalAsked:
    """Wait until a call of the session waits for a person."""
    async for update in test.service.watch(session_id, after=0):
        if isinstance(update, Event) and isinstance(update.body, ApprovalAsked):
            return update.body
    raise AssertionError


async def begin(test: TestService, *, sender: str = "") -> tuple[Submission, ApprovalAsked]:
    """Hand in a message whose turn comes to a question."""
    message = IncomingMessage(text="go", key=test.key(), sender=sender)
    submission = await test.service.submit(message)
    return submission, await until_asked(test, submission.session_id)


async def results(test: TestService, session_id: str) -> Sequence[tuple[str, bool]]:
    """Return the text and fault of each result in the log."""
    log = await test.service.history(session_id, after=0, limit=100)
    return [(e.body.text, e.body.is_error) for e in log if isinstance(e.body, CallFinished)]


def script() -> ScriptedProvider:
    """Return a model that acts once and then says how it went."""
    return ScriptedProvider(calling(("a", "act")), "done")


async def test_a_call_waits_for_a_person_and_runs_when_it_is_allowed() -> None:
    """The point of mode ask: nothing happens that nobody wanted.

    What was shown is what is allowed, and nothing else (R24).
    """
    act = Act()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, asked = await begin(test)
        session_id = submission.session_id

        assert (asked.reason, asked.pattern, asked.timeout_s) == ("it writes", "builtin:act", 60)
        shown = arguments_hash("act", "{}")
        assert asked.arguments_hash == shown
        with pytest.raises(ApprovalClosedError, match="not those"):
            await test.service.decide(session_id, "a", "allow_once", arguments_hash="0" * 32)
        assert act.runs == []
        await test.service.decide(session_id, "a", "allow_once", arguments_hash=shown)
        assert (await submission.result()).text == "done"
        assert act.runs == ["a"]


async def test_a_call_that_is_not_allowed_does_not_run_and_the_model_reads_by_whom() -> None:
    """A model that is told why can find another way."""
    act = Act()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, _ = await begin(test, sender="alice")
        await test.service.decide(submission.session_id, "a", "deny", by="alice")
        result = await submission.result()

        assert result.outcome == "answered"
        assert act.runs == []
        assert await results(test, submission.session_id) == [("not allowed by alice", True)]


async def test_a_call_that_is_allowed_for_good_is_remembered_before_it_runs() -> None:
    """Who says always must not be asked for the same thing in the next turn."""
    act, gate = Act(), Asking()
    provider = ScriptedProvider(calling(("a", "act")), "one", calling(("b", "act")), "two")
    async with open_test_service(provider=provider, tools={"act": act}, gate=gate) as test:
        submission, _ = await begin(test)
        await test.service.decide(submission.session_id, "a", "allow_always")
        await submission.result()
        again = await test.service.submit(IncomingMessage(text="again", key=test.key()))

        assert (await again.result()).text == "two"
        assert gate.kept == ["builtin:act"]
        assert act.runs == ["a", "b"]


async def test_an_answer_after_the_expiry_is_refused_and_the_call_does_not_run() -> None:
    """A click on a forgotten button, a day later, must not start anything (SE-04)."""
    clock, act = ManualClock(), Act()
    async with open_test_service(
        provider=script(), tools={"act": act}, gate=Asking(), clock=clock
    ) as test:
        submission, _ = await begin(test)
        clock.advance(61)
        result = await submission.result()

        assert result.outcome == "answered"
        assert act.runs == []
        expired = ("not run: nobody allowed it in time", True)
        assert await results(test, submission.session_id) == [expired]
        with pytest.raises(ApprovalClosedError, match="it has expired"):
            await test.service.decide(submission.session_id, "a", "allow_once")


@table("away_s", [30, 61], ids=["answered", "expired"])
async def test_a_question_survives_a_restart_with_its_expiry(away_s: int) -> None:
    """The gateway is updated while somebody thinks about it; the button still works (SE-04).

    The time runs on while the gateway is down.
    """
    disk, clock, act = MemoryDisk(), ManualClock(), Act()
    async with open_test_service(
        provider=script(), tools={"act": act}, gate=Asking(), disk=disk, clock=clock
    ) as test:
        submission, _ = await begin(test)
    clock.advance(away_s)
    async with open_test_service(
        provider=ScriptedProvider("done"),
        tools={"act": act},
        gate=Asking(),
        disk=disk,
        clock=clock,
    ) as test:
        session_id = submission.session_id
        if away_s < 60:
            await test.service.decide(session_id, "a", "allow_once")
        await test.provider.until_called()
        log = await test.service.history(session_id, after=0, limit=100)
        ((_, is_error),) = await results(test, session_id)

        assert act.runs == (["a"] if away_s < 60 else [])
        assert is_error is (away_s > 60)
        assert sum(isinstance(e.body, ApprovalAsked) for e in log) == 1


@table(
    ("named", "refused", "heard"),
    [
        # In a group, anybody can press the button; only the one who asked, or the owner, counts.
        pytest.param((), "mallory", "", id="by default"),
        # A bot for a thousand people has a few who are responsible.
        pytest.param(("admin", "ops-*"), "alice", "ops-2", id="named by the policy"),
    ],
)
async def test_only_those_who_may_answer_are_heard(
    named: tuple[str, ...], refused: str, heard: str
) -> None:
    """Nobody else makes a call run."""
    act, gate = Act(), Asking(structs.replace(ASK, approvers=named))
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        submission, asked = await begin(test, sender="alice")

        assert asked.approvers == (named or ("alice",))
        with pytest.raises(NotAnApproverError, match=f"'{refused}' may not answer"):
            await test.service.decide(submission.session_id, "a", "allow_once", by=refused)
        assert act.runs == []
        await test.service.decide(submission.session_id, "a", "allow_once", by=heard)
        assert (await submission.result()).text == "done"
        assert act.runs == ["a"]


async def test_the_first_word_counts_and_the_same_word_again_changes_nothing() -> None:
    """Two people press at the same time; a client repeats its request."""
    gate = anyio.Event()

    class Slow(Act):
        async def run(self, call: ToolCall, context: ToolContext) -> str:
            await gate.wait()
            return await super().run(call, context)

    act = Slow()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, _ = await begin(test)
        session_id = submission.session_id
        await test.service.decide(session_id, "a", "allow_once")
        await test.service.decide(session_id, "a", "allow_once")
        with pytest.raises(ApprovalClosedError, match="allow_once"):
            await test.service.decide(session_id, "a", "deny")
        gate.set()
        await submission.result()
        await test.service.decide(session_id, "a", "allow_once")  # a client that lost the answer
        with pytest.raises(ApprovalClosedError, match="allow_once"):
            await test.service.decide(session_id, "a", "deny")
        log = await test.service.history(session_id, after=0, limit=100)

        assert sum(isinstance(e.body, ApprovalDecided) for e in log) == 1
        assert act.runs == ["a"]


async def test_what_cannot_be_allowed_for_good_can_be_allowed_once() -> None:
    """A compound command has no pattern; "always" would allow what nobody looked at."""
    gate = Asking(Verdict(effect="ask"))
    async with open_test_service(provider=script(), tools={"act": Act()}, gate=gate) as test:
        submission, _ = await begin(test)

        with pytest.raises(ApprovalClosedError, match="only this once"):
            await test.service.decide(submission.session_id, "a", "allow_always")
        await test.service.decide(submission.session_id, "a", "allow_once")
        assert (await submission.result()).text == "done"


async def test_a_new_message_of_somebody_who_may_answer_comes_first() -> None:
    """Who writes "no, wait" instead of pressing the button has answered."""
    act = Act()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, _ = await begin(test, sender="alice")
        message = IncomingMessage(text="no, wait", key=test.key(), sender="alice")
        second = await test.service.submit(message)
        result = await second.result()

        assert (result.turn, result.text) == (1, "done")
        assert act.runs == []
        assert texts(test.provider.requests[1]) == ["go", "no, wait"]
        assert (await submission.result()).text == "done"


async def test_a_message_of_somebody_else_does_not_answer_for_the_one_who_is_asked() -> None:
    """Chatter in a group must not cancel what another person is about to allow."""
    act = Act()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, _ = await begin(test, sender="alice")
        other = await test.service.submit(
            IncomingMessage(text="hi all", key=test.key(), sender="bob")
        )
        await test.service.decide(submission.session_id, "a", "allow_once", by="alice")
        await other.result()

        assert act.runs == ["a"]


class Watching(ManualClock):
    """A clock that notes the deadline of whoever waits."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        self.deadlines.append(anyio.current_effective_deadline())
        await super().sleep(delay_s)


async def test_waiting_for_a_person_does_not_use_up_the_time_of_the_turn() -> None:
    """A turn has half an hour; a person may be at lunch."""
    clock = Watching()
    running: list[float] = []

    class Noting(Act):
        async def run(self, call: ToolCall, context: ToolContext) -> str:
            running.append(anyio.current_effective_deadline())
            return await super().run(call, context)

    async with open_test_service(
        provider=script(), tools={"act": Noting()}, gate=Asking(), clock=clock
    ) as test:
        submission, _ = await begin(test)
        await clock.until_sleeping(60)
        await test.service.decide(submission.session_id, "a", "allow_once")
        await submission.result()

        assert clock.deadlines[-1] == inf
        assert running[0] < inf


async def test_a_turn_that_waits_for_a_person_can_be_cancelled() -> None:
    """/stop has to work while a question is open, and closes it."""
    act = Act()
    async with open_test_service(provider=script(), tools={"act": act}, gate=Asking()) as test:
        submission, _ = await begin(test)
        with anyio.fail_after(WAIT_S):
            assert await test.service.cancel(submission.session_id)

        assert (await submission.result()).outcome == "cancelled"
        with pytest.raises(UnknownApprovalError):
            await test.service.decide(submission.session_id, "a", "allow_once")
        assert act.runs == []


async def test_a_call_that_is_refused_is_told_with_the_reason() -> None:
    """Deny is a result like any other."""
    gate = Asking(Verdict(effect="deny", reason="rm is on the deny list"))
    async with open_test_service(provider=script(), tools={"act": Act()}, gate=gate) as test:
        submission = await test.service.submit(IncomingMessage(text="go", key=test.key()))
        await submission.result()

        assert await results(test, submission.session_id) == [("rm is on the deny list", True)]


@table("fault", [RuntimeError("bug"), CoreError("unreadable")])
async def test_a_gate_that_fails_allows_nothing(fault: Exception) -> None:
    """A policy that cannot be read must not allow everything."""
    act = Act()
    async with open_test_service(
        provider=script(), tools={"act": act}, gate=Asking(fails=fault)
    ) as test:
        submission = await test.service.submit(IncomingMessage(text="go", key=test.key()))

        assert (await submission.result()).text == "done"
        assert act.runs == []


async def test_a_word_where_nothing_waits_is_a_clear_error() -> None:
    """A client that answers the wrong session has to be told."""
    async with open_test_service() as test:
        submission = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
        await submission.result()

        with pytest.raises(UnknownApprovalError, match="no call 'x' waits"):
            await test.service.decide(submission.session_id, "x", "deny")
