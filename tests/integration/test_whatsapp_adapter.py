"""A number on a pretended Cloud API: statuses, the window of a day, choices, groups, files, ids."""

from __future__ import annotations

import anyio
import pytest
from support.whatsapp_api import (
    ANN,
    APP_SECRET,
    BOB,
    GROUP,
    NUMBER,
    TOKEN,
    USER_ID,
    VERIFY_TOKEN,
    Json,
    body_of,
    signed,
)
from support.whatsapp_world import make_bot, open_whatsapp_world

from everturn.testing import RecordingHandler
from everturn_channels.adapter import (
    Button,
    ButtonClick,
    Command,
    Message,
    Outbound,
    OutgoingFile,
)
from everturn_channels.errors import (
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.inbound.message_text import compose
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_channels.whatsapp import chats, statuses
from everturn_channels.whatsapp.requests import open_api

TWO = (Button(label="✅ Allow once", data="ap:o:1"), Button(label="❌ Deny", data="ap:d:1"))
MANY = tuple(Button(label=f"The choice of number {n:02d}", data=f"ch:{n}") for n in range(12))


def messages_of(handler: RecordingHandler) -> list[Message]:
    """Return the messages that were taken."""
    return [each for each in handler.events if isinstance(each, Message)]


async def test_what_meta_did_not_sign_is_not_believed() -> None:
    """Over the bytes as they came; the challenge is answered to whoever knows the owner's token."""
    value = {"metadata": {"phone_number_id": "106540352242922"}, "messages": []}
    body = body_of(value)
    rows: list[tuple[dict[str, str], bytes, int]] = [
        ({}, body, 401),
        ({"X-Hub-Signature-256": "sha256=00"}, body, 401),
        ({"X-Hub-Signature-256": "sha256=\u00e4"}, body, 401),
        (signed(body, secret="f" * 32), body, 401),
        (signed(body), body + b" ", 401),
        ({"X-Hub-Signature-256": signed(body)["X-Hub-Signature-256"][7:]}, body, 401),
        (signed(b"{"), b"{", 400),
        (signed(b'{"object": "page"}'), b'{"object": "page"}', 400),
        (signed(b" " * 5_000_000), b" " * 5_000_000, 400),
        (signed(body), body, 200),
    ]
    asked = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "115820"}
    async with open_whatsapp_world() as world:
        early = (await world.bot.take_delivery(signed(body), body)).status
        async with world.running():
            found = [(await world.bot.take_delivery(head, raw)).status for head, raw, _ in rows]
        answers = [
            world.bot.answer_challenge(query).status
            for query in (
                {**asked, "hub.verify_token": "guessed"},
                {**asked, "hub.challenge": "<script>"},
                {},
            )
        ]
        right = world.bot.answer_challenge(asked)

    assert early == 503
    assert found == [status for _, _, status in rows]
    assert answers == [401, 400, 401]
    assert right == DeliveryAnswer(status=200, body=b"115820", media_type="text/plain")
    assert not {TOKEN, APP_SECRET, VERIFY_TOKEN} & {*repr(world.bot._account).split("'")}


async def test_a_delivery_brings_messages_of_several_people_in_no_order_and_again() -> None:
    """Each is taken once, in the order of its time; what is another number's is passed over."""
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        late, early = (
            api.message({"type": "text", "text": {"body": "late"}}),
            api.message({"type": "text", "text": {"body": "early"}}),
        )
        early["timestamp"] = f"{int(late['timestamp']) - 5}"
        other = api.message({"type": "text", "text": {"body": "bob's"}}, BOB)
        reaction = api.message({"type": "reaction", "reaction": {"message_id": "x"}})
        await api.push([late, other, reaction, early])
        await api.push([early, late])
        await api.push([api.message({"type": "text", "text": {"body": "no"}})], number="5551234567")
        await api.deliver_value({"errors": [{"code": 131000}]})
        await api.say("then")
        await handler.until(lambda: "then" in handler.texts())
        while api.pending or len(api.marks) < 4:  # noqa: ASYNC110 - it does not tell
            await anyio.sleep(0.01)

    assert handler.texts(ANN) == ["early", "late", "then"]
    assert handler.texts(BOB) == ["bob's"]
    assert len(handler.events) == 4
    assert [mark["status"] for mark in api.marks] == ["read"] * len(api.marks)


async def test_everything_that_people_send_becomes_words_or_files() -> None:
    """Also kinds that are not known, and what is quoted or passed on; a pin is no message."""
    place = {"latitude": 52.52, "longitude": 13.405}
    venue = place | {"name": "Café", "address": "Main St 1"}
    card = {"name": {"formatted_name": "Dan"}, "phones": [{"phone": "+1 555"}]}
    item = {"product_retailer_id": "tea", "quantity": 2, "item_price": 3.5, "currency": "EUR"}
    form = {"type": "nfm_reply", "nfm_reply": {"response_json": '{"day": "Monday"}'}}
    not_at_hand = "in reply to an earlier message, which is not at hand any more"
    rows: list[tuple[Json, str]] = [
        ({"type": "location", "location": place}, "[location 52.52, 13.405]"),
        (
            {"type": "location", "location": venue},
            "[venue 'Café', 'Main St 1', location 52.52, 13.405]",
        ),
        ({"type": "contacts", "contacts": [card]}, "[contact 'Dan', +1 555]"),
        ({"type": "sticker", "sticker": {"id": "1", "animated": True}}, "[animated sticker]"),
        (
            {"type": "order", "order": {"text": "soon", "product_items": [item]}},
            "[order of 2 x tea at 3.5 EUR, 'soon']",
        ),
        ({"type": "interactive", "interactive": form}, "[answer to a form '{'day': 'Monday'}']"),
        (
            {"type": "interactive", "interactive": {"type": "call_permission_reply"}},
            "[answer of a kind that is not known here: call_permission_reply]",
        ),
        ({"type": "button", "button": {"text": "Yes please", "payload": "y"}}, "Yes please"),
        (
            {"type": "unsupported", "unsupported": {"type": "poll_creation"}},
            "[message of a kind that WhatsApp does not pass on to bots: poll creation]",
        ),
        (
            {"type": "unknown", "errors": [{"code": 131051}]},
            "[message of a kind that WhatsApp does not pass on to bots]",
        ),
        (
            {"type": "unsupported", "errors": [{"code": 131060}]},
            "[message that WhatsApp could not pass on this time: it has to be sent again]",
        ),
        ({"type": "hologram"}, "[message of a kind that is not known here: hologram]"),
        ({"type": "image", "image": {}}, "[image that WhatsApp does not pass on]"),
        (text("hi", referral={"headline": "Tea"}), "hi\n[they came by the advertisement 'Tea']"),
        (
            text("this?", context={"referred_product": {"product_retailer_id": "tea"}}),
            "this?\n[about the product 'tea' of the catalogue]",
        ),
        (text("and that", context={"from": ANN, "id": "old"}), f"and that\n[{not_at_hand}]"),
        (text("look", context={"forwarded": True}), "[forwarded from somebody else]\nlook"),
        (
            text("see", context={"frequently_forwarded": True}),
            "[forwarded from somebody else]\nsee",
        ),
    ]
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        first = await api.say("the first")
        await handler.until_handled(1)
        ours = await world.say("an answer")
        await api.say("why?", context={"from": NUMBER, "id": ours})
        await api.say("I mean this", context={"from": ANN, "id": first})
        for kind in ("pin", "keep_in_chat", "link_preview", "reaction"):
            await api.write({"type": "unsupported", "unsupported": {"type": kind}})
        await api.write({"type": "request_welcome"})
        changed = {"type": "user_changed_number", "wa_id": "4915112345678"}
        await api.write({"type": "system", "system": changed})
        for content, _ in rows:
            await api.write(content)
        await api.share("audio", b"OggS", mime_type="audio/ogg; codecs=opus", voice=True)
        await api.share("image", b"JFIF", mime_type="image/jpeg", caption="a cat")
        await handler.until(lambda: len(messages_of(handler)) == len(rows) + 5 and handler.moves)
        why, meant, *others, spoken, cat = messages_of(handler)[1:]
        voice = spoken.files[0]
        data = await voice.fetch(100)
        api.media.clear()
        with pytest.raises(ConnectionLostError):
            await voice.fetch(100)

    assert [compose(each, in_group=False) for each in others] == [words for _, words in rows]
    assert [each.is_outside for each in others] == ["forwarded" in words for _, words in rows]
    assert handler.moves == [(ANN, "4915112345678")]
    assert (why.text, why.is_addressed, why.quoted) == ("why?", True, "")
    assert (meant.quoted, meant.quoted_name) == ("the first", "Ann")
    assert (voice.is_voice, voice.media_type, data) == (True, "audio/ogg", b"OggS")
    assert (cat.text, cat.files[0].is_voice) == ("a cat", False)


def text(body: str, **fields: object) -> Json:
    """Return a message of words."""
    return {"type": "text", "text": {"body": body}, **fields}


async def test_questions_have_buttons_or_a_list_and_groups_numbers() -> None:
    """As many as WhatsApp takes; a long question stands above its choices, once."""
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        await api.say("do it")
        await api.say("hello all", group_id=GROUP)
        await handler.until_handled(2)
        await world.say("May I?", buttons=TWO, nonce="q1")
        await world.say("Which?", buttons=MANY, nonce="q2")
        api.refusals.extend(((131000, 500),))
        long = "why " * 400
        with pytest.raises(NotSentError):
            await world.say(long, buttons=TWO, nonce="q3")
        api.failures.extend((0, 131056))
        with pytest.raises(NotSentError):
            await world.say(long, buttons=TWO, nonce="q3")
        world.bot._chats._quiet_until.clear()  # the six seconds are over
        await world.say(long, buttons=TWO, nonce="q3")
        asked = await world.say("May I, all?", chat=GROUP, buttons=TWO, nonce="q4")
        await world.say("all " * 990, chat=GROUP, buttons=MANY, nonce="q5")
        by_type = {m["interactive"]["type"]: m for m in api.sent if m["type"] == "interactive"}
        await api.choose(by_type["list"], 9)
        await api.choose(by_type["button"], 1)
        await api.say("2", BOB, group_id=GROUP, context={"from": NUMBER, "id": asked})
        await api.say("/status now")
        await handler.until(lambda: len(handler.events) == 6)
        clicks = [each for each in handler.events if isinstance(each, ButtonClick)]
        click = next(each for each in clicks if each.chat.id == ANN)
        await click.answer("You said **no**.")
        await click.answer("")

    rows = by_type["list"]["interactive"]["action"]["sections"][0]["rows"]
    assert len(rows) == 10
    assert rows[0]["title"] == "The choice of number 00"
    assert {(c.data, c.chat.id, c.sender.id) for c in clicks} == {
        ("ch:9", ANN, ANN),
        ("ap:d:1", ANN, ANN),
        ("ap:d:1", GROUP, BOB),
    }
    assert api.shown(ANN) == ["May I?", "Which?", long.strip(), "Your choice?", "You said *no*."]
    assert api.shown(GROUP)[0].endswith("1. ✅ Allow once\n2. ❌ Deny")
    assert api.shown(GROUP)[1] == ("all " * 990).strip()
    assert api.shown(GROUP)[2].startswith("Your choice?")
    command = next(each for each in handler.events if isinstance(each, Command))
    assert (command.name, command.argument, command.is_typed) == ("status", "now", True)
    assert {m.chat.type for m in messages_of(handler)} == {"dm", "group"}


async def test_an_answer_after_a_day_waits_until_its_person_writes_and_the_owner_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meta is asked once, and again when a turn works there; nothing else of the number waits."""
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        await api.say("do it")
        await api.say("and me", BOB)
        await handler.until_handled(2)
        api.close_window(ANN)
        for _ in range(2):
            with pytest.raises(NotSentError, match="once the person writes again"):
                await world.say("done", nonce="n")
        await world.say("hello", chat=BOB)
        asked = [api.accepted]
        for doubt_s in (60.0, 0.0):
            monkeypatch.setattr(chats, "DOUBT_S", doubt_s)
            await world.bot.type(ANN, "")
            with pytest.raises(NotSentError, match="once the person writes again"):
                await world.say("done", nonce="n")
            asked.append(api.accepted)
        await api.say("well?")
        await handler.until(lambda: "well?" in handler.texts())
        await world.say("done", nonce="n")

    assert handler.undeliveries == [(ANN, "failed with 131047 (131047)", False)]
    assert handler.reopened == [ANN, ANN]
    assert api.shown() == ["hello", "done"]
    assert asked == [2, 2, 3]


async def test_what_fails_after_it_was_taken_fails_with_metas_reason() -> None:
    """Also where nobody waits any more: then the owner is told, once."""
    rows: dict[int, tuple[type[SendError], bool | None]] = {
        131026: (RefusedError, True),
        131051: (RefusedError, False),
        131042: (NotSentError, None),
        130429: (NotSentError, None),
        131000: (NotSentError, None),
    }
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        await api.say("hello")
        await handler.until_handled(1)
        found: dict[int, tuple[type[Exception], bool | None]] = {}
        for code in rows:
            api.failures.append(code)
            with pytest.raises(SendError, match=f"{code}") as raised:
                await world.say("hello")
            found[code] = (type(raised.value), getattr(raised.value, "is_chat_gone", None))
        await world.say("taken")
        for _ in range(2):
            await api.tell_status(api.sent[-1], "failed", 131026)
        await handler.until(lambda: handler.undeliveries)
        await api.say("and on")
        await handler.until(lambda: "and on" in handler.texts())

    assert found == rows
    assert handler.undeliveries == [(ANN, "failed with 131026 (131026)", True)]


async def test_old_news_of_a_day_that_is_over_keeps_nobody_waiting() -> None:
    """A status may come days late, or cross what its person writes: their answer is sent."""
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        await api.say("hello")
        await handler.until_handled(1)
        await world.say("taken", nonce="n1")
        await api.tell_status(api.sent[0], "failed", 131047)
        await handler.until(lambda: handler.undeliveries)
        api.has_statuses = False
        async with anyio.create_task_group() as tasks:

            async def cross() -> None:
                with pytest.raises(NotSentError, match="131047"):
                    await world.say("crossed", nonce="n2")

            tasks.start_soon(cross)
            while len(api.sent) < 2:  # noqa: ASYNC110 - it does not tell
                await anyio.sleep(0.01)
            await api.tell_status(api.sent[0] | {"id": "wamid.x"}, "failed", 131026)
            await handler.until(lambda: len(handler.undeliveries) == 2)
            await api.say("well?")
            await handler.until(lambda: "well?" in handler.texts())
            await api.tell_status(api.sent[1], "failed", 131047)
        api.has_statuses = True
        await world.say("yes", nonce="n3")

    told = [(chat, is_lost) for chat, _, is_lost in handler.undeliveries]
    assert told == [(ANN, True), (ANN, True)], "also while something else is under way"
    assert api.shown()[-1] == "yes"


async def test_a_status_tells_that_a_lost_answer_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing goes twice; without one the repeat says so. Where none come, nobody waits."""
    monkeypatch.setattr(statuses, "WAIT_S", 0.05)
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        await api.say("hello")
        await handler.until_handled(1)
        api.cut_after_message = True
        with pytest.raises(UnknownOutcomeError):
            await world.say("once", nonce="n1")
        while world.bot._statuses.of_nonce("n1") is None:  # noqa: ASYNC110 - it does not tell
            await anyio.sleep(0.01)
        again = await world.say("once", nonce="n1", is_repeat=True)
        api.has_statuses = False
        api.cut_after_message = True
        with pytest.raises(UnknownOutcomeError):
            await world.say("twice", nonce="n2")
        await world.say("twice", nonce="n2", is_repeat=True)
        before = anyio.current_time()
        await world.say("and on")
        waited_s = anyio.current_time() - before

    assert again == api.sent[0]["id"]
    assert api.shown() == ["once", "twice", "(This may be a repeat.)\ntwice", "and on"]
    assert waited_s < 0.05, "statuses go elsewhere"


async def test_files_go_as_what_they_are() -> None:
    """Pictures, sound, a voice, documents; a repeat says so below, or before a sound."""
    voice = OutgoingFile(data=b"OggS", file_name="a.ogg", media_type="audio/ogg", is_voice=True)
    rows = [
        OutgoingFile(data=b"png", file_name="a.png", media_type="image/png"),
        OutgoingFile(data=b"x" * 6_000_000, file_name="b.png", media_type="image/png"),
        OutgoingFile(data=b"# hi", file_name="c.md", media_type="text/markdown"),
        voice,
    ]
    async with open_whatsapp_world() as world, world.running() as handler:
        api = world.api
        question = await api.say("hello")
        await handler.until_handled(1)
        for file in rows:
            sent = Outbound(chat_id=ANN, file=file, reply_to=question)
            await world.bot.send(sent)
        for nonce, file in (("picture", rows[0]), ("voice", voice)):
            await world.bot.send(Outbound(chat_id=ANN, file=file, nonce=nonce, is_repeat=True))
        api.refusals.append((131053, 400))
        with pytest.raises(RefusedError):
            await world.bot.send(Outbound(chat_id=ANN, file=rows[0]))

    kinds = [message["type"] for message in api.sent]
    assert kinds == ["image", "document", "document", "audio", "image", "text", "audio"]
    assert api.sent[2]["document"]["filename"] == "c.md"
    assert api.media[api.sent[2]["document"]["id"]]["media_type"] == "text/plain"
    assert [m["audio"].get("voice") for m in api.sent if m["type"] == "audio"] == [True, True]
    assert api.sent[4]["image"]["caption"] == "(This may be a repeat.)"
    assert api.sent[5]["text"]["body"] == "(The next message may be a repeat.)"
    assert {m["context"]["message_id"] for m in api.sent[:4]} == {question}


async def test_who_hides_their_number_stays_who_they_were() -> None:
    """And who never showed one is answered by their id; over a restart, too."""
    async with open_whatsapp_world() as world:
        api = world.api
        async with world.running() as handler:
            await api.say("with a number", from_user_id="DE.1")
            await api.say("without one", USER_ID)
            await handler.until_handled(2)
            await world.say("hello", chat=USER_ID)
        async with world.running() as handler:
            await api.say("hidden by now", "DE.1")
            nobody = {"id": "wamid.x", "from": "", "timestamp": "1", "type": "text"}
            await api.deliver_value({"messages": [nobody]})
            await handler.until_handled(1)
            await handler.until(lambda: handler.passed_over)
            (hidden,) = messages_of(handler)
            for number, (old, new) in enumerate((("DE.1", "DE.2"), (USER_ID, "US.2"))):
                told = {"type": "user_changed_user_id", "previous_user_id": old, "user_id": new}
                system = {"id": f"wamid.s{number}", "type": "system", "system": told}
                await api.deliver_value({"messages": [system]})
            await handler.until(lambda: len(handler.moves) == 2)

    assert (hidden.sender.id, hidden.chat.id, hidden.sender.name) == (ANN, ANN, "Sheena")
    assert api.sent[0]["recipient"] == USER_ID
    assert sorted(handler.moves) == [(ANN, "DE.2"), (USER_ID, "US.2")]


async def test_who_gets_the_number_of_somebody_else_is_somebody_else() -> None:
    """They meet neither the conversation nor the rights of who had it; over a restart, too."""
    async with open_whatsapp_world() as world:
        async with world.running() as handler:
            await world.api.say("mine", from_user_id="DE.1")
            await handler.until_handled(1)
        async with world.running() as handler:
            await world.api.say("mine now", from_user_id="DE.7")
            await handler.until_handled(1)
            await world.api.say("still mine", from_user_id="DE.7")
            await world.api.say("hidden", "DE.1")
            await handler.until_handled(3)
            found = {message.text: message.chat.id for message in messages_of(handler)}

    assert found == {"mine now": "DE.7", "still mine": "DE.7", "hidden": ANN}


async def test_signs_are_shown_and_a_look_says_what_is_wrong() -> None:
    """Receipts and typing go with what was written last; reactions take each other's place."""
    async with open_whatsapp_world(has_receipts=False) as world, world.running() as handler:
        api = world.api
        await world.bot.type(ANN, "")
        wamid = await api.say("hello")
        await handler.until_handled(1)
        await world.bot.type(ANN, "")
        for emoji in ("👀", "✅", ""):
            await world.bot.react(ANN, wamid, emoji)
        whole = await world.bot.check()
        api.refusals.append((0, 502))
        with pytest.raises(UnknownOutcomeError):
            await world.say("hello")
        api.refusals.append((130429, 429))
        with pytest.raises(NotSentError) as raised:
            await world.say("hello")
        with pytest.raises(SetupError, match="phone_number_id"):
            await make_bot(api, phone_number_id="999999").check()
        async with open_api(world.bot._account, where="channels.whatsapp") as cloud:
            is_theirs = [
                cloud.is_metas(each)
                for each in (
                    "https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1",
                    f"{api.url}/download/1",
                    "https://lookaside.fbsbx.com.evil.org/",
                    "http://lookaside.fbsbx.com/",
                    "https://user@evil.org:443\\@lookaside.fbsbx.com/",
                    "file:///etc/passwd",
                    "http://[",
                )
            ]

    (mark,) = api.marks
    assert (mark["message_id"], mark["typing_indicator"]) == (wamid, {"type": "text"})
    assert api.reactions == {wamid: ""}
    assert raised.value.retry_after_s == 60
    assert whole[0] == "the number is +1 555-078-3881, Lucky Shrub"
    assert is_theirs == [True, True, *[False] * 5]
