"""What owners do from a chat, over a real service; and that nobody else can do any of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from support.feeding_adapter import OPEN, Fed, FeedingAdapter, feeding
from support.inbound_events import ANN, DM, GROUP
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import ApprovalClosedError
from everturn_actors.events import ApprovalDecided, SessionEnded
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage
from everturn_actors.ports import Verdict
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.access.owners import Owner
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import ChatRef, Command, Person
from everturn_channels.command_registry import command_named, commands_for
from everturn_channels.delivery.approvals import approval_token, button_data
from everturn_channels.inbound.owners.open_questions import CODE_HEX_DIGITS
from everturn_channels.inbound.owners.texts import (
    IN_PRIVATE,
    NO_QUESTIONS,
    NO_SUCH_CODE,
    NO_SUCH_QUESTION,
    NO_SUCH_SESSION,
)
from everturn_channels.settings import AccessRules, DmRules, Route
from everturn_channels.texts import (
    click_late,
    click_refused,
    group_allowed,
    group_closed,
    no_session,
    unknown_command,
)
from everturn_gateway.channels.running import LaterDeliveryPort

ADA = Person(id="1", name="Ada")
"The owner."
ADA_DM = ChatRef(id="1")
BOB = Person(id="8", name="Bob")
BOB_DM = ChatRef(id="8")
OWNER = Owner(name="ada", accounts=frozenset({("test", "1")}))


def _asking(*approvers: str) -> tuple[Deed, Rules, ScriptedProvider]:
    tool = Deed("send")
    verdict = Verdict(effect="ask", reason="it sends", pattern="send:*", approvers=approvers)
    return tool, Rules({"send": verdict}), ScriptedProvider(calling(("c1", "send")), "sent")


async def _until_asked(fed: Fed, chat: str) -> SessionState:
    session_id = await fed.service.conversations.current(fed.key(chat))
    async for _ in fed.service.watch(session_id, after=0):
        state = await fed.service.view(session_id)
        if state.open_approvals:
            return state
    raise AssertionError


async def _decided(fed: Fed, session_id: str) -> list[tuple[str, str]]:
    events = await fed.service.history(session_id, after=0, limit=1000)
    bodies = (event.body for event in events)
    return [(body.decision, body.by) for body in bodies if isinstance(body, ApprovalDecided)]


def _by_ada(fed: Fed) -> Callable[..., Awaitable[str]]:
    return partial(fed.command, chat=ADA_DM, sender=ADA)


# --- questions ---


async def test_an_owner_answers_a_question_of_another_chat_by_its_button(tmp_path: Path) -> None:
    """Whoever owns an agent need not be in the group where it asks."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    tool, gate, provider = _asking("7")
    begin = partial(feeding, folder, provider=provider, tools=by_name(tool), gate=gate)
    async with begin(owners=[OWNER]) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        listed = await fed.command("questions", chat=ADA_DM, sender=ADA)
        (shown,) = await fed.until_said()
        message = next(iter(fed.adapter.world.messages.values()))
        allow = next(each for each in message.buttons if each.label == "Allow once")
        pressed = await fed.click(allow.data, chat=ADA_DM, sender=ADA)
        await fed.until_idle("-100")
        again = await fed.click(allow.data, chat=ADA_DM, sender=ADA)

        assert listed == "1 question waits for an answer."
        assert message.message.chat_id == ADA_DM.id
        assert "test asks, in test -100" in shown
        assert "May send run?" in shown
        assert "it sends" in shown
        assert state.session_id in shown
        assert pressed == "Allowed, this once."
        assert tool.runs == {"c1": 1}
        assert await _decided(fed, state.session_id) == [("allow_once", "owner:ada")]
        assert again == click_late()

    # Owners are always among the approvers; the others stay as they are.
    folder = tmp_path / "there"
    folder.mkdir()
    tool, gate, provider = _asking("7")
    async with feeding(
        folder, provider=provider, tools=by_name(tool), gate=gate, owners=[OWNER]
    ) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        once = button_data("allow_once", approval_token(state.session_id, state.open_approvals[0]))
        other_group = ChatRef(id="-200", type="group")

        assert await fed.click(once, chat=GROUP, sender=BOB) == click_refused()
        assert await fed.click(once, chat=other_group, sender=ADA) == click_late()
        assert tool.runs == {}
        assert await fed.click(once, chat=GROUP, sender=ADA) == "Allowed, this once."
        await fed.until_idle("-100")
        assert await _decided(fed, state.session_id) == [("allow_once", "owner:ada")]


@table(
    ("written", "decision", "runs"),
    [
        ("approve {}", "allow_once", {"c1": 1}),
        ("approve {} always", "allow_always", {"c1": 1}),
        ("deny {}", "deny", {}),
    ],
)
async def test_an_owner_answers_by_the_code_that_was_shown(
    tmp_path: Path, written: str, decision: str, runs: dict[str, int]
) -> None:
    """Not every platform has buttons."""
    tool, gate, provider = _asking("7")
    adapter = FeedingAdapter()
    adapter.capabilities = structs.replace(adapter.capabilities, buttons=False)
    async with feeding(
        tmp_path, provider=provider, tools=by_name(tool), gate=gate, owners=[OWNER], adapter=adapter
    ) as fed:
        await fed.say("send it")
        state = await _until_asked(fed, "7")
        await fed.command("approve", chat=ADA_DM, sender=ADA)
        (shown,) = await fed.until_said()
        code = shown.partition("/approve ")[2][:CODE_HEX_DIGITS]
        name, _, argument = written.format(code.upper()).partition(" ")
        wrong = await fed.command("approve", "0" * 8, chat=ADA_DM, sender=ADA)
        unclear = await fed.command("approve", f"{code} and the rest", chat=ADA_DM, sender=ADA)
        answer = await fed.command(name, argument, chat=ADA_DM, sender=ADA)
        await fed.until_idle()
        late = await fed.command(name, argument, chat=ADA_DM, sender=ADA)

        assert wrong == unclear == late == NO_SUCH_QUESTION
        assert "`test` goes on" in answer
        assert tool.runs == runs
        assert await _decided(fed, state.session_id) == [(decision, "owner:ada")]


async def test_a_question_waits_for_an_owner_over_a_restart(tmp_path: Path) -> None:
    """The code names session, call and arguments, so nothing of it has to be remembered."""
    disk, clock = MemoryDisk(), ManualClock()
    tool, gate, provider = _asking("7")
    begin = partial(
        feeding,
        tmp_path,
        disk=disk,
        clock=clock,
        delivery_port=LaterDeliveryPort(),
        tools=by_name(tool),
    )
    async with begin(provider=provider, gate=gate, owners=[OWNER]) as fed:
        await fed.say("send it")
        state = await _until_asked(fed, "7")
        code = approval_token(state.session_id, state.open_approvals[0])[:CODE_HEX_DIGITS]
    async with begin(provider=ScriptedProvider("sent"), gate=gate, owners=[OWNER]) as fed:
        await _until_asked(fed, "7")
        await fed.command("approve", code, chat=ADA_DM, sender=ADA)
        await fed.until_idle()

    assert tool.runs == {"c1": 1}


async def test_who_owns_something_else_sees_and_answers_nothing_here(tmp_path: Path) -> None:
    """`agents` limits an owner in everything, and a name is no account."""
    # `agents` limits an owner in everything.
    folder = tmp_path / "other"
    folder.mkdir()
    tool, gate, provider = _asking("7")
    bea = structs.replace(OWNER, name="bea", agents=frozenset({"other"}))
    async with feeding(
        folder, provider=provider, tools=by_name(tool), gate=gate, owners=[bea]
    ) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        token = approval_token(state.session_id, state.open_approvals[0])
        allow = button_data("allow_once", token)
        ask = _by_ada(fed)

        assert await ask("questions") == NO_QUESTIONS
        assert await ask("approve", token[:CODE_HEX_DIGITS]) == NO_SUCH_QUESTION
        assert await ask("sessions") == "There is no session."
        assert await ask("reset", state.session_id) == NO_SUCH_SESSION
        assert await ask("usage") == "test used nothing: False"
        assert await fed.click(allow, chat=GROUP, sender=ADA) == click_refused()
        code = await fed.pairing.ask("test", BOB)
        assert code is not None
        assert await ask("pair", code) == NO_SUCH_CODE
        assert "BOB" not in await ask("pair")
        assert tool.runs == {}
        assert not await fed.pairing.is_paired("test", BOB.id)

    # A plug-in may give its people any id, also where everybody may answer.
    folder = tmp_path / "liar"
    folder.mkdir()
    tool, gate, provider = _asking("*")
    async with feeding(folder, provider=provider, tools=by_name(tool), gate=gate) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        token = approval_token(state.session_id, state.open_approvals[0])
        liar = Person(id="owner:ada")

        told = await fed.click(button_data("allow_once", token), chat=GROUP, sender=liar)

        assert told == click_refused()
        assert tool.runs == {}


# --- pairing ---


async def test_only_an_owner_lets_somebody_in_from_the_chat(tmp_path: Path) -> None:
    """No terminal is at hand where people write from."""
    rules = AccessRules(dm=structs.replace(OPEN.dm, policy="allowlist"))
    async with feeding(tmp_path, rules=rules, owners=[OWNER]) as fed:
        await fed.say("hello", chat=BOB_DM, sender=BOB)
        (refusal,) = await fed.until_said()
        waiting = await fed.command("pair", chat=ADA_DM, sender=ADA)
        code = waiting.partition("/pair ")[2][:8]
        wrong = await fed.command("pair", "AAAAAAAA", chat=ADA_DM, sender=ADA)
        told = await fed.command("pair", code.lower(), chat=ADA_DM, sender=ADA)
        nobody = await fed.command("pair", chat=ADA_DM, sender=ADA)
        await fed.say("hello again", chat=BOB_DM, sender=BOB)
        state = await fed.until_idle("8")

        assert code in refusal
        assert "`Bob`, `8` on test" in waiting
        assert wrong == NO_SUCH_CODE
        assert told == "Done: `8`, `Bob`, may talk to me on test now."
        assert nobody == "Nobody waits to be let in."
        assert state.turns == 1
    (paired,) = await Pairing(FileKeyedStore(tmp_path), ManualClock()).approved()
    assert (paired.sender_id, paired.by) == ("8", "owner:ada")

    # Not even the right one: to them there is no such command, and they hear little.
    folder = tmp_path / "stranger"
    folder.mkdir()
    rules = AccessRules(dm=DmRules(policy="allowlist"))
    async with feeding(folder, rules=rules, owners=[OWNER]) as fed:
        right = await fed.pairing.ask("test", BOB)
        assert right is not None
        pair = partial(fed.command, "pair", chat=BOB_DM, sender=BOB)
        first = await pair(right)
        more = [await pair(f"{number:08}") for number in range(50)]

        assert right in first  # as any other message of theirs is answered
        assert more == [""] * 50
        assert not await fed.pairing.is_paired("test", BOB.id)

    # Who is paired may talk to every agent of the channel.
    folder = tmp_path / "some"
    folder.mkdir()
    bea = structs.replace(OWNER, agents=frozenset({"test"}))
    routes = [Route(agent="secret", chat_type="dm", sender_id="99"), Route(agent="test")]
    async with feeding(folder, owners=[bea], routes=routes) as fed:
        allowed = await fed.pairing.ask("test", BOB)
        refused = await fed.pairing.ask("test", Person(id="99"))
        assert allowed is not None
        assert refused is not None
        pair = partial(fed.command, "pair", chat=ADA_DM, sender=ADA)

        assert refused not in await pair()
        assert await pair(refused) == NO_SUCH_CODE
        assert (await pair(allowed)).startswith("Done")


# --- sessions and usage ---


async def test_an_owner_sees_and_ends_what_others_began(tmp_path: Path) -> None:
    """In private, where no agent need talk to anybody, and nobody need be listed."""
    # The log of the session says who did.
    folder = tmp_path / "ends"
    folder.mkdir()
    async with feeding(folder, owners=[OWNER]) as fed:
        await fed.say("my name is Ann")
        before = await fed.until_idle()
        ask = _by_ada(fed)
        listed = await ask("sessions")
        told = await ask("reset", before.session_id)
        again = await ask("reset", before.session_id)
        none = await ask("reset", "20260101T000000000-00000000")
        ended = await fed.service.view(before.session_id)
        events = await fed.service.history(before.session_id, after=0, limit=100)
        ends = [e.body for e in events if isinstance(e.body, SessionEnded)]

        assert f"`{before.session_id}` `test` in `test 7`" in listed
        assert told.startswith("Done")
        assert again.startswith("Done")
        assert none == NO_SUCH_SESSION
        assert ended.status == "ended"
        assert [(end.reason, end.by) for end in ends] == [("reset", "owner:ada")]

    # Also where no agent talks to anybody in private.
    folder = tmp_path / "sees"
    folder.mkdir()
    closed = AccessRules(dm=DmRules(policy="disabled"))
    async with feeding(folder, owners=[OWNER]) as fed:
        owners_help = await fed.command("help", chat=ADA_DM, sender=ADA)
        others_help = await fed.command("help")
        fed.rules["test"] = closed
        usage = await fed.command("usage", chat=ADA_DM, sender=ADA)

        assert usage == "test used nothing: True"
        assert all(f"/{name}" in owners_help for name in OWNER_NAMES)
        assert "/pair" not in others_help

    # One place says whose an agent is.
    folder = tmp_path / "talks"
    folder.mkdir()
    rules = AccessRules(dm=structs.replace(OPEN.dm, policy="allowlist"))
    async with feeding(folder, rules=rules, owners=[OWNER]) as fed:
        await fed.say("hello", chat=ADA_DM, sender=ADA)
        state = await fed.until_idle("1")
        people = await (await fed.adapter.handler()).people()

        assert state.turns == 1
        assert people == ("1",)


# --- who is no owner ---


OWNER_NAMES = frozenset(each.name for each in commands_for("private", "owners"))


@table("name", sorted(name for name in OWNER_NAMES if command_named(name, "private") is None))
async def test_to_all_others_an_owners_command_is_none(tmp_path: Path, name: str) -> None:
    """Nobody learns that it exists, nor who may give it."""
    code = "1f3a9c2e"
    async with feeding(tmp_path, owners=[OWNER]) as fed:
        in_private = await fed.command(name, code)
        in_group = await fed.command(name, code, chat=GROUP, is_addressed=True)
        as_bot = await fed.command(
            name, code, chat=ADA_DM, sender=structs.replace(ADA, is_bot=True)
        )
        by_nobody = await fed.command(name, code, sender=Person(id=""))
        by_name = await fed.command(name, code, sender=Person(id="ada", name="ada"))
        not_typed = await fed.command(name, code, chat=ADA_DM, sender=ADA, is_typed=False)

        assert in_private == unknown_command(name)
        assert in_group == ""
        assert (by_nobody, by_name, not_typed) == (unknown_command(name),) * 3
        assert as_bot in {"", unknown_command(name)}


async def test_an_owner_is_one_in_private_and_on_the_own_channel_alone(tmp_path: Path) -> None:
    """What waits, and who asked for what, is nobody else's business."""
    folder = tmp_path / "group"
    folder.mkdir()
    async with feeding(folder, owners=[OWNER]) as fed:
        addressed = await fed.command("questions", chat=GROUP, sender=ADA, is_addressed=True)
        unaddressed = await fed.command("questions", chat=GROUP, sender=ADA)
        in_channel = await fed.command(
            "questions", chat=ChatRef(id="-9", type="channel"), sender=ADA, is_addressed=True
        )

        assert (addressed, unaddressed, in_channel) == (IN_PRIVATE, "", "")

    # The same number on another platform is somebody else.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere = structs.replace(OWNER, accounts=frozenset({("telegram", "1"), ("tes", "1")}))
    async with feeding(folder, owners=[elsewhere]) as fed:
        before = await fed.command("usage", chat=ADA_DM, sender=ADA)
        fed.owners[:] = [OWNER]  # a SIGHUP takes it over
        after = await fed.command("usage", chat=ADA_DM, sender=ADA)

        assert before == no_session()
        assert after == "test used nothing: True"


async def test_what_was_a_message_to_others_reaches_the_agent(tmp_path: Path) -> None:
    """Where a platform's people write commands as messages, theirs are messages as before."""
    provider = ScriptedProvider("a pair of what?")
    async with feeding(tmp_path, provider=provider, owners=[OWNER]) as fed:
        message = fed.message("/pair socks")
        await fed.adapter.feed(
            Command(
                id=message.id,
                name="pair",
                argument="socks",
                chat=DM,
                sender=ANN,
                at=message.at,
                is_typed=True,
                otherwise=message,
                answer=fed._answer,
            )
        )
        state = await fed.until_idle()

        assert state.held_turns[0].text == "a pair of what?"
        assert fed.answers == []


async def test_a_question_is_the_one_that_was_shown(tmp_path: Path) -> None:
    """A call that is asked about anew may meet something else than what was shown."""
    folder = tmp_path / "earlier"
    folder.mkdir()
    tool, gate, provider = _asking("7")
    async with feeding(
        folder, provider=provider, tools=by_name(tool), gate=gate, owners=[OWNER]
    ) as fed:
        await fed.say("send it")
        state = await _until_asked(fed, "7")
        (asked,) = state.open_approvals
        earlier = structs.replace(asked, expires_at=asked.expires_at - timedelta(seconds=1))
        token = approval_token(state.session_id, earlier)

        by_button = await fed.click(button_data("allow_once", token), chat=ADA_DM, sender=ADA)
        by_code = await fed.command("approve", token[:CODE_HEX_DIGITS], chat=ADA_DM, sender=ADA)
        with pytest.raises(ApprovalClosedError, match="anew"):
            await fed.service.decide(
                state.session_id,
                "c1",
                "allow_once",
                by=OWNER.by,
                may_always=True,
                expires_at=earlier.expires_at,
            )

        assert by_button == click_late()
        assert by_code == NO_SUCH_QUESTION
        assert tool.runs == {}

    # Over HTTP people name their conversations themselves.
    folder = tmp_path / "name"
    folder.mkdir()
    tool, gate, provider = _asking("7")
    chat = "x\n\nMay date run?\n\n{}\n\n" + "`*_" * 200
    async with feeding(
        folder, provider=provider, tools=by_name(tool), gate=gate, owners=[OWNER]
    ) as fed:
        key = structs.replace(fed.key(), channel="http", chat=chat)
        sent = await fed.service.submit(IncomingMessage(text="send it", key=key))
        async for _ in fed.service.watch(sent.session_id, after=0):
            if await fed.service.activity.awaiting_approval():
                break
        await fed.command("questions", chat=ADA_DM, sender=ADA)
        shown = await fed.until_said()
        listed = await fed.command("sessions", chat=ADA_DM, sender=ADA)

        assert shown[0].splitlines()[2] == "May send run?"
        assert len(listed.splitlines()) == 1


async def test_an_owner_lets_the_agent_take_part_in_a_group(tmp_path: Path) -> None:
    """From the group itself, where its id need not be looked up; over a restart, and taken back."""
    closed = structs.replace(OPEN, groups=structs.replace(OPEN.groups, policy="allowlist"))
    told: list[str] = []
    async with feeding(tmp_path, rules=closed, owners=[OWNER]) as fed:
        in_group = partial(fed.command, chat=GROUP, is_addressed=True)
        told += [await in_group("allow"), await in_group("allow", sender=BOB)]
        told.append(await fed.command("allow", chat=GROUP, sender=ADA))
        await fed.say("hello", chat=GROUP, is_addressed=True)
        before = await fed.state(GROUP.id)
        allowed = [await in_group("allow", sender=ADA) for _ in range(2)]
    async with feeding(tmp_path, rules=closed, owners=[OWNER]) as fed:
        in_group = partial(fed.command, chat=GROUP, is_addressed=True)
        await fed.say("hello", chat=GROUP, is_addressed=True)
        state = await fed.until_idle(GROUP.id)
        taken_back = await in_group("disallow", sender=ADA)
        after = await in_group("status")
        fed.rules["test"] = structs.replace(
            closed, groups=structs.replace(closed.groups, policy="disabled")
        )
        disabled = await in_group("allow", sender=ADA)

    assert told == ["", "", ""]
    assert before is None
    assert allowed == [group_allowed(is_allowed=True)] * 2
    assert state.turns == 1
    assert taken_back == group_allowed(is_allowed=False)
    assert after == ""
    assert disabled == group_closed("disabled")


async def test_an_owner_chooses_the_agent_of_a_topic(tmp_path: Path) -> None:
    """From the topic itself; over a restart, before all routes, and taken back."""
    topic = structs.replace(GROUP, topic="17")
    closed = structs.replace(OPEN, groups=structs.replace(OPEN.groups, policy="allowlist"))
    some = Owner(name="bob", accounts=frozenset({("test", BOB.id)}), agents=frozenset({"other"}))
    told: list[str] = []
    async with feeding(tmp_path, owners=[OWNER, some]) as fed:
        fed.rules |= {"other": closed, "third": OPEN}
        choose = partial(fed.command, "agent", chat=topic, is_addressed=True, sender=ADA)
        told += [await choose(), await choose("nobody"), await choose("other")]
        told.append(await choose("third", sender=BOB))  # of which Bob owns none
        told.append(await choose("third", sender=ANN))
        told.append(await fed.command("agent", "third", chat=topic, sender=ADA))  # whose bot?
    async with feeding(tmp_path, owners=[OWNER]) as fed:
        fed.rules |= {"other": OPEN, "third": OPEN}
        choose = partial(fed.command, "agent", chat=topic, is_addressed=True, sender=ADA)
        whoami = partial(fed.command, "whoami", is_addressed=True)
        await fed.command("agent", "third", chat=GROUP, is_addressed=True, sender=ADA)
        here = [await whoami(chat=each) for each in (topic, GROUP, ADA_DM)]
        del fed.rules["other"]  # whose folder is gone
        here += [await whoami(chat=topic)]
        fed.rules["other"] = OPEN
        back = await choose("default")
        here += [await whoami(chat=topic)]

    assert told == [
        (
            "`test` answers here. There are: `test`, `other`, `third`. "
            "`/agent NAME` chooses another one, `/agent default` takes that back."
        ),
        "There is no agent `nobody` of yours.",
        (
            "Done: `other` answers here from now on. "
            "It takes no part in this group so far: /allow lets it."
        ),
        "There is no agent `third` of yours.",
        "",
        "",
    ]
    assert back == "Done: `third` answers here from now on."  # as in the rest of the group
    named = [next(n for n in ("other", "third", "test") if f"`{n}`" in text) for text in here]
    assert named == ["other", "third", "test", "third", "third"]
