"""JSON as the APIs of models want it and give it. Pure: no IO."""

from __future__ import annotations

import json
from typing import Any

import orjson

from everturn_actors.json_values import is_list, is_object


def dumps(value: object) -> bytes:
    """Return `value` as JSON; any mapping is an object, half a surrogate pair becomes U+FFFD."""
    try:
        return orjson.dumps(value, default=dict)
    except orjson.JSONEncodeError:
        # A lone half of a surrogate pair, as a YAML escape can write it: no UTF-8 can hold it.
        return orjson.dumps(_mended(value), default=dict)


def compact(value: object) -> bytes:
    """Return the same for whoever keeps it, in no more memory than it needs.

    orjson leaves what `dumps` returns in a buffer for text of which every character is escaped: up
    to eight times as large as the bytes in it.
    """
    return memoryview(dumps(value)).tobytes()


def loads(data: bytes) -> Any:  # JSON
    """Return what `data` says.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        # orjson refuses half a surrogate pair, which servers that count in UTF-16 do send.
        try:
            return json.loads(data)
        except RecursionError:
            msg = "it is nested too deeply"
            raise ValueError(msg) from None


def object_bytes(text: str) -> bytes | None:
    """Return a JSON text that is an object as bytes, unchanged; None where it is none."""
    try:
        data = text.encode()
        return data if isinstance(orjson.loads(data), dict) else None
    except ValueError:
        return None


def mend(text: str) -> str:
    """Join surrogate pairs; replace halves that stand alone by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _mended(value: object) -> object:
    if isinstance(value, str):
        return mend(value)
    if is_object(value):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if is_list(value) else value
