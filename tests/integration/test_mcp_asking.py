"""MCP servers that ask a person in the middle of a call: the official package on both sides."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import yaml
from anyio import to_thread
from support.gateway import open_http_gateway, write_agent
from support.mcp_asking import AskingService, open_asking_server
from support.mcp_world import DEADLINE_S, McpWorld, open_world
from support.tables import table
from support.warm_start import python_command

from everturn_actors.events import ApprovalAsked, CallFinished, Event, TurnFinished
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    ConversationKey,
    Decision,
    IncomingMessage,
    Reply,
    ToolCall,
    Usage,
    UserMessage,
)
from everturn_actors.service import Submission
from everturn_actors.state.recovery import INTERRUPTED, UNANSWERED
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
)
from everturn_gateway.tools.mcp import McpSamplingSettings, McpServerSettings, SamplingModel

SCRIPT: Final = Path(__file__).parents[1] / "support" / "mcp_asking.py"


@dataclass(slots=True)
class World:
    """An agent whose one server asks."""

    mcp: McpWorld
    test: TestService
    service: AskingService | None = None
    begun: int = 0
    key: ConversationKey | None = None

    async def begin(self, tool: str, *, sender: str = "", channel: str = "test") -> Submission:
        """Have a tool of the server called."""
        call = ToolCall(call_id="c1", name=f"asks_{tool}", arguments="{}")
        self.test.provider.script[:] = [Reply(calls=(call,), stop_reason="tool_calls"), "done"]
        self.begun += 1
        self.key = ConversationKey(channel=channel, chat=f"chat{self.begun}", agent="test")
        return await self.say("go", sender=sender)

    async def say(self, text: str, *, sender: str = "") -> Submission:
        """Write something in the conversation that began last."""
        key = self.key or self.test.key()
        return await self.test.service.submit(IncomingMessage(text=text, key=key, sender=sender))

    async def asked(self, session_id: str, after: int = 0) -> tuple[ApprovalAsked, int]:
        """Wait for the next question; return it and the number of its event."""
        with anyio.fail_after(DEADLINE_S):
            async for update in self.test.service.watch(session_id, after=after):
                if isinstance(update, Event):
                    assert not isinstance(update.body, TurnFinished), await self.results(session_id)
                    if isinstance(update.body, ApprovalAsked):
                        return update.body, update.seq
        raise AssertionError

    async def answer(
        self, session_id: str, *answers: str, decision: Decision = "answer", after: int = 0
    ) -> list[str]:
        """Answer one question after the other; return what was asked."""
        shown: list[str] = []
        for each in answers:
            asked, after = await self.asked(session_id, after)
            assert asked.inquiry is not None
            shown.append(asked.inquiry.text)
            await self.test.service.decide(
                session_id, "c1", decision, answer=each, arguments_hash=asked.arguments_hash
            )
        return shown

    async def results(self, session_id: str) -> list[str]:
        """Return the texts of the results in the log."""
        log = await self.test.service.history(session_id, after=0, limit=500)
        return [each.body.text for each in log if isinstance(each.body, CallFinished)]

    async def result(self, submission: Submission) -> str:
        """Wait for the end of the turn; return the result of its call."""
        with anyio.fail_after(DEADLINE_S):
            assert (await submission.result()).text == "done"
        [text] = await self.results(submission.session_id)
        return text


@asynccontextmanager
async def opened(
    folder: Path,
    kind: str,
    *,
    disk: MemoryDisk | None = None,
    clock: ManualClock | None = None,
    sampling: McpSamplingSettings | None = None,
    model: SamplingModel | None = None,
) -> AsyncGenerator[World]:
    """Open an agent with the server: `stdio`, `http` (an older revision) or `modern`."""
    async with asking(folder, kind, sampling=sampling, model=model) as (mcp, service):
        tools = mcp.box.tools
        async with open_test_service(
            tools=tools, disk=disk, clock=clock, provider=ScriptedProvider()
        ) as test:
            yield World(mcp, test, service)


@asynccontextmanager
async def asking(
    folder: Path,
    kind: str,
    *,
    sampling: McpSamplingSettings | None = None,
    model: SamplingModel | None = None,
) -> AsyncGenerator[tuple[McpWorld, AskingService | None]]:
    """Open the server alone; it is trusted."""
    made = {"asks": model} if model else {}
    common: dict[str, Any] = {"name": "asks", "trusted": True, "sampling": sampling}
    if kind == "stdio":
        command, *args = await to_thread.run_sync(python_command, SCRIPT)
        settings = McpServerSettings(command=command, args=tuple(args), **common)
        async with open_world(folder, settings, sampling=made) as mcp:
            yield mcp, None
        return
    async with open_asking_server(is_modern=kind == "modern") as (http, service):
        settings = McpServerSettings(url=http.url, **common)
        async with open_world(folder, settings, sampling=made) as mcp:
            yield mcp, service


everywhere = table("kind", ["stdio", "http", "modern"])
"As a program, of the older revision and of the newer one."
both = table("kind", ["http", "modern"])
"Of both revisions: what is said is that of the revision, however it travels."


@everywhere
async def test_a_form_is_asked_field_by_field(tmp_path: Path, kind: str) -> None:
    """Each field in its place, with what fits; the server gets the values in their types."""
    async with opened(tmp_path, kind) as world:
        said = await world.begin("register")
        shown = await world.answer(said.session_id, "Ada", "seventeen", "17", "36", "paid")
        result = await world.result(said)

    assert result == "who: accept {'name': 'Ada', 'age': 36, 'plan': 'paid'}"
    assert shown[0].split("\n")[:3] == [
        "The MCP server “asks” asks (1 of 3), for register:",
        "| Who are you?",
        "| Full name",
    ]
    assert "| age: In years.\nIt has to be a whole number, 18 or more." in shown[1]
    assert "Your last answer did not fit." not in shown[1]
    assert "Your last answer did not fit. It has to be a whole number, 18 or more." in shown[2]
    assert "(3 of 3)" in shown[4]


@both
async def test_what_a_person_answers_is_what_the_server_gets(tmp_path: Path, kind: str) -> None:
    """Nothing more and nothing else; that a page was opened, in their own words."""
    # Whether they come at once or one after the other, a person reads one at a time.
    async with opened(tmp_path, kind) as world:
        said = await world.begin("twice")
        shown = await world.answer(said.session_id, "2", "red")
        result = await world.result(said)

        assert result == "one: accept {'colour': 'blue'}; two: accept {'colour': 'red'}"
        assert ["Which first?" in shown[0], "Which then?" in shown[1]] == [True, True]

        # A field that is not required gets no value that nobody gave.
        said = await world.begin("register")
        await world.answer(said.session_id, "Ada", "skip", "free")
        result = await world.result(said)

        assert result == "who: accept {'name': 'Ada', 'plan': 'free'}"

        # The person sees where it leads; that they say so is all that the server learns.
        said = await world.begin("visit")
        [page] = await world.answer(said.session_id, "I opened it")
        result = await world.result(said)

        assert result == "page: accept"
        assert page.split("\n") == [
            "The MCP server “asks” asks you to open a page, for visit:",
            "| Log in there.",
            "The page is at pay.example.com:",
            "https://pay.example.com/start?id=1",
            "Nothing opens it for you.",
        ]


@both
@table("decision", ["answer", "deny"])
async def test_who_does_not_want_to_answer_declines(
    tmp_path: Path, kind: str, decision: Decision
) -> None:
    """By the last of the choices, or where a place has a way of its own to say no."""
    async with opened(tmp_path, kind) as world:
        said = await world.begin("twice")
        await world.answer(said.session_id, "Do not answer", decision=decision)
        _, after = await world.asked(said.session_id)
        await world.answer(said.session_id, "blue", after=after)
        result = await world.result(said)

    assert result == (
        "one: decline; two: accept {'colour': 'blue'}\n"
        "[The server asked the people of this conversation something: it was declined.]"
    )


@both
async def test_nobody_answers_in_time(tmp_path: Path, kind: str) -> None:
    """The server learns that the question was dismissed, and the turn goes on."""
    clock = ManualClock()
    async with opened(tmp_path, kind, clock=clock) as world:
        said = await world.begin("twice")
        await world.asked(said.session_id)
        await clock.until_sleeping(3600)
        clock.advance(3601)
        if kind != "modern":  # these come one after the other, and each is asked
            await world.asked(said.session_id, 8)
            await clock.until_sleeping(3600)
            clock.advance(3601)
        result = await world.result(said)

    assert result.startswith("one: cancel; two: cancel\n[The server asked")


@both
async def test_a_message_answers_what_fits_it_and_comes_first_where_nothing_does(
    tmp_path: Path, kind: str
) -> None:
    """People answer in a chat by writing."""
    # People answer in a chat by writing; one message answers one question, and is read as well.
    async with opened(tmp_path, kind) as world:
        said = await world.begin("register", sender="ann")
        session_id = said.session_id
        await world.asked(session_id)
        await world.say("Ada", sender="ann")
        _, first = await world.asked(session_id)
        shown, second = await world.asked(session_id, first)
        assert shown.inquiry is not None
        await world.answer(session_id, "skip", "paid", after=first)
        await said.result()
        [result] = await world.results(session_id)
        sent = world.test.provider.requests[1].messages

    assert "(2 of 3)" in shown.inquiry.text
    assert second > first
    assert result == "who: accept {'name': 'Ada', 'plan': 'paid'}"
    assert [each.text for each in sent][-1] == "Ada"

    # Somebody says something else: the server is told, and the agent reads it.
    async with opened(tmp_path, kind) as world:
        said = await world.begin("confirm", sender="ann")
        await world.asked(said.session_id)
        await world.say("what is this?", sender="ann")
        await said.result()
        [result] = await world.results(said.session_id)
        sent = world.test.provider.requests[1].messages

    assert result.startswith("yes: cancel\n")
    assert sent[-1].text == "what is this?"


@both
async def test_where_nobody_can_be_asked_the_server_and_the_model_learn_why(
    tmp_path: Path, kind: str
) -> None:
    """At once, and the session goes on."""
    # A task that runs apart must not wait an hour for nobody.
    async with opened(tmp_path, kind) as world:
        said = await world.begin("register", channel="delegate")
        result = await world.result(said)

        assert result == (
            "who: decline\n[The server asked the people of this conversation something:"
            " nobody can be asked in this conversation; it was declined.]"
        )

        # Off is the default; the server, or the model that called it, reads why.
        said = await world.begin("think")
        result = await world.result(said)

        assert "`sampling` is off" in result

        # Nor is anybody asked what no person can answer.
        for tool, why in (
            ("many", "its form has 1,000 fields; 20 are asked at most"),
            ("masked", "no plain address"),
        ):
            assert why in await world.result(await world.begin(tool)), tool


@table("kind", ["stdio", "http"])
@table(("answer", "result"), [("I opened it", "in"), ("Do not answer", "")])
async def test_a_call_that_wants_a_page_opened_first_is_made_again(
    tmp_path: Path, kind: str, answer: str, result: str
) -> None:
    """The error -32042 of 2025-11-25: the call waits for the person, and is made once more."""
    async with opened(tmp_path, kind) as world:
        said = await world.begin("gated")
        await world.answer(said.session_id, answer)
        text = await world.result(said)

    assert text == result or (not result and "a page has to be opened for it first" in text)


@both
async def test_a_server_cannot_speak_in_our_name(tmp_path: Path, kind: str) -> None:
    """Its words are marked as its own, hide nothing, and are as long as a person reads."""
    async with opened(tmp_path, kind) as world:
        for tool in ("forged", "long"):
            said = await world.begin(tool)
            [shown] = await world.answer(said.session_id, "red")
            await said.result()
            own = [line for line in shown.split("\n") if not line.startswith("| ")]

            assert len(shown) < 2_500
            assert not any("Everturn" in line for line in own)
            assert "\x1b" not in shown
            assert "\u202e" not in shown


@table("kind", ["stdio", "http"])
async def test_a_cancelled_turn_is_cancelled_at_the_server(tmp_path: Path, kind: str) -> None:
    """Its call must not wait for somebody who said no to all of it."""
    async with opened(tmp_path, kind) as world:
        said = await world.begin("confirm")
        await world.asked(said.session_id)
        await world.test.service.cancel(said.session_id)
        with anyio.fail_after(DEADLINE_S):
            if world.service is not None:
                await world.service.until_cancelled(1)
        [result] = await world.results(said.session_id)
        again = await world.begin("confirm")
        await world.answer(again.session_id, "Yes")

        assert result == "cancelled before it finished"
        assert (await again.result()).text == "done"


async def test_a_question_of_the_newer_form_outlives_the_gateway(tmp_path: Path) -> None:
    """Between two fields, and between the last answer and the call that takes it."""
    disk = MemoryDisk()
    async with asking(tmp_path, "modern") as (mcp, service):
        assert service is not None
        session_id, results = "", list[str]()
        for number, answer in enumerate(("Ada", "36", "paid")):
            async with open_test_service(
                tools=mcp.box.tools, disk=disk, provider=ScriptedProvider("done")
            ) as test:
                world = World(mcp, test, service)
                if not number:
                    session_id = (await world.begin("register")).session_id
                log = await test.service.history(session_id, after=0, limit=500)
                newest = [e.seq for e in log if isinstance(e.body, ApprovalAsked)]
                after = newest[-1] - 1 if newest else 0
                await world.answer(session_id, answer, after=after)
                if number < 2:
                    await world.asked(session_id, after + 1)
                else:
                    await test.provider.until_called()
                    results = await world.results(session_id)

    assert results == ["who: accept {'name': 'Ada', 'age': 36, 'plan': 'paid'}"]
    assert service.calls == ["register", "register"]


async def test_a_question_of_the_older_form_is_lost_with_the_gateway(tmp_path: Path) -> None:
    """The model is told, nobody is asked for nothing, and the session goes on."""
    disk = MemoryDisk()
    async with asking(tmp_path, "http") as (mcp, service):
        async with open_test_service(
            tools=mcp.box.tools, disk=disk, provider=ScriptedProvider()
        ) as test:
            world = World(mcp, test, service)
            said = await world.begin("confirm")
            await world.asked(said.session_id)
        async with open_test_service(
            tools=mcp.box.tools, disk=disk, provider=ScriptedProvider("done")
        ) as test:
            await test.provider.until_called()
            world = World(mcp, test, service)
            results = await world.results(said.session_id)
            waiting = (await test.service.view(said.session_id)).open_approvals

    assert results == [f"{INTERRUPTED}{UNANSWERED}"]
    assert waiting == ()


# --- what needs no person ---


@everywhere
async def test_a_server_on_this_machine_learns_where_it_works(tmp_path: Path, kind: str) -> None:
    """Any other is told nothing of this machine."""
    async with opened(tmp_path, kind) as world:
        said = await world.begin("roots")
        result = await world.result(said)
        workspace = world.mcp.environment.files.as_uri()

    assert (workspace in result) == (kind == "stdio")


@everywhere
async def test_a_model_is_used_where_the_owner_lets_the_server(tmp_path: Path, kind: str) -> None:
    """In a request of its own: no prompt, no tools, no more tokens, no secrets either way."""
    model = ScriptedProvider("It is 42, hunter2-hunter2.")
    used = SamplingModel(provider=model, model=make_spec().model)
    limits = McpSamplingSettings(max_calls=1, max_tokens=100)
    async with opened(tmp_path, kind, sampling=limits, model=used) as world:
        world.mcp.environment.secrets.add("hunter2-hunter2")
        said = await world.begin("think")
        result = await world.result(said)
        log = await world.test.service.history(said.session_id, after=0, limit=500)
    [request] = model.requests
    [finished] = [each.body for each in log if isinstance(each.body, CallFinished)]

    assert "It is 42, " in result
    assert "hunter2" not in result
    assert result.endswith("[The server used a model: 1 call, 0 tokens.]")
    assert (finished.untrusted, finished.source) == (True, "what think of the MCP server asks gave")
    assert (request.system, request.tools, request.max_output_tokens) == ("Be short.", (), 100)
    assert request.purpose == "for the MCP server asks"
    assert [(m.text, m.untrusted) for m in request.messages if isinstance(m, UserMessage)] == [
        ("What is 6 * 7?", True)
    ]


async def test_what_a_server_used_stands_in_the_usage_as_what_it_is(tmp_path: Path) -> None:
    """The whole way from the agent's file: who pays sees what for."""
    async with open_asking_server(is_modern=True) as (http, _):
        file = write_agent(tmp_path / "agents", name="second")
        document = yaml.safe_load(file.read_text())
        document["spec"]["tools"] = [
            {"type": "mcp", "name": "asks", "url": http.url, "sampling": {"max_tokens": 50}}
        ]
        file.write_text(yaml.safe_dump(document))
        (file.parent / "policy.yaml").write_text("allow: ['mcp:asks:*']\n")
        async with open_http_gateway(tmp_path) as gateway:
            call = ToolCall(call_id="c1", name="asks_think", arguments="{}")
            gateway.provider.script[:] = [
                Reply(calls=(call,), stop_reason="tool_calls"),
                Reply(text="42", usage=Usage(input_tokens=7, output_tokens=2)),
                "done",
            ]
            session_id = await gateway.session("second")
            async with gateway.client() as client:
                await client.post(f"/api/v1/sessions/{session_id}/messages", json={"content": "go"})
                usage = (await client.get("/api/v1/usage")).json()
            requests = gateway.provider.requests

    assert [each.max_output_tokens for each in requests][1] == 50
    assert "[The server used a model: 1 call, 9 tokens.]" in requests[2].messages[-1].text
    [row] = [each for each in usage["rows"] if each["model"].endswith("(for the MCP server asks)")]
    assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (1, 7, 2)
