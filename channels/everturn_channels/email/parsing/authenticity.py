"""Whether a mail is from whom it says. Pure.

Anybody can write any From line. The mail server that took the mail from outside looks at what
stands behind it (SPF, DKIM, DMARC), and says so in a field `Authentication-Results` above all
others. Those below may have come with the mail. Source: RFC 8601, sections 1.6 and 5.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from everturn_channels.email.account import EmailAccount
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.names import one_line

FIELD: Final = "authentication-results"
_SAID_CHARS: Final = 200
_ADDRESSED: Final = ("to", "cc", "delivered-to", "x-original-to", "envelope-to")


class Results(Struct, frozen=True, kw_only=True):
    """What one field says."""

    server: str
    "Who says it: the authserv-id."
    methods: Sequence[tuple[str, str, Mapping[str, str]]]
    "Of each method its name, what came out, and what it looked at."


def results(value: str) -> Results:
    """Read a field; one that cannot be read as a whole says nothing.

    >>> found = results("mx.example.org; dmarc=pass (p=none) header.from=example.com")
    >>> found.server, list(found.methods)
    ('mx.example.org', [('dmarc', 'pass', {'header.from': 'example.com'})])
    """
    parts = _parts(value)
    server = parts[0][0].lower() if parts[0] else ""
    methods = [_method(part) for part in parts[1:] if part and part != ["none"]]
    known = [each for each in methods if each is not None]
    return Results(server=server, methods=known if len(known) == len(methods) else ())


def why_not_believed(fields: Fields, account: EmailAccount) -> str:
    """Return why a mail is not believed to be from its sender; empty = it is."""
    sender = fields.sender.address
    if not sender:
        return "it does not name one sender"
    if names_secret(fields, account):
        return ""
    if not account.authserv_id:
        return "it was not sent to the secret address"
    value = fields.first(FIELD)
    if not value:
        return "the mail server did not say whether its sender is authentic"
    found = results(value)
    if found.server != account.authserv_id.lower():
        server = one_line(found.server) or "nobody"
        return f"{server} says whether its sender is authentic, who is not trusted"
    domain = sender.rpartition("@")[2]
    is_denied = any(name == "dmarc" and outcome == "fail" for name, outcome, _ in found.methods)
    if not is_denied and any(_vouches(each, domain) for each in found.methods):
        return ""
    said = ", ".join(f"{name}={outcome}" for name, outcome, _ in found.methods) or "none"
    return f"its sender may be forged: {one_line(said, _SAID_CHARS)}"


def servers_of(fields: Fields) -> str:
    """Return who says of a mail whether its sender is authentic; empty = nobody."""
    value = fields.first(FIELD)
    return results(value).server if value else ""


def _vouches(method: tuple[str, str, Mapping[str, str]], domain: str) -> bool:
    name, outcome, about = method
    if outcome != "pass":
        return False
    if name == "dmarc":
        return about.get("header.from", "").lower() == domain
    if name == "dkim":
        signed = about.get("header.d") or about.get("header.i", "").rpartition("@")[2]
        return _is_aligned(signed, domain)
    if name == "spf":
        return _is_aligned(about.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _is_aligned(proven: str, domain: str) -> bool:
    """Whether who controls one domain controls the other: it is the same, or stands above it."""
    proven = proven.lower().rstrip(".")
    return bool(proven) and "." in proven and f".{domain}".endswith(f".{proven}")


def names_secret(fields: Fields, account: EmailAccount) -> bool:
    """Whether a mail was sent to the secret address."""
    if not account.secret_tag:
        return False
    wanted = account.secret_address.lower().encode()
    named = [each.address.encode() for each in fields.mailers(*_ADDRESSED)]
    # All are compared, whichever fits: it takes one time.
    return sum(hmac.compare_digest(each, wanted) for each in named) > 0


def _method(words: Sequence[str]) -> tuple[str, str, Mapping[str, str]] | None:
    if len(words) < 3 or words[1] != "=":
        return None
    about = {
        words[at - 1].lower(): words[at + 1]
        for at in range(3, len(words) - 1)
        if words[at] == "=" and words[at - 1] != "="
    }
    return words[0].lower().partition("/")[0], words[2].lower(), about


def _parts(value: str) -> list[list[str]]:
    """Return the words between semicolons, without comments; the first part where one has no end.

    A forger chooses names in it: `"ann@ours.example"@evil.example`, or `ours.example(.evil.example`
    (both seen in studies of mail servers). So a word goes on until something ends it: a quote in it
    does not, and a comment ends only a word of letters, as in `pass(p=none)`.
    """
    parts: list[list[str]] = [[]]
    word = ""
    depth, is_quoted, is_escaped = 0, False, False
    for char in f"{value} ":
        if is_escaped:
            is_escaped = False
            word += "" if depth else char
        elif char == "\\" and (depth or is_quoted):
            is_escaped = True
        elif depth:
            depth += (char == "(") - (char == ")")
        elif char == '"':
            is_quoted = not is_quoted
        elif is_quoted or not (char.isspace() or char in ";=" or _begins_comment(char, word)):
            word += char
        else:
            parts[-1] += [word] if word else []
            word = ""
            if char == ";":
                parts.append([])
            elif char == "=":
                parts[-1].append(char)
            depth = int(char == "(")
    return parts[:1] if is_quoted or depth else parts


def _begins_comment(char: str, word: str) -> bool:
    return char == "(" and (not word or word.isalpha())
