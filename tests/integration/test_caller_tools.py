"""Tools that the caller of a turn brings along and runs itself."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace
from support.patience import WAIT_S

from everturn_actors.errors import CallNotOpenError, InvalidInputError
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    CallAnswer,
    CallOptions,
    IncomingMessage,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.service import TurnResult
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)

BROUGHT = CallOptions(
    tools=(ToolDefinition(name="brought", description="", parameters={"type": "object"}),)
)


class Own:
    """A tool of the agent that counts how often it runs."""

    definition = ToolDefinition(name="own", description="", parameters={"type": "object"})
    capabilities = ToolCapabilities()

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Count, and say so."""
        self.runs += 1
        return f"own {call.call_id}"


async def ask(test: TestService, options: CallOptions = BROUGHT) -> TurnResult:
    """Ask something, with tools of the caller."""
    asked = await test.service.submit(IncomingMessage(text="go", key=test.key(), options=options))
    return await asked.result()


async def answer(test: TestService, given: TurnResult, *texts: str) -> TurnResult:
    """Say what the calls that were handed over gave."""
    calls = [
        CallAnswer(call_id=call.call_id, text=text)
        for call, text in zip(given.handed_over, texts, strict=True)
    ]
    answered = await test.service.answer_calls(given.session_id, calls)
    return await answered.result()


def results(test: TestService, request: int) -> list[ToolResult]:
    """Return the results of calls that a request shows."""
    return [m for m in test.provider.requests[request].messages if isinstance(m, ToolResult)]


async def test_the_agents_tools_run_beside_those_of_the_caller() -> None:
    """Each call has its result in its place, whoever runs it; the caller sees its own alone."""
    own = Own()
    provider = ScriptedProvider(
        calling(("a", "own"), ("b", "brought"), ("c", "own"), ("d", "brought")), "done"
    )
    async with open_test_service(provider=provider, tools={"own": own}) as test:
        given = await ask(test)
        done = await answer(test, given, "from b", "from d")
        (explained,) = await test.service.reader.explain(done.session_id, done.message_seq)

    # What the model saw stays to be looked at, the caller's tools included.
    assert explained.verdict == "same"
    assert {tool.name for tool in explained.request.tools} == {"own", "brought"}
    assert [call.call_id for call in given.handed_over] == ["b", "d"]
    assert done.text == "done"
    assert [r.text for r in results(test, 1)] == ["own a", "from b", "own c", "from d"]
    assert [r.source for r in results(test, 1) if r.untrusted] == ["the caller's tool brought"] * 2
    assert own.runs == 2


async def test_a_tool_of_the_agent_is_not_taken_over_by_its_name() -> None:
    """Who talks to an agent must not see, or fake, what its own tools do."""
    own, taken = Own(), ToolDefinition(name="own", description="mine", parameters={})
    provider = ScriptedProvider(calling(("a", "own")), "done")
    async with open_test_service(provider=provider, tools={"own": own}) as test:
        done = await ask(test, CallOptions(tools=(taken,)))

    assert done.text == "done"
    assert own.runs == 1
    assert [tool.description for tool in provider.requests[0].tools] == [""]


async def test_tools_are_those_of_the_turn_alone() -> None:
    """The next message may bring others, or none."""
    provider = ScriptedProvider("one", "two")
    async with open_test_service(provider=provider) as test:
        done = await ask(test)
        await (await test.service.submit(IncomingMessage(text="and now?", key=test.key()))).result()
        state = await test.service.view(done.session_id)

    assert [[t.name for t in request.tools] for request in provider.requests] == [["brought"], []]
    assert [user.options for turn in state.held_turns for user in turn.users] == [None, None]


async def test_a_caller_that_does_not_come_back_costs_no_call() -> None:
    """Nobody would read what the model says then."""
    clock, spec = ManualClock(), make_spec()
    spec = replace(spec, session=replace(spec.session, client_tool_timeout_s=60))
    provider = ScriptedProvider(calling(("a", "brought")))
    async with open_test_service(provider=provider, clock=clock, spec=spec) as test:
        given = await ask(test)
        await clock.until_sleeping(60)
        clock.advance(61)
        with anyio.fail_after(WAIT_S):
            while (state := await test.service.view(given.session_id)).open_turn is not None:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(CallNotOpenError):
            await answer(test, given, "late")

    assert state.newest_turn is not None
    assert state.newest_turn.outcome == "cancelled"
    assert "did not say in time" in state.newest_turn.error
    assert len(provider.requests) == 1


async def test_a_restart_changes_nothing_for_the_caller() -> None:
    """The turn waits for its caller on the other side of it; what ran before is not run again."""
    disk, own = MemoryDisk(), Own()
    before = ScriptedProvider(calling(("a", "own"), ("b", "brought")))
    async with open_test_service(provider=before, tools={"own": own}, disk=disk) as test:
        given = await ask(test)
    after = ScriptedProvider("done")
    async with open_test_service(provider=after, tools={"own": own}, disk=disk) as test:
        done = await answer(test, given, "from b")

    assert done.text == "done"
    assert [r.text for r in results(test, 0)] == ["own a", "from b"]
    assert own.runs == 1


async def test_what_no_call_gave_is_refused() -> None:
    """A wrong id, a second result, or none at all changes nothing."""
    provider = ScriptedProvider(calling(("a", "brought")), "done")
    async with open_test_service(provider=provider) as test:
        given = await ask(test)
        wrong = CallAnswer(call_id="z", text="?")
        with pytest.raises(CallNotOpenError, match="no call 'z' waits"):
            await test.service.answer_calls(given.session_id, [wrong])
        with pytest.raises(InvalidInputError, match="there is no result"):
            await test.service.answer_calls(given.session_id, [])
        with pytest.raises(InvalidInputError, match="the result of call 'a': the message has"):
            await answer(test, given, "x" * 2_000_000)
        done = await answer(test, given, "from a")
        with pytest.raises(CallNotOpenError):
            await answer(test, given, "again")

    assert done.text == "done"
