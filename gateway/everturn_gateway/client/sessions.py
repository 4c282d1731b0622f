"""The sessions of a gateway, for the terminal and the commands.

Messages are handed in with an idempotency key and followed from their event number on, so that a
lost connection costs neither a message nor a piece of an answer.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx2
from msgspec import convert

from everturn_actors.events import Event, SessionEnded
from everturn_actors.model import ConversationKey, Decision, Upload
from everturn_actors.ports import SessionSummary
from everturn_actors.service import Update
from everturn_actors.state.validation import attachment_of, check_uploads
from everturn_channels.terminal.client import Connection, Status
from everturn_gateway.client.agents import ModelClient, PromptClient
from everturn_gateway.client.answers import (
    Json,
    TryAgainError,
    approval_of,
    key_of,
    number_of,
    outage_of,
    session_path,
    update_of,
    usage_of,
    value_of,
)
from everturn_gateway.client.api import CONNECT_S, Api, NothingMoreError
from everturn_gateway.client.contexts import ContextClient
from everturn_gateway.client.history import HistoryClient
from everturn_gateway.client.memory import MemoryClient
from everturn_gateway.client.undoing import undone_text


class SessionClient:
    """The sessions of a gateway, for whoever sits at a terminal: see `Client`, the port of that.

    The same over a connection and within the process: only the `Api` below it differs.

    Attributes:
        prompts: What MCP servers have for people to send.
        contexts: What a model sees of a session.
        history: What was said, and the files of it.
        memory: What stays with the model, whatever is hidden.
        models: Which model answers.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.connection: Connection = api
        self.prompts = PromptClient(api)
        self.contexts = ContextClient(api)
        self.history = HistoryClient(api)
        self.memory = MemoryClient(api)
        self.models = ModelClient(api)

    async def agents(self) -> Sequence[str]:
        """Return the names of the agents that can be talked to, sorted."""
        data = await self._api.get("/api/v1/agents")
        return sorted(agent["name"] for agent in data["agents"])

    async def open(self, key: ConversationKey) -> str:
        """Return the session in which a conversation goes on; start one where there is none."""
        body = {"agent": key.agent, "channel": key.channel, "chat": key.chat}
        data = await self._api.ask("POST", "/api/v1/sessions", body=body)
        return str(data["id"])

    async def submit(
        self,
        session_id: str,
        text: str,
        *,
        idempotency_key: str,
        attachments: Sequence[Upload] = (),
        untrusted: bool = False,
    ) -> int:
        """Hand in a message; return the number of its event when it is durable."""
        body: dict[str, object] = {"content": text}
        if untrusted:
            body["untrusted"] = True
        if attachments:
            check_uploads(attachments)
            body["attachments"] = await anyio.to_thread.run_sync(
                lambda: [*map(_attachment, attachments)]
            )
        data = await self._api.ask(
            "POST",
            f"{session_path(session_id)}/messages",
            body=body,
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return number_of(str(data["message_id"]))

    async def follow(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a number above `after`, then what comes.

        A lost connection is taken up again where it broke. Ends with the session.

        Raises:
            ClientError: The gateway is gone for too long.
        """
        tries = self._api.tries()
        path = f"{session_path(session_id)}/events"
        while True:
            begun = anyio.current_time()
            try:
                async with aclosing(self._api.events(path, after=after)) as messages:
                    async for message in messages:
                        update = update_of(message.event, message.data)
                        if update is None:
                            continue
                        tries.begin_again()
                        if isinstance(update, Event):
                            if update.seq <= after:
                                continue
                            after = update.seq
                        yield update
                        if isinstance(update, Event) and isinstance(update.body, SessionEnded):
                            return
                lost: Exception | None = None
            except NothingMoreError:
                return
            except (httpx2.TransportError, TryAgainError) as error:
                lost = error
            self._api.is_away = True
            if anyio.current_time() > begun + CONNECT_S:
                tries.begin_again()  # it stood, and was only silent
            await tries.pause(lost)

    async def retry(self, session_id: str, *, idempotency_key: str) -> int:
        """Ask the newest turn again, which failed; return the event that begins it."""
        data = await self._api.ask(
            "POST",
            f"{session_path(session_id)}/retry",
            body={},
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return value_of(lambda values: int(values["event"]), data)

    async def undo(self, session_id: str) -> str:
        """Take back the files of the last turn that changed some; return what was, in words."""
        data = await self._api.ask("POST", f"{session_path(session_id)}/undo", body={})
        return value_of(undone_text, data)

    async def cancel(self, session_id: str) -> bool:
        """Cancel the running turn; return whether there was one, when it is closed."""
        data = await self._api.ask("POST", f"{session_path(session_id)}/cancel", body={})
        return bool(data["cancelled"])

    async def resume(self, session_id: str) -> bool:
        """Let a paused turn go on; return whether there was one."""
        data = await self._api.ask(
            "POST", f"{session_path(session_id)}/resume", body={}, repeat=True
        )
        return bool(data["resumed"])

    async def decide(
        self,
        session_id: str,
        call_id: str,
        decision: Decision,
        *,
        arguments_hash: str = "",
        answer: str = "",
    ) -> None:
        """Answer the approval of a call, as whoever runs the gateway."""
        decision_body = {"call_id": call_id, "decision": decision, "arguments_hash": arguments_hash}
        if answer:
            decision_body["answer"] = answer
        await self._api.ask(
            "POST", f"{session_path(session_id)}/approve", body=decision_body, repeat=True
        )

    async def reset(self, session_id: str) -> None:
        """End the session."""
        await self._api.ask("POST", f"{session_path(session_id)}/reset", body={})

    async def share(self, session_id: str, principal: str, *, is_withdrawn: bool) -> Sequence[str]:
        """Give a principal the session, or take it back; return the names of those who have it."""
        method = "DELETE" if is_withdrawn else "PUT"
        path = f"{session_path(session_id)}/shares/{quote(principal, safe='')}"
        data = await self._api.ask(method, path, repeat=True)  # twice is once
        return convert(data["shared_with"], tuple[str, ...])

    async def delete(self, session_id: str) -> None:
        """Remove the session and all that belongs to it."""
        await self._api.ask("DELETE", session_path(session_id))

    async def status(self, session_id: str) -> Status:
        """Return what is known of the session now."""
        data = await self._api.get(session_path(session_id))
        return Status(
            session_id=data["id"],
            key=key_of(data),
            status=data["status"],
            turns=data["turns"],
            messages=data["messages"],
            last_seq=data["last_event"],
            usage=value_of(usage_of, data["usage"]),
            busy=data["open_turn"] is not None or data["waiting"] > 0,
            approvals=tuple(map(approval_of, data["approvals"])),
            outage=value_of(outage_of, data),
            waiting_for=value_of(_waiting_for, data),
        )

    async def sessions(self, *, after: str, limit: int) -> Sequence[SessionSummary]:
        """Return up to `limit` sessions with an id below `after` ("" = all), newest first."""
        data = await self._api.get("/api/v1/sessions", after=after, limit=limit)
        return [
            SessionSummary(
                session_id=row["id"],
                key=key_of(row),
                status=row["status"],
                created_at=datetime.fromisoformat(row["created_at"]),
                updated_at=datetime.fromisoformat(row["updated_at"]),
                principal=row["principal"],
                shared_with=tuple(row["shared_with"]),
            )
            for row in data["sessions"]
        ]


def _attachment(upload: Upload) -> dict[str, str]:
    """Return a file as the API takes it."""
    named = {"file_name": upload.file_name} if upload.file_name else {}
    kind = attachment_of(upload).media_type
    return {"media_type": kind, "data": b64encode(upload.data).decode(), **named}


def _waiting_for(data: Json) -> str:
    turn = data["open_turn"]
    return "" if turn is None else str(turn["waiting_for"])
