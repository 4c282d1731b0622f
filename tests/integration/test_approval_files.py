"""A person's word holds for the files that a call names, as they stood when it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import pytest
from msgspec.structs import replace
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import ApprovalClosedError
from everturn_actors.events import ApprovalAsked, CallFinished, Event
from everturn_actors.journal.log.codec import decode, encode, seed
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import FileDigest, IncomingMessage, ToolCall, ToolDefinition
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, Verdict
from everturn_actors.testing import ScriptedProvider, TestService, calling, open_test_service


class Act:
    """A tool with effects."""

    definition = ToolDefinition(name="act", description="", parameters={"type": "object"})

    def __init__(self, *, repeatable: bool = False) -> None:
        self.capabilities = ToolCapabilities(repeatable=repeatable)
        self.runs = 0

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Run."""
        self.runs += 1
        return "acted"


@dataclass
class Bound:
    """A gate whose verdicts are about one file; what stands in it is `content`."""

    word: str = "ask"
    content: str = "echo one"
    judged: int = 0
    kept: list[str] = field(default_factory=list[str])
    at: dict[int, Callable[[], object]] = field(default_factory=dict[int, Callable[[], object]])
    "What happens right after it said its word for so many times."

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say the word, about the file as it stands."""
        self.judged += 1
        files = (FileDigest(path="report.sh", digest=self.content),) if self.content else ()
        verdict = Verdict(effect="ask", reason="it runs a script", pattern="act:*", files=files)
        if self.word != "ask":
            verdict = replace(verdict, effect="allow" if self.word == "allow" else "deny")
        happens = self.at.get(self.judged)
        done = happens() if happens else None
        if isinstance(done, anyio.Event):
            await done.wait()
        return verdict

    async def remember(self, pattern: str) -> None:
        """Keep it."""
        self.kept.append(pattern)

    def rewrite(self) -> None:
        """Write something else into the file."""
        self.content = "rm -rf ~"


async def asked(test: TestService, session_id: str, nth: int = 1) -> ApprovalAsked:
    """Return the question that is asked as the nth."""
    with anyio.fail_after(WAIT_S):
        async for update in test.service.watch(session_id, after=0):
            if isinstance(update, Event) and isinstance(update.body, ApprovalAsked):
                nth -= 1
                if not nth:
                    return update.body
    raise AssertionError


async def results(test: TestService, session_id: str) -> list[str]:
    """Return the results in the log."""
    log = await test.service.history(session_id, after=0, limit=100)
    return [event.body.text for event in log if isinstance(event.body, CallFinished)]


async def go(test: TestService) -> str:
    """Hand in a message; return the session."""
    return (await test.service.submit(IncomingMessage(text="go", key=test.key()))).session_id


def script() -> ScriptedProvider:
    """Return a model that acts once."""
    return ScriptedProvider(calling(("a", "act")), "done")


async def until_done(test: TestService, session_id: str) -> None:
    """Wait for the result of the call."""
    with anyio.fail_after(WAIT_S):
        async for update in test.service.watch(session_id, after=0):
            if isinstance(update, Event) and isinstance(update.body, CallFinished):
                return


async def test_a_call_runs_where_its_files_stayed_as_they_were() -> None:
    """Nobody is asked twice for the same thing."""
    act, gate = Act(), Bound()
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        session = await go(test)
        question = await asked(test, session)
        await test.service.decide(session, "a", "allow_always")
        await until_done(test, session)

        assert question.files == (FileDigest(path="report.sh", digest="echo one"),)
        assert (act.runs, gate.kept) == (1, ["act:*"])


async def test_a_file_that_changed_meanwhile_is_asked_about_anew_by_its_name() -> None:
    """Who allowed a script allowed what was in it, not what somebody else put there since."""
    act, gate = Act(), Bound()
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        session = await go(test)
        first = await asked(test, session)
        gate.rewrite()
        await test.service.decide(session, "a", "allow_always")
        second = await asked(test, session, 2)

        assert (act.runs, gate.kept) == (0, [])
        assert second.reason == (
            "report.sh changed since this was allowed, so it is asked again; it runs a script"
        )
        assert second.arguments_hash != first.arguments_hash
        with pytest.raises(ApprovalClosedError):  # a second press of the first question's button
            await test.service.decide(
                session, "a", "allow_once", arguments_hash=first.arguments_hash
            )
        await test.service.decide(session, "a", "allow_once", arguments_hash=second.arguments_hash)
        await until_done(test, session)
        assert act.runs == 1


@table("changes", [True, False])
async def test_a_restart_between_the_answer_and_the_run_changes_nothing_of_it(
    changes: bool,
) -> None:
    """A word outlives the process that took it; so must what it was given for."""
    act, gate, disk = Act(), Bound(), MemoryDisk()
    never = anyio.Event()
    gate.at[2] = lambda: never  # the process ends while the call is judged after the answer
    async with open_test_service(
        provider=script(), tools={"act": act}, gate=gate, disk=disk
    ) as test:
        session = await go(test)
        await asked(test, session)
        await test.service.decide(session, "a", "allow_once")
    if changes:
        gate.rewrite()
    provider = ScriptedProvider("done")
    async with open_test_service(
        provider=provider, tools={"act": act}, gate=gate, disk=disk
    ) as test:
        if changes:
            again = await asked(test, session, 2)
            assert (act.runs, again.files[0].digest) == (0, "rm -rf ~")
        else:
            await until_done(test, session)
            assert act.runs == 1


async def test_a_file_that_changes_as_the_call_begins_keeps_it_from_running() -> None:
    """Between the last look and the log's next line a disk is written, which takes its time."""
    act, gate = Act(), Bound()
    gate.at[2] = gate.rewrite
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        session = await go(test)
        await asked(test, session)
        await test.service.decide(session, "a", "allow_once")
        await until_done(test, session)

        assert act.runs == 0
        assert await results(test, session) == [
            "not run: report.sh changed as it began; call it again"
        ]


async def test_a_call_that_nobody_was_asked_about_is_judged_again_as_it_begins() -> None:
    """What a pattern allowed was allowed by what the files said then."""
    act, gate = Act(), Bound(word="allow")
    gate.at[1] = gate.rewrite
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        session = await go(test)
        await until_done(test, session)

        assert act.runs == 0
        assert "report.sh changed" in (await results(test, session))[0]


async def test_what_is_denied_since_the_answer_does_not_run() -> None:
    """A deny rule holds before everything else, also one that was written in between."""
    act, gate = Act(), Bound()
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        session = await go(test)
        await asked(test, session)
        gate.word = "deny"
        await test.service.decide(session, "a", "allow_once")
        await until_done(test, session)

        assert act.runs == 0


async def test_a_call_without_files_is_judged_once() -> None:
    """Most calls name no files; they must not pay for those that do."""
    act, gate = Act(), Bound(word="allow", content="")
    async with open_test_service(provider=script(), tools={"act": act}, gate=gate) as test:
        await until_done(test, await go(test))

        assert (act.runs, gate.judged) == (1, 1)


def test_a_log_of_an_older_version_has_no_files_and_is_read() -> None:
    """An update must not make conversations unreadable that wait for an answer."""
    now = Event(
        seq=1,
        at=datetime(2026, 11, 21, tzinfo=UTC),
        body=ApprovalAsked(call_id="a", arguments_hash="9f86d081884c7d65", timeout_s=60),
    )
    line = encode("s", [now]).rstrip(b"\n")

    assert b"files" not in line
    assert decode(line, seed("s")) == now
