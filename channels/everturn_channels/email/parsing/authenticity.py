"""Whether a mail is from whom it says. Pure.

Anybody can write any From line. The mail server that took the mail from outside looks at what
stands behind it (SPF, DKIM, DMARC), and says so in a field `Authentication-Results` above all
others. Those below may have come with the mail. Source: RFC 8601, sections 1.6 and 5.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from everturn_channels.email.account import EmailAccount
from everturn_channels.email.parsing.fields import Fields

FIELD: Final = "authentication-results"
_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s;="]+)|([;=])')
_ADDRESSED: Final = ("to", "cc", "delivered-to", "x-original-to", "envelope-to")


class Results(Struct, frozen=True, kw_only=True):
    """What one field says."""

    server: str
    "Who says it: the authserv-id."
    methods: Sequence[tuple[str, str, Mapping[str, str]]]
    "Of each method its name, what came out, and what it looked at."


def results(value: str) -> Results:
    """Read a field; what cannot be read is left out.

    >>> found = results("mx.example.org; dmarc=pass (p=none) header.from=example.com")
    >>> found.server, list(found.methods)
    ('mx.example.org', [('dmarc', 'pass', {'header.from': 'example.com'})])
    """
    parts: list[list[str]] = [[]]
    for quoted, plain, mark in _TOKEN.findall(_without_comments(value)):
        if mark == ";":
            parts.append([])
        else:
            parts[-1].append(mark or plain or quoted)
    server = parts[0][0].lower() if parts[0] else ""
    methods = [found for part in parts[1:] if (found := _method(part)) is not None]
    return Results(server=server, methods=methods)


def why_not_believed(fields: Fields, account: EmailAccount) -> str:
    """Return why a mail is not believed to be from its sender; empty = it is."""
    sender = fields.sender.address
    if not sender:
        return "it does not name one sender"
    if _names_secret(fields, account):
        return ""
    if not account.authserv_id:
        return "it was not sent to the secret address"
    value = fields.first(FIELD)
    if not value:
        return "the mail server did not say whether its sender is authentic"
    found = results(value)
    if found.server != account.authserv_id.lower():
        return (
            f"{found.server or 'nobody'} says whether its sender is authentic, who is not trusted"
        )
    domain = sender.rpartition("@")[2]
    is_denied = any(name == "dmarc" and outcome == "fail" for name, outcome, _ in found.methods)
    if not is_denied and any(_vouches(each, domain) for each in found.methods):
        return ""
    said = ", ".join(f"{name}={outcome}" for name, outcome, _ in found.methods) or "none"
    return f"its sender may be forged: {said}"


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


def _names_secret(fields: Fields, account: EmailAccount) -> bool:
    if not account.secret_tag:
        return False
    wanted = account.secret_address.lower().encode()
    named = [each.address.encode() for each in fields.mailers(*_ADDRESSED)]
    return any([hmac.compare_digest(each, wanted) for each in named])  # noqa: C419 - one time for all


def _method(words: Sequence[str]) -> tuple[str, str, Mapping[str, str]] | None:
    if len(words) < 3 or words[1] != "=":
        return None
    about = {
        words[at - 1].lower(): words[at + 1]
        for at in range(3, len(words) - 1)
        if words[at] == "=" and words[at - 1] != "="
    }
    return words[0].lower().partition("/")[0], words[2].lower(), about


def _without_comments(value: str) -> str:
    """Return a value without what stands in parentheses, which may be nested."""
    kept: list[str] = []
    depth, is_quoted, is_escaped = 0, False, False
    for char in value:
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == '"' and not depth:
            is_quoted = not is_quoted
        elif char == "(" and not is_quoted:
            depth += 1
            continue
        elif char == ")" and not is_quoted and depth:
            depth -= 1
            kept.append(" ")
            continue
        if not depth:
            kept.append(char)
    return "".join(kept)
