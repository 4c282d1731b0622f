"""What is read of mails: who wrote them, what they say now, and what is left alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Final

from support.email_contract import ANN, BOT, SERVER, account, mail_from

from everturn_channels.email.parsing.authenticity import why_not_believed
from everturn_channels.email.parsing.automatic import HourlyLimit, why_unanswered
from everturn_channels.email.parsing.bounces import bounce_of, may_be_bounce
from everturn_channels.email.parsing.content import Content, content_of
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.email.parsing.quotes import written_in
from everturn_channels.email.parsing.structure import parsed

GMAIL: Final = (
    "mx.everturn.test; dkim=pass header.i=@example.org header.s=20230601 header.b=abc; spf=pass"
    " (mx.everturn.test: domain of ann@example.org designates 192.0.2.1; a (nested) word)"
    " smtp.mailfrom=ann@example.org; dmarc=pass (p=NONE sp=QUARANTINE) header.from=example.org"
)
NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)


def fields(mail: EmailMessage) -> Fields:
    """Return the fields of a mail, as they come."""
    return Fields.of(mail.as_bytes())


def read(raw: str, charset: str = "utf-8") -> Content:
    """Return what a mail holds."""
    return content_of(raw.encode(charset))


def test_a_sender_is_believed_where_the_trusted_server_vouches() -> None:
    """The From line is anybody's; so is every field that came with the mail."""
    believed = {
        GMAIL,
        f"{SERVER}; dmarc=pass header.from=example.org",
        f"{SERVER} 1; dmarc=pass header.from=Example.ORG",
        f"{SERVER}; dmarc=none header.from=example.org; dkim=pass header.d=example.org",
        f"{SERVER}; spf=pass smtp.mailfrom=bounce@example.org",
        f"{SERVER}; dkim=none; dmarc=pass(p=NONE,sp=NONE) header.from=example.org;",
    }
    not_believed = {
        "",
        f"{SERVER}; none",
        f"{SERVER}; dmarc=fail header.from=example.org",
        f"{SERVER}; dmarc=fail header.from=example.org; spf=pass smtp.mailfrom=a@example.org",
        f"{SERVER}; dmarc=pass header.from=evil.example",
        f"{SERVER}; dkim=pass header.d=evil.example; spf=pass smtp.mailfrom=x@evil.example",
        f"{SERVER}; dkim=pass header.d=sub.example.org",
        f"{SERVER}; dkim=pass header.d=org",
        f'{SERVER}; dkim=pass reason="header.d=example.org" header.d=evil.example',
        f"{SERVER}; dmarc=fail (dmarc=pass header.from=example.org)",
        "evil.example; dmarc=pass header.from=example.org",
        # A forger owns all of a name that ends in his own.
        f'{SERVER}; spf=pass smtp.mailfrom="x@example.org"@evil.example',
        f"{SERVER}; dkim=pass header.d=example.org(.evil.example",
        f"{SERVER}; dkim=pass header.d=example.org(x).evil.example",
        f'{SERVER}; dkim=pass header.d=example.org".evil.example',
        f"{SERVER}; spf=pass smtp.mailfrom=x@example.org;.evil.example",
        f"evil.example; x=y ({SERVER}); dmarc=pass header.from=example.org",
    }
    who = account(1, 1)

    def why(value: str) -> str:
        return why_not_believed(fields(mail_from(ANN, Authentication_Results=value)), who)

    assert {value: why(value) for value in believed} == dict.fromkeys(believed, "")
    assert [value for value in not_believed if not why(value)] == []


def test_a_mail_has_one_sender_and_one_result() -> None:
    """Whatever else a forger puts into it."""
    # Only the topmost result counts. A forger puts one of his own into the mail: it comes out below
    # that of the server.
    mail = mail_from(ANN, Authentication_Results=f"{SERVER}; dmarc=fail header.from=example.org")
    mail["Authentication-Results"] = f"{SERVER}; dmarc=pass header.from=example.org"

    assert "may be forged" in why_not_believed(fields(mail), account(1, 1))

    # A mail has one sender. Programs show one of two, and servers look at the other.
    who = account(1, 1)
    twice = mail_from(ANN).as_bytes().replace(b"From: ", b"From: evil@example.org\nFrom: ", 1)
    odd = [f"{ANN}, bob@example.org", "Ann", "undisclosed:;"]
    found = [why_not_believed(fields(mail_from(each)), who) for each in odd]

    assert all(found)
    assert why_not_believed(Fields.of(twice), who)


def test_the_secret_address_is_believed_and_no_other() -> None:
    """For servers that vouch for nobody."""
    who = account(1, 1, authserv_id="", secret_tag="abcdef123456")  # noqa: S106 - of a test
    tagged = {
        "bot+abcdef123456@everturn.test": "",
        "Bob <b@example.org>, Bot <BOT+ABCDEF123456@everturn.test>": "",
        "bot+abcdef12345@everturn.test": "it was not sent to the secret address",
        "bot+abcdef123456@evil.example": "it was not sent to the secret address",
        BOT: "it was not sent to the secret address",
    }

    assert {to: why_not_believed(fields(mail_from(ANN, to=to)), who) for to in tagged} == tagged


def test_mail_of_machines_is_left_alone() -> None:
    """And of people, there are so many in an hour."""
    # Two machines that answer each other do so for ever.
    who = account(1, 1)
    machines = [
        mail_from(ANN, Auto_Submitted="auto-replied"),
        mail_from(ANN, Auto_Submitted="auto-generated (x)"),
        mail_from(ANN, Precedence="Bulk"),
        mail_from(ANN, Precedence="list"),
        mail_from(ANN, List_Id="<garden.example.org>"),
        mail_from(ANN, List_Unsubscribe="<mailto:x@example.org>"),
        mail_from(ANN, Return_Path="<>"),
        mail_from(ANN, X_Autoreply="yes"),
        mail_from("MAILER-DAEMON@example.org"),
        mail_from("no-reply@example.org"),
        mail_from("donotreply+x@example.org"),
        mail_from(BOT),
        mail_from("bot+tag@everturn.test"),
    ]
    people = [mail_from(ANN), mail_from(ANN, Auto_Submitted="no"), mail_from("noreen@example.org")]

    assert all(why_unanswered(fields(mail), who) for mail in machines)
    assert [why_unanswered(fields(mail), who) for mail in people] == ["", "", ""]

    # An address has so many mails in an hour. By when the server took them: what is read again
    # after a crash is judged the same.
    limit = HourlyLimit(2)
    minutes = (0, 1, 2, 59, 60, 61, 62)
    found = [limit.may(ANN, NOW + timedelta(minutes=each)) for each in minutes]

    assert found == [True, True, False, False, True, True, False]
    assert limit.may("bob@example.org", NOW)


def test_what_was_written_now_is_told_from_what_is_quoted() -> None:
    """Programs quote in many ways; where somebody answers between the lines these stay."""
    rows = {
        "yes\n\nOn Mon, 3 Nov 2026 at 10:00, Bot <b@x>\nwrote:\n> a\n> b": "yes",
        "ja\n\nAm 03.11.26 um 10:00 schrieb Bot:\n> a\n>\n>> b\n": "ja",
        "oui\n\nLe lun. 3 nov. 2026 à 10:00, Bot <b@x> a écrit :\n\n> a": "oui",
        "Fine.\n\nFrom: Bot <b@x>\nSent: Monday\nTo: Ann\nSubject: x\n\nold": "Fine.",
        "Gut.\n\n-----Ursprüngliche Nachricht-----\nVon: Bot\nGesendet: Montag\n\nalt": "Gut.",
        "Ok\n________________________________\nFrom: Bot\nSent: x\n\nold": "Ok",
        "Yes\n\n-- \nAnn\n+49 30 1": "Yes",
        "Yes\n\nSent from my iPhone": "Yes",
        "Yes\n\nSent from my iPhone\n\n> On 3 Nov 2026, at 10:00, Bot wrote:\n> \n> old": "Yes",
        "yes\n\n> old\n\n-- \nAnn": "yes",
        "> do you?\nyes\n> and you?\nno\n": "> do you?\nyes\n> and you?\nno",
        "From: here to there\nit is far": "From: here to there\nit is far",
        "a\n---\nb": "a\n---\nb",
        "-- \nAnn": "",
        "> only this": "",
        "": "",
    }
    long = "\n".join(f"> line {number}" for number in range(40))
    block = written_in(f"{long}\nmy answer", "")

    assert {text: written_in(text, "Re: x").text for text in rows} == rows
    assert block.text.split("\n")[0] == "> […]"
    assert block.text.endswith("> line 39\nmy answer")
    assert block.quoted_lines == 32


def test_what_is_passed_on_stays_whole() -> None:
    """It is what the mail is about, and somebody else's words."""
    text = "see below\n\nFrom: Bob\nSent: Monday\n\nthe plan\n-- \nBob"
    marked = "see\n---------- Forwarded message ---------\nFrom: x\n> the plan"

    assert written_in(text, "WG: plan") == written_in(text, "Fwd: plan")
    assert written_in(text, "Fw: plan").text == text
    assert written_in(marked, "plan").text == marked
    assert all(written_in(each, "Fwd: a").is_forward for each in (text, marked))


def test_html_is_read_without_what_people_do_not_see() -> None:
    """Hidden text is how a stranger speaks to a model behind somebody's back."""
    page = """<html><head><title>t</title><style>p {}</style></head><body>
    <p>Hello <b>you</b>, <a href="https://x.org">look</a><img src="https://track.example/1.gif"></p>
    <span style="DISPLAY : none">evil one</span><div hidden>evil two</div>
    <p style="color:red;font-size:0px">evil three</p><font style="opacity:0">evil four</font>
    <div style="max-height:0;overflow:hidden">evil <i>five</i></div>
    <p style="opacity:0.9">seen</p><script>evil()</script><p>last
    <blockquote>old words</blockquote></body></html>"""
    found = read(f"From: {ANN}\nContent-Type: text/html; charset=utf-8\n\n{page}")

    assert "Hello **you**, [look](https://x.org)" in found.text
    assert (
        read(f"From: {ANN}\nContent-Type: text/html\n\na<!-- b -->c{'<!--' * 75_000}").text == "ac"
    )
    assert "seen" in found.text
    assert found.text.endswith("last")
    assert "evil" not in found.text
    assert "track" not in found.text
    assert found.notes == [
        "43 characters that are hidden from people were left out",
        "1 line of earlier mails were left out",
    ]


def test_mail_is_read_as_it_comes() -> None:
    """With charsets that nobody knows, parts that never end, and names in four encodings."""
    head = f"From: {ANN}\nContent-Type: text/plain"
    texts = {
        read(f"{head}; charset=iso-8859-1\n\nGrüße", "latin-1").text: "Grüße",
        read(f"{head}; charset=x-unknown\n\nGrüße").text: "Grüße",
        read(f"{head}\n\nGrüße", "cp1252").text: "Grüße",
        read(f"{head}; charset=utf-8\nContent-Transfer-Encoding: base64\n\n!!no").text: None,
        read(f"{head}; charset=gb2312\n\n你好镕", "gb18030").text: "你好镕",
        read(f"{head}; format=flowed\n\none \ntwo\n\nthree").text: "one two\n\nthree",
        read(f"From: {ANN}\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nhalf").text: "half",
        read(f"From: {ANN}\nContent-Type: multipart/mixed\n\nno boundary").text: None,
    }
    names = {
        'filename="plan.pdf"': "plan.pdf",
        "filename*=utf-8''pl%C3%A4n.pdf": "plän.pdf",
        'filename="=?utf-8?q?pl=C3=A4n.pdf?="': "plän.pdf",
        "filename*0*=utf-8''pl%C3%A4; filename*1=n.pdf": "plän.pdf",
        'filename="../../etc/passwd"': "_.._etc_passwd",
        'filename="a\\\\b:c.txt"': "a_b_c.txt",
    }
    nested = "".join(
        f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n\n" for n in range(80)
    )
    deep = read(f"From: {ANN}\nContent-Type: multipart/mixed; boundary=b0\n\n{nested}--b80\n\ndeep")

    assert {got: want for got, want in texts.items() if want not in {None, got}} == {}
    assert deep.text == "deep"
    for written, name in names.items():
        part = f"Content-Type: application/pdf\nContent-Disposition: attachment; {written}"
        raw = f"From: {ANN}\nContent-Type: multipart/mixed; boundary=b\n\n--b\n{part}\n\nx\n--b--"
        assert [each.name for each in read(raw).files] == [name]


def test_a_bounce_names_the_mail_that_came_back() -> None:
    """Only what failed for good: a server that still tries says so as well."""
    report = """From: MAILER-DAEMON@mx.everturn.test
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b

I'm sorry.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.everturn.test

Final-Recipient: rfc822; ann@example.org
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user
--b
Content-Type: text/rfc822-headers

Message-ID: <n1.0@everturn.test>
--b--
"""
    found = bounce_of(report.encode())

    assert may_be_bounce(Fields.of(report.encode()))
    assert found is not None
    assert (found.message_id, found.why) == ("<n1.0@everturn.test>", "550 5.1.1 no such user")
    assert bounce_of(report.replace("failed", "delayed").encode()) is None
    assert bounce_of(b"Content-Type: multipart/report\n\nnothing") is None


def test_a_mail_of_parts_in_parts_is_read_at_its_beginning() -> None:
    """The library's work grows with lines times parts: anybody could stop the gateway with it."""
    parts = (f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(300))
    raw = f"From: {ANN}\n{''.join(parts)}\nhello\n{chr(10) * 50_000}".encode()
    message, is_cut = parsed(raw, 600_000)
    last = list(message.walk())[-1].get_payload()

    assert is_cut
    assert isinstance(last, str)
    assert last.strip() == "hello"
    assert last.count("\n") < 2_000
