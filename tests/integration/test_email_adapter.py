"""A mailbox that answers, on pretended servers: threads, loops, new numbers, refusals, logins."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio import to_thread
from support.email_contract import ANN, BOB, BOT, account, mail_from
from support.email_world import EmailWorld, open_email_world
from support.imap_server import open_imap_server
from support.smtp_server import open_smtp_server, read_mail, text_of
from support.tables import table
from support.talking import until
from support.web_server import certificates_for

from everturn.testing import RecordingHandler
from everturn_channels.adapter import (
    Button,
    ButtonClick,
    Command,
    Message,
    Outbound,
    Reaction,
)
from everturn_channels.email import EmailAdapter, MailServer, reading
from everturn_channels.email.account import Security
from everturn_channels.email.mailbox import open_mailbox
from everturn_channels.email.submission import open_submissions
from everturn_channels.errors import (
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.inbound.message_text import compose
from everturn_gateway.clock import SystemClock

CHOICES: Final = (Button(label="Yes", data="ap:o:1"), Button(label="No", data="ap:d:1"))


def message_of(handler: RecordingHandler, text: str) -> Message:
    """Return the message of a text."""
    return next(each for each in handler.events if isinstance(each, Message) and each.text == text)


async def test_a_thread_is_a_conversation_and_is_answered_in_it() -> None:
    """Whatever the other's mail program leaves out, and after a restart as before."""
    async with open_email_world(display_name="Bót") as world:
        async with world.running() as handler:
            first = mail_from(f"Ann <{ANN}>", "shall we?", Message_ID="<a1@example.org>")
            world.deliver(first.as_bytes())
            await handler.until(lambda: "shall we?" in handler.texts())
            asked = message_of(handler, "shall we?")
            topic = asked.chat.topic
            reply = await world.say(
                ANN, "**yes** <b>x</b>", topic=topic, reply_to=asked.id, nonce="n1"
            )
            began = await world.say(ANN, "# Good morning\n\nNews.", nonce="n2")
        async with world.running() as handler:
            later = await world.say(ANN, "and more", topic=topic, nonce="n3")
            # Some programs name the mail that they answer alone, others the first one as well.
            answer = mail_from(ANN, "fine", Subject="Re: Lunch", In_Reply_To=reply)
            world.deliver(answer.as_bytes())
            named = f"<a1@example.org> {reply} {later}"
            world.deliver(mail_from(ANN, "good", References=named).as_bytes())
            world.deliver(mail_from(ANN, "thanks", In_Reply_To=began).as_bytes())
            world.deliver(mail_from(ANN, "else").as_bytes())
            await handler.until(lambda: len(handler.texts()) == 4)
        sent = world.smtp.mails(ANN)

    topics = {text: message_of(handler, text).chat.topic for text in handler.texts()}
    assert topics == {"fine": topic, "good": topic, "thanks": "", "else": topics["else"]}
    assert topics["else"] not in {topic, ""}
    assert asked.sender.name == "Ann"
    assert asked.described == ("e-mail, subject: Lunch",)
    assert [str(mail["Message-ID"]) for mail in sent] == [reply, began, later]
    assert reply == f"<n1.{topic}@everturn.test>"
    answered, new, more = sent
    assert str(answered["Subject"]) == str(more["Subject"]) == "Re: Lunch"
    assert answered["In-Reply-To"] == answered["References"] == "<a1@example.org>"
    assert str(answered["From"]) == "Bót <bot@everturn.test>"
    assert answered["Auto-Submitted"] == "auto-replied"
    assert new["Auto-Submitted"] == "auto-generated"
    assert (str(new["Subject"]), new["In-Reply-To"]) == ("Good morning", None)
    assert more["In-Reply-To"] == "<a1@example.org>"
    assert "**yes** <b>x</b>" in text_of(answered)
    assert "> shall we?" in text_of(answered)
    page = answered.get_body(("html",))
    assert page is not None
    assert "<strong>yes</strong> &lt;b&gt;x&lt;/b&gt;" in page.get_content()


def part(kind: str, body: str, *more: str) -> str:
    """Return a part of a mail, with its fields."""
    return "\n".join((f"Content-Type: {kind}", *more, "", body))


def several(kind: str, *parts: str, boundary: str = "b") -> str:
    """Return a part of several."""
    body = "".join(f"--{boundary}\n{each}\n" for each in parts)
    return part(f"multipart/{kind}; boundary={boundary}", f"{body}--{boundary}--")


PLAIN: Final = part("text/plain", "see there")
PAGE: Final = part("text/html", "<p>see <b>there</b></p>")
PDF: Final = part('application/pdf; name="plan.pdf"', "x", "Content-Disposition: attachment")
PICTURE: Final = part("image/png", "x", "Content-ID: <1>")
INVITATION: Final = part("text/calendar; method=REQUEST", "BEGIN:VCALENDAR\nEND:VCALENDAR")
PLANNED: Final = f"From: Bob <b@x.org>\nDate: today\nSubject: Plan\n{several('mixed', PLAIN, PDF)}"
PGP: Final = (
    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nhello\n- -- two\n"
    "-----BEGIN PGP SIGNATURE-----\nx\n-----END PGP SIGNATURE-----\n"
)
ENCRYPTED: Final = "[an encrypted e-mail was sent, which cannot be read here]"
ABOUT: Final = "[e-mail, subject: Lunch]"


async def test_whatever_people_send_is_told_in_words() -> None:
    """Of several forms of a text one is read, and all files, also those within another form."""
    beside = several("mixed", PAGE, PDF, boundary="c")
    pictured = several("related", PAGE, PICTURE, boundary="c")
    rows: list[tuple[str, str]] = [
        (PLAIN, f"see there\n{ABOUT}"),
        (PAGE, f"see **there**\n{ABOUT}"),
        (part("text/html", 'ok <img alt="😀" src="x"><img alt="Logo">'), f"ok 😀\n{ABOUT}"),
        (
            part("text/plain; format=flowed", "one \ntwo\n\nthree"),
            f"one two\n\nthree\n{ABOUT}",
        ),
        (part("text/plain; format=flowed; delsp=yes", "on \ne"), f"one\n{ABOUT}"),
        (several("alternative", PLAIN, PAGE), f"see there\n{ABOUT}"),
        (several("alternative", PLAIN, beside), f"see there\n{ABOUT}\nfile plan.pdf"),
        (several("alternative", PLAIN, pictured), f"see there\n{ABOUT}\nfile file.png"),
        (several("related", PAGE, PICTURE), f"see **there**\n{ABOUT}\nfile file.png"),
        (several("alternative", PLAIN, PAGE, INVITATION), f"see there\n{ABOUT}\nfile file.ics"),
        (INVITATION, f"{ABOUT}\nfile file.ics"),
        (
            several("mixed", PLAIN, part('text/vcard; name="bob.vcf"', "BEGIN:VCARD")),
            f"see there\n{ABOUT}\nfile bob.vcf",
        ),
        (several("mixed", PDF), f"{ABOUT}\nfile plan.pdf"),
        (part("text/plain", ""), f"Lunch\n{ABOUT}"),
        (
            several("mixed", PLAIN, part("message/rfc822", PLANNED), boundary="o"),
            f"see there\n{ABOUT}\nfile Plan.txt\nfile plan.pdf",
        ),
        (
            several("mixed", PLAIN, part('application/ms-tnef; name="winmail.dat"', "x")),
            (
                "see there\n[e-mail, subject: Lunch; Outlook put what was attached into one file"
                " that cannot be read: they may send it again as HTML or as plain text]"
                "\nfile winmail.dat"
            ),
        ),
        (
            several("signed", PLAIN, part('application/pgp-signature; name="s.asc"', "x")),
            f"see there\n{ABOUT}",
        ),
        (part("text/plain", PGP), f"hello\n-- two\n{ABOUT}"),
        (
            part('application/pkcs7-mime; smime-type=signed-data; name="smime.p7m"', "x"),
            (
                "[e-mail, subject: Lunch; what it says is within that file, signed: it cannot be"
                " read]\nfile smime.p7m"
            ),
        ),
        (several("encrypted", part("application/octet-stream", "x")), f"{ABOUT}\n{ENCRYPTED}"),
        (
            part("application/pkcs7-mime; smime-type=enveloped-data", "x"),
            f"{ABOUT}\n{ENCRYPTED}",
        ),
        (part("text/plain", "-----BEGIN PGP MESSAGE-----\nx"), f"{ABOUT}\n{ENCRYPTED}"),
        (part("application/x-hologram", "x"), f"{ABOUT}\nfile file.bin"),
    ]
    reaction = part("text/vnd.google.email-reaction+json", '{"emoji": "👍", "version": 1}')
    reaction = several("alternative", part("text/plain", "Ann reacted"), reaction, PAGE)
    opened = several("report; report-type=disposition-notification", PLAIN)
    async with open_email_world() as world, world.running() as handler:
        said = await world.say(ANN, "done", nonce="n1")
        for raw in (*(raw for raw, _ in rows), opened, reaction):
            fields = mail_from(ANN, In_Reply_To=said if raw is reaction else "")
            del fields["MIME-Version"]
            world.deliver(fields.as_bytes().rstrip() + b"\n" + raw.encode())
        await handler.until_handled(len(rows) + 1)
        *events, reacted = handler.events
        messages = [each for each in events if isinstance(each, Message)]
        files = [file for each in messages for file in each.files]
        mail = next(each for each in files if each.file_name == "Plan.txt")
        passed_on = await mail.fetch(10_000)

    told = [
        "\n".join((compose(each, in_group=False), *(f"file {f.file_name}" for f in each.files)))
        for each in messages
    ]
    assert told == [words for _, words in rows]
    assert passed_on.decode() == ("From: Bob <b@x.org>\nDate: today\nSubject: Plan\n\nsee there")
    assert [each.is_outside for each in messages] == ["Plan.txt" in words for _, words in rows]
    assert isinstance(reacted, Reaction)
    assert (reacted.emoji, reacted.message_id) == ("👍", said)


async def test_who_is_not_believed_and_machines_are_not_heard() -> None:
    """A forged sender is told nothing: they never wrote."""
    async with open_email_world(mails_per_hour=2) as world, world.running() as handler:
        forged = mail_from(ANN, "forged", Authentication_Results="evil; dmarc=pass")
        world.deliver(forged.as_bytes())
        world.deliver(mail_from(ANN, "away", Auto_Submitted="auto-replied").as_bytes())
        for text in ("one", "two", "three", "four"):
            world.deliver(mail_from(ANN, text).as_bytes())
        world.deliver(mail_from(BOB, "last").as_bytes())
        await handler.until(lambda: "last" in handler.texts())
        await handler.until(lambda: len(handler.texts(ANN)) == 2)

    assert handler.texts(ANN) == ["one", "two"]
    assert [each.partition(": ")[2] for each in handler.passed_over] == [
        f"{ANN}: evil says whether its sender is authentic, who is not trusted"
    ]
    assert [(chat.id, count) for chat, count, _ in handler.skips] == [(ANN, 1)]
    assert world.smtp.taken == []


async def test_the_secret_address_is_told_to_those_alone_who_wrote_to_it() -> None:
    """Whoever knows it can write in any name; the bot also answers strangers, with a code say."""
    secret = "bot+abcdef123456@everturn.test"
    stranger = "zo\u00e9@example.com"
    async with open_email_world(secret_tag="abcdef123456") as world:  # noqa: S106 - of a test
        async with world.running() as handler:
            world.deliver(mail_from(ANN, "hello", to=secret).as_bytes())
            world.deliver(mail_from(BOB, "who is there?").as_bytes())
            await handler.until(lambda: len(handler.texts()) == 2)
            for asked in (message_of(handler, "hello"), message_of(handler, "who is there?")):
                await world.say(asked.chat.id, "hi", topic=asked.chat.topic)
            await world.say(stranger, "an address in UTF-8")
        taken = {to: read_mail(raw)["Reply-To"] for to, raw in world.smtp.taken}

    assert taken == {ANN: secret, BOB: None, stranger: None}


async def test_two_bots_do_not_answer_each_other() -> None:
    """A war of automatic answers ends with the first of them."""
    other = "bot@other.test"
    async with open_email_world() as world:
        world.imap.add_account(other, "pw")
        here = world.settings
        there = EmailWorld(world.imap, world.smtp, {**here, "address": other, "user": other})

        async def deliver(address: str, raw: bytes) -> None:
            vouched = "Authentication-Results: mx.everturn.test; dmarc=pass header.from="
            domain = str(read_mail(raw)["From"]).rpartition("@")[2]
            world.imap.deliver(address, f"{vouched}{domain}\r\n".encode() + raw)

        world.smtp.deliver = deliver
        async with world.running() as left, there.running() as right:
            await world.say(other, "hello, I am a bot")
            await there.say(BOT, "so am I")
            for address, handler in ((BOT, left), (other, right)):
                world.imap.deliver(address, mail_from(ANN, "a person").as_bytes())
                await handler.until(handler.texts)

    assert left.texts() == right.texts() == ["a person"]


async def test_new_numbers_of_all_mails_lose_nothing() -> None:
    """What came since the last mail that was taken is found by its time."""
    async with open_email_world() as world:
        old = mail_from(BOB, "before the bot").as_bytes()
        world.imap.deliver(BOT, old, SystemClock().now().replace(year=2020))
        async with world.running() as handler:
            world.deliver(mail_from(ANN, "known").as_bytes())
            await handler.until(lambda: handler.cursor("inbox").endswith(":2"))
        world.deliver(mail_from(ANN, "meanwhile").as_bytes())
        world.imap.accounts[BOT].folders["INBOX"].renumber()
        async with world.running() as handler:
            await handler.until(lambda: "meanwhile" in handler.texts())
            world.deliver(mail_from(ANN, "after").as_bytes())
            await handler.until(lambda: "after" in handler.texts())
            await handler.until(lambda: handler.cursor("inbox").endswith(":4"))

    # What is known comes again, under the name by which it is known.
    assert handler.texts() == ["known", "meanwhile", "after"]
    assert world.cursors["inbox"] == "1700000001:4"


@table("kind", ["says it at once", "has no IDLE"])
async def test_mail_is_noticed_whatever_the_server_does(kind: str) -> None:
    """News may stand behind the answer to IDLE in one packet, and some have no IDLE."""
    async with open_email_world() as world:
        world.imap.idle_at_once = kind == "says it at once"
        if not world.imap.idle_at_once:
            world.imap.capabilities = "IMAP4rev1"
        async with world.running() as handler:
            world.deliver(mail_from(ANN, "hello").as_bytes())
            await handler.until(lambda: "hello" in handler.texts())


async def test_questions_and_commands_are_mails_of_one_line() -> None:
    """Also after a restart; what is quoted or hidden in HTML is no command of an owner."""
    async with open_email_world() as world:
        async with world.running():
            asked = await world.say(ANN, "May I?", buttons=CHOICES, nonce="q")
        async with world.running() as handler:
            quoted = "2.\n\nOn Mon, 3 Nov 2026 at 10:00, Bot wrote:\n> 1. Yes"
            world.deliver(mail_from(ANN, quoted, In_Reply_To=asked).as_bytes())
            world.deliver(mail_from(ANN, "maybe", In_Reply_To=asked).as_bytes())
            world.deliver(mail_from(ANN, "/status").as_bytes())
            page = mail_from(ANN)
            page.set_content("<p>/allow</p>", subtype="html")
            world.deliver(page.as_bytes())
            world.deliver(mail_from(ANN, " ", Subject="only a subject").as_bytes())
            click, maybe, status, allow, subject = await handler.until_handled(5)
            assert isinstance(status, Command)
            await status.answer("all **well**")
        sent = world.smtp.mails(ANN)

    assert isinstance(click, ButtonClick)
    assert (click.data, click.chat.topic) == ("ap:d:1", "")
    assert isinstance(maybe, Message)
    assert (status.name, status.is_typed) == ("status", True)
    assert isinstance(allow, Command)
    assert not allow.is_typed
    assert isinstance(subject, Message)
    assert subject.text == "only a subject"
    assert text_of(sent[0]).endswith("1. Yes\n2. No")
    assert sent[1]["In-Reply-To"] == status.id
    assert text_of(sent[1]) == "all **well**\n\nAnn:\n> /status".replace("Ann", ANN)


async def test_what_comes_back_ends_the_chat_until_somebody_writes() -> None:
    """A stranger who says so of a mail that was never sent ends nothing."""

    def bounce(message_id: str) -> bytes:
        head = "From: MAILER-DAEMON@example.org\nReturn-Path: <>\nContent-Type: multipart/report;"
        return (
            f"{head} report-type=delivery-status; boundary=b\n\n--b\nContent-Type: "
            "message/delivery-status\n\nReporting-MTA: dns; x\n\nAction: failed\nStatus: 5.1.1\n"
            "Diagnostic-Code: smtp; 550 nobody here\n--b\nContent-Type: text/rfc822-headers\n\n"
            f"Message-ID: {message_id}\n--b--\n"
        ).encode()

    async with open_email_world() as world, world.running() as handler:
        sent = await world.say(ANN, "hello", nonce="n")
        world.deliver(bounce("<x.0@everturn.test>"))
        world.deliver(bounce(sent))
        await handler.until(lambda: handler.cursor("inbox").endswith(":2"))
        with pytest.raises(RefusedError, match="550 nobody here") as gone:
            await world.say(ANN, "are you there?")
        world.deliver(mail_from(ANN, "I am back").as_bytes())
        await handler.until(handler.texts)
        await world.say(ANN, "good")

    assert gone.value.is_chat_gone
    assert world.smtp.texts(ANN) == ["hello", "good"]


async def test_an_answer_of_the_server_says_what_may_be_tried_again() -> None:
    """4xx is for now; 5xx is for good, and for the chat where nobody is there."""
    rows: dict[tuple[str, str], tuple[type[SendError], bool | None]] = {
        ("RCPT", "450 4.2.0 greylisted"): (NotSentError, None),
        ("RCPT", "421 too many connections"): (NotSentError, None),
        ("RCPT", "550 5.1.1 no such user"): (RefusedError, True),
        ("RCPT", "550 5.7.1 not allowed"): (RefusedError, False),
        ("RCPT", "550 5.4.5 daily limit exceeded"): (NotSentError, None),
        ("DATA", "452 4.3.1 disk full"): (NotSentError, None),
        ("DATA", "554 5.7.1 looks like spam"): (RefusedError, False),
    }
    found: dict[tuple[str, str], tuple[type[SendError], bool | None]] = {}
    async with open_email_world() as world, world.running():
        for step, answer in rows:
            world.smtp.answers[step].append(answer)
            with pytest.raises(SendError) as raised:
                await world.say(ANN, "hello")
            is_gone = getattr(raised.value, "is_chat_gone", None)
            found[step, answer] = type(raised.value), is_gone
        (payload,) = world.adapter.render("x")
        with pytest.raises(RefusedError, match="no address"):
            await world.adapter.send(Outbound(chat_id="no address", payload=payload))
        world.smtp.password = "another"
        with pytest.raises(NotSentError, match="535"):
            await world.say(ANN, "hello")
        world.smtp.port = 1
        taken = list(world.smtp.taken)

    assert found == rows
    assert taken == []


async def test_a_kept_connection_that_ends_costs_no_mail_and_doubles_none() -> None:
    """Its end is noticed before a mail counts as sent; a refused text is not sent once more."""
    async with open_email_world() as world, world.running():
        for text in ("one", "two"):
            await world.say(ANN, text)
        kept = len(world.smtp.talks)
        world.smtp.end_talks(b"421 4.4.2 idle for too long\r\n")
        await world.say(ANN, "three")
        world.smtp.end_talks(b"")
        await world.say(ANN, "four")
        for word in ("421 4.7.0 too much in one session", "550 5.5.1 too much in one session"):
            world.smtp.answers["RCPT"].append(word)
            await world.say(ANN, word)
        world.smtp.answers["DATA"].append("552 5.3.4 too large")
        with pytest.raises(RefusedError, match="552"):
            await world.say(ANN, "large")
        await world.say(ANN, "fifth")
        world.smtp.cuts_at_once = 1
        await world.say(ANN, "sixth\n.\n..")
        world.smtp.end_talks(b"")
        world.smtp.cuts_at_once = 1
        with pytest.raises(NotSentError):  # nothing of it was taken: it is no repeat later
            await world.say(ANN, "none")
        world.smtp.cuts = 1
        with pytest.raises(UnknownOutcomeError):
            await world.say(ANN, "last")
        texts = world.smtp.texts(ANN)

    assert kept == 1
    assert [text[:5] for text in texts] == [
        *("one", "two", "three", "four", "421 4", "550 5", "fifth", "sixth", "last"),
    ]
    assert texts[7] == "sixth\n.\n.."


async def test_a_mail_on_its_way_leaves_no_connection_behind() -> None:
    """It goes out whole, though nothing is sent any more."""
    async with open_email_world() as world, anyio.create_task_group() as tasks:
        reached, goes_on = anyio.Event(), anyio.Event()

        async def take(to: str, mail: bytes) -> None:
            del to, mail
            reached.set()
            await goes_on.wait()

        world.smtp.deliver = take
        async with open_submissions(account(world.imap.port, world.smtp.port)) as submissions:
            tasks.start_soon(submissions.submit, ANN, mail_from(ANN, "late").as_bytes())
            await reached.wait()
        goes_on.set()
        await until(lambda: world.smtp.talks[0].transport is None)

    assert world.smtp.texts(ANN) == ["late"]


async def test_what_a_mailbox_answers_is_read_as_servers_write_it() -> None:
    """`n:*` names the last mail also where its number is below n; a text of one line may be quoted.

    That stands before the header then, and what it says is taken for nothing else.
    """
    text = 'UID 7 BODY[HEADER] {5} "yes" \\ no)'
    head = f"From: {ANN}\r\nSubject: x\r\n\r\n".encode()
    async with open_email_world() as world:
        world.deliver(head + text.encode())
        world.deliver(mail_from(ANN, "two").as_bytes())
        async with open_mailbox(account(world.imap.port, world.smtp.port)) as box:
            await box.select("INBOX")
            uids = [await box.uids_from(uid) for uid in (1, 2, 3, 99)]
            (found,) = await box.envelopes([1], SystemClock().now(), text_bytes=1_000)
            whole = await box.mail(1, 10_000)

    assert uids == [[1, 2], [2], [], []]
    assert (found.uid, found.head) == (1, head)
    assert found.whole == head + text.encode() == whole


async def test_what_is_filed_as_sent_is_not_sent_again() -> None:
    """A provider that files what it sends settles what became of a mail."""
    async with open_email_world(files_sent=True) as world, world.running():
        first = await world.say(ANN, "once", nonce="n1")
        again = await world.say(ANN, "once", nonce="n1", is_repeat=True)
        other = await world.say(ANN, "never sent", nonce="n2", is_repeat=True)
        filed = world.imap.accounts[BOT].folders["Sent"].mails

    assert first == again != other
    assert world.smtp.texts(ANN) == ["once", "(This may be a repeat.)\n\nnever sent"]
    assert len(filed) == 2


async def test_a_large_mail_is_read_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text comes first; a file that is not whole is no file."""
    monkeypatch.setattr(reading, "MAIL_MAX_BYTES", 2_000)
    monkeypatch.setattr(reading, "BEGINNING_BYTES", 2_000)
    mail = mail_from(ANN, "see the file")
    mail.add_attachment(b"x" * 9_000, maintype="application", subtype="pdf", filename="a.pdf")
    async with open_email_world() as world, world.running() as handler:
        world.deliver(mail.as_bytes())
        (event,) = await handler.until_handled(1)

    assert isinstance(event, Message)
    assert (event.text, event.files) == ("see the file", ())
    assert event.described == (
        "e-mail, subject: Lunch; it is too large: only its beginning was read",
    )


async def test_a_token_is_asked_for_and_shown(tmp_path: Path) -> None:
    """What a program prints; one that fails is tried again, one that is not there never works."""
    script = tmp_path / "token.py"
    script.write_text("print('tok-1')")
    command = (sys.executable, str(script))
    secret = {"password": "", "token_command": command}
    async with open_email_world(**secret) as world:
        world.imap.accounts[BOT].password = "tok-1"
        async with world.running():
            assert world.imap.logins == ["XOAUTH2"]
        failures: list[type[Exception]] = []
        for text in ("raise SystemExit('no network')", "print('two words')"):
            script.write_text(text)
            with pytest.raises((ConnectionLostError, SetupError)) as raised:
                await world.make().serve(RecordingHandler())
            failures.append(type(raised.value))
        world.settings = {**secret, "token_command": ("/no/such/program",)}
        with pytest.raises(SetupError, match="cannot be started"):
            await world.make().serve(RecordingHandler())

    assert failures == [ConnectionLostError, SetupError]


async def test_a_login_that_may_work_later_is_tried_again() -> None:
    """Servers refuse for many reasons; a wrong password is one for its owner, and is not shown."""
    async with open_email_world(password="sesame") as world:  # noqa: S106 - of a test
        with pytest.raises(SetupError, match="does not let "):
            await world.make().serve(RecordingHandler())
        world.imap.refusal = "[UNAVAILABLE] Temporary authentication failure."
        with pytest.raises(ConnectionLostError):
            await world.make().serve(RecordingHandler())
        world.imap.is_away = True
        with pytest.raises(ConnectionLostError):
            await world.make().serve(RecordingHandler())
    secret = account(1, 1, password="sesame", secret_tag="sesame2")  # noqa: S106 - of a test

    assert "sesame" not in repr(secret)  # which ends up in logs


async def test_a_look_says_who_vouches_for_senders() -> None:
    """Nobody knows that name by heart, and with a wrong one nobody is heard."""
    async with open_email_world(authserv_id="mx.wrong.test") as world:
        world.deliver(mail_from(ANN, "hello").as_bytes())
        lines = await world.make().check()
        world.smtp.password = "another"
        worse = await world.make().check()

    problems = [line for line in lines if line.startswith("problem: ")]
    assert len(problems) == 1
    assert "these vouch for the sender: mx.everturn.test (1)" in problems[0]
    assert sum(line.startswith("problem: ") for line in worse) == 2


async def test_a_server_that_says_nothing_holds_up_no_end() -> None:
    """Who is cancelled leaves no thread behind that waits for a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        port = listening.getsockname()[1]
        here = MailServer(host="127.0.0.1", port=port, security="tls")
        silenced = account(port, port, imap=here)
        adapter = EmailAdapter(name="email", account=silenced, clock=SystemClock())
        with anyio.fail_after(10):
            async with anyio.create_task_group() as serving:
                serving.start_soon(adapter.serve, RecordingHandler())
                taken, _ = await to_thread.run_sync(listening.accept)
                serving.cancel_scope.cancel()
        taken.close()


@table("security", ["tls", "starttls"])
async def test_connections_are_secret_and_servers_prove_their_names(
    security: Security, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that nobody vouches for ends the login before the password is shown."""
    secret = certificates_for("localhost", tmp_path).server
    at_once, later = (secret, None) if security == "tls" else (None, secret)
    async with (
        open_imap_server(at_once) as imap,
        open_smtp_server(tls=at_once, starttls=later) as smtp,
    ):
        imap.tls, imap.capabilities = later, f"{imap.capabilities} STARTTLS"
        imap.add_account(BOT, "pw")
        here = (
            MailServer(host="localhost", port=p, security=security) for p in (imap.port, smtp.port)
        )
        world = EmailWorld(imap, smtp, dict(zip(("imap", "smtp"), here, strict=True)))
        with pytest.raises(SetupError, match="certificate of localhost cannot be trusted"):
            await world.make().serve(RecordingHandler())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        async with world.running() as handler:
            world.deliver(mail_from(ANN, "hello").as_bytes())
            await handler.until(handler.texts)
            await world.say(ANN, "hello yourself")

    assert smtp.texts(ANN) == ["hello yourself"]
    assert imap.logins == ["LOGIN"]  # a short mail comes with its header fields
