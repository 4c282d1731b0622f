"""The text of a token: made once, shown once, and kept as its digest alone."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "evt_"
"What the tokens of this gateway begin with, so that people and scanners know one when they see it."
_SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


def new_token() -> str:
    """Return a token that nobody has: 256 bits from the system's source of randomness."""
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def is_token(text: str) -> bool:
    """Return whether `text` could be a token of `new_token`.

    >>> is_token("evt_" + "a" * 43), is_token("secret")
    (True, False)
    """
    return _TOKEN.fullmatch(text) is not None


def digest_of(token: str) -> str:
    """Return what is kept of a token: its SHA-256, 64 hexadecimal digits.

    Without salt and without a slow function: what nobody can guess in 2^256 tries needs neither,
    and one digest then finds its record.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
