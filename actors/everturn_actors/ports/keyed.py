"""Where small durable things live that are no session: pairing, tokens, cursors, run logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from everturn_actors.errors import InvalidInputError, JournalError

ABSENT: Final = ""
"The version of a key that has no value."
VALUE_MAX_BYTES: Final = 16 * 1024 * 1024  # what is larger was not written here
_KEY_CHARACTERS: Final = 300
_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.jsonl?")


class Value(Struct, frozen=True, kw_only=True):
    """What stands under a key."""

    data: bytes
    version: str
    "Equal only where the data are; never `ABSENT`."


class KeyedStore(Protocol):
    """Keeps values by key, for several processes at once; each is small and kept whole.

    A key reads like the name of a file: `usage/2026-11.json`. Keys that end in `.json` have a
    value, which is replaced as a whole (`get`, `put`); those that end in `.jsonl` have lines, which
    are appended to (`read`, `append`, `rewrite`). The store knows nothing of what the bytes mean:
    whoever finds them damaged says so by `quarantine`.

    What is written is durable when the method returns. A reader sees what stood there before or
    what stands there after, and nothing in between. Of two writers who start from the same version
    one wins, and the other meets `ConflictError`.

    Every method may raise `JournalError`, and `InvalidInputError` for what is no key.
    """

    def place(self, key: str) -> str:
        """Return where a value stands, as people find it: a path, or a row of a table."""
        ...

    async def get(self, key: str) -> Value | None:
        """Return the value of a key, None where there is none.

        Raises:
            DamagedValueError: There is one that was not written by a store.
        """
        ...

    async def version(self, key: str) -> str:
        """Return the version that `get` would, `ABSENT` where there is no value.

        Cheap: whoever watches a value asks for it with each message.
        """
        ...

    async def put(self, key: str, data: bytes, *, expected: str | None = None) -> str:
        """Replace the value of a key; return its version when it is durable.

        A caller who is cancelled does not know whether it was replaced.

        Args:
            key: Which.
            data: At most `VALUE_MAX_BYTES`.
            expected: The version that it has to have now; `ABSENT` = it has to have none, None =
                whatever it has.

        Raises:
            ConflictError: It has another version. Nothing was written.
            JournalWriteError: Not written; what stood there stands there.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove a value or lines, where there are any; return when that is durable."""
        ...

    async def list(self, folder: str) -> tuple[str, ...]:
        """Return the keys in a folder of keys, sorted: `list("usage/")` has `usage/2026-11.json`.

        Not those in folders below it, and not what was quarantined. `folder` ends in `/`.
        """
        ...

    async def quarantine(self, key: str) -> str:
        """Put damaged data aside, so that the key has no value; return where they are kept.

        Nothing is lost: the data stay where people find them. Where there are none, nothing is
        done.
        """
        ...

    async def read(self, keys: Sequence[str]) -> tuple[bytes | JournalError, ...]:
        """Return the lines of several keys, in their order; empty where there are none.

        Lines that cannot be read do not keep others from being read: the error stands in their
        place. A line that is being appended, or that a crash cut short, may stand at the end
        without its end: nobody was told that it was written, and the next append cuts it off.
        """
        ...

    async def append(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """Write whole lines behind those of a key; return when they are durable.

        After a crash in the middle the first of them may be there, each of them whole. A caller
        who is cancelled waits until what was begun is done.

        Args:
            key: Which.
            lines: Each with its end.
            expected_bytes: How many bytes its lines have now, without one that is cut short; 0 =
                there are none.

        Raises:
            ConflictError: They have another number of bytes. Nothing was written.
            JournalWriteError: Not written; what stood there stands there.
        """
        ...

    async def rewrite(self, key: str, lines: bytes, *, expected_bytes: int) -> None:
        """Replace all that stands there, as a whole; otherwise as `append`.

        `expected_bytes` is the length of what `read` gives.
        """
        ...


def is_key(name: str) -> bool:
    """Say whether something can be kept under this name."""
    return _KEY.fullmatch(name) is not None and len(name) <= _KEY_CHARACTERS


def check_key(key: str, *, end: str = "") -> str:
    """Return a key.

    Args:
        key: What may be one.
        end: What it has to end with.

    Raises:
        InvalidInputError: It is none.
    """
    if not is_key(key) or not key.endswith(end):
        msg = f"{key[:_KEY_CHARACTERS]!r} is no key: it reads like `folder/name{end or '.json'}`"
        raise InvalidInputError(msg)
    return key


def keys_in(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are keys and stand in a folder of keys itself, sorted."""
    found = (name for name in names if name.startswith(folder) and is_key(name))
    return tuple(sorted(name for name in found if "/" not in name[len(folder) :]))
