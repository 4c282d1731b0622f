"""What all events share. Pure."""

from __future__ import annotations

from everturn_actors.codec import Value, snake


class EventBody(Value, frozen=True, kw_only=True, tag_field="type", tag=snake):
    """What happened; in a record it stands with the name of its class: `turn_started`."""
