"""What a platform is answered that delivers over HTTP."""

from __future__ import annotations

from msgspec import Struct


class DeliveryAnswer(Struct, frozen=True, kw_only=True):
    """The answer to one delivery."""

    status: int
    "Of HTTP; 200 when what came is durable, or settled that it never will be."
    body: bytes | None = None
    "JSON, or nothing, where the platform reads it; None = whatever says that it was taken."
