"""What a provider wants back with a reply, as the journal keeps it: only for who gave it. Pure."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import orjson

from everturn_actors.json_values import is_object
from everturn_gateway.providers.transport.encoding import dumps, loads

T = TypeVar("T")


def pack(origin: str, model: str, kept: object) -> str:
    """Return `Reply.opaque` for what the model at `origin` (an address) wants back."""
    return dumps({"from": origin, "model": model, "kept": kept}).decode()


def unpack(opaque: str, origin: str, model: str, kind: type[T]) -> T | None:
    """Return what was packed, None where another model gave it, or the same in another format.

    What one model signed, another refuses; and one address may speak several formats.
    """
    if not opaque:
        return None
    try:
        packed: object = loads(opaque.encode())
    except ValueError:
        return None
    if not is_object(packed):
        return None
    kept: Any = packed.get("kept")
    is_own = (packed.get("from"), packed.get("model")) == (origin, model)
    return kept if is_own and isinstance(kept, get_origin(kind) or kind) else None


def fragment(kept: object) -> orjson.Fragment:
    """Return kept JSON for use inside other JSON."""
    return orjson.Fragment(dumps(kept))
