"""How long a file sounds, where it says so itself. Pure."""

from __future__ import annotations

from typing import Final

_PAGE: Final = b"OggS"
_HEAD_BYTES: Final = 27  # of a page, before its table of segments
_OPUS_HZ: Final = 48_000  # positions of Opus count so, whatever was recorded


def ogg_duration_s(data: bytes) -> float:
    """Return how long a file of Ogg Opus sounds, in seconds; 0 where it is none, or is damaged.

    Sources: RFC 3533, section 6 (the position in the head of the last page); RFC 7845, section 4
    and 5.1 (what is skipped at the beginning).
    """
    begin = data.find(b"OpusHead", 0, 4096)
    last = data.rfind(_PAGE)
    if not data.startswith(_PAGE) or begin < 0 or len(data) < max(begin + 12, last + _HEAD_BYTES):
        return 0
    skipped = int.from_bytes(data[begin + 10 : begin + 12], "little")
    position = int.from_bytes(data[last + 6 : last + 14], "little", signed=True)
    return max(0, position - skipped) / _OPUS_HZ
