"""What all events share. Pure."""

from __future__ import annotations

from everturn_actors.codec import Value


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class EventBody(Value, frozen=True, kw_only=True, tag_field="type", tag=_snake):
    """What happened; in a record it stands with the name of its class: `turn_started`."""
