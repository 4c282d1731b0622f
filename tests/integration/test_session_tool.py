"""`session`: what one conversation may know of the others, and say to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import anyio
import pytest
from msgspec import structs
from support.conversing import (
    ToolsOf,
    asks,
    log_of,
    newest,
    open_agents,
    results_of,
    say,
    sessions_in,
)
from support.patience import WAIT_S
from support.tables import table
from support.tool_environments import call_tool, tool_context, tool_environment

from everturn_actors.errors import ActorStoppedError, CoreError, JournalError, ToolFailedError
from everturn_actors.events import CallFinished, Received
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import (
    Conversation,
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    OpenTurn,
    Reply,
    UserMessage,
)
from everturn_actors.ports import Tool, ToolContext, ToolOutput
from everturn_actors.testing import START, TestService
from everturn_gateway.tools.conversations import DELEGATE
from everturn_gateway.tools.conversations.delegating import Delegate
from everturn_gateway.tools.conversations.origins import hops_of, label
from everturn_gateway.tools.conversations.sessions import SessionTool
from everturn_gateway.tools.environment import ToolEnvironment

HERE = ConversationKey(channel="telegram", chat="100", agent="test")
THERE = ConversationKey(channel="telegram", chat="200", agent="test")
GROUP = ConversationKey(channel="discord", chat="guild", agent="test")


def opened(
    *, send_to: tuple[str, ...] = (), read_from: tuple[str, ...] = (), page_tokens: int = 6_000
) -> ToolsOf:
    """Return what makes the tool with these settings, and one that delegates."""

    def tools_of(environment: ToolEnvironment) -> tuple[Tool, ...]:
        made = SessionTool(
            environment, send_to=send_to, read_from=read_from, page_tokens=page_tokens
        )
        return made, Delegate(environment)

    return tools_of


def echo(request: ModelRequest) -> str:
    """Answer with what was said last."""
    return f"re: {newest(request)}"


async def ask(
    test: TestService,
    arguments: Mapping[str, object],
    *,
    key: ConversationKey = HERE,
    session_id: str = "",
) -> ToolOutput:
    """Return what the tool says in a conversation, its refusals included."""
    tool = test.agents.agents["test"].tools["session"]
    context = structs.replace(
        tool_context(key=key), session_id=session_id or tool_context().session_id
    )
    try:
        return await call_tool(tool, arguments, context=context)
    except ToolFailedError as error:
        return ToolOutput(text=str(error), is_error=True)


def read(session_id: str, **more: int) -> dict[str, object]:
    """Return the arguments that read a session."""
    return {"action": "read", "session_id": session_id, **more}


LIST: Mapping[str, object] = {"action": "list"}


# --- what may be seen ---


async def test_by_default_nothing_of_other_people_is_seen() -> None:
    """A group and a private talk share no history, though the agent is one and the same."""
    async with open_agents(echo, opened()) as test:
        private = await say(test, "my PIN is 1234", key=THERE)
        await say(test, "hello all", key=GROUP)
        listed = await ask(test, LIST)
        seen = await ask(test, read(private.session_id))

        assert listed == ToolOutput(text="There is no other conversation that you may see.")
        assert seen.is_error
        assert "may not be read" in seen.text
        assert "PIN 1234" not in listed.text + seen.text


async def test_earlier_sessions_of_the_same_conversation_are_its_own() -> None:
    """After a reset the same people may ask what was said before."""
    async with open_agents(echo, opened()) as test:
        before = await say(test, "the code is 1234", key=HERE)
        await test.service.reset(before.session_id)
        now = await say(test, "hello", key=HERE)
        listed = await ask(test, LIST, session_id=now.session_id)
        seen = await ask(test, read(before.session_id), session_id=now.session_id)
        other_topic = await ask(test, LIST, key=structs.replace(HERE, topic="7"))

        assert listed.text.splitlines()[1:] == [
            f"- {before.session_id} telegram:100, ended, 2026-01-02 03:04 (read)"
        ]
        assert not listed.untrusted
        assert "the code is 1234" in seen.text
        assert seen.untrusted
        assert "no other conversation" in other_topic.text


async def test_a_session_sees_its_own_delegates_and_nobody_elses() -> None:
    """What was done for it may be worth a second look."""

    def config(request: ModelRequest) -> str | Reply:
        said = newest(request)
        return asks("delegate", {"task": "dig"}) if said == "go" else f"re: {said[-3:]}"

    async with open_agents(config, opened()) as test:
        mine = await say(test, "go", key=HERE)
        await say(test, "go", key=THERE)
        views = [await test.service.view(each) for each in await sessions_in(test, DELEGATE)]
        (of_mine,) = [v.session_id for v in views if v.key.chat.startswith(mine.session_id)]
        listed = await ask(test, LIST, session_id=mine.session_id)
        seen = await ask(test, read(of_mine), session_id=mine.session_id)

        assert listed.text.count("delegate:") == 1
        assert of_mine in listed.text
        assert "re: dig" in seen.text


async def test_what_the_owner_opens_can_be_read_and_nothing_beside_it() -> None:
    """A pattern opens what it says, with a star the rest of it."""
    async with open_agents(echo, opened(read_from=("telegram:2*", "http:x"))) as test:
        there = await say(test, "fish is fresh", key=THERE)
        group = await say(test, "hello all", key=GROUP)
        listed = await ask(test, LIST)

        assert there.session_id in listed.text
        assert "(read)" in listed.text
        assert group.session_id not in listed.text
        assert "fish is fresh" in (await ask(test, read(there.session_id))).text
        assert (await ask(test, read(group.session_id))).is_error


async def test_another_agents_conversations_do_not_even_exist() -> None:
    """Whether there is one is told to nobody, not even by the error."""
    async with open_agents(echo, opened(read_from=("*",)), names=("test", "other")) as test:
        result = await say(test, "secret", key=structs.replace(HERE, agent="other"))
        theirs = await ask(test, read(result.session_id))
        nobodys = await ask(test, read("20260101T000000000-00000000"))

        assert "no other conversation" in (await ask(test, LIST)).text
        assert theirs.text.replace(result.session_id, "X") == nobodys.text.replace(
            "20260101T000000000-00000000", "X"
        )


# --- reading ---


async def test_messages_are_read_backwards_page_by_page() -> None:
    """A long conversation must not flood the present one, and all of it can be reached."""
    async with open_agents(echo, opened(read_from=("*",))) as test:
        session_id = await test.service.conversations.create(THERE)
        for number in range(30):
            await say(test, f"message {number}", key=THERE)
        said: list[str] = []
        before: dict[str, int] = {}
        pages = 0
        while True:
            page = await ask(test, read(session_id, limit=7, **before))
            lines = [line for line in page.text.splitlines() if line.startswith("[")]
            said = lines + said
            pages += 1
            if "Earlier ones: read with before=" not in page.text:
                break
            number_text = page.text.split("before=")[1].split(".")[0]
            before = {"before": int(number_text)}

        assert pages == 9
        texts = [line.split(": ", 1)[1] for line in said]
        assert texts == [text for n in range(30) for text in (f"message {n}", f"re: message {n}")]


async def test_what_left_memory_is_read_from_the_log() -> None:
    """An owner opens a conversation, not the last hundred messages of it."""
    async with open_agents(echo, opened(read_from=("*",))) as test:
        result = await say(test, "the very first", key=THERE)
        for number in range(120):
            await say(test, f"message {number}", key=THERE)
        page = await ask(test, read(result.session_id, before=20))

        assert "the very first" in page.text
        assert "Earlier ones" not in page.text


async def test_long_messages_are_cut_and_can_be_read_alone() -> None:
    """One pasted file must not hide what was said around it."""
    async with open_agents(echo, opened(read_from=("*",), page_tokens=2_000)) as test:
        result = await say(test, "a" * 5_000 + " end", key=THERE)
        both = await ask(test, read(result.session_id))
        events = await log_of(test, result.session_id)
        seq = next(event.seq for event in events if isinstance(event.body, Received))
        alone = await ask(test, read(result.session_id, limit=1, before=seq + 1))

        assert "more characters; read it with limit=1" in both.text
        assert "end" not in both.text.split("re:")[0]
        assert " end" in alone.text
        assert len(both.text) < 3_000


async def test_no_answer_is_larger_than_a_page() -> None:
    """Fifty messages of a thousand characters would be cut by the loop, and half would be lost."""
    async with open_agents(echo, opened(read_from=("*",), page_tokens=500)) as test:
        session_id = await test.service.conversations.create(THERE)
        for _ in range(10):
            await say(test, "word " * 190, key=THERE)
        page = await ask(test, read(session_id, limit=50))

        assert len(page.text) < 4 * 500 + 1_500
        assert "Earlier ones: read with before=" in page.text


async def test_only_what_was_said_is_read() -> None:
    """Calls and their results are long, and of no use to others."""

    def config(request: ModelRequest) -> str | Reply:
        return asks("nothing", {"a": "XYZ"}) if newest(request) == "go" else "done"

    async with open_agents(config, opened(read_from=("*",))) as test:
        result = await say(test, "go", key=THERE, sender="Zoë]\n[x")
        lines = (await ask(test, read(result.session_id))).text.splitlines()

        assert [line.split("] ", 1)[1] for line in lines if line.startswith("[")] == [
            "user Zoë x: go",
            "assistant: done",
        ]


async def test_an_empty_conversation_says_so() -> None:
    """An empty quote looks like a failure of the tool."""
    async with open_agents(echo, opened(read_from=("*",))) as test:
        session_id = await test.service.conversations.create(THERE)

        assert "no messages" in (await ask(test, read(session_id))).text


# --- sending ---


async def test_a_message_is_accepted_there_and_answered_there() -> None:
    """The main job: word from one chat to another, in the agent's own name."""

    def config(request: ModelRequest) -> str | Reply:
        said = newest(request)
        if said == "go":
            return asks("session", {"action": "send", "to": "telegram:200", "text": "fish at six"})
        return f"ok: {said}"

    async with open_agents(config, opened(send_to=("telegram:200",))) as test:
        result = await say(test, "go", key=HERE)
        (found,) = await results_of(test, result.session_id)
        there = await test.service.conversations.current(THERE)
        events = await log_of(test, there)
        (received,) = [each.body for each in events if isinstance(each.body, Received)]

        assert found.text == "Sent to telegram:200. What is answered there is said there, not here."
        assert received.text == (
            f"[From another conversation of yours, {result.session_id}]\n\nfish at six"
        )
        assert received.sender == label(result.session_id, 1)
        assert "100" not in (received.text + received.sender).replace(result.session_id, "")


async def test_it_is_sent_once_whatever_happens_between() -> None:
    """A person who gets the same word twice does not trust the second one."""
    disk = MemoryDisk()

    def config(request: ModelRequest) -> str | Reply:
        said = newest(request)
        if said == "go":
            return asks("session", {"action": "send", "to": "telegram:200", "text": "once"})
        return f"ok: {said}"

    for append in range(1, 8):
        disk = MemoryDisk()
        inbound = IncomingMessage(text="go", key=HERE, idempotency_key="k")
        with suppress(BaseExceptionGroup):  # what a service says whose disk is gone
            async with open_agents(config, opened(send_to=("telegram:200",)), disk=disk) as test:
                disk.lose_power_at_append(nth=append)
                with suppress(CoreError), anyio.fail_after(WAIT_S):
                    await (await test.service.submit(inbound)).result()
        async with open_agents(config, opened(send_to=("telegram:200",)), disk=disk) as test:
            with anyio.fail_after(WAIT_S):
                result = await (await test.service.submit(inbound)).result()
            events = await log_of(test, await test.service.conversations.current(THERE))

            assert result.text.startswith("ok: Sent")
            assert sum(isinstance(event.body, Received) for event in events) == 1


@table(
    ("arguments", "why"),
    [
        ({"to": "telegram:300", "text": "x"}, "nothing may be sent to telegram:300; only to: "),
        ({"to": "telegram", "text": "x"}, "not of the form channel:chat"),
        ({"to": "telegram:", "text": "x"}, "not of the form channel:chat"),
        ({"text": "x"}, "needs one of to"),
        ({"to": "telegram:200", "session_id": "x", "text": "x"}, "needs one of to"),
        ({"to": "telegram:200", "text": " "}, "text: what is to be sent"),
        ({"to": "telegram:100", "text": "x"}, "that is this conversation"),
        ({"to": "discord:nobody", "text": "x"}, "there is no conversation discord:nobody now"),
        ({"to": "delegate:x", "text": "x"}, "nothing may be sent to delegate:x"),
        ({"session_id": "20260101T000000000-00000000", "text": "x"}, "there is no session"),
        ({"to": "telegram:200", "text": "x" * 1_100_000}, "bytes"),
    ],
)
async def test_what_may_not_be_sent_is_refused_with_the_reason(
    arguments: Mapping[str, object], why: str
) -> None:
    """Nobody gets word from an agent whose owner has not said so."""
    allowed = ("telegram:100", "telegram:200", "discord:*", "delegate:*")
    async with open_agents(echo, opened(send_to=allowed)) as test:
        got = await ask(test, {"action": "send", **arguments})

        assert got.is_error
        assert why in got.text
        assert await test.service.reader.sessions() == ()


async def test_without_leave_it_does_not_offer_to_send() -> None:
    """What is not offered is not tried; what is tried all the same is refused."""
    environment = tool_environment()
    closed, able = SessionTool(environment), SessionTool(environment, send_to=("telegram:*",))

    assert "send" not in str(closed.definition.parameters) + closed.definition.description
    assert "send" in str(able.definition.parameters)
    assert (closed.capabilities.safe, closed.capabilities.read_only) == (True, True)
    assert (able.capabilities.safe, able.capabilities.read_only, able.capabilities.repeatable) == (
        False,
        False,
        True,
    )
    with pytest.raises(ToolFailedError, match="only the owner can allow it"):
        await call_tool(closed, {"action": "send", "to": "telegram:200", "text": "x"})


async def test_a_star_opens_the_conversations_that_there_are() -> None:
    """A chat that nobody named could be anybody's; one that wrote first is known."""
    async with open_agents(echo, opened(send_to=("discord:*", "telegram:200"))) as test:
        group = await say(test, "hello all", key=structs.replace(GROUP, topic="general"))
        listed = await ask(test, LIST)
        by_id = await ask(
            test, {"action": "send", "session_id": group.session_id, "text": "fish at six"}
        )

        assert f"{group.session_id} discord:guild / general, active" in listed.text
        assert "(send)" in listed.text
        assert "- telegram:200: nothing said there yet" in listed.text
        assert "hello all" not in listed.text
        assert by_id.text.startswith("Sent to discord:guild")
        events = await log_of(test, group.session_id)
        assert sum(isinstance(event.body, Received) for event in events) == 2
        assert (await ask(test, read(group.session_id))).is_error


async def test_a_session_that_has_ended_names_its_conversation_all_the_same() -> None:
    """The people are still there; their next session gets the message."""
    async with open_agents(echo, opened(send_to=("telegram:200",))) as test:
        old = await say(test, "hello", key=THERE)
        await test.service.reset(old.session_id)
        sent = await ask(
            test, {"action": "send", "session_id": old.session_id, "text": "fish at six"}
        )
        now = await test.service.conversations.current(THERE)

        assert sent.text.startswith("Sent")
        assert now not in {"", old.session_id}


# --- loops ---


async def test_conversations_cannot_keep_each_other_talking_for_ever() -> None:
    """Two polite agents would thank one another until the money is gone."""
    other = {"telegram:100": "telegram:200", "telegram:200": "telegram:100"}
    sent: list[str] = []

    def config(request: ModelRequest) -> str | Reply:
        said = newest(request)
        if said == "go" or said.startswith("[From another"):
            to = other["telegram:100" if len(sent) % 2 == 0 else "telegram:200"]
            sent.append(to)
            return asks("session", {"action": "send", "to": to, "text": "and you?"})
        return said

    async with open_agents(config, opened(send_to=("telegram:*",))) as test:
        await test.service.conversations.create(THERE)
        first = await say(test, "go", key=HERE)
        with anyio.fail_after(WAIT_S):
            while len(await results_of(test, first.session_id)) < 2:
                await anyio.lowlevel.checkpoint()
        last = (await results_of(test, first.session_id))[-1]

        assert sent == ["telegram:200", "telegram:100", "telegram:200"]
        assert last.is_error
        assert "follows from 2 messages between conversations" in last.text


def heard(*senders: str) -> Conversation:
    """Return a conversation whose running turn answers these senders."""
    users = tuple(UserMessage(text="x", sender=sender) for sender in senders)
    return Conversation(current=OpenTurn(number=1, users=users, started_at=START))


def test_how_often_word_was_passed_on_is_counted_from_all_who_were_heard() -> None:
    """A person in between does not make the rest of a turn fresh."""
    assert hops_of(heard(label("a", 1), "Zoë", label("b", 3))) == 3
    assert hops_of(heard("Zoë", "session:", "session:a:b", "session:a:2:x")) == 0
    assert hops_of(Conversation()) == 0


async def test_a_delegate_does_not_make_a_message_a_first_one() -> None:
    """Else every loop could go on through one."""
    async with open_agents(echo, opened(send_to=("telegram:200",))) as test:
        delegate = test.agents.agents["test"].tools["delegate"]
        context = structs.replace(tool_context(key=HERE), conversation=heard(label("a", 2)))
        await call_tool(delegate, {"task": "x"}, context=context)
        (child,) = await sessions_in(test, DELEGATE)
        state = await test.service.view(child)
        inner = ToolContext(
            session_id=child,
            key=state.key,
            store=test.store,
            conversation=heard(state.held_turns[-1].users[0].sender),
        )
        tool = test.agents.agents["test"].tools["session"]
        with pytest.raises(ToolFailedError, match="follows from 2 messages"):
            await call_tool(
                tool, {"action": "send", "to": "telegram:200", "text": "x"}, context=inner
            )


# --- failures ---


async def test_a_conversation_that_cannot_be_read_costs_one_answer() -> None:
    """Its log may be damaged; what the operator reads of that is not for a chat."""
    async with open_agents(echo, opened(read_from=("*",))) as test:

        async def damaged(*_: object) -> None:
            msg = "events.jsonl: a hole"
            raise JournalError(msg)

        test.service.view = damaged  # type: ignore[method-assign, assignment]
        got = await ask(test, read("x"))

        assert got.text == "that conversation cannot be used now; go on without it"


async def test_while_the_gateway_stops_no_error_becomes_the_result() -> None:
    """The call runs again after the start; a result that says no would be final."""

    def config(request: ModelRequest) -> str | Reply:
        said = newest(request)
        if said == "go":
            return asks("session", {"action": "send", "to": "telegram:200", "text": "x"})
        return said

    async with open_agents(config, opened(send_to=("telegram:200",))) as test:
        submission = await test.service.submit(IncomingMessage(text="go", key=HERE))

        async def stopped(*_: object) -> None:
            raise ActorStoppedError

        test.service.submit = stopped  # type: ignore[method-assign, assignment]
        await test.provider.until_called()
        await anyio.wait_all_tasks_blocked()
        events = await log_of(test, submission.session_id)

        assert not any(isinstance(event.body, CallFinished) for event in events)


@table("arguments", [{}, {"action": "write"}, {"action": "read", "limit": 0}])
async def test_a_call_says_which_argument_is_wrong(arguments: Mapping[str, object]) -> None:
    """A small model often forgets one."""
    with pytest.raises(ToolFailedError, match=r"action|limit"):
        await call_tool(SessionTool(tool_environment()), arguments)


# --- sessions that belong to somebody ---


async def test_an_agent_carries_nothing_from_one_principal_to_another() -> None:
    """Wildcards open conversations to the owner's own sessions; people stay apart."""
    hers = ConversationKey(channel="http", chat="a", agent="test", topic="@alice")
    his = ConversationKey(channel="http", chat="b", agent="test", topic="@bob")
    async with open_agents(echo, opened(read_from=("*",), send_to=("*",))) as test:
        submissions = [
            await test.service.submit(IncomingMessage(text="PIN 1234", key=key, principal=who))
            for key, who in ((hers, "alice"), (his, "bob"), (HERE, ""))
        ]
        for each in submissions:
            await each.result()
        of_alice, of_bob, ours = (each.session_id for each in submissions)
        tool = test.agents.agents["test"].tools["session"]

        async def as_bob(arguments: Mapping[str, object]) -> str:
            context = structs.replace(tool_context(key=his), session_id=of_bob, principal="bob")
            try:
                return (await call_tool(tool, arguments, context=context)).text
            except ToolFailedError as error:
                return str(error)

        apart = [
            await as_bob(LIST),
            await as_bob(read(of_alice)),
            await as_bob(read(ours)),
            await as_bob({"action": "send", "session_id": of_alice, "text": "hi"}),
        ]
        await test.service.conversations.share(of_alice, "bob", by="alice")
        shared = [await as_bob(LIST), await as_bob(read(of_alice))]
        owner = await ask(test, read(of_alice))

    assert apart[0] == "There is no other conversation that you may see."
    assert all("there is no session" in text for text in apart[1:])
    assert "PIN 1234" not in "".join(apart)
    assert of_alice in shared[0]
    assert ours not in shared[0]
    assert "PIN 1234" in shared[1]
    assert "PIN 1234" in owner.text
