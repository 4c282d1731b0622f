"""Asks a gateway what stays with the model of a session, and changes it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from everturn_channels.keeping import KnownNote, PinnedMessage, note_proposed, note_source
from everturn_gateway.client.answers import Json, session_path
from everturn_gateway.client.api import Api


class MemoryClient:
    """What stays with the model of a session; see `Memory`, the port of that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def pins(self, session_id: str) -> Sequence[PinnedMessage]:
        """Return the messages that the model is shown whatever is hidden, oldest first."""
        return _pins(await self._api.get(f"{session_path(session_id)}/pins"))

    async def pin(
        self, session_id: str, message: int, *, is_off: bool = False
    ) -> Sequence[PinnedMessage]:
        """Pin a message, or take its pin off; return all that are pinned then."""
        path = f"{session_path(session_id)}/pins/{message}"
        return _pins(await self._api.ask("DELETE" if is_off else "PUT", path, repeat=True))

    async def notes(self, session_id: str) -> Sequence[KnownNote]:
        """Return what the agent knows of whom it talks with in a session."""
        return _notes(await self._api.get(f"{session_path(session_id)}/memory"))

    async def note(self, session_id: str, topic: str, text: str) -> Sequence[KnownNote]:
        """Keep a note, in the place of the one on its topic; an empty text removes that."""
        path = f"{session_path(session_id)}/memory/{quote(topic, safe='')}"
        if not text:
            return _notes(await self._api.ask("DELETE", path, repeat=True))
        return _notes(await self._api.ask("PUT", path, body={"text": text}, repeat=True))


def _pins(data: Json) -> list[PinnedMessage]:
    """Return the pinned messages of an answer, oldest first."""
    return [PinnedMessage(**row) for row in data["pins"]]


def _notes(data: Json) -> list[KnownNote]:
    """Return the notes of an answer, the oldest first."""
    return [
        KnownNote(topic=row["topic"], text=row["text"], source=_source(row))
        for row in data["notes"]
    ]


def _source(row: Json) -> str:
    source = note_source(
        who=row["who"],
        day=row["day"],
        message=str(row["seq"]) if row["session_id"] else "",
        session=row["session_id"],
        quote=row["quote"],
    )
    if not row.get("proposed"):
        return source
    return f"{source}; {note_proposed(row['topic'], row['text'])}"
