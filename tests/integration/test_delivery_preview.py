"""Replies shown as they come: paced, never in the way of the reply itself, and never left over."""

from __future__ import annotations

import json

import pytest
from support.delivering import Delivering, Dictated, delivering, idle
from support.scripted_adapter import Platform, ScriptedAdapter, capabilities
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import ModelRefusedError
from everturn_actors.events import PreviewSent
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import IncomingMessage, Reply, ToolCall
from everturn_actors.ports import Verdict
from everturn_channels.delivery.chunk_sender import EDIT_TRIES
from everturn_channels.errors import NotSentError, RefusedError, SendError, UnknownOutcomeError
from everturn_channels.settings import ChannelSettings

STREAMING = ChannelSettings()
FIRST = "x" * 40
"Just enough for a preview to begin."


def calls(adapter: ScriptedAdapter, method: str) -> list[str]:
    """Return what was asked of the platform with one method."""
    return [each.partition(" ")[2] for each in adapter.calls if each.startswith(f"{method} ")]


async def settle(test: Delivering, *pieces: str | Reply | Exception) -> None:
    """Let the model say something, and everybody do what follows from it."""
    assert isinstance(test.provider, Dictated)
    test.provider.speak(*pieces)
    await idle()


async def test_a_reply_is_shown_as_it_comes_and_ends_in_the_same_message() -> None:
    """People read along; in the end there is one message, formatted, and none beside it."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        assert test.adapter.world.texts == [f"~{FIRST}"]
        await settle(test, " and", " more")
        assert test.adapter.world.texts == [f"~{FIRST}"]
        test.clock.advance(1)
        await idle()
        await settle(test, ".")
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert calls(test.adapter, "send") == [f"~{FIRST}"]
        assert calls(test.adapter, "edit") == [f"~{FIRST} and more", f"{FIRST} and more."]
        assert test.adapter.world.texts == [f"{FIRST} and more."]
        assert test.adapter.world.messages["m1"].message.reply_to == "q1"


async def test_what_is_said_meanwhile_is_a_message_of_its_own() -> None:
    """A job may speak while the model does; the reply keeps the message that shows it."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        await test.service.submit(
            IncomingMessage(kind="announcement", text="Stand-up!", key=test.key())
        )
        await idle()
        assert test.adapter.world.texts == [f"~{FIRST}", "Stand-up!"]
        test.clock.advance(1)
        await settle(test, " more", Reply())
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [f"{FIRST} more", "Stand-up!"]
        assert calls(test.adapter, "send") == [f"~{FIRST}", "Stand-up!"]


async def test_a_reply_of_many_pieces_is_edited_no_oftener_than_the_platform_bears() -> None:
    """Two hundred tokens are a handful of edits, each with all that came until then."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        for n in range(200):
            await settle(test, "ab")
            if n % 50 == 49:
                test.clock.advance(1)
                await idle()
        edits = calls(test.adapter, "edit")
        await settle(test, Reply(text="short"))
        await test.until_delivered(said.session_id)

        assert len(edits) == 4
        assert test.adapter.world.texts == ["short"]


async def test_a_few_words_are_shown_when_no_more_come_for_a_while() -> None:
    """A slow model must not look dead; a fast one needs no preview of two letters."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, "Hm")
        assert test.adapter.world.texts == []
        test.clock.advance(1)
        await idle()

        assert test.adapter.world.texts == ["~Hm"]
        await settle(test, Reply())
        await test.until_delivered(said.session_id)
        assert test.adapter.world.texts == ["Hm"]


async def test_a_short_reply_that_comes_at_once_has_no_preview() -> None:
    """An edit a moment after the message would only flicker."""
    async with delivering("fine", settings=STREAMING) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert test.adapter.calls == ["send fine"]


async def test_a_private_chat_with_drafts_sees_one_draft_and_then_the_reply() -> None:
    """A draft vanishes by itself, so nothing has to be taken back."""
    adapter = ScriptedAdapter(able=capabilities(drafts=("dm",)))
    async with delivering(provider=Dictated(), settings=STREAMING, adapter=adapter) as test:
        said = await test.say(chat="dm1")
        await settle(test, FIRST)
        await settle(test, " more")
        test.clock.advance(1)
        await idle()
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert [text for _, _, text in adapter.world.drafts] == [FIRST, f"{FIRST} more"]
        assert len({number for _, number, _ in adapter.world.drafts}) == 1
        assert calls(adapter, "send") == [f"{FIRST} more"]
        assert calls(adapter, "edit") == []

        # Telegram refuses them in a group: the preview is a message that is edited.
        said = await test.say(chat="many")
        await settle(test, FIRST, Reply())
        await test.until_delivered(said.session_id)

        assert len(adapter.world.drafts) == 2


@table("chat", ["dm1", "many"])
async def test_without_streaming_nothing_is_shown_before_the_reply(chat: str) -> None:
    """By setting, and where the platform cannot."""
    adapter = ScriptedAdapter(able=capabilities(preview_s=0, drafts=("dm",)))
    async with delivering(provider=Dictated(), settings=STREAMING, adapter=adapter) as test:
        said = await test.say(chat=chat)
        await settle(test, FIRST)
        assert adapter.calls == []
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert adapter.calls == [f"send {FIRST}"]


async def test_a_429_while_streaming_stops_all_edits_and_the_reply_still_arrives() -> None:
    """GW-08: no edit for 33 s, and the final text all the same."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        test.adapter.fail("edit", NotSentError("flood", retry_after_s=33))
        said = await test.say()
        await settle(test, FIRST)
        await settle(test, " more")
        test.clock.advance(1)
        await idle()
        assert len(test.adapter.calls) == 2
        for _ in range(32):
            await settle(test, ".")
            test.clock.advance(1)
            await idle()
        await settle(test, Reply(text="the end"))
        assert len(test.adapter.calls) == 2
        test.clock.advance(1)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["the end"]


@table(
    "error",
    [RefusedError("no"), NotSentError("offline"), UnknownOutcomeError("cut")],
    ids=lambda error: type(error).__name__,
)
async def test_a_preview_that_cannot_be_shown_costs_nothing_but_the_preview(
    error: SendError,
) -> None:
    """It is a courtesy: one try, and the reply comes; where it may be there already, it says so."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        test.adapter.fail("send", error)
        said = await test.say()
        await settle(test, FIRST)
        for _ in range(3):
            test.clock.advance(1)
            await settle(test, " more")
        assert len(test.adapter.calls) == 1
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        says = "(again) " if isinstance(error, UnknownOutcomeError) else ""
        assert test.adapter.world.texts == [f"{says}{FIRST} more more more"]


@table("is_deleted", [False, True])
async def test_a_preview_whose_answer_was_lost_is_found_again_by_its_nonce(
    *, is_deleted: bool
) -> None:
    """Nobody reads a reply beside its beginning; and one that somebody deleted is no loss."""
    world = Platform(dedupes=True)
    adapter = ScriptedAdapter(world)
    async with delivering(provider=Dictated(), settings=STREAMING, adapter=adapter) as test:
        adapter.fail("send", UnknownOutcomeError("cut"), when="after")
        said = await test.say()
        await settle(test, FIRST)
        assert world.texts == [f"~{FIRST}"]
        if is_deleted:  # the platform still names it by the nonce, and then cannot change it
            world.messages.clear()
        await settle(test, Reply(text=f"{FIRST} and more"))
        await test.until_delivered(said.session_id)

        assert world.texts == [f"{FIRST} and more"]


async def test_a_reply_whose_preview_was_deleted_is_sent_anew() -> None:
    """Somebody may delete the message while it is written; the reply must not go with it."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        del test.adapter.world.messages["m1"]
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [FIRST]


async def test_a_chat_that_is_gone_while_a_reply_is_shown_is_given_up() -> None:
    """Whether a reply is sent or put in the place of its preview, gone is gone."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        test.adapter.world.gone.add("chat")
        await settle(test, Reply(text="a" * 250))
        await test.until_delivered(said.session_id)

        assert test.adapter.calls == [f"send ~{FIRST}", f"edit {'a' * 100}"]


async def test_an_edit_of_unknown_outcome_is_made_again_and_then_the_reply_is_sent() -> None:
    """An edit does no harm twice; where none is confirmed, the reply comes by itself, labelled."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        test.adapter.fail("edit", *[UnknownOutcomeError("cut")] * EDIT_TRIES)
        await settle(test, Reply())
        for _ in range(EDIT_TRIES - 1):
            await test.clock.until_sleeping(60)
            test.clock.advance(60)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [f"~{FIRST}", f"(again) {FIRST}"]


async def test_only_the_first_chunk_of_a_long_reply_takes_the_place_of_the_preview() -> None:
    """While it comes its newest page is seen; in the end all of it is there, in order."""
    long = "a" * 100 + "b" * 100 + "c" * 60
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        test.clock.advance(1)
        await settle(test, long)
        seen = test.adapter.world.texts
        await settle(test, Reply(text=long))
        await test.until_delivered(said.session_id)

        assert len(seen) == 1
        assert seen[0].endswith("c" * 50)
        assert len(seen[0]) <= 101
        assert test.adapter.world.texts == ["a" * 100, "b" * 100, "c" * 60]


async def test_a_reply_that_is_complete_before_its_preview_is_there_takes_its_place() -> None:
    """The platform may be slower than the model; two messages of the same would look broken."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        test.adapter.hold("send")
        said = await test.say()
        await settle(test, FIRST)
        await settle(test, Reply())
        assert test.adapter.calls == [f"send ~{FIRST}"]
        test.adapter.release("send")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [FIRST]


@table(
    ("arguments", "left"),
    [
        # What was said before a tool ran stays where it was said.
        pytest.param("{}", [FIRST], id="another step"),
        # The model is asked again; people see one message whose text changes.
        pytest.param('{"cut', [], id="a reply that broke"),
    ],
)
async def test_each_step_has_a_message_of_its_own_and_a_broken_one_leaves_it_to_the_next_try(
    arguments: str, left: list[str]
) -> None:
    """Nothing that was said is overwritten, and nothing half-said stays."""
    call = ToolCall(call_id="c", name="look", arguments=arguments)
    async with delivering(
        provider=Dictated(), settings=STREAMING, tools=by_name(Deed("look"))
    ) as test:
        said = await test.say()
        await settle(test, FIRST)
        await settle(test, Reply(calls=(call,)))
        test.clock.advance(1)
        await settle(test, "y" * 40)
        assert test.adapter.world.texts == [*left, "~" + "y" * 40]
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [*left, "y" * 40]


async def test_a_preview_outlives_the_process_and_is_used_again() -> None:
    """Without it each restart would leave half a reply in the chat."""
    world, disk = Platform(), MemoryDisk()
    async with (
        open_memory_store(disk) as store,
        delivering(
            provider=Dictated(), settings=STREAMING, adapter=ScriptedAdapter(world), store=store
        ) as test,
    ):
        said = await test.say()
        await settle(test, FIRST)
        log = await test.log(said.session_id)
    async with (
        open_memory_store(disk) as store,
        delivering(
            provider=Dictated(), settings=STREAMING, adapter=ScriptedAdapter(world), store=store
        ) as test,
    ):
        await test.provider.until_called()
        await settle(test, "y" * 40)
        assert world.texts == ["~" + "y" * 40]
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

    assert any(isinstance(event.body, PreviewSent) for event in log)
    assert world.texts == ["y" * 40]


async def test_a_preview_waits_for_what_was_said_before() -> None:
    """The next reply must not stand above the last one, however slow the platform is."""
    call = ToolCall(call_id="c", name="look")
    async with delivering(
        provider=Dictated(), settings=STREAMING, tools=by_name(Deed("look"))
    ) as test:
        test.adapter.hold("send")
        said = await test.say()
        await settle(test, Reply(text="first", calls=(call,)))
        await settle(test, FIRST)
        assert test.adapter.calls == ["send first"]
        test.adapter.release("send")
        await idle()
        assert test.adapter.world.texts == ["first", f"~{FIRST}"]
        await settle(test, Reply())
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["first", FIRST]


async def test_the_end_of_a_turn_without_a_reply_comes_after_its_preview() -> None:
    """A reply that broke off is followed by the reason."""
    async with delivering(provider=Dictated(), settings=STREAMING) as test:
        said = await test.say()
        await settle(test, FIRST)
        await settle(test, ModelRefusedError("out of money"))
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [
            f"~{FIRST}",
            "I could not answer: out of money",
        ]


# --- the typing indicator ---

TYPES = capabilities(typing_s=5)


@table("is_answered", [True, False])
async def test_the_typing_indicator_is_shown_while_a_turn_works_and_not_after_it(
    *, is_answered: bool
) -> None:
    """GW-12: it is renewed before it goes out, and nothing renews it in the end.

    A bot that types for ever after a failure looks as if an answer came.
    """
    adapter = ScriptedAdapter(able=TYPES)
    async with delivering(provider=Dictated(), adapter=adapter) as test:
        said = await test.say()
        await idle()
        assert len(adapter.world.typed) == 1
        for _ in range(2):
            test.clock.advance(4)
            await idle()
        assert len(adapter.world.typed) == 3
        await settle(test, Reply(text="done") if is_answered else ModelRefusedError("no"))
        await test.until_delivered(said.session_id)
        test.clock.advance(100)
        await idle()

        assert len(adapter.world.typed) == 3
        assert adapter.calls[-1] == ("send done" if is_answered else "send I could not answer: no")


async def test_a_typing_indicator_under_way_is_called_off_before_the_reply() -> None:
    """It would be shown after the reply, and stay."""
    adapter = ScriptedAdapter(able=TYPES)
    adapter.hold("type")
    under_way: list[int] = []
    adapter.on_call = lambda _call, _when: under_way.append(adapter.under_way)
    async with delivering("done", adapter=adapter) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert adapter.calls[0] == "type chat"
        assert under_way == [1, 1]
        assert adapter.world.typed == []
        assert adapter.world.texts == ["done"]


async def test_nothing_types_while_a_person_is_asked() -> None:
    """The turn waits for them, not they for it."""
    adapter = ScriptedAdapter(able=TYPES)
    gate = Rules({"rm": Verdict(effect="ask")})
    call = ToolCall(call_id="c", name="rm")
    async with delivering(
        provider=Dictated(), adapter=adapter, tools=by_name(Deed("rm")), gate=gate
    ) as test:
        said = await test.say()
        await settle(test, Reply(calls=(call,)))
        typed = len(adapter.world.typed)
        for _ in range(3):
            test.clock.advance(5)
            await idle()
        assert len(adapter.world.typed) == typed
        await test.service.decide(said.session_id, "c", "allow_once")
        await idle()

        assert len(adapter.world.typed) == typed + 1
        await settle(test, Reply(text="done"))
        await test.until_delivered(said.session_id)


async def test_a_typing_indicator_that_fails_is_nobodys_trouble() -> None:
    """The turn and the reply go on; a 429 keeps the bot quiet all the same."""
    adapter = ScriptedAdapter(able=TYPES)
    adapter.fail("type", RefusedError("no"), NotSentError("flood", retry_after_s=33))
    async with delivering(provider=Dictated(), adapter=adapter) as test:
        said = await test.say()
        await idle()
        test.clock.advance(4)
        await idle()
        await settle(test, Reply(text="done"))
        assert calls(adapter, "send") == []
        test.clock.advance(33)
        await test.until_delivered(said.session_id)

        assert adapter.world.texts == ["done"]


# --- tools at work ---

TOLD = ChannelSettings(streaming=False, tool_activity=True)


async def test_people_see_which_tools_run_and_later_which_ran() -> None:
    """By setting: one line that changes, and in the end claims nothing that is over."""
    look, write = Deed("look", held=True), Deed("write", held=True)
    async with delivering(provider=Dictated(), settings=TOLD, tools=by_name(look, write)) as test:
        said = await test.say()
        await settle(test, Reply(calls=(ToolCall(call_id="a", name="look"),)))
        assert test.adapter.world.texts == ["~running look..."]
        test.clock.advance(1)
        look.let_go("a")
        await idle()
        assert test.adapter.world.texts == ["~ran look"]
        test.clock.advance(1)
        await settle(test, Reply(calls=(ToolCall(call_id="b", name="write"),)))
        assert test.adapter.world.texts == ["~running write..."]
        write.let_go("b")
        await settle(test, Reply(text="done"))
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["~ran look, write", "done"]
        log = await test.log(said.session_id)
        assert not any(isinstance(event.body, PreviewSent) for event in log)


def todo(call_id: str, **items: str) -> ToolCall:
    """Return a call that writes a list: what is to be done, and how far it is."""
    listed = [{"text": text, "status": status} for text, status in items.items()]
    return ToolCall(call_id=call_id, name="todo", arguments=json.dumps({"items": listed}))


async def test_a_to_do_list_is_one_message_that_changes() -> None:
    """Also where nobody is told of tools: who waits for long work sees how far it is."""
    settings = ChannelSettings(streaming=False)
    tool = Deed("todo")
    async with delivering(provider=Dictated(), settings=settings, tools=by_name(tool)) as test:
        said = await test.say()
        await settle(test, Reply(calls=(todo("a", boil="in_progress", brew="pending"),)))
        assert test.adapter.world.texts == ["~▸ boil\n☐ brew"]
        test.clock.advance(1)
        await settle(test, Reply(calls=(todo("b", boil="done", brew="in_progress"),)))
        assert test.adapter.world.texts == ["~☑ boil\n▸ brew"]
        await settle(test, Reply(calls=(todo("c", boil="done", brew="done"),)))  # too soon to show
        await settle(test, Reply(text="Tea!"))
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["~☑ boil\n☑ brew", "Tea!"]


async def test_a_draft_tells_of_tools_too() -> None:
    """Where drafts are, no message is left of it."""
    adapter = ScriptedAdapter(able=capabilities(drafts=("dm",)))
    look = Deed("look", held=True)
    async with delivering(
        provider=Dictated(), settings=TOLD, tools=by_name(look), adapter=adapter
    ) as test:
        said = await test.say(chat="dm1")
        await settle(test, Reply(calls=(ToolCall(call_id="a", name="look"),)))
        look.let_go("a")
        await settle(test, Reply(text="done"))
        await test.until_delivered(said.session_id)

        assert [text for _, _, text in adapter.world.drafts] == ["running look..."]
        assert adapter.world.texts == ["done"]


async def test_a_new_line_tells_of_tools_below_what_was_said_meanwhile() -> None:
    """A line far above would be seen by nobody."""
    look = Deed("look", held=True)
    async with delivering(provider=Dictated(), settings=TOLD, tools=by_name(look)) as test:
        said = await test.say()
        await settle(test, Reply(calls=(ToolCall(call_id="a", name="look"),)))
        look.let_go("a")
        await settle(test, Reply(text="hm", calls=(ToolCall(call_id="b", name="look"),)))
        test.clock.advance(1)
        await idle()
        assert test.adapter.world.texts == ["~ran look", "hm", "~running look..."]
        look.let_go("b")
        await settle(test, Reply(text="done"))
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["~ran look", "hm", "~ran look", "done"]
