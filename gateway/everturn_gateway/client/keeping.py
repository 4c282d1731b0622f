"""Answers about what stays with the model of a session, read."""

from __future__ import annotations

from everturn_channels.keeping import KnownNote, PinnedMessage
from everturn_gateway.client.answers import Json


def pins_of(data: Json) -> list[PinnedMessage]:
    """Return the pinned messages of an answer, oldest first."""
    return [PinnedMessage(**row) for row in data["pins"]]


def notes_of(data: Json) -> list[KnownNote]:
    """Return the notes of an answer, the oldest first."""
    return [
        KnownNote(topic=row["topic"], text=row["text"], source=_source(row))
        for row in data["notes"]
    ]


def _source(row: Json) -> str:
    if not row["session_id"]:
        return "written by hand"
    who = f"{row['who']}, " if row["who"] else ""
    return f"{who}{row['day']}, message {row['seq']} of {row['session_id']}: “{row['quote']}”"
