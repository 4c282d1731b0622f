"""Commands and buttons of a channel over a real service: answered at once, whatever else runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from msgspec.structs import replace
from support.feeding_adapter import OPEN, Fed, feeding
from support.inbound_events import ANN, DM, GROUP
from support.patience import WAIT_S
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import ModelAuthError
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ConversationKey, Reply, Usage
from everturn_actors.ports import SessionStore, Verdict
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.adapter import ChatRef, Command, Person
from everturn_channels.delivery.approvals import approval_token, button_data
from everturn_channels.errors import NotSentError, RefusedError
from everturn_channels.inbound.button_clicks import NO_BUTTON
from everturn_channels.inbound.command_handler import COMPACTING
from everturn_channels.languages import ready, speaking
from everturn_channels.texts import (
    click_late,
    click_refused,
    no_session,
    stop_done,
    unknown_command,
)
from everturn_gateway.channels.running import LaterDeliveryPort
from everturn_gateway.channels.searching import search_conversation
from everturn_gateway.clock import SystemClock
from everturn_gateway.search.index import open_message_index

BOB = Person(id="8", name="Bob")


# --- commands ---


async def test_people_are_spoken_to_in_their_language(tmp_path: Path) -> None:
    """That of their platform, over a restart too, unless the agent has one."""
    hans = Person(id="7", name="Hans", language="de-AT")
    french = {"language": lambda agent: "fr" if agent == "test" else None}
    told: list[str] = []
    await ready("de")
    await ready("fr")
    async with feeding(tmp_path) as fed:
        await (await fed.adapter.handler()).keep_cursor("begun", "yes")
        await fed.say()
        await fed.until_idle()
        told += [await fed.command("stop", sender=hans), await fed.command("stop")]
        told.append(await fed.command("nope", sender=Person(id="7", language="pt")))
        told.append(await fed.command("start", sender=hans))
        told.append(await fed.command("stop", chat=GROUP, is_addressed=True))
        why = [await fed.command(name, sender=hans) for name in ("retry", "compact")]
        assert ", aktiv, " in await fed.command("sessions", sender=hans)
    async with feeding(tmp_path) as fed:
        told.append(await fed.command("status"))
    async with feeding(tmp_path, more=french) as fed:
        told.append(await fed.command("status", sender=hans))

    with speaking("de"):
        assert told[:2] == [stop_done(was_running=False)] * 2
        assert told[2] == unknown_command("nope")
        assert told[3].startswith("Hallo, ich bin **test**. The agent test.")
        assert told[5] == no_session()
    assert why == [
        "Es gibt nichts, was noch einmal zu fragen wäre: die neueste Nachricht ist beantwortet.",
        "Noch gibt es nichts zusammenzufassen: Das Gespräch passt in sein Token-Budget.",
    ]
    assert told[4] == no_session()
    with speaking("fr"):
        assert told[6] == no_session()


async def test_commands_need_no_conversation(tmp_path: Path) -> None:
    """The menu of a platform offers all of them before anything was said.

    `/start` is the first thing that Telegram sends, with whatever stood in the link.
    """
    async with feeding(tmp_path) as fed:
        for name in ("status", "context", "compact", "stop", "retry", "undo"):
            assert await fed.command(name) == no_session(), name
        start = await fed.command("start", "some-payload")

        assert "**test**" in start
        assert "The agent test." in start
        assert "- /compact - " in await fed.command("help")
        assert await fed.command("model") == "**Model**: `test/scripted`, its price is not known"
        assert "nothing to forget" in await fed.command("reset")
        assert await fed.state() is None


async def test_search_finds_what_was_said_in_this_chat_and_in_no_other(tmp_path: Path) -> None:
    """Also before a reset, and never what another said in private."""
    running: list[Fed] = []

    async def search(key: ConversationKey, text: str) -> str:
        reader = running[0].service.reader
        logs = SimpleNamespace(read=reader.history, recent=reader.recent, read_result=reader.result)
        async with open_message_index(None, cast("SessionStore", logs), SystemClock()) as index:
            return await search_conversation(running[0].service, index, key, text)

    async with feeding(tmp_path, more={"search": search}) as fed:
        running.append(fed)
        assert "What shall I look for?" in await fed.command("search")
        await fed.say("the *code* of the gate is 4711")
        await fed.until_idle()
        await fed.command("reset")
        found = await fed.command("search", "which codes for the gate?")
        nothing = await fed.command("search", "umbrella")
        elsewhere = await fed.command("search", "gate code", chat=GROUP)

        assert "the \\*code\\* of the gate is 4711" in found
        assert "Nothing that was said here" in nothing
        assert "4711" not in elsewhere


async def test_commands_are_answered_while_a_model_hangs_and_stop_ends_it(tmp_path: Path) -> None:
    """Who waits for an answer that never comes has to be able to do something (GW-04)."""
    provider = ScriptedProvider()
    provider.hold()
    async with feeding(tmp_path, provider=provider) as fed:
        await fed.say("think")
        await provider.until_called()
        with anyio.fail_after(WAIT_S):
            status = await fed.command("status")
            context = await fed.command("context")
            stopped = await fed.command("stop")
        again = await fed.command("stop")
        state = await fed.until_idle()

        assert "turn 1 is running, step 1" in status
        assert "Messages: 1 shown, 0 hidden" in context
        assert stopped == "Stopped."
        assert "not working on anything" in again
        assert state.held_turns[0].outcome == "cancelled"


async def test_retry_asks_again_what_failed_and_says_so_where_nothing_did(tmp_path: Path) -> None:
    """Nobody has to type it again, and nobody gets an answer twice."""
    provider = ScriptedProvider(ModelAuthError("the key was refused"), "here it is")
    async with feeding(tmp_path, provider=provider) as fed:
        await fed.say("think")
        await fed.until_idle()
        begun = await fed.command("retry")
        state = await fed.until_idle()
        needless = await fed.command("retry")

        assert begun == "I am trying again."
        assert [turn.text for turn in state.held_turns] == ["here it is"]
        assert needless == "There is nothing to ask again: the newest message was answered."
        assert len(provider.requests) == 2


async def test_status_tells_what_was_used(tmp_path: Path) -> None:
    """People want to know what a conversation costs."""
    usage = Usage(
        input_tokens=1200, output_tokens=34, cached_tokens=1000, cost_nanodollars=4_200_000
    )
    provider = ScriptedProvider(Reply(text="hi", usage=usage))
    async with feeding(tmp_path, provider=provider) as fed:
        await fed.say()
        state = await fed.until_idle()

        assert (await fed.command("status")).splitlines() == [
            f"**Session** `{state.session_id}`",
            "- Turns: 1, nothing is running",
            "- Tokens: 1,200 in (1,000 of them from a cache), 34 out",
            "- Cost: $0.0042",
        ]


async def test_reset_begins_a_new_conversation(tmp_path: Path) -> None:
    """The old one is over at once, and the agent knows nothing of it."""
    provider = ScriptedProvider()
    async with feeding(tmp_path, provider=provider) as fed:
        await fed.say("my name is Ann")
        before = await fed.until_idle()
        answer = await fed.command("reset")
        await fed.say("who am I?")
        after = await fed.until_idle()

        assert answer.startswith("Done")
        assert after.session_id != before.session_id
        assert "my name" not in str(provider.requests[-1])


async def test_compacting_blocks_nobody_and_is_told_of_when_it_is_done(tmp_path: Path) -> None:
    """A summary takes as long as a model does; the platform wants an answer within seconds.

    Where it is needless that is said at once: two lines where one tells all are one too many.
    """
    summariser = ScriptedProvider("They talked about cats.")
    summariser.hold()
    async with feeding(tmp_path, summariser=summariser) as fed:
        await fed.say(f"a long story about cats, part 1. {'and ' * 240}")
        await fed.until_idle()
        needless = await fed.command("compact")
        assert needless
        assert needless != COMPACTING
        assert fed.adapter.world.texts == []

        for turn in range(2, 9):
            await fed.say(f"a long story about cats, part {turn}. " * 40)
            await fed.until_idle(turns=turn)
        answer = await fed.command("compact", "cats")
        await fed.say("meanwhile")
        await fed.until_idle(turns=9)
        summariser.release()
        (line,) = await fed.until_said()

        assert answer == COMPACTING
        assert "are summarised by a model" in line
        assert "cats" in str(summariser.requests[0])


async def test_a_command_in_a_group_has_to_be_addressed_and_known(tmp_path: Path) -> None:
    """`/stop` is meant for some bot, and often not for this one; a group may have ten of them.

    Unless the agent answers all; and an unknown one is told where nobody else could be meant.
    """
    always = replace(OPEN, groups=replace(OPEN.groups, activation="always"))
    async with feeding(tmp_path) as fed:
        assert "/help" in await fed.command("roll")
        assert await fed.command("roll", chat=GROUP, is_addressed=True) == ""
        unaddressed = await fed.command("status", chat=GROUP)
        addressed = await fed.command("status", chat=GROUP, is_addressed=True)
        fed.rules["test"] = always
        after = await fed.command("status", chat=GROUP)

        assert (unaddressed, addressed, after) == ("", no_session(), no_session())


async def test_an_answer_that_could_not_be_sent_is_sent_again_once_and_a_refused_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A platform that asks for a pause would otherwise look like a bot that ignores people.

    And a person who blocked the bot after the command is no fault of ours.
    """
    async with feeding(tmp_path) as fed:
        tried: list[str] = []
        arrived = anyio.Event()

        async def answer(text: str) -> None:
            tried.append(text)
            if len(tried) == 1:
                raise NotSentError(retry_after_s=5)
            arrived.set()

        async def refuse(text: str) -> None:
            raise RefusedError(text)

        await fed.adapter.feed(_command("help", fed, answer=answer))
        await fed.until_asleep(5)
        before = len(tried)
        fed.clock.advance(5)
        await arrived.wait()
        await fed.adapter.feed(_command("help", fed, answer=refuse))

        assert before == 1
        assert tried[0] == tried[1]
        assert "/help" in await fed.command("help")
        assert [each for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_command_that_comes_twice_is_done_once(tmp_path: Path) -> None:
    """The second `/reset` would take the conversation that began after the first."""
    async with feeding(tmp_path) as fed:
        await fed.say("one")
        await fed.until_idle()
        reset = _command("reset", fed)
        await fed.adapter.feed(reset)
        await fed.say("two")
        state = await fed.until_idle()
        await fed.adapter.feed(reset)

        assert len(fed.answers) == 1
        assert await fed.service.conversations.current(fed.key()) == state.session_id


@table("name", ["reset", "stop"])
async def test_a_command_that_comes_again_after_a_restart_ends_nothing_newer(
    tmp_path: Path, name: str
) -> None:
    """A platform that was told of nothing hands in all of it: the newest would lose its answer.

    What was answered in the session before is known in the new one.
    """
    disk, clock, provider = MemoryDisk(), ManualClock(), ScriptedProvider()
    begin = partial(feeding, tmp_path, disk=disk, clock=clock, delivery_port=LaterDeliveryPort())
    async with begin(provider=provider) as fed:
        first = await fed.say("one")
        await fed.until_idle()
        given = _command(name, fed)
        await fed.adapter.feed(given)
        provider.hold()
        message = await fed.say("two")
        await provider.until_called(2)
    again = ScriptedProvider()
    again.hold()
    async with begin(provider=again) as fed:
        await again.until_called()
        await fed.adapter.feed(first)
        await fed.adapter.feed(replace(given, answer=fed._answer))
        await fed.adapter.feed(message)
        again.release()
        state = await fed.until_idle()

        assert [turn.outcome for turn in state.held_turns][-1] == "answered"
        assert len(again.requests) == 1
        assert "two" in str(again.requests[-1])


def _command(name: str, fed: Fed, **changes: object) -> Command:
    command = Command(
        id=fed.next_id(),
        name=name,
        argument="",
        chat=DM,
        sender=ANN,
        at=fed.clock.now(),
        answer=fed._answer,
    )
    return replace(command, **changes)


# --- buttons ---


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


async def test_a_button_lets_the_call_run_for_those_who_may_answer(tmp_path: Path) -> None:
    """The question is whether something with effects happens: only some may say yes (SE-04)."""
    tool, gate, provider = _asking("7")
    async with feeding(tmp_path, provider=provider, tools=by_name(tool), gate=gate) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        token = approval_token(state.session_id, state.open_approvals[0])
        allow = button_data("allow_once", token)

        assert await fed.click(allow, chat=GROUP, sender=BOB) == click_refused()
        assert await fed.click(allow, chat=GROUP, sender=Person(id="")) == click_refused()
        assert tool.runs == {}
        assert await fed.click(allow, chat=GROUP) == "Allowed, this once."
        state = await fed.until_idle("-100")
        assert tool.runs == {"c1": 1}
        assert state.held_turns[0].text == "sent"
        assert await fed.click(allow, chat=GROUP) == click_late()


async def test_an_id_that_ends_with_a_star_is_nobody_else(tmp_path: Path) -> None:
    """Some platforms let people choose their ids; a pattern is for the owner to write."""
    tool, gate, provider = _asking()
    begin = partial(feeding, tmp_path, provider=provider, tools=by_name(tool), gate=gate)
    async with begin(delivery_port=LaterDeliveryPort()) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True, sender=Person(id="*"))
        state = await _until_asked(fed, "-100")
        allow = button_data("allow_once", approval_token(state.session_id, state.open_approvals[0]))

        assert await fed.click(allow, chat=GROUP, sender=BOB) == click_refused()
        assert tool.runs == {}


async def test_a_button_is_worth_nothing_in_another_chat_or_for_another_question(
    tmp_path: Path,
) -> None:
    """A forwarded or forged button must not answer what it was not made for."""
    tool, gate, provider = _asking()
    async with feeding(tmp_path, provider=provider, tools=by_name(tool), gate=gate) as fed:
        await fed.say("send it")
        state = await _until_asked(fed, "7")
        token = approval_token(state.session_id, state.open_approvals[0])
        allow = button_data("allow_once", token)
        elsewhere = await fed.click(allow, chat=ChatRef(id="8"), sender=BOB)
        forged = await fed.click(button_data("allow_once", "0" * 16))
        other = await fed.click("something else")
        denied = await fed.click(button_data("deny", token))
        await fed.until_idle()

        assert (elsewhere, forged, other) == (click_late(), click_late(), NO_BUTTON)
        assert denied == "Not allowed."
        assert tool.runs == {}


async def test_somebody_who_may_not_talk_here_may_not_press_here(tmp_path: Path) -> None:
    """Whoever can see a message can click its buttons."""
    tool, gate, provider = _asking("*")
    groups = replace(OPEN.groups, sender_overrides=(("8", "silent"),))
    rules = replace(OPEN, groups=groups)
    async with feeding(
        tmp_path, rules=rules, provider=provider, tools=by_name(tool), gate=gate
    ) as fed:
        await fed.say("send it", chat=GROUP, is_addressed=True)
        state = await _until_asked(fed, "-100")
        token = approval_token(state.session_id, state.open_approvals[0])
        answer = await fed.click(button_data("allow_once", token), chat=GROUP, sender=BOB)

        assert answer == click_refused()
        assert tool.runs == {}
