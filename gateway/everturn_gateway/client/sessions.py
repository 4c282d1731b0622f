"""The sessions of a gateway, for the terminal and the commands.

Messages are handed in with an idempotency key and followed from their event number on, so that a
lost connection costs neither a message nor a piece of an answer.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx2
from msgspec import convert

from everturn_actors.context.past.explain import Explanation
from everturn_actors.context.report import ContextReport
from everturn_actors.errors import UnknownSessionError
from everturn_actors.events import Event, SessionEnded
from everturn_actors.model import ConversationKey, Decision, Upload, UserMessage
from everturn_actors.ports import SessionSummary
from everturn_actors.service import Compacted, Update
from everturn_actors.state.reports import explanation_from, report_from
from everturn_actors.state.validation import attachment_of, check_focus, check_uploads
from everturn_channels.keeping import KnownNote, PinnedMessage
from everturn_channels.prompts import OfferedPrompt
from everturn_channels.terminal.client import HISTORY_MAX, Match, Said, Status
from everturn_gateway.client.answers import (
    SESSIONS,
    Json,
    TryAgainError,
    approval_of,
    attachments_of,
    key_of,
    number_of,
    outage_of,
    update_of,
    usage_of,
    value_of,
)
from everturn_gateway.client.api import CONNECT_S, Api, NothingMoreError, lost
from everturn_gateway.client.keeping import notes_of, pins_of
from everturn_gateway.client.undoing import undone_text

_NO_SEGMENT: Final = re.compile(r"/|^\.\.?$")  # not one step of a path, however it is written
PROMPT_S: Final = 180.0  # a server may have to be started, and has its own time to answer
SUMMARY_S: Final = 600.0  # an agent sets how long its summaries may take; the server has its own


class SessionClient:
    """The sessions of a gateway, for whoever sits at a terminal: see `Client`, the port of that.

    The same over a connection and within the process: only the `Api` below it differs.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    @property
    def is_shared(self) -> bool:
        """Whether others reach the gateway as well, while this client is open."""
        return self._api.is_shared

    async def agents(self) -> Sequence[str]:
        """Return the names of the agents that can be talked to, sorted."""
        data = await self._get("/api/v1/agents")
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
            f"{_session(session_id)}/messages",
            body=body,
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return number_of(str(data["message_id"]))

    async def prompts(self, agent: str) -> Sequence[OfferedPrompt]:
        """Return what MCP servers of an agent have for people to send."""
        data = await self._api.ask("GET", _prompts(agent), repeat=True, silence_s=PROMPT_S)
        return value_of(_offered, data)

    async def prompt_text(self, agent: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt, with its places filled in; it is from outside."""
        body = {"name": name, "arguments": dict(arguments)}
        data = await self._api.ask("POST", _prompts(agent), body=body, silence_s=PROMPT_S)
        return str(data["content"])

    async def follow(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a number above `after`, then what comes.

        A lost connection is taken up again where it broke. Ends with the session.

        Raises:
            ClientError: The gateway is gone for too long.
        """
        tries = self._api.tries()
        path = f"{_session(session_id)}/events"
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
            if anyio.current_time() > begun + CONNECT_S:
                tries.begin_again()  # it stood, and was only silent
            await tries.pause(lost)

    async def retry(self, session_id: str, *, idempotency_key: str) -> int:
        """Ask the newest turn again, which failed; return the event that begins it."""
        data = await self._api.ask(
            "POST",
            f"{_session(session_id)}/retry",
            body={},
            headers={"Prefer": "respond-async", "Idempotency-Key": idempotency_key},
            repeat=True,
        )
        return value_of(lambda values: int(values["event"]), data)

    async def undo(self, session_id: str) -> str:
        """Take back the files of the last turn that changed some; return what was, in words."""
        data = await self._api.ask("POST", f"{_session(session_id)}/undo", body={})
        return value_of(undone_text, data)

    async def cancel(self, session_id: str) -> bool:
        """Cancel the running turn; return whether there was one, when it is closed."""
        data = await self._api.ask("POST", f"{_session(session_id)}/cancel", body={})
        return bool(data["cancelled"])

    async def resume(self, session_id: str) -> bool:
        """Let a paused turn go on; return whether there was one."""
        data = await self._api.ask("POST", f"{_session(session_id)}/resume", body={}, repeat=True)
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
            "POST", f"{_session(session_id)}/approve", body=decision_body, repeat=True
        )

    async def reset(self, session_id: str) -> None:
        """End the session."""
        await self._api.ask("POST", f"{_session(session_id)}/reset", body={})

    async def share(self, session_id: str, principal: str, *, is_withdrawn: bool) -> Sequence[str]:
        """Give a principal the session, or take it back; return the names of those who have it."""
        method = "DELETE" if is_withdrawn else "PUT"
        path = f"{_session(session_id)}/shares/{quote(principal, safe='')}"
        data = await self._api.ask(method, path, repeat=True)  # twice is once
        return convert(data["shared_with"], tuple[str, ...])

    async def delete(self, session_id: str) -> None:
        """Remove the session and all that belongs to it."""
        await self._api.ask("DELETE", _session(session_id))

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
        check_focus(focus)
        body = {"focus": focus}
        data = await self._api.ask(
            "POST", f"{_session(session_id)}/compact", body=body, silence_s=SUMMARY_S
        )
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

    def export(self, session_id: str, form: str) -> AsyncGenerator[bytes]:
        """Yield the session as a file, in a format of the export."""
        return self._api.download(f"{_session(session_id)}/export", params={"format": form})

    def media(self, session_id: str, name: str) -> AsyncGenerator[bytes]:
        """Yield a file that came with a message, or was sent in the session."""
        return self._api.download(f"{_session(session_id)}/media/{quote(name, safe='')}")

    async def search(self, text: str, **wanted: str | int) -> Sequence[Match]:
        """Return what was said that fits a question or words, the best match first."""
        given = {name: value for name, value in wanted.items() if value}
        data = await self._get("/api/v1/search", q=text, **given)
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

    async def pins(self, session_id: str) -> Sequence[PinnedMessage]:
        """Return the messages that the model is shown whatever is hidden, oldest first."""
        return pins_of(await self._get(f"{_session(session_id)}/pins"))

    async def pin(
        self, session_id: str, message: int, *, is_off: bool = False
    ) -> Sequence[PinnedMessage]:
        """Pin a message, or take its pin off; return all that are pinned then."""
        path = f"{_session(session_id)}/pins/{message}"
        return pins_of(await self._api.ask("DELETE" if is_off else "PUT", path, repeat=True))

    async def notes(self, session_id: str) -> Sequence[KnownNote]:
        """Return what the agent knows of whom it talks with in a session."""
        return notes_of(await self._get(f"{_session(session_id)}/memory"))

    async def note(self, session_id: str, topic: str, text: str) -> Sequence[KnownNote]:
        """Keep a note, in the place of the one on its topic; an empty text removes that."""
        path = f"{_session(session_id)}/memory/{quote(topic, safe='')}"
        if not text:
            return notes_of(await self._api.ask("DELETE", path, repeat=True))
        return notes_of(await self._api.ask("PUT", path, body={"text": text}, repeat=True))

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

    async def _get(self, path: str, **params: str | int) -> Json:
        return await self._api.ask("GET", path, params=params, repeat=True)


async def past_events(api: Api, session_id: str, *, until: int) -> AsyncGenerator[Event]:
    """Yield the events of a session that there are still, up to a number, in order.

    Raises:
        ClientError: The gateway was lost on the way.
    """
    path = f"{_session(session_id)}/events"
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


def _attachment(upload: Upload) -> dict[str, str]:
    """Return a file as the API takes it."""
    named = {"file_name": upload.file_name} if upload.file_name else {}
    kind = attachment_of(upload).media_type
    return {"media_type": kind, "data": b64encode(upload.data).decode(), **named}


def _waiting_for(data: Json) -> str:
    turn = data["open_turn"]
    return "" if turn is None else str(turn["waiting_for"])


def _prompts(agent: str) -> str:
    return f"/api/v1/agents/{quote(agent, safe='')}/prompts"


def _offered(data: Json) -> tuple[OfferedPrompt, ...]:
    return tuple(
        OfferedPrompt(
            name=each["name"],
            description=each["description"],
            required=tuple(a["name"] for a in each["arguments"] if a["required"]),
            optional=tuple(a["name"] for a in each["arguments"] if not a["required"]),
        )
        for each in data["prompts"]
    )


def _session(session_id: str) -> str:
    """Return the path of a session.

    Raises:
        UnknownSessionError: Nothing else has such an id: it would be another path.
    """
    if _NO_SEGMENT.search(session_id) or not session_id:
        raise UnknownSessionError(session_id)
    return f"{SESSIONS}{quote(session_id, safe='')}"
