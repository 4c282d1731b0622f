"""What a provider wants back with a reply, as the journal keeps it: only for who gave it. Pure."""

from __future__ import annotations

from typing import Any, cast

import orjson

from everturn_gateway.providers.encoding import dumps, loads


def pack(origin: str, model: str, kept: object) -> str:
    """Return `Reply.opaque` for what the model at `origin` (an address) wants back."""
    return dumps({"from": origin, "model": model, "kept": kept}).decode()


def unpack(opaque: str, origin: str, model: str) -> Any:  # noqa: ANN401 - JSON
    """Return what was packed, None where another model gave it.

    What one model signed, another refuses.
    """
    if not opaque:
        return None
    try:
        packed: Any = loads(opaque.encode())
    except ValueError:
        return None
    if not isinstance(packed, dict):
        return None
    parts = cast("dict[str, Any]", packed)
    return parts.get("kept") if (parts.get("from"), parts.get("model")) == (origin, model) else None


def fragment(kept: object) -> orjson.Fragment:
    """Return kept JSON for use inside other JSON."""
    return orjson.Fragment(dumps(kept))
