"""Lines of JSON that carry a checksum: `{...,"crc":"89abcdef"}`. Pure: bytes in, bytes out.

The checksum is the CRC-32 of the bytes before `,"crc":`, begun with a seed, so that a line of
another log does not pass for one of this.
"""

from __future__ import annotations

import zlib
from typing import Final

_FIELD: Final = b',"crc":"'
_BYTES: Final = len(_FIELD) + 8 + len(b'"}')


def sealed(record: bytes, seed: int) -> bytes:
    """Return a JSON object, which must have a field, as a line with its checksum and newline."""
    body = record[:-1]
    return b'%b%b%08x"}\n' % (body, _FIELD, zlib.crc32(body, seed))


def is_whole(line: bytes, seed: int) -> bool:
    """Return whether the checksum of a line (without its newline) is right."""
    body = line[:-_BYTES]
    return line[len(body) :] == b'%b%08x"}' % (_FIELD, zlib.crc32(body, seed))


def unsealed(line: bytes) -> bytes:
    """Return the JSON object of a line that is whole, without its checksum."""
    return line[:-_BYTES] + b"}"


def why_not_whole(line: bytes) -> str:
    """Return in words what may have happened to a line that is not whole."""
    if not line.endswith(b'"}'):
        return "it is cut short or damaged"
    return "its checksum is wrong: it was changed, or belongs to another log"
