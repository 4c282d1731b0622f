"""An agent asks people something: answered once, by who may, over restarts, in every place."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from anyio import to_thread
from support.delivering import delivering, idle
from support.feeding_adapter import feeding
from support.gateway import HttpGateway, open_http_gateway, write_agent
from support.openai_client import client_of
from support.scripted_adapter import ScriptedAdapter, capabilities
from support.shell_agents import until_asked as until_asked_over_http
from support.tables import table

from everturn_actors.errors import ApprovalClosedError, NotAnApproverError
from everturn_actors.events import ApprovalAsked, CallFinished, Event
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    Approval,
    ConversationKey,
    Decision,
    IncomingMessage,
    Reply,
    ToolCall,
    ToolResult,
)
from everturn_actors.service import Submission
from everturn_actors.spec import AgentSpec, SessionSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
)
from everturn_channels.adapter import Person
from everturn_channels.delivery.questions import Question
from everturn_channels.delivery.rendering import buttons_of
from everturn_channels.texts import click_late, click_refused
from everturn_gateway.tools.asking.ask_user import AskUserTool

TOOLS: Final = {"ask_user": AskUserTool(timeout_s=60, approvers=())}
BOB: Final = Person(id="8", name="Bob")
COLOURS: Final[dict[str, Any]] = {"question": "Which colour?", "choices": ["Red", "Light blue"]}


def asking(call_id: str = "a", **arguments: Any) -> Reply:
    """Return a reply that asks something."""
    call = ToolCall(call_id=call_id, name="ask_user", arguments=json.dumps(arguments or COLOURS))
    return Reply(calls=(call,), stop_reason="tool_calls")


async def begin(test: TestService, *, sender: str = "") -> tuple[Submission, ApprovalAsked]:
    """Hand in a message whose turn comes to a question."""
    message = IncomingMessage(text="paint it", key=test.key(), sender=sender)
    submission = await test.service.submit(message)
    async for update in test.service.watch(submission.session_id, after=0):
        if isinstance(update, Event) and isinstance(update.body, ApprovalAsked):
            return submission, update.body
    raise AssertionError


async def results(test: TestService, session_id: str) -> list[tuple[str, bool]]:
    """Return the text and fault of each result in the log."""
    log = await test.service.history(session_id, after=0, limit=100)
    return [(e.body.text, e.body.is_error) for e in log if isinstance(e.body, CallFinished)]


@table(
    ("arguments", "typed", "result"),
    [
        (COLOURS, "2", "Light blue"),
        (COLOURS, " light BLUE ", "Light blue"),
        ({**COLOURS, "free_text": True}, "green, please", "green, please"),
        ({**COLOURS, "free_text": True}, "1", "Red"),
        ({"question": "How many?", "choices": ["3", "1"]}, "1", "1"),
        ({"question": "Your name?"}, "Ada", "Ada"),
    ],
)
async def test_the_answer_is_the_result(arguments: dict[str, Any], typed: str, result: str) -> None:
    """A number is easier to type than a choice, and the model reads the choice."""
    provider = ScriptedProvider(asking(**arguments), "done")
    async with open_test_service(provider=provider, tools=TOOLS) as test:
        submission, asked = await begin(test)
        assert asked.inquiry is not None
        await test.service.decide(submission.session_id, asked.call_id, "answer", answer=typed)

        assert (await submission.result()).text == "done"
        assert await results(test, submission.session_id) == [(result, False)]


@table(
    ("decision", "typed", "why"),
    [
        ("answer", "3", r"1 \(Red\), 2 \(Light blue\)"),
        ("answer", "", "it takes one of"),
        ("answer", "Green", "it takes one of"),
        ("answer", "x" * 8_001, "at most 8,000 characters"),
        ("allow_once", "", "an answer in words"),
        ("allow_always", "", "an answer in words"),
    ],
)
async def test_what_is_no_answer_leaves_the_question_open(
    decision: Decision, typed: str, why: str
) -> None:
    """A slip of the finger must not decide; and leave to run something is none to this."""
    async with open_test_service(provider=ScriptedProvider(asking(), "done"), tools=TOOLS) as test:
        submission, asked = await begin(test)
        session_id = submission.session_id
        with pytest.raises(ApprovalClosedError, match=why):
            await test.service.decide(session_id, asked.call_id, decision, answer=typed)
        await test.service.decide(session_id, asked.call_id, "answer", answer="1")

        assert (await submission.result()).text == "done"


async def test_it_survives_a_restart_and_is_answered_once() -> None:
    """The gateway is killed while somebody thinks; the answer counts, and no second one does."""
    disk = MemoryDisk()
    async with open_test_service(
        provider=ScriptedProvider(asking()), tools=TOOLS, disk=disk
    ) as test:
        submission, asked = await begin(test)
    async with open_test_service(provider=ScriptedProvider("done"), tools=TOOLS, disk=disk) as test:
        session_id = submission.session_id
        decide = test.service.decide
        await decide(session_id, asked.call_id, "answer", answer="Red")
        await test.provider.until_called()
        await decide(session_id, asked.call_id, "answer", answer="Red")
        with pytest.raises(ApprovalClosedError, match="it was answered"):
            await decide(session_id, asked.call_id, "answer", answer="Light blue")

        assert await results(test, session_id) == [("Red", False)]


async def test_an_answer_that_is_on_disk_counts_after_a_crash() -> None:
    """Between the answer and what the model makes of it anything may happen."""
    disk = MemoryDisk()
    provider = ScriptedProvider(asking())
    async with open_test_service(provider=provider, tools=TOOLS, disk=disk) as test:
        submission, asked = await begin(test)
        provider.hold()
        await test.service.decide(submission.session_id, asked.call_id, "answer", answer="2")
    async with open_test_service(provider=ScriptedProvider("done"), tools=TOOLS, disk=disk) as test:
        await test.provider.until_called()

        assert await results(test, submission.session_id) == [("Light blue", False)]


@table(
    ("default", "result"),
    [
        ("Red", ("nobody answered in time; go on with: Red", False)),
        ("", ("nobody answered in time", True)),
    ],
)
async def test_without_an_answer_the_agent_goes_on_with_what_it_said(
    default: str, result: tuple[str, bool]
) -> None:
    """Nobody may be there; the work must not wait for ever."""
    clock = ManualClock()
    provider = ScriptedProvider(asking(**COLOURS, default=default), "done")
    async with open_test_service(provider=provider, tools=TOOLS, clock=clock) as test:
        submission, _ = await begin(test)
        await clock.until_sleeping(60)
        clock.advance(61)

        assert (await submission.result()).text == "done"
        assert await results(test, submission.session_id) == [result]


@table("steering", [True, False])
async def test_a_message_closes_the_question_and_is_read(steering: bool) -> None:
    """People answer by writing; whatever they write, the agent reads it and goes on."""
    spec = _with_steering(make_spec(), steering=steering)
    provider = ScriptedProvider(asking(), "done", "read")
    async with open_test_service(provider=provider, tools=TOOLS, spec=spec) as test:
        submission, _ = await begin(test, sender="ann")
        later = await test.service.submit(
            IncomingMessage(text="the second one", key=test.key(), sender="ann")
        )
        await later.result()

        said = ("a new message came first: it may be the answer", True)
        assert await results(test, submission.session_id) == [said]
        assert any(m.text == "the second one" for m in provider.requests[-1].messages)


def _with_steering(spec: AgentSpec, *, steering: bool) -> AgentSpec:
    return AgentSpec(name=spec.name, model=spec.model, session=SessionSpec(steering=steering))


async def test_only_who_is_asked_may_answer() -> None:
    """In a group, others must not answer for whom the agent talks with."""
    named = {"ask_user": AskUserTool(timeout_s=60, approvers=("bob",))}
    for tools, may, may_not in ((TOOLS, "ann", "bob"), (named, "bob", "ann")):
        provider = ScriptedProvider(asking(), "done")
        async with open_test_service(provider=provider, tools=tools) as test:
            submission, asked = await begin(test, sender="ann")
            session_id, call_id = submission.session_id, asked.call_id
            with pytest.raises(NotAnApproverError):
                await test.service.decide(session_id, call_id, "answer", answer="1", by=may_not)
            await test.service.decide(session_id, call_id, "answer", answer="1", by=may)

            assert (await submission.result()).text == "done"


@table(
    ("arguments", "channel", "why"),
    [
        (COLOURS, "delegate", "nobody can be asked"),
        ({"question": " "}, "test", "question"),
        ({"question": "Which?", "choices": ["a", "A"]}, "test", "two are the same"),
        ({"question": "Which?", "choices": ["x" * 61]}, "test", "choices.0"),
        ({"question": "Which?", "choices": [f"{n}" for n in range(11)]}, "test", "choices"),
    ],
)
async def test_what_cannot_be_asked_is_told_to_the_model(
    arguments: dict[str, Any], channel: str, why: str
) -> None:
    """It can ask better, or decide itself; nobody waits for an hour for nobody."""
    provider = ScriptedProvider(asking(**arguments), "done")
    async with open_test_service(provider=provider, tools=TOOLS) as test:
        key = ConversationKey(channel=channel, chat="c", agent="test")
        submission = await test.service.submit(IncomingMessage(text="paint it", key=key))
        await submission.result()
        [(text, is_error)] = await results(test, submission.session_id)

    assert is_error
    assert why in text


# --- in a chat ---


async def test_in_a_chat_the_choices_are_buttons(tmp_path: Path) -> None:
    """One touch answers, from who was asked and nobody else."""
    provider = ScriptedProvider(asking(), "done")
    async with feeding(tmp_path, provider=provider, tools=TOOLS) as fed:
        await fed.say("paint it")
        session_id = await fed.service.conversations.current(fed.key("7"))
        approvals: tuple[Approval, ...] = ()
        async for _ in fed.service.watch(session_id, after=0):
            if approvals := (await fed.service.view(session_id)).open_approvals:
                break
        question = Question(approval=approvals[0], call=None)
        red, blue = buttons_of(question, session_id)
        refused = await fed.click(blue.data, sender=BOB)
        taken = await fed.click(blue.data)
        state = await fed.until_idle("7")
        late = await fed.click(red.data)

    assert (red.label, blue.label) == ("Red", "Light blue")
    assert (refused, taken, late) == (click_refused(), "Answered.", click_late())
    assert [each.text for each in state.held_turns[0].steps[0].results] == ["Light blue"]


@table("has_buttons", [True, False])
async def test_the_question_and_its_end_are_told_in_the_chat(has_buttons: bool) -> None:
    """People read what is asked and what holds without them, and later what was answered."""
    able = capabilities(chunk_units=1000, buttons=has_buttons)
    asked = asking(**COLOURS, free_text=True, default="Red")
    async with delivering(asked, "done", tools=TOOLS, adapter=ScriptedAdapter(able=able)) as test:
        said = await test.say()
        await test.adapter.until(lambda: bool(test.adapter.world.messages))
        await idle()
        shown = test.adapter.world.messages["m1"]
        await test.service.decide(said.session_id, "a", "answer", by="ann", answer="green")
        await test.until_delivered(said.session_id)
        closed = test.adapter.world.messages["m1"]

    assert shown.text.removeprefix("~").startswith("Which colour?\n1. Red\n2. Light blue\n\n")
    assert "Without an answer: Red." in shown.text
    assert ("Or write another answer here." in shown.text) == has_buttons
    assert ("--answer ..." in shown.text) != has_buttons
    assert [each.label for each in shown.buttons] == ["Red", "Light blue"] * has_buttons
    assert closed.text.removeprefix("~").startswith("Which colour?")
    assert closed.text.endswith("Answered by ann: green")
    assert closed.buttons == ()


# --- over HTTP ---


@asynccontextmanager
async def asking_agent(folder: Path) -> AsyncGenerator[HttpGateway]:
    """Open a gateway whose agent `second` may ask people."""

    def write() -> None:
        file = write_agent(folder / "agents", name="second")
        document = yaml.safe_load(file.read_text())
        document["spec"]["tools"] = [
            {"type": "builtin", "name": "ask_user", "timeout_seconds": 120}
        ]
        file.write_text(yaml.safe_dump(document))

    await to_thread.run_sync(write)
    async with open_http_gateway(folder) as gateway:
        yield gateway


async def test_over_http_the_question_is_shown_and_answered_by_number(tmp_path: Path) -> None:
    """Whoever builds a page of their own gets what a chat shows."""
    async with asking_agent(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += [asking(), "done"]
        session_id = await gateway.session("second")
        path = f"/api/v1/sessions/{session_id}"
        await client.post(
            f"{path}/messages", json={"content": "go"}, headers={"Prefer": "respond-async"}
        )
        await until_asked_over_http(gateway, session_id)
        [waiting] = (await client.get(path)).json()["approvals"]
        word = {"call_id": waiting["call_id"], "decision": "answer"}
        wrong = await client.post(f"{path}/approve", json={**word, "answer": "5"})
        right = await client.post(f"{path}/approve", json={**word, "answer": "2"})
        await gateway.provider.until_called(2)

    assert waiting["inquiry"] == {
        "text": "Which colour?",
        "choices": ["Red", "Light blue"],
        "takes_text": False,
        "default": "",
    }
    assert (wrong.status_code, wrong.json()["detail"].partition("takes")[1]) == (409, "takes")
    assert (right.status_code, right.json()["decision"]) == (200, "answer")
    assert gateway.provider.requests[1].messages[-1].text == "Light blue"


@table(
    ("typed", "result"),
    [
        ("no", "No"),
        ("yes", "Yes"),
        ("neither", "a new message came first: it may be the answer"),
    ],
)
async def test_a_client_of_openai_is_asked_and_answers_in_its_chat(
    tmp_path: Path, typed: str, result: str
) -> None:
    """A yes to such a question is an answer and no approval; what else is written is read."""
    page = {"X-OpenWebUI-Chat-Id": "0e1f7d5c-6f0e-4d8f-a1a5-3a9a2e5c1b77"}
    async with asking_agent(tmp_path) as gateway, client_of(gateway) as client:
        gateway.provider.script += [asking(question="Paint it?", choices=["Yes", "No"]), "done"]
        first = await client.chat.completions.create(
            model="second", messages=[{"role": "user", "content": "go"}], extra_headers=page
        )
        asked = first.choices[0].message.content or ""
        second = await client.chat.completions.create(
            model="second",
            messages=[
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": asked},
                {"role": "user", "content": typed},
            ],
            extra_headers=page,
        )
    sent = gateway.provider.requests[1].messages

    assert asked.startswith("Paint it?\n1. Yes\n2. No\n\nUntil ")
    assert second.choices[0].message.content == "done"
    assert [each.text for each in sent if isinstance(each, ToolResult)] == [result]
