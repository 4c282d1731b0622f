"""Asks a gateway for what was said in its sessions, and for the files of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from urllib.parse import quote

import httpx2

from everturn_actors.events import Event
from everturn_actors.model import ConversationKey, Usage, UserMessage
from everturn_channels.terminal.client import HISTORY_MAX, ListedSession, Match, Said
from everturn_gateway.client.answers import (
    TryAgainError,
    attachments_of,
    number_of,
    session_path,
    update_of,
    usage_of,
    value_of,
)
from everturn_gateway.client.api import Api, NothingMoreError, lost


class HistoryClient:
    """What was said, and the files of it; see `History`, the port of that."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def messages(self, session_id: str, *, after: int) -> Sequence[Said]:
        """Return the messages that came after event `after`, oldest first (`HISTORY_MAX`)."""
        path = f"{session_path(session_id)}/messages"
        data = await self._api.get(path, after=f"m{after}", limit=HISTORY_MAX)
        gaps = [
            Said(seq=gap["last"], at=None, role="gap", text=gap["text"]) for gap in data["gaps"]
        ]
        messages = [
            Said(
                seq=number_of(row["message_id"]),
                at=datetime.fromisoformat(row["created_at"]),
                role=row["role"],
                text=UserMessage(
                    text=row["content"], attachments=value_of(attachments_of, row)
                ).as_text,
            )
            for row in data["messages"]
        ]
        return sorted((*gaps, *messages), key=lambda said: said.seq)

    def export(self, session_id: str, form: str) -> AsyncGenerator[bytes]:
        """Yield the session as a file, in a format of the export."""
        return self._api.download(f"{session_path(session_id)}/export", params={"format": form})

    def media(self, session_id: str, name: str) -> AsyncGenerator[bytes]:
        """Yield a file that came with a message, or was sent in the session."""
        return self._api.download(f"{session_path(session_id)}/media/{quote(name, safe='')}")

    async def listed(self, *, agent: str, words: str, limit: int) -> Sequence[ListedSession]:
        """Return sessions of an agent, pinned ones first, then the one used last."""
        data = await self._api.get(
            "/api/v1/sessions", order="activity", agent=agent, q=words.strip(), limit=limit
        )
        return [
            ListedSession(
                session_id=row["id"],
                channel=row["channel"],
                title=row["title"],
                status=row["status"],
                updated_at=datetime.fromisoformat(row["updated_at"]),
                last_seq=row["last_event"],
                is_running=row["running"],
                is_pinned=row["pinned"],
            )
            for row in data["sessions"]
        ]

    async def fork(
        self, session_id: str, *, at_seq: int, key: ConversationKey | None = None
    ) -> str:
        """Begin a session with the history of another one up to an event; return its id.

        The conversation `key`, of the same agent, goes on in it from now on.
        """
        body: dict[str, object] = {"at_seq": at_seq}
        if key is not None:
            body |= {"channel": key.channel, "chat": key.chat}
        data = await self._api.ask("POST", f"{session_path(session_id)}/fork", body=body)
        return str(data["id"])

    async def spent(self, agent: str, *, days: int) -> Usage:
        """Return what an agent used in so many days, today (UTC) included."""
        data = await self._api.get("/api/v1/usage", agent=agent, days=days)
        return value_of(usage_of, data["total"])

    async def search(self, text: str, **wanted: str | int) -> Sequence[Match]:
        """Return what was said that fits a question or words, the best match first."""
        given = {name: value for name, value in wanted.items() if value}
        data = await self._api.get("/api/v1/search", q=text, **given)
        return [
            Match(
                session_id=row["session_id"],
                seq=row["seq"],
                at=datetime.fromisoformat(row["at"]),
                role=row["role"],
                text=row["snippet"],
            )
            for row in data["hits"]
        ]


async def past_events(api: Api, session_id: str, *, until: int) -> AsyncGenerator[Event]:
    """Yield the events of a session that there are still, up to a number, in order.

    Raises:
        ClientError: The gateway was lost on the way.
    """
    path = f"{session_path(session_id)}/events"
    try:
        async with aclosing(api.events(path, after=0)) as messages:
            async for message in messages:
                if message.event == "gap":  # up to the number in its id there are none
                    seq = int(message.id or 0)
                else:
                    update = update_of(message.event, message.data)
                    if not isinstance(update, Event):
                        continue
                    yield update
                    seq = update.seq
                if seq >= until:
                    return
    except NothingMoreError:
        return
    except (httpx2.TransportError, TryAgainError) as error:
        broken = lost("", error)
        raise broken from error
