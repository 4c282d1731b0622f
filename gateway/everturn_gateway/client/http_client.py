"""The terminal's client to a gateway in another process, over HTTP.

Messages are handed in with an idempotency key and followed from their event number on, so that a
lost connection costs neither a message nor a piece of an answer.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx2
import orjson

from everturn_actors.context.explain import Explanation
from everturn_actors.context.report import ContextReport
from everturn_actors.errors import InvalidInputError
from everturn_actors.events import Event, SessionEnded
from everturn_actors.model import ConversationKey, Decision, Upload, UserMessage
from everturn_actors.ports import SessionSummary
from everturn_actors.service import Compacted, Update
from everturn_actors.state.reports import explanation_from, report_from
from everturn_actors.state.validation import attachment_of, check_uploads
from everturn_channels.errors import ClientError
from everturn_channels.terminal.client import HISTORY_MAX, Said, Status
from everturn_gateway.client.answers import (
    SESSIONS,
    TryAgainError,
    approval_of,
    attachments_of,
    document,
    key_of,
    number_of,
    outage_of,
    refuse,
    update_of,
    usage_of,
    value_of,
)

CONNECT_S = 5.0
SILENCE_S = 60.0  # the server sends a comment every 15 s; four are missing when this is over
SUMMARY_S = 600.0  # an agent sets how long its summaries may take; the server has its own deadline
RECONNECT_S = 30.0  # for how long a lost gateway is looked for: a restart takes seconds
_PAUSES_S = (0.1, 0.2, 0.5, 1.0)  # between two tries, the last one repeated
_NOTHING_MORE = 204
_EVENT_BYTES = 16 * 1024 * 1024  # the longest message, escaped, is below it


@asynccontextmanager
async def open_http_client(
    url: str, *, token: str, reconnect_s: float = RECONNECT_S
) -> AsyncGenerator[HttpClient]:
    """Connect to the gateway at `url`.

    Args:
        url: Where it listens, `http://127.0.0.1:8080`.
        token: Its API token; empty where it asks for none.
        reconnect_s: For how long a lost gateway is looked for, in seconds.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with open_client(url, headers=headers, silence_s=SILENCE_S) as http:
        yield HttpClient(http, url, reconnect_s)


@asynccontextmanager
async def open_client(
    url: str, *, headers: Mapping[str, str] | None = None, silence_s: float
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client for a gateway on this machine: plain HTTP, and no proxy between.

    Args:
        url: Where the gateway listens.
        headers: Sent with every request.
        silence_s: After so long without a byte the connection counts as lost, in seconds.
    """

    def make() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=url,
            headers=dict(headers or {}),
            timeout=httpx2.Timeout(silence_s, connect=CONNECT_S),
            trust_env=False,
            # Certificates are not needed, and reading them takes 20 ms.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    # In a thread: the first client of a process loads its modules from disk.
    async with await anyio.to_thread.run_sync(make) as http:
        yield http


class HttpClient:
    """A client to a running gateway."""

    def __init__(self, http: httpx2.AsyncClient, url: str, reconnect_s: float) -> None:
        self._http = http
        self._url = url
        self._reconnect_s = reconnect_s

    @property
    def is_shared(self) -> bool:
        """Others reach a gateway that serves."""
        return True

    async def agents(self) -> Sequence[str]:
        """Return the names of the agents that can be talked to, sorted."""
        data = await self._get("/api/v1/agents")
        return sorted(agent["name"] for agent in data["agents"])

    async def open(self, key: ConversationKey) -> str:
        """Return the session in which a conversation goes on; start one where there is none."""
        body = {"agent": key.agent, "channel": key.channel, "chat": key.chat}
        data = await self._post("/api/v1/sessions", body)
        return str(data["id"])

    async def submit(
        self,
        session_id: str,
        text: str,
        *,
        idempotency_key: str,
        attachments: Sequence[Upload] = (),
    ) -> int:
        """Hand in a message; return the number of its event when it is durable."""
        body: dict[str, object] = {"content": text}
        if attachments:
            check_uploads(attachments)
            body["attachments"] = await anyio.to_thread.run_sync(
                lambda: [*map(_attachment, attachments)]
            )
        data = await self._post(
            f"{_session(session_id)}/messages",
            body,
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return number_of(data["message_id"])

    async def follow(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a number above `after`, then what comes.

        A lost connection is taken up again where it broke. Ends with the session.

        Raises:
            DoorError: The gateway is gone for too long.
        """
        tries = _Tries(self._url, self._reconnect_s)
        while True:
            begun = anyio.current_time()
            try:
                async with aclosing(self._stream(session_id, after)) as updates:
                    async for update in updates:
                        tries.begin_again()
                        if isinstance(update, Event):
                            if update.seq <= after:
                                continue
                            after = update.seq
                        yield update
                        if isinstance(update, Event) and isinstance(update.body, SessionEnded):
                            return
                lost: Exception | None = None
            except _EndedError:
                return
            except (httpx2.TransportError, TryAgainError) as error:
                lost = error
            if anyio.current_time() > begun + CONNECT_S:
                tries.begin_again()  # it stood, and was only silent
            await tries.pause(lost)

    async def _stream(self, session_id: str, after: int) -> AsyncGenerator[Update]:
        async with self._http.sse(
            f"{_session(session_id)}/events",
            params={"after": after},
            max_event_size=_EVENT_BYTES,
        ) as source:
            if source.response.status_code == _NOTHING_MORE:
                raise _EndedError
            if not source.response.is_success:
                refuse(source.response, await source.response.aread())
            async for message in source:
                update = update_of(message.event, message.data)
                if update is not None:
                    yield update

    async def retry(self, session_id: str, *, idempotency_key: str) -> int:
        """Ask the newest turn again, which failed; return the event that begins it."""
        data = await self._post(
            f"{_session(session_id)}/retry",
            {},
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return value_of(lambda values: int(values["event"]), data)

    async def cancel(self, session_id: str) -> bool:
        """Cancel the running turn; return whether there was one, when it is closed."""
        data = await self._post(f"{_session(session_id)}/cancel", {})
        return bool(data["cancelled"])

    async def resume(self, session_id: str) -> bool:
        """Let a paused turn go on; return whether there was one."""
        data = await self._post(f"{_session(session_id)}/resume", {}, repeat=True)
        return bool(data["resumed"])

    async def decide(
        self, session_id: str, call_id: str, decision: Decision, *, arguments_hash: str = ""
    ) -> None:
        """Answer the approval of a call, as whoever runs the gateway."""
        word = {"call_id": call_id, "decision": decision, "arguments_hash": arguments_hash}
        await self._post(f"{_session(session_id)}/approve", word, repeat=True)

    async def reset(self, session_id: str) -> None:
        """End the session."""
        await self._post(f"{_session(session_id)}/reset", {})

    async def share(self, session_id: str, principal: str, *, is_withdrawn: bool) -> Sequence[str]:
        """Give a principal the session, or take it back; return the names of those who have it."""
        method = "DELETE" if is_withdrawn else "PUT"
        path = f"{_session(session_id)}/shares/{quote(principal, safe='')}"
        data = await self._ask(method, path, repeat=True)  # twice is once
        return tuple(data["shared_with"])

    async def delete(self, session_id: str) -> None:
        """Remove the session and all that belongs to it."""
        await self._ask("DELETE", _session(session_id))

    async def status(self, session_id: str) -> Status:
        """Return what is known of the session now."""
        data = await self._get(_session(session_id))
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

    async def context(self, session_id: str) -> ContextReport:
        """Return what the session's next request would hold. Waits for no turn."""
        return value_of(report_from, await self._get(f"{_session(session_id)}/context"))

    async def explain(self, session_id: str, seq: int) -> Explanation:
        """Return why the request that was sent at event `seq` looked as it did."""
        return value_of(explanation_from, await self._get(f"{_session(session_id)}/context/{seq}"))

    async def compact(self, session_id: str, focus: str) -> Compacted:
        """Have older turns summarised; return when that is done, or found to be needless."""
        body = {"focus": focus}
        data = await self._post(f"{_session(session_id)}/compact", body, silence_s=SUMMARY_S)
        return value_of(lambda values: Compacted(**values), data)

    async def history(self, session_id: str, *, after: int) -> Sequence[Said]:
        """Return the messages that came after event `after`, oldest first (`HISTORY_MAX`)."""
        path = f"{_session(session_id)}/messages"
        data = await self._get(path, after=f"m{after}", limit=HISTORY_MAX)
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
                ).told,
            )
            for row in data["messages"]
        ]
        return sorted((*gaps, *messages), key=lambda said: said.seq)

    async def sessions(self, *, after: str, limit: int) -> Sequence[SessionSummary]:
        """Return up to `limit` sessions with an id below `after` ("" = all), newest first."""
        data = await self._get("/api/v1/sessions", after=after, limit=limit)
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

    # --- requests ---

    async def _get(self, path: str, **params: str | int) -> dict[str, Any]:
        given = {name: value for name, value in params.items() if value != ""}
        return await self._ask("GET", path, params=given, repeat=True)

    async def _post(
        self,
        path: str,
        body: Mapping[str, object],
        *,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        silence_s: float = SILENCE_S,
    ) -> dict[str, Any]:
        try:
            content = orjson.dumps(body)
        except orjson.JSONEncodeError:
            msg = "the message is not valid Unicode text"
            raise InvalidInputError(msg) from None
        headers = {"Content-Type": "application/json", **(headers or {})}
        return await self._ask(
            "POST", path, content=content, headers=headers, repeat=repeat, silence_s=silence_s
        )

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        silence_s: float = SILENCE_S,
    ) -> dict[str, Any]:
        """Make one request; with `repeat`, again while the gateway is away.

        Raises:
            CoreError: What the gateway says is wrong with the request.
            DoorError: It cannot be reached, or its answer is not understood.
        """
        tries = _Tries(self._url, self._reconnect_s)
        while True:
            try:
                response = await self._http.request(
                    method,
                    path,
                    params=params,
                    content=content,
                    headers=headers,
                    timeout=httpx2.Timeout(silence_s, connect=CONNECT_S),
                )
                if not response.is_success:
                    refuse(response, response.content)
                return document(response.content)
            except (httpx2.TransportError, TryAgainError) as error:
                if not repeat:
                    raise _lost(self._url, error) from error
                await tries.pause(error)


class _EndedError(Exception):
    """The session has ended, and all of its events were given."""


class _Tries:
    """How long, and how often, a lost gateway is looked for."""

    def __init__(self, url: str, reconnect_s: float) -> None:
        self._url = url
        self._reconnect_s = reconnect_s
        self._deadline = 0.0
        self._count = 0

    def begin_again(self) -> None:
        """The gateway is there."""
        self._deadline, self._count = 0.0, 0

    async def pause(self, lost: Exception | None) -> None:
        """Wait before the next try.

        Raises:
            DoorError: It was tried for long enough.
        """
        now = anyio.current_time()
        self._deadline = self._deadline or now + self._reconnect_s
        if now >= self._deadline:
            raise _lost(self._url, lost) from lost
        await anyio.sleep(_PAUSES_S[min(self._count, len(_PAUSES_S) - 1)])
        self._count += 1


def _lost(url: str, error: Exception | None) -> ClientError:
    why = f": {error}" if str(error or "") else ""
    return ClientError(f"the gateway at {url} cannot be reached{why}")


def _attachment(upload: Upload) -> dict[str, str]:
    """Return a file as the API takes it."""
    named = {"file_name": upload.file_name} if upload.file_name else {}
    kind = attachment_of(upload).media_type
    return {"media_type": kind, "data": b64encode(upload.data).decode(), **named}


def _waiting_for(data: Mapping[str, Any]) -> str:
    turn = data["open_turn"]
    return "" if turn is None else str(turn["waiting_for"])


def _session(session_id: str) -> str:
    return f"{SESSIONS}{quote(session_id, safe='')}"
