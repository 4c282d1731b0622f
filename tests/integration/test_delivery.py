"""Outbox items on their way to people: sent once, in order, whatever the platform answers."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import anyio
import pytest
from support.crashing import CrashingStore
from support.delivering import Delivering, delivering, idle, pass_doubt
from support.scripted_adapter import Platform, ScriptedAdapter, capabilities
from support.tables import table
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.errors import ContextOverflowError, JournalError, ModelRefusedError
from everturn_actors.events import OVERFLOW_LINE, ChunkMarked, DeliveryPlanned
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import FileDigest, IncomingMessage, Reply, ToolCall, Upload
from everturn_actors.ports import ToolOutput, Verdict
from everturn_actors.testing import START, calling
from everturn_channels.errors import NotSentError, RefusedError, SendError, UnknownOutcomeError
from everturn_channels.settings import ChannelSettings

LONG = "a" * 100 + "b" * 100 + "c" * 10
PARTS = ["a" * 100, "b" * 100, "c" * 10]


async def marks(test: Delivering, session_id: str) -> list[str]:
    """Return the marks of all chunks, in the order of the log."""
    log = await test.log(session_id)
    return [f"{e.body.chunk} {e.body.mark}" for e in log if isinstance(e.body, ChunkMarked)]


async def test_a_reply_is_planned_sent_and_marked_with_two_writes() -> None:
    """The plain case is the common one: it may cost no more than what safety needs."""
    async with open_memory_store() as inner:
        store = CrashingStore(inner)
        async with delivering("fine", store=store) as test:
            said = await test.say()
            await test.until_delivered(said.session_id)

            writes = [write for write in store.writes if "Chunk" in write or "Planned" in write]
            assert writes == ["append DeliveryPlanned ChunkMarked", "append ChunkMarked"]
            assert await marks(test, said.session_id) == ["0 sending", "0 sent"]
            assert test.adapter.world.texts == ["fine"]
            assert test.adapter.world.messages["m1"].message.reply_to == "q1"
            assert test.counter.sent == 1


async def test_what_is_said_without_a_turn_is_delivered_like_a_reply() -> None:
    """A job's message has nothing else to carry it: nobody wrote, and no turn is open."""
    async with delivering("fine") as test:
        told = await test.service.submit(
            IncomingMessage(kind="announcement", text=LONG, key=test.key())
        )
        await test.until_delivered(told.session_id)
        assert test.adapter.world.texts == PARTS
        assert [shown.message.reply_to for shown in test.adapter.world.messages.values()] == [
            ""
        ] * 3
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [*PARTS, "fine"]
        assert test.counter.sent == 4


async def test_a_long_reply_is_laid_out_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the Markdown of one long reply takes time in which no other chat may stand still."""
    render, threads = ScriptedAdapter.render, set[int]()

    def watched(self: ScriptedAdapter, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        threads.add(threading.get_ident())
        return render(self, markdown, is_plain=is_plain)

    monkeypatch.setattr(ScriptedAdapter, "render", watched)
    async with delivering("a" * 5_000) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert "".join(test.adapter.world.texts) == "a" * 5_000
        assert threads
        assert threading.get_ident() not in threads


async def test_the_chunks_of_a_reply_come_in_order_and_share_their_writes() -> None:
    """Each chunk is marked before and after it is sent; the two marks between go together."""
    async with delivering(LONG) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == PARTS
        assert await marks(test, said.session_id) == [
            f"{n} {mark}" for n in range(3) for mark in ("sending", "sent")
        ]
        replies = [shown.message.reply_to for shown in test.adapter.world.messages.values()]
        assert replies == ["q1", "", ""]
        nonces = {shown.message.nonce for shown in test.adapter.world.messages.values()}
        assert len(nonces) == 3
        assert max(map(len, nonces)) <= 25


async def test_a_reply_with_nothing_to_show_is_no_longer_owed() -> None:
    """Where it stayed pending, the session would never rest."""

    class Mute(ScriptedAdapter):
        def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
            del markdown, is_plain
            return ()

    async with delivering("fine", adapter=Mute()) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)
        log = await test.log(said.session_id)

    assert isinstance(log[-1].body, DeliveryPlanned)
    assert log[-1].body.chunks == ()
    assert test.adapter.calls == []


async def test_a_chunk_that_was_not_sent_is_tried_again_until_it_arrives() -> None:
    """An outage of an hour must cost nobody a reply, and is not met with a storm of calls."""
    async with delivering(LONG) as test:
        test.adapter.fail("send", None, *[NotSentError("offline")] * 8)
        said = await test.say()
        waited_s = 0.0
        for expected_s in (1, 2, 4, 8, 16, 32, 60, 60):
            await test.clock.until_sleeping(60)
            test.clock.advance(expected_s - 0.1)
            assert test.adapter.world.texts == PARTS[:1]
            test.clock.advance(0.1)
            waited_s += expected_s
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == PARTS
        told = await marks(test, said.session_id)
        assert told.count("1 unsent") == 8
        assert told.count("0 sending") == 1


async def test_a_429_keeps_the_whole_bot_quiet_for_as_long_as_the_platform_says() -> None:
    """GW-08: who goes on calling is banned; other chats wait too, and nothing is dropped."""
    async with delivering() as test:
        test.adapter.fail("send", NotSentError("flood", retry_after_s=33))
        one = await test.say(chat="one")
        await test.clock.until_sleeping(33)
        two = await test.say(chat="two")
        await test.provider.until_called(2)
        await two.result()
        await idle()
        test.clock.advance(32.9)
        await idle()

        assert test.adapter.calls == ["send reply 1"]
        test.clock.advance(0.2)
        await test.until_delivered(one.session_id)
        await test.until_delivered(two.session_id)
        assert sorted(test.adapter.world.texts) == ["reply 1", "reply 2"]


@table(
    ("dedupes", "shown"),
    [
        pytest.param(False, ["fine", "(again) fine"], id="a platform that cannot tell"),
        pytest.param(True, ["fine"], id="one that knows the nonce, as Discord"),
    ],
)
async def test_an_unknown_outcome_is_repeated_and_labelled_where_it_is_shown_twice(
    *, dedupes: bool, shown: list[str]
) -> None:
    """R15: a message that may be there is sent again, and says so."""
    adapter = ScriptedAdapter(Platform(dedupes=dedupes))
    async with delivering("fine", adapter=adapter) as test:
        adapter.fail("send", UnknownOutcomeError("cut"), when="after")
        said = await test.say()
        await pass_doubt(test.clock)
        await test.until_delivered(said.session_id)

        assert adapter.world.texts == shown
        assert await marks(test, said.session_id) == [
            "0 sending",
            "0 unknown",
            "0 sending",
            "0 sent",
        ]


async def test_a_refused_chunk_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """One message that the platform does not like must not stop the rest."""
    async with delivering(LONG) as test:
        test.adapter.fail("send", None, RefusedError("bad request"))
        said = await test.say(chat="here")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [PARTS[0], PARTS[2]]
        [record] = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert record.__dict__["chat"] == "here"
        assert record.__dict__["error"] == "bad request"


async def test_a_chat_that_is_gone_is_given_up_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who blocked the bot gets nothing more, the log says it once, and others go on."""
    adapter = ScriptedAdapter()
    adapter.world.gone.add("gone")
    async with delivering(LONG, "fine", adapter=adapter) as test:
        said = await test.say(chat="gone")
        await test.until_delivered(said.session_id)
        other = await test.say(chat="other")
        await test.until_delivered(other.session_id)

        assert adapter.world.texts == ["fine"]
        assert len(adapter.calls) == 2
        told = await marks(test, said.session_id)
        assert told == ["0 sending", "0 failed", "1 failed", "2 failed"]
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.getMessage() for each in warnings] == [
        "a chat is gone; what is pending for it is given up"
    ]


async def test_what_else_is_owed_to_a_chat_that_is_gone_is_given_up_with_it() -> None:
    """Each outbox item would otherwise ask the platform once more about a chat that is gone."""
    send = Deed("send", gives=lambda _: ToolOutput(text="ok", files=(FILE,)))
    adapter = ScriptedAdapter()
    async with delivering(
        Reply(text="wait", calls=(ToolCall(call_id="c", name="send"),)),
        "done",
        adapter=adapter,
        tools=by_name(send),
    ) as test:
        adapter.hold("send")
        said = await test.say(chat="gone")
        await said.result()
        adapter.world.gone.add("gone")
        adapter.release("send")
        await test.until_delivered(said.session_id)

        assert adapter.calls == ["send wait"]


async def test_no_more_than_a_few_messages_are_on_their_way_at_once() -> None:
    """A thousand chats at once would only earn a ban; all get their turn."""
    async with delivering() as test:
        test.adapter.hold("send")
        said = [await test.say(chat=str(n)) for n in range(40)]
        for each in said:
            await each.result()
        await idle()
        test.adapter.release("send")
        for each in said:
            await test.until_delivered(each.session_id)

        assert test.adapter.most_under_way == 16
        assert len(test.adapter.world.texts) == 40


async def test_a_long_reply_lets_others_in_between() -> None:
    """Sixteen people with long replies must not keep the seventeenth waiting for all of them."""
    async with delivering(*[LONG] * 16, "short") as test:
        test.adapter.hold("send")
        said = [await test.say(chat=str(n)) for n in range(16)]
        for each in said:
            await each.result()
        last = await test.say(chat="last")
        await last.result()
        await idle()
        test.adapter.release("send")
        for each in (*said, last):
            await test.until_delivered(each.session_id)

        assert test.adapter.world.texts.index("short") < 32
        for n in range(16):
            assert test.adapter.world.chat(str(n)) == PARTS


async def test_a_storm_of_failures_loses_nothing_and_keeps_every_chat_in_order() -> None:
    """Many chats, a platform that fails in every way it can: each person sees what was said."""
    chats, rounds = [str(n) for n in range(20)], 4
    adapter = ScriptedAdapter(Platform(dedupes=True))
    async with delivering(adapter=adapter) as test:
        for n in range(200):
            if n % 5 == 1:
                adapter.fail("send", NotSentError("flood", retry_after_s=5))
            elif n % 7 == 3:
                adapter.fail("send", UnknownOutcomeError("cut"), when="after")
            else:
                adapter.fail("send", NotSentError("offline") if n % 4 == 2 else None)
        said = [await test.say(f"{n}", chat=chat) for n in range(rounds) for chat in chats]

        async def let_time_pass() -> None:
            while True:
                await idle()
                test.clock.advance(1)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(let_time_pass)
            replies = [await each.result() for each in said]
            for each in said:
                await test.until_delivered(each.session_id)
            tasks.cancel_scope.cancel()

        for n, chat in enumerate(chats):
            expected = [reply.text for reply in replies[n :: len(chats)]]
            assert adapter.world.chat(chat) == [*dict.fromkeys(expected)]


async def test_the_token_of_a_bot_reaches_neither_journal_nor_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SE-03: it stands in the address of every call, and so in the texts of many errors."""
    address = "cannot reach https://api.telegram.org/bot123456:AAAAbbbb/sendMessage"
    async with delivering("fine") as test:
        test.adapter.fail("send", RefusedError(address))
        said = await test.say()
        await test.until_delivered(said.session_id)
        log = await test.log(said.session_id)

    assert "AAAAbbbb" not in repr(log)
    assert all("AAAAbbbb" not in repr(record.__dict__) for record in caplog.records)
    assert "cannot reach" in repr(log)


async def test_the_chat_after_reset_is_not_sent_what_the_old_session_owed() -> None:
    """A session that ended owes nothing: what people no longer want must not come after all."""
    async with delivering("old", "new") as test:
        test.adapter.fail("send", NotSentError("offline"))
        first = await test.say()
        await test.clock.until_sleeping(1)
        await test.service.reset(first.session_id)
        test.clock.advance(60)
        said = await test.say("again")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["new"]


# --- ends and notices ---


async def test_people_are_told_why_a_turn_was_not_answered() -> None:
    """Silence is the worst answer: people wait for it."""
    async with delivering(ModelRefusedError("no such model"), "", " ") as test:
        failed = await test.say()
        await test.until_delivered(failed.session_id)
        empty = await test.say("again")
        await test.until_delivered(empty.session_id)

        why = "the model's reply could not be used, 2 times in a row: it was empty"
        assert test.adapter.world.texts == [
            "I could not answer: no such model",
            f"I could not answer: {why}",
        ]


# --- files ---

FILE = Upload(data=b"hello", media_type="text/plain", file_name="a.txt")


async def send_file(test: Delivering) -> None:
    """Let the agent send a file, and wait until it arrived."""
    said = await test.say()
    await test.until_delivered(said.session_id)


@table(
    ("able", "refused", "expected"),
    [
        (capabilities(), False, "<a.txt>"),
        (capabilities(), True, "~The file a.txt could not be sent: it was refused here."),
        (
            capabilities(files_max_bytes=4),
            False,
            "~The file a.txt cannot be sent: it has 5 bytes, and 4",
        ),
        (
            capabilities(files_max_bytes=0),
            False,
            "~The file a.txt cannot be sent: no files can be sent",
        ),
    ],
)
async def test_a_file_is_sent_or_named(able: object, expected: str, *, refused: bool) -> None:
    """What an agent made must reach people, or they must know that it did not."""
    adapter = ScriptedAdapter(able=able)  # type: ignore[arg-type]
    if refused:
        adapter.fail("send", RefusedError("no files here"))
    send = Deed("send", gives=lambda _: ToolOutput(text="ok", files=(FILE,)))
    async with delivering(
        calling(("c", "send")), "done", adapter=adapter, tools=by_name(send)
    ) as test:
        await send_file(test)

    assert adapter.world.texts[0].startswith(expected)
    assert adapter.world.texts[1:] == ["done"]


async def test_files_of_one_call_go_as_one_and_singly_where_that_is_refused() -> None:
    """Pictures beside pictures; and nothing is lost for what one of them is."""

    def file(name: str, size: int = 5) -> Upload:
        is_picture = name.endswith("png")
        data = (b"\x89PNG\r\n\x1a\n" if is_picture else b"") + name.encode().ljust(size)
        kind = "image/png" if is_picture else "text/plain"
        return Upload(data=data, media_type=kind, file_name=name)

    names = ("1.png", "2.png", "3.png", "a.txt", "b.txt")
    files = (*map(file, names), file("big.txt", 1_001))
    adapter = ScriptedAdapter(able=capabilities(files_at_once=2))
    adapter.fail("send", None, None, RefusedError("not these two"))
    send = Deed("send", gives=lambda _: ToolOutput(text="ok", files=files))
    async with delivering(
        calling(("c", "send")), "done", adapter=adapter, tools=by_name(send)
    ) as test:
        await send_file(test)

    *shown, large, done = adapter.world.texts
    assert shown == ["<1.png, 2.png>", "<3.png>", "<a.txt>", "<b.txt>"]
    assert large.startswith("~The file big.txt cannot be sent: it has 1,001 bytes")
    assert done == "done"


async def test_files_that_go_singly_go_once_each() -> None:
    """A platform that wants quiet in between gets the rest later, and not all of them again."""
    names = [f"{n}.txt" for n in range(4)]
    files = tuple(Upload(data=b"hello", media_type="text/plain", file_name=n) for n in names)
    adapter = ScriptedAdapter(able=capabilities(files_at_once=10))
    adapter.fail("send", RefusedError("not these"), None, UnknownOutcomeError("who knows"))
    adapter.fail("send", None, NotSentError("slower", retry_after_s=1))
    send = Deed("send", gives=lambda _: ToolOutput(text="ok", files=files))
    async with delivering(
        calling(("c", "send")), "done", adapter=adapter, tools=by_name(send)
    ) as test:
        said = await test.say()
        await pass_doubt(test.clock)
        await test.clock.until_sleeping(1)
        test.clock.advance(1)
        await test.until_delivered(said.session_id)

    again = [f"(again) <{name}>" for name in names[1:]]
    assert adapter.world.texts == ["<0.txt>", *again, "done"]


@table("is_gone", [True, False])
async def test_a_file_that_cannot_be_had_is_named(
    monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """The oldest files of a session are let go; a late delivery has to say so.

    And a bad disk costs the file, not the delivery of everything after it.
    """

    async def fail(*_: object) -> bytes:
        msg = "input/output error"
        raise JournalError(msg)

    send = Deed("send", gives=lambda _: ToolOutput(text="ok", files=(FILE,)))
    async with delivering(calling(("c", "send")), "done", tools=by_name(send)) as test:
        test.adapter.fail("send", NotSentError("offline"))
        said = await test.say()
        await test.clock.until_sleeping(1)
        if is_gone:
            test.store._disk.sessions[said.session_id].media.clear()  # type: ignore[attr-defined]
        else:
            monkeypatch.setattr(test.store, "read_media", fail)
        test.clock.advance(1)
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [
            "~The file a.txt cannot be sent: it is no longer there.",
            "done",
        ]


async def test_people_are_told_when_the_conversation_is_made_shorter_in_an_emergency() -> None:
    """The line of the gateway comes before the answer that it explains."""
    overflow = ContextOverflowError("too long", window_tokens=20_000)
    async with delivering("one", "two", "three", overflow, "four") as test:
        for word in ("a", "b", "c", "d"):
            said = await test.say(word)
            await test.until_delivered(said.session_id)

        assert test.adapter.world.texts[3:] == [f"~{OVERFLOW_LINE}", "four"]


AS_FILE = ChannelSettings(streaming=False, long_replies="file", file_after_chunks=2)


async def test_a_reply_that_is_too_long_goes_as_its_beginning_and_a_file() -> None:
    """By setting: nobody wants to read twenty messages in a row."""
    async with delivering(LONG, "short", settings=AS_FILE) as test:
        for _ in range(2):
            said = await test.say()
            await test.until_delivered(said.session_id)
        shown = [*test.adapter.world.messages.values()]

    assert test.adapter.world.texts == [PARTS[0], "<reply.md>", "short"]
    assert shown[1].message.file is not None
    assert shown[1].message.file.data.decode() == LONG


@table("able", [True, False])
async def test_a_reply_that_cannot_go_as_a_file_goes_as_messages(*, able: bool) -> None:
    """A bot without the right to send files must not lose the end of its replies."""
    adapter = ScriptedAdapter(able=capabilities(files_max_bytes=1000 if able else 10))
    if able:
        adapter.fail("send", None, RefusedError("no files here"))
    async with delivering(LONG, adapter=adapter, settings=AS_FILE) as test:
        said = await test.say()
        await test.until_delivered(said.session_id)

        assert adapter.world.texts == PARTS


# --- questions ---

ASK = Rules({"rm": Verdict(effect="ask", reason="it deletes", pattern="rm:*", approvers=("ann",))})


def removing() -> Reply:
    """Return a reply that asks for something dangerous."""
    call = ToolCall(call_id="c1", name="rm", arguments='{"path": "old/x\\u202ecod"}')
    return Reply(calls=(call,), stop_reason="tool_calls")


async def test_a_question_shows_all_that_is_decided_about_and_ends_when_it_is() -> None:
    """SE-04: people decide about what they see, and later nobody clicks what means nothing."""
    async with delivering(
        removing(),
        "done",
        tools=by_name(Deed("rm")),
        gate=ASK,
        adapter=ScriptedAdapter(able=capabilities(chunk_units=1000)),
    ) as test:
        said = await test.say()
        await test.adapter.until(lambda: bool(test.adapter.world.messages))
        await idle()
        question = test.adapter.world.messages["m1"]
        [outbox] = (await test.state(said.session_id)).outbox
        await test.service.decide(said.session_id, "c1", "allow_once", by="ann")
        await test.until_delivered(said.session_id)
        closed = test.adapter.world.messages["m1"]

    assert [each.label for each in question.buttons] == ["Allow once", "Always allow", "Deny"]
    assert all(len(each.data) <= 64 for each in question.buttons)
    assert '"path": "old/x\\u202ecod"' in question.text
    until = f"{START + timedelta(seconds=3600):%Y-%m-%d %H:%M} UTC"
    assert f"Only ann may answer, until {until}." in question.text
    assert "it deletes" in question.text
    assert outbox.is_delivered
    assert closed.buttons == ()
    assert "Allowed once by ann." in closed.text
    assert "old/x" in closed.text
    assert test.adapter.world.texts[1:] == ["done"]


async def test_a_file_that_changed_is_asked_about_in_a_message_of_its_own() -> None:
    """Who allowed a script has to see that it is another one now, and which."""
    gate = Rules({"rm": Verdict(effect="ask", reason="it deletes", files=(_file("one"),))})
    adapter = ScriptedAdapter(able=capabilities(chunk_units=1000))
    async with delivering(
        removing(), "done", tools=by_name(Deed("rm")), gate=gate, adapter=adapter
    ) as test:
        said = await test.say()
        shown = test.adapter.world.messages
        await test.adapter.until(lambda: "m1" in shown)
        first = shown["m1"].text
        gate.verdicts["rm"] = Verdict(effect="ask", reason="it deletes", files=(_file("two"),))
        await test.service.decide(said.session_id, "c1", "allow_once", by="ann")
        await test.adapter.until(lambda: "m2" in shown)
        await idle()
        second = shown["m2"]
        await test.service.decide(said.session_id, "c1", "deny", by="ann")
        await test.until_delivered(said.session_id)

    assert "An answer holds only while this stays as it is: report.sh." in first
    assert "report.sh changed since this was allowed, so it is asked again" in second.text
    assert [each.label for each in second.buttons] == ["Allow once", "Deny"]
    assert shown["m1"].buttons == shown["m2"].buttons == ()
    assert "Denied by ann." in shown["m2"].text
    assert "Denied" not in shown["m1"].text


def _file(digest: str) -> FileDigest:
    return FileDigest(path="report.sh", digest=digest)


async def test_a_long_question_has_its_buttons_at_its_end() -> None:
    """Whoever decides has to read all of it first."""
    async with delivering(removing(), "done", tools=by_name(Deed("rm")), gate=ASK) as test:
        said = await test.say()
        await test.adapter.until(
            lambda: any(each.buttons for each in test.adapter.world.messages.values())
        )
        await idle()
        shown = [*test.adapter.world.messages.values()]
        await test.service.decide(said.session_id, "c1", "deny", by="ann")
        await test.until_delivered(said.session_id)

    assert [bool(each.buttons) for each in shown] == [False] * (len(shown) - 1) + [True]
    assert not any(each.buttons for each in test.adapter.world.messages.values())


async def test_other_messages_do_not_wait_for_an_answer() -> None:
    """A question may stay open for an hour; what the agent said before has to come at once."""
    gate = Rules({"rm": Verdict(effect="ask")})
    reply = Reply(text="I must delete", calls=(ToolCall(call_id="c1", name="rm"),))
    async with delivering(reply, "done", tools=by_name(Deed("rm")), gate=gate) as test:
        said = await test.say()
        shown = test.adapter.world.messages
        await test.adapter.until(lambda: any(each.buttons for each in shown.values()))
        await test.say("never mind")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts[0] == "I must delete"
        assert test.adapter.world.texts[-1] == "done"
        assert any("A message came first" in text for text in test.adapter.world.texts)


async def test_where_there_are_no_buttons_the_question_says_how_to_answer() -> None:
    """A platform without buttons must not leave a call waiting for nobody."""
    adapter = ScriptedAdapter(able=capabilities(buttons=False, chunk_units=1000))
    async with delivering(
        removing(), "done", tools=by_name(Deed("rm")), gate=ASK, adapter=adapter
    ) as test:
        said = await test.say()
        await adapter.until(lambda: bool(adapter.world.messages))
        await test.service.decide(said.session_id, "c1", "deny")
        await test.until_delivered(said.session_id)

    assert f"everturn approve {said.session_id} c1" in adapter.world.messages["m1"].states[0]
    assert adapter.world.messages["m1"].buttons == ()


async def test_a_question_that_is_settled_before_it_is_asked_is_not_asked() -> None:
    """After an outage nobody needs to see what expired meanwhile."""
    async with delivering(removing(), "done", tools=by_name(Deed("rm")), gate=ASK) as test:
        test.adapter.fail("send", NotSentError("offline"))
        said = await test.say()
        await test.clock.until_sleeping(1)
        await test.service.decide(said.session_id, "c1", "deny")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["done"]


@table(
    "errors",
    [
        (NotSentError("flood", retry_after_s=33),),
        (NotSentError("offline"), UnknownOutcomeError("cut")),
        (NotSentError("offline"), NotSentError("offline"), NotSentError("offline")),
    ],
)
async def test_the_end_of_a_question_is_tried_a_few_times(errors: tuple[SendError, ...]) -> None:
    """Buttons that do nothing any more should go; where they cannot, the turn goes on."""
    async with delivering(
        removing(),
        "done",
        tools=by_name(Deed("rm")),
        gate=ASK,
        adapter=ScriptedAdapter(able=capabilities(chunk_units=1000)),
    ) as test:
        said = await test.say()
        shown = test.adapter.world.messages
        await test.adapter.until(lambda: any(each.buttons for each in shown.values()))
        test.adapter.fail("edit", *errors)
        await test.service.decide(said.session_id, "c1", "deny")
        for _ in errors[:2]:
            await test.clock.until_sleeping(60)
            test.clock.advance(60)
        await test.until_delivered(said.session_id)

        assert bool(shown["m1"].buttons) == (len(errors) == 3)
        assert test.adapter.world.texts[1:] == ["done"]


async def test_a_stop_leaves_the_end_of_a_question_for_the_next_start() -> None:
    """What can still be shown is not given up because the gateway restarts."""
    disk, platform = MemoryDisk(), Platform()
    able = capabilities(chunk_units=1000)
    async with (
        open_memory_store(disk) as store,
        delivering(
            removing(), "done", tools=by_name(Deed("rm")), gate=ASK, store=store,
            adapter=ScriptedAdapter(platform, able=able),
        ) as test,
    ):  # fmt: skip
        said = await test.say()
        await test.adapter.until(lambda: bool(platform.messages))
        await idle()
        test.adapter.fail("edit", NotSentError("flood", retry_after_s=33))
        await test.service.cancel(said.session_id)
        await test.clock.until_sleeping(33)
    assert platform.messages["m1"].buttons
    async with (
        open_memory_store(disk) as store,
        delivering(store=store, adapter=ScriptedAdapter(platform, able=able)) as test,
    ):
        await test.until_delivered(said.session_id)

    assert not platform.messages["m1"].buttons
    assert "This question is closed." in platform.messages["m1"].text


async def test_a_question_whose_message_is_gone_is_closed_all_the_same() -> None:
    """To show its end is a courtesy; what follows must not hang on it."""
    async with delivering(removing(), "done", tools=by_name(Deed("rm")), gate=ASK) as test:
        said = await test.say()
        await test.adapter.until(
            lambda: any(each.buttons for each in test.adapter.world.messages.values())
        )
        test.adapter.world.messages.clear()
        await test.service.decide(said.session_id, "c1", "deny")
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == ["done"]


async def test_a_session_that_ends_takes_the_buttons_of_its_questions_away() -> None:
    """It owes nothing any more; a button that nobody may click should not stand there for ever."""
    adapter = ScriptedAdapter(able=capabilities(chunk_units=1000))
    async with delivering(removing(), tools=by_name(Deed("rm")), gate=ASK, adapter=adapter) as test:
        said = await test.say()
        shown = adapter.world.messages
        await adapter.until(lambda: bool(shown) and bool(shown["m1"].buttons))
        await idle()
        await test.service.reset(said.session_id)
        await adapter.until(lambda: not shown["m1"].buttons)

        assert "This question is closed." in shown["m1"].text
        assert "old/x" in shown["m1"].text
        assert len(shown["m1"].states) == 2
