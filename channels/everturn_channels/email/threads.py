"""Which mail belongs together: a thread is a conversation, and an answer goes into it.

A mail names those before it by their Message-IDs. The bot's own ids say to which conversation they
belong, so that an answer to one finds it whatever the other's mail program left out.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from everturn_channels.adapter import InboundHandler
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.parsing.authenticity import names_secret
from everturn_channels.email.parsing.fields import ID, Fields
from everturn_channels.ingestion.numbered_questions import NumberedQuestions

T = TypeVar("T")

_TOP: Final = "0"  # stands in the bot's ids for a mail that began a thread
_TOPIC_DIGITS: Final = 16
_REFERENCES_MAX: Final = 10
_QUOTE_CHARS: Final = 600
_SUBJECT_CHARS: Final = 200
_VALUE_CHARS: Final = 4_000  # that a cursor holds
_REMEMBERED: Final = 1_000
_SLOTS: Final = 2_000
"Threads that outlive a restart: each write of the cursors holds all of them."
_ODD: Final = re.compile(r"[^A-Za-z0-9-]")


class Thread(Struct, frozen=True, kw_only=True):
    """What an answer into a thread has to name."""

    subject: str
    references: tuple[str, ...] = ()
    "Message-IDs from the first mail to the newest; some between may be missing."
    names_secret: bool = False
    "Whether its newest mail was sent to the secret address."


class Quote(Struct, frozen=True, kw_only=True):
    """The beginning of a mail that is answered."""

    name: str
    text: str


class Threads:
    """The threads of one mailbox; the newest outlive a restart, as cursors do."""

    def __init__(self, account: EmailAccount, handler: InboundHandler) -> None:
        self._account, self._handler, self._domain = account, handler, account.domain
        self._own = re.compile(
            rf"<[A-Za-z0-9-]+\.([0-9a-f]{{{_TOPIC_DIGITS}}}|{_TOP})@{re.escape(account.domain)}>"
        )
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        "By a digest of the chat and the topic."
        self._quotes: OrderedDict[str, Quote] = OrderedDict()
        "By Message-ID."
        self._sent: OrderedDict[str, str] = OrderedDict()
        "To whom mails went, by Message-ID."
        self.questions = NumberedQuestions(handler)

    def own_id(self, nonce: str, topic: str) -> str:
        """Return the Message-ID of a mail of the bot: the same for the same mail."""
        name = _ODD.sub("-", nonce) or secrets.token_hex(12)
        return f"<{name}.{topic or _TOP}@{self._domain}>"

    def is_own(self, message_id: str) -> bool:
        """Whether a Message-ID is one of the bot's."""
        return self._own.fullmatch(message_id) is not None

    def topic_of(self, fields: Fields) -> str:
        """Return to which conversation a mail belongs; empty = to that of mails the bot began."""
        answered, before = fields.ids("in-reply-to"), fields.ids("references")
        for each in (*answered, *reversed(before)):
            if own := self._own.fullmatch(each):
                return "" if own[1] == _TOP else own[1]
        root = next(iter((*before, *answered)), "") or id_of(fields)
        return sha256(root.encode()).hexdigest()[:_TOPIC_DIGITS]

    async def note(self, chat: str, fields: Fields, name: str, text: str) -> None:
        """Remember what an answer to a mail needs."""
        topic, own = self.topic_of(fields), fields.message_id
        before = self.get(chat, topic)
        named = fields.ids("references") or fields.ids("in-reply-to")
        thread = Thread(
            subject=fields.text("subject")[:_SUBJECT_CHARS],
            references=_chain([*named, *([own] if own else [])]),
            names_secret=names_secret(fields, self._account),
        )
        if thread != before:
            await self._keep(chat, topic, thread)
        if own:
            self._quotes[own] = Quote(name=name, text=text[:_QUOTE_CHARS])
            _trim(self._quotes)

    def get(self, chat: str, topic: str) -> Thread | None:
        """Return what is known of a thread; None = nothing."""
        digest = _digest(f"{chat} {topic}")
        if digest in self._threads:
            return self._threads[digest]
        whose, _, text = self._handler.cursor(_slot(digest)).partition(" ")
        if whose != digest:
            return None  # another thread has its place by now
        try:
            return msgspec.json.decode(text, type=Thread)
        except msgspec.DecodeError:
            return None

    def quote(self, message_id: str) -> Quote | None:
        """Return the beginning of a mail that came lately; None = it is not known any more."""
        return self._quotes.get(message_id)

    async def _keep(self, chat: str, topic: str, thread: Thread) -> None:
        while len(text := msgspec.json.encode(thread).decode()) > _VALUE_CHARS:
            thread = msgspec.structs.replace(thread, references=thread.references[1:])
        digest = _digest(f"{chat} {topic}")
        self._threads[digest] = thread
        _trim(self._threads)
        await self._handler.keep_cursor(_slot(digest), f"{digest} {text}")

    # --- what was sent ---

    def note_sent(self, message_id: str, address: str) -> None:
        """Remember to whom a mail went."""
        self._sent[message_id] = address
        _trim(self._sent)

    def sent_to(self, message_id: str) -> str:
        """Return to whom a mail went that was sent lately; empty = nobody knows."""
        return self._sent.get(message_id, "")

    async def note_bounced(self, address: str, why: str) -> None:
        """Remember that mail to an address comes back; an empty `why` forgets it."""
        name = f"bounced:{_digest(address)}"
        if why or self._handler.cursor(name):
            await self._handler.keep_cursor(name, why)

    def bounced(self, address: str) -> str:
        """Return why mail to an address comes back; empty = it does not."""
        return self._handler.cursor(f"bounced:{_digest(address)}")


def id_of(fields: Fields) -> str:
    """Return what a mail is called; one without a Message-ID, or with a long one, by its digest."""
    found = fields.message_id
    if found and len(found) <= _SUBJECT_CHARS:
        return found
    named = found or "\n".join(
        fields.first(name) for name in ("from", "to", "date", "subject", "received")
    )
    return f"sha256:{sha256(named.encode('utf-8', 'replace')).hexdigest()}"


def parent_of(thread: Thread | None, reply_to: str) -> str:
    """Return which mail an answer names as that which it answers; empty = none is known."""
    if ID.fullmatch(reply_to):
        return reply_to
    return thread.references[-1] if thread is not None and thread.references else ""


def _chain(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the first of some ids and the last: what a chain may be shortened to (RFC 5322)."""
    found = tuple(dict.fromkeys(each for each in ids if len(each) <= _SUBJECT_CHARS))
    return found if len(found) <= _REFERENCES_MAX else (found[0], *found[1 - _REFERENCES_MAX :])


def _slot(digest: str) -> str:
    return f"thread:{int(digest, 16) % _SLOTS}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def _trim(kept: OrderedDict[str, T]) -> None:
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)
