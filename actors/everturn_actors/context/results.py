"""Making one text shorter, with a marker that says so. Pure.

Source: the seed design "Context Window Management", layer 3a; the marker is exact.
"""

from __future__ import annotations

from everturn_actors.context.tokens import BYTES_PER_TOKEN, estimate_text


def truncate_head(text: str, max_tokens: int) -> str:
    """Return `text` if it is at most `max_tokens`, else its head of that size and the marker.

    The marker comes on top of `max_tokens`.
    """
    size = estimate_text(text)
    if size <= max_tokens:
        return text
    # Bytes cut inside a character: what is left of it goes too.
    head = text.encode("utf-8", "surrogatepass")[: max_tokens * BYTES_PER_TOKEN]
    return head.decode("utf-8", "ignore") + _marker(max_tokens, size)


def shorten(text: str, *, excess_tokens: int, floor_tokens: int) -> str:
    """Return the head of `text` and the marker, cheaper than `text` by at least `excess_tokens`.

    At least `floor_tokens` of it stay, so that it may be cheaper by less. Where it would not be
    cheaper at all, it comes back as it is.
    """
    size = estimate_text(text)
    marker_tokens = (
        estimate_text(_marker(size, size)) + 1
    )  # 1: floors of two parts and of their sum
    kept = max(size - excess_tokens - marker_tokens, floor_tokens)
    return text if kept + marker_tokens >= size else truncate_head(text, kept)


def _marker(kept_tokens: int, size_tokens: int) -> str:
    return f"\n\n[truncated: kept first ~{kept_tokens} of ~{size_tokens} tokens (head)]"
