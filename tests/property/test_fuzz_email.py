"""Whatever comes by mail is read, if only as nothing; and any reply can be sent."""

from __future__ import annotations

import re
from email.parser import BytesParser
from email.policy import default

from hypothesis import given
from hypothesis import strategies as st
from support.email_contract import ANN, BOT, account
from support.examples import examples

from everturn_channels.adapter import Outbound
from everturn_channels.email import markup
from everturn_channels.email.composing import Context, compose
from everturn_channels.email.parsing.authenticity import why_not_believed
from everturn_channels.email.parsing.automatic import why_unanswered
from everturn_channels.email.parsing.bounces import bounce_of, may_be_bounce
from everturn_channels.email.parsing.content import content_of
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.email.threads import Thread
from everturn_gateway.clock import SystemClock

WHO = account(1, 1, secret_tag="abcdef123456")  # noqa: S106 - of a test
_PIECES = st.sampled_from(
    [
        b"From: ann@example.org\n",
        b"From: =?utf-8?q?=ff?= <a@b>, \xff@c\n",
        b"Authentication-Results: mx.everturn.test; dmarc=pass (a \\) header.from=example.org\n",
        b'Authentication-Results: ;;="\n',
        b"Content-Type: multipart/mixed; boundary=b\n",
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\n",
        b'Content-Type: text/html; charset="utf-16"\n',
        b'Content-Type: text/plain; charset="utf-7"\n\n+2AA-\n',
        b"Subject: =?unicode_escape?q?=5Cud800?=\n",
        b"Content-Type: text/plain; charset*=x''%ff; format=flowed\n",
        b"Content-Type: message/rfc822\n",
        b"Content-Type: message/delivery-status\n",
        b"Content-Transfer-Encoding: base64\n",
        b"Content-Transfer-Encoding: uuencode\n",
        b"Content-Disposition: attachment; filename*0*=utf-8''%e4; filename*1=\"..\\/x\"\n",
        b"Message-ID: <a@b> <c\n",
        b"References: <a@b><c@d>\n <e\n",
        b"Subject: Fwd: =?gb2312?b?!!?=\n",
        b"\n",
        b"\n\n--b\n",
        b"--b--\n",
        b"<p style='display:none'>x<br></p></div><b>\n",
        b"> quoted\n",
        b"-- \n",
        b"On Mon, 3 Nov 2026 at 10:00, Bot wrote:\n",
        b"begin 644 x\n",
    ]
)
_MAILS = st.lists(_PIECES | st.binary(max_size=20), max_size=25).map(b"".join)


@given(_MAILS)
@examples(60)
def test_mail_of_strangers_is_read(raw: bytes) -> None:
    """Nothing that comes stops the channel, or stands in its text as half a character."""
    fields = Fields.of(raw)
    why_not_believed(fields, WHO)
    why_unanswered(fields, WHO)
    may_be_bounce(fields)
    bounce_of(raw)
    content = content_of(raw)

    assert all("/" not in each.name and "\\" not in each.name for each in content.files)
    assert "@" in fields.sender.address or not fields.sender.address
    content.text.encode()
    fields.text("subject").encode()


@given(st.text(max_size=300), st.text(max_size=60))
@examples(36)
def test_a_reply_can_be_sent_whatever_is_in_it(markdown: str, subject: str) -> None:
    """Fields hold one line each, and the text comes back as it was."""
    for payload in markup.render(markdown):
        context = Context(
            message_id="<n.0@everturn.test>",
            thread=Thread(
                subject=subject,
                references=("<\xe9@example.org>", *("<" + "x" * 190 + "@example.org>",) * 3),
            ),
            quote=None,
            now=SystemClock().now(),
        )
        raw = compose(WHO, Outbound(chat_id=ANN, payload=payload), context)
        mail = BytesParser(policy=default).parsebytes(raw)
        body = mail.get_body(("plain",))

        assert raw.isascii()
        assert mail["To"].addresses[0].addr_spec == ANN
        assert mail["From"].addresses[0].addr_spec == BOT
        assert len(re.findall(rb"\r\nReferences: <x{190}@example\.org>\r\n", raw)) == 1
        assert body is not None
        wanted = markup.payload_of(payload).text.split()
        assert body.get_content().split() == wanted
