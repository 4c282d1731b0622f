"""Session ids, sortable by time and safe as a file name; names and hashes of other things. Pure.

An id looks like `20261121T224956123-3f9a2c1b`: the UTC instant to the millisecond, then eight
random hex digits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime

RANDOM_HEX_DIGITS = 8
_MADE = "made-"
_NO_RESULT_NAME = re.compile(r"[^A-Za-z0-9_.-]|^[.-]")
_SESSION_ID = re.compile(r"[0-9]{8}T[0-9]{9}-[0-9a-f]{8}")


def is_session_id(text: str) -> bool:
    """Return whether `text` has the form of a session id; only such text may be part of a path."""
    return _SESSION_ID.fullmatch(text) is not None


def result_name(path: str) -> str:
    """Return the name under which a text is kept that a marker calls `path`.

    The last part of it, of letters, digits, `-`, `_` and dots alone, at most 100 of them.
    """
    return _NO_RESULT_NAME.sub("_", path.strip().rpartition("/")[2])[:100]


def made_name(name: str) -> str:
    """Return the name under which a file is kept that a turn makes, of the name by its bytes.

    Nothing but a turn keeps files under such names: where none runs and no event has the name, the
    turn ended before the event.
    """
    return f"{_MADE}{name}"


def is_made_name(name: str) -> bool:
    """Whether a file is kept under this name that a turn made."""
    return name.startswith(_MADE)


def arguments_hash(name: str, arguments: str, files: Iterable[tuple[str, str]] = ()) -> str:
    """Return what binds an approval to what was asked for: 32 hex digits.

    Args:
        name: The tool.
        arguments: As the model wrote them.
        files: Path and digest of what the call names of the workspace; without any, the hash is
            that of the call alone.
    """
    parts = (f"{name}\n{arguments}", *map("\0".join, files))
    text = "\0\n".join(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def new_session_id(now: datetime, random_hex: str) -> str:
    """Return the id of a session that begins `now`.

    Args:
        now: Aware.
        random_hex: Eight lower-case hex digits; they keep two sessions of one millisecond apart.

    Raises:
        ValueError: `random_hex` is something else, or `now` is not aware.
    """
    if now.tzinfo is None:
        msg = f"a session id needs an aware instant, not {now!r}"
        raise ValueError(msg)
    moment = now.astimezone(UTC)
    session_id = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}-{random_hex}"
    if not is_session_id(session_id):
        msg = f"a session id needs {RANDOM_HEX_DIGITS} lower-case hex digits, not {random_hex!r}"
        raise ValueError(msg)
    return session_id
