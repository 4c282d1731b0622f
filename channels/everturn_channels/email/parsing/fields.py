"""The header fields of a mail, as text, whatever their sender made of them. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32
from email.utils import getaddresses
from typing import Final, TypeGuard

from msgspec import Struct

ID: Final = re.compile(r"<[^<>\s]{1,900}>")
"A Message-ID as References and In-Reply-To name it."
_ADDRESS_CHARS: Final = 254  # RFC 5321, section 4.5.3.1.3, less the angle brackets
_FOLD: Final = re.compile(r"\r?\n[ \t]*|\r|\n")
_IDS_MAX: Final = 100
_VALUE_CHARS: Final = 60_000  # of one field; people write some hundred
_FROM_CHARS: Final = 2_000
_MAILERS_CHARS: Final = 20_000  # of all fields with addresses: some hundred people


class Mailer(Struct, frozen=True, kw_only=True):
    """Whom an address field names."""

    address: str
    "In lower case, with a domain in ASCII; empty = none that can be read."
    name: str = ""


def is_mail(value: object) -> TypeGuard[Message]:
    """Whether a part of a mail is one with fields of its own."""
    return isinstance(value, Message)


class Fields:
    """The header fields of one mail."""

    def __init__(self, message: Message) -> None:
        self._raw = [(name.lower(), str(value)) for name, value in message.raw_items()]

    @classmethod
    def of(cls, head: bytes) -> Fields:
        """Read the header fields at the beginning of a mail."""
        return cls(BytesHeaderParser(policy=compat32).parsebytes(head))

    @property
    def names(self) -> Sequence[str]:
        """Their names in lower case, as they came."""
        return [name for name, _ in self._raw]

    def all(self, name: str) -> Sequence[str]:
        """Return the values of all fields of a name, topmost first, unfolded, not decoded."""
        return [_unfolded(value) for each, value in self._raw if each == name]

    def first(self, name: str) -> str:
        """Return the topmost value; empty where there is none."""
        return next(iter(self.all(name)), "")

    def text(self, name: str) -> str:
        """Return the topmost value, with its encoded words as what they say."""
        return decoded(self.first(name))

    def ids(self, name: str) -> Sequence[str]:
        """Return the Message-IDs in a field."""
        return ID.findall(self.first(name))[-_IDS_MAX:]

    def mailers(self, *names: str) -> Sequence[Mailer]:
        """Return whom address fields name, in their order."""
        values: list[str] = []
        left = _MAILERS_CHARS
        for value in (value for name in names for value in self.all(name)):
            values.append(value[:left])
            left -= len(values[-1])
            if not left:
                break
        return [
            Mailer(address=address_in(address), name=decoded(name))
            for name, address in getaddresses(values)
            if name or address
        ]

    @property
    def sender(self) -> Mailer:
        """Who a mail claims to be from; nobody where it does not name exactly one."""
        written = self.all("from")
        if len(written) != 1 or len(written[0]) > _FROM_CHARS:
            return Mailer(address="")
        named = self.mailers("from")
        return named[0] if len(named) == 1 else Mailer(address="")

    @property
    def message_id(self) -> str:
        """Its Message-ID, `<...>`; empty where it has none, or one that nobody could name."""
        return next(iter(self.ids("message-id")), "")


def decoded(value: str) -> str:
    """Return what encoded words say (RFC 2047); those that say nothing stay as they are.

    >>> decoded("=?utf-8?q?pl=C3=A4n=2Epdf?=")
    'plän.pdf'
    """
    try:
        parts = decode_header(value)
    except (HeaderParseError, ValueError):
        return value
    found: list[str] = []
    for part, charset in parts:
        if isinstance(part, str):
            found.append(part)
        else:
            found.append(to_text(part, charset or "ascii"))
    return _repaired("".join(found)).strip()


def to_text(data: bytes, charset: str) -> str:
    """Return bytes as text: in their charset where that is known and right, else by a guess."""
    for name in (charset, "utf-8"):
        try:
            known = codecs.lookup(_WIDER.get(name.lower(), name)).name
            if known not in _OF_PROGRAMS:
                text = data.decode(known)
                text.encode()  # some charsets have halves of characters, which nobody can keep
                return text
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


# Python calls charsets what no mail is written in; some take for ever.
_OF_PROGRAMS: Final = frozenset({"unicode-escape", "raw-unicode-escape", "idna", "punycode"})
# What is called so often holds more characters than that has.
_WIDER: Final = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
}


def _unfolded(value: str) -> str:
    return _repaired(_FOLD.sub(" ", value[:_VALUE_CHARS])).strip()


def _repaired(value: str) -> str:
    """Return what stands in a field as bytes, against the rules, as text."""
    if value.isascii():
        return value
    data = value.encode("utf-8", "surrogateescape")
    return to_text(data, "utf-8") if data != value.encode("utf-8", "replace") else value


def address_in(text: str) -> str:
    """Return an address as it is compared; empty where a text is none."""
    local, at, domain = text.strip().rpartition("@")
    if not at or not local or not domain or len(text) > _ADDRESS_CHARS or "@" in local:
        return ""
    if any(char.isspace() or not char.isprintable() or char in '<>,;:"\\()' for char in text):
        return ""
    try:
        ascii_domain = domain.encode("idna").decode()
    except UnicodeError:
        return ""
    return f"{local}@{ascii_domain}".lower()
