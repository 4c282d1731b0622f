"""Which images of a conversation a request shows; the others are told in words. Pure.

The newest ones are shown. Where they become too many, half of what may be shown goes in one jump,
so that requests go on beginning alike until the next jump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from everturn_actors.context.estimation.estimates import MEDIA_UNITS, UNITS_PER_TOKEN
from everturn_actors.model import IMAGE_TYPES, Attachment, ToolResult, UserMessage

SHOWN_MAX = 20  # images of one request; some providers refuse more, or scale all of them down
# In base64 a third is added, and a request may have 32 MB at Anthropic, 20 MB of files at Google.
# Sources, read 2026-11: platform.claude.com/docs/en/api/overview, ai.google.dev/gemini-api/docs.
SHOWN_BYTES = 20 * 1024 * 1024
_SHARE = 2  # of the room for messages, images take at most a half


class Pictures(Struct, frozen=True, kw_only=True):
    """The images of one request."""

    shown: Mapping[str, Attachment] = field(default_factory=dict[str, Attachment])
    "By their names."
    counts: Mapping[int, int] = field(default_factory=dict[int, int])
    "How many of them a message has, by its seq; messages without are not in it."

    @property
    def units(self) -> int:
        """What they cost."""
        return sum(self.counts.values()) * MEDIA_UNITS


NO_PICTURES = Pictures()


def choose(
    messages: Sequence[UserMessage | ToolResult], *, room_tokens: int | None, scale: float = 1.0
) -> Pictures:
    """Return which images are shown.

    Args:
        messages: Those with attachments that the request shows, oldest first.
        room_tokens: What all messages may take; None = as much as they like.
        scale: Tokens of the model for one estimated token.
    """
    images = [a for each in messages for a in each.attachments if a.media_type in IMAGE_TYPES]
    most = SHOWN_MAX
    if room_tokens is not None:
        one = MEDIA_UNITS * scale / UNITS_PER_TOKEN
        most = min(most, max(int(room_tokens / _SHARE / one), 0))
    start = _first(images, most)
    shown = {each.name: each for each in images[start:]}
    if not shown:
        return NO_PICTURES
    counts = {
        each.seq: count
        for each in messages
        # The same image earlier in the conversation is there as well.
        if (count := sum(1 for a in each.attachments if a.name in shown))
    }
    return Pictures(shown=shown, counts=counts)


def _first(images: Sequence[Attachment], most: int) -> int:
    """Return the index of the first image that is shown."""
    size_bytes, first = 0, len(images)
    while first > 0 and len(images) - first < most:
        size_bytes += images[first - 1].size_bytes
        if size_bytes > SHOWN_BYTES:
            break
        first -= 1
    jump = max(most // 2, 1)
    rounded = -(-first // jump) * jump
    return rounded if rounded < len(images) else first
