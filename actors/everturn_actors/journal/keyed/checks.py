"""What all stores of values look at before they write."""

from __future__ import annotations

import hashlib

from everturn_actors.errors import ConflictError, JournalWriteError
from everturn_actors.ports import ABSENT
from everturn_actors.ports.keyed import VALUE_MAX_BYTES

_DIGEST_BYTES = 16


def version_of(data: bytes) -> str:
    """Return the version of a value.

    It is made of the data alone, so that every process gives the same, and whoever writes a value
    back as it was takes nothing from anybody.
    """
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def check_size(data: bytes, place: str) -> None:
    """Refuse what is too large to be kept.

    Raises:
        JournalWriteError: It is.
    """
    if len(data) > VALUE_MAX_BYTES:
        msg = f"{place}: {len(data)} bytes cannot be kept: a value has at most {VALUE_MAX_BYTES}"
        raise JournalWriteError(msg)


def check_version(found: bytes | None, expected: str | None, place: str) -> None:
    """Refuse to replace a value that is not the one that its writer knows.

    Raises:
        ConflictError: It is another one.
    """
    if expected is not None and expected != (ABSENT if found is None else version_of(found)):
        msg = f"{place} was changed by somebody else meanwhile; read it again"
        raise ConflictError(msg)


def check_bytes(found: int, expected: int, place: str) -> None:
    """Refuse to go on with lines that are not those that their writer knows.

    Raises:
        ConflictError: They are others.
    """
    if found != expected:
        msg = f"{place} has {found} bytes of lines, not {expected}: somebody else wrote to it"
        raise ConflictError(msg)
