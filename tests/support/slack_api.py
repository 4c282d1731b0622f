"""Slack as its documentation describes it, on loopback: its Web API and Socket Mode.

Sources, read 2026-11-27: https://docs.slack.dev/apis/events-api/using-socket-mode (envelopes, one
socket of several, `disconnect`), https://docs.slack.dev/apis/events-api (`message` and
`app_mention` for one `ts`, three repeats), https://docs.slack.dev/reference/methods (forms, errors,
`conversations.history` newest first and `.replies` oldest first),
https://docs.slack.dev/apis/web-api/rate-limits (429, `Retry-After`),
https://docs.slack.dev/messaging/message-metadata, .../working-with-files, and
https://docs.slack.dev/reference/block-kit/blocks/markdown-block (12,000 characters).
"""

from __future__ import annotations

import hmac
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from json import dumps
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import urlencode

import anyio
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup

from everturn_gateway.clock import SystemClock

Json: TypeAlias = dict[str, Any]
Deliver: TypeAlias = Callable[[Mapping[str, str], bytes], Awaitable[int]]
BOT, BOT_ID, TEAM, APP = "UBOT00001", "BBOT00001", "T00000001", "A00000001"
ANN, BOB = "UANN00001", "UBOB00001"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
BOT_TOKEN, APP_TOKEN = "xoxb-of-the-bot", "xapp-of-the-app"
MARKDOWN_MAX: Final = 12_000
_REPEATS: Final = 3
_PAGE: Final = "/login"
_FORM: Final = "application/x-www-form-urlencoded"
_SCOPES: Final = (
    "app_mentions:read,channels:history,channels:read,chat:write,commands,files:read,files:write,"
    "groups:history,groups:read,im:history,im:read,mpim:history,mpim:read,reactions:read,"
    "reactions:write,users:read"
)


class SlackError(Exception):
    """A method answers with `ok: false`."""


def refuse(code: str) -> NoReturn:
    """Answer with an error, and the scope that is needed behind a blank."""
    raise SlackError(code)


class Delivery:
    """Something that the app has not acknowledged."""

    def __init__(self, kind: str, payload: Json, number: int) -> None:
        self.kind, self.payload, self.number = kind, payload, number
        self.attempt = 0
        self.sent_at = 0.0

    @property
    def event(self) -> Json:
        """What it brings, of an event."""
        found: Json = self.payload.get("event", {})
        return found


class SlackApi:
    """One workspace with one app; `slack_methods.open_slack_api` runs it."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self.methods = methods
        self.tasks: TaskGroup
        self.url = ""
        self.users: dict[str, str] = {ANN: "ann", BOB: "bob", BOT: "everturn"}
        self.channels: dict[str, Json] = {}
        "By id: `name`, `members`, and `messages` by ts, oldest first."
        self.pending: dict[str, Delivery] = {}
        "What was not acknowledged, by envelope."
        self.sockets: list[web.WebSocketResponse] = []
        self.files: dict[str, Json] = {}
        self.uploads: dict[str, bytes] = {}
        self.answers: list[Json] = []
        "What was sent to addresses of clicks and commands."
        self.statuses: list[tuple[str, str, str]] = []
        self.calls: list[tuple[str, Json]] = []
        self.scopes = _SCOPES
        self.revoked = False
        self.socket_mode = True
        self.repeats_after_s = 2.0
        "So long an envelope may wait for its acknowledgement; three seconds, of the real one."
        self.cut_after = ""
        "The method whose next answer is lost."
        self.limits: dict[str, deque[int]] = {}
        "By method, the silences that are asked for next."
        self.refusals: dict[str, deque[str]] = {}
        "By method, the errors that are answered next."
        self.deliver: Deliver | None = None
        "Takes headers and body of a delivery over HTTP, and returns the status; None = sockets."
        self._numbers = count(1)
        self._last = 0
        self._tickets: set[str] = set()

    # --- what people do ---

    def add_channel(self, channel: str, *members: str, name: str = "general") -> str:
        """Add a channel with the bot in it; one that begins with D is between two."""
        self.channels[channel] = {"name": name, "members": {BOT, *members}, "messages": {}}
        return channel

    async def say(self, channel: str, text: str, user: str = ANN, **fields: Any) -> str:
        """Let somebody write; return the id."""
        ts = self._ts()
        raw = {"type": "message", "user": user, "text": text, "ts": ts, "team": TEAM, **fields}
        self.channels[channel]["messages"][ts] = raw
        self._note_reply(channel, raw)
        await self._tell(channel, raw)
        return ts

    async def change(self, channel: str, ts: str, text: str) -> None:
        """Let somebody change what they wrote."""
        messages = self.channels[channel]["messages"]
        before = dict(messages[ts])
        messages[ts] |= {"text": text, "edited": {"user": before["user"], "ts": self._ts()}}
        await self._tell_change(channel, messages[ts], before)

    async def delete(self, channel: str, ts: str) -> None:
        """Let somebody delete what they wrote; of the first one of a thread a stone is left."""
        messages = self.channels[channel]["messages"]
        before = messages.pop(ts)
        if before.get("reply_count"):
            stone = {"user": "USLACKBOT", "text": "This message was deleted."}
            messages[ts] = {**before, **stone, "subtype": "tombstone"}
            await self._tell_change(channel, messages[ts], before)
            return
        event = {"type": "message", "subtype": "message_deleted", "hidden": True, "ts": self._ts()}
        await self._deliver_event(
            event | {"channel": channel, "deleted_ts": ts, "previous_message": before}
        )

    async def share(self, channel: str, name: str, data: bytes, user: str = ANN) -> str:
        """Let somebody send a file and no text."""
        file = self.add_file(name, data, user)
        return await self.say(channel, "", user, subtype="file_share", files=[file])

    def add_file(self, name: str, data: bytes, user: str) -> Json:
        """Keep a file; return what is told of it."""
        file_id = f"F{next(self._numbers):08d}"
        self.files[file_id] = {"data": data}
        address = f"{self.url}/files/{file_id}/{name}"
        return {
            "id": file_id,
            "name": name,
            "title": name,
            "mimetype": "application/pdf",
            "size": len(data),
            "user": user,
            "mode": "hosted",
            "url_private": address,
            "url_private_download": address,
        }

    async def click(self, channel: str, ts: str, number: int, user: str = ANN) -> str:
        """Let somebody click a button of a message; return the envelope."""
        message = self.channels[channel]["messages"][ts]
        (actions,) = (each for each in message["blocks"] if each["type"] == "actions")
        button = actions["elements"][number]
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": self.users[user], "team_id": TEAM},
            "channel": {"id": channel, "name": self.channels[channel]["name"]},
            "container": {"type": "message", "message_ts": ts, "channel_id": channel},
            "message": message,
            "actions": [{**button, "block_id": "b", "action_ts": self._ts()}],
            "response_url": f"{self.url}/answers/{next(self._numbers)}",
        }
        return await self._deliver("interactive", payload)

    async def command(self, channel: str, text: str, user: str = ANN) -> str:
        """Let somebody give a slash command; return the envelope."""
        payload = {
            "command": "/everturn",
            "text": text,
            "user_id": user,
            "user_name": self.users[user],
            "channel_id": channel,
            "channel_name": self.channels[channel]["name"],
            "team_id": TEAM,
            "response_url": f"{self.url}/answers/{next(self._numbers)}",
        }
        return await self._deliver("slash_commands", payload)

    def shown(self, channel: str, thread: str = "") -> list[str]:
        """Return what people see of the bot's messages, oldest first; empty = in all threads."""
        return [
            text_of(raw)
            for raw in self.channels[channel]["messages"].values()
            if raw["user"] == BOT and (not thread or raw.get("thread_ts") == thread)
        ]

    def sent_files(self, channel: str) -> list[bytes]:
        """Return the files that the bot sent."""
        messages = self.channels[channel]["messages"].values()
        sent = [f["id"] for raw in messages if raw["user"] == BOT for f in raw.get("files", ())]
        return [self.files[file_id]["data"] for file_id in sent]

    def unacknowledged(self, channel: str) -> int:
        """Return how many messages of people in a channel were not acknowledged."""
        found = {
            each.event["ts"]
            for each in self.pending.values()
            if each.event.get("channel") == channel and "bot_id" not in each.event
        }
        return len(found)

    async def disconnect(self, reason: str) -> None:
        """Tell the app that its sockets are closed, as the real one does."""
        for socket in list(self.sockets):
            await socket.send_json({"type": "disconnect", "reason": reason})

    async def cut(self) -> None:
        """Close all sockets without a word."""
        for socket in list(self.sockets):
            await socket.close()

    # --- telling the app ---

    def _ts(self) -> str:
        """Return the id of a message of now, later than all before."""
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def _note_reply(self, channel: str, raw: Json) -> None:
        thread = raw.get("thread_ts")
        first = self.channels[channel]["messages"].get(thread)
        if first is None or thread == raw["ts"]:
            return
        first["thread_ts"] = thread
        first["reply_count"] = first.get("reply_count", 0) + 1
        first["latest_reply"] = raw["ts"]
        raw["parent_user_id"] = first["user"]

    async def _tell(self, channel: str, raw: Json) -> None:
        if BOT not in self.channels[channel]["members"]:
            return
        kind = "im" if channel.startswith("D") else "channel"
        event = {**raw, "channel": channel, "event_ts": raw["ts"]}
        await self._deliver_event({**event, "channel_type": kind})
        if kind == "channel" and f"<@{BOT}>" in raw["text"] and "bot_id" not in raw:
            await self._deliver_event({**event, "type": "app_mention"})

    async def _tell_change(self, channel: str, now: Json, before: Json) -> None:
        event: Json = {"type": "message", "subtype": "message_changed", "ts": self._ts()}
        event |= {"channel": channel, "message": dict(now), "previous_message": before}
        await self._deliver_event({**event, "event_ts": event["ts"]})

    async def _deliver_event(self, event: Json) -> None:
        payload = {"type": "event_callback", "team_id": TEAM, "api_app_id": APP, "event": event}
        await self._deliver("events_api", {**payload, "event_id": f"Ev{next(self._numbers)}"})

    async def _deliver(self, kind: str, payload: Json) -> str:
        number = next(self._numbers)
        envelope = f"envelope-{number}"
        self.pending[envelope] = Delivery(kind, payload, number)
        await self._send(envelope)
        return envelope

    async def _send(self, envelope: str) -> None:
        """Send an envelope to one of the sockets, if there is one."""
        each = self.pending[envelope]
        each.sent_at = time.monotonic()
        if self.deliver is not None:
            self.tasks.start_soon(self._post_to_app, envelope, each)
            return
        sockets = [socket for socket in self.sockets if not socket.closed]
        if not sockets:
            return
        frame: Json = {"envelope_id": envelope, "type": each.kind, "payload": each.payload}
        frame |= {"accepts_response_payload": each.kind != "events_api"}
        if each.attempt:
            frame |= {"retry_attempt": each.attempt, "retry_reason": "timeout"}
        await sockets[each.number % len(sockets)].send_json(frame)

    async def _post_to_app(self, envelope: str, each: Delivery) -> None:
        """Deliver over HTTP; what is not answered with 200 comes again."""
        assert self.deliver is not None
        form = {"slash_commands": each.payload, "interactive": {"payload": dumps(each.payload)}}
        body = dumps(each.payload).encode()
        media_type = "application/json"
        if each.kind in form:
            body, media_type = urlencode(form[each.kind]).encode(), _FORM
        headers = signed(body) | {"Content-Type": media_type}
        if each.attempt:
            headers |= {"X-Slack-Retry-Num": f"{each.attempt}", "X-Slack-Retry-Reason": "timeout"}
        if await self.deliver(headers, body) == 200:
            self.pending.pop(envelope, None)

    async def repeat(self) -> None:
        """Send again what was not acknowledged in time, three times, until cancelled."""
        while True:
            await anyio.sleep(0.05)
            now = time.monotonic()
            for envelope, each in list(self.pending.items()):
                late = now - each.sent_at > self.repeats_after_s
                if late and each.attempt < _REPEATS and each.kind == "events_api":
                    await self._repeat(envelope)

    async def _repeat(self, envelope: str) -> None:
        """Send an envelope again, under another name."""
        each = self.pending.pop(envelope)
        each.attempt += 1
        again = f"{envelope}+"
        self.pending[again] = each
        await self._send(again)

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """Serve a socket of the app."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": len(self.sockets) + 1})
        self.sockets.append(socket)
        try:
            for envelope, each in list(self.pending.items()):
                if each.kind == "events_api" and each.attempt < _REPEATS:
                    await self._repeat(envelope)
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self.pending.pop(json.loads(message.data)["envelope_id"], None)
        finally:
            self.sockets.remove(socket)
        return socket

    # --- answering the app ---

    async def method(self, request: web.Request) -> web.StreamResponse:
        """Answer a method of the Web API."""
        method, form = request.match_info["method"], dict(await request.post())
        fields = {name: str(value) for name, value in form.items()}
        self.calls.append((method, fields))
        if waits := self.limits.get(method):
            headers = {"Retry-After": str(waits.popleft())}
            body: Json = {"ok": False, "error": "ratelimited"}
            return web.json_response(body, status=429, headers=headers)
        try:
            self._check_token(method, request.headers.get("Authorization", ""))
            if errors := self.refusals.get(method):
                refuse(errors.popleft())
            answer = await self.methods[method](self, fields)
        except KeyError as error:
            return web.json_response({"ok": False, "error": f"invalid_arguments {error}"})
        except SlackError as error:
            code, _, needed = str(error).partition(" ")
            found: Json = {"ok": False, "error": code}
            return web.json_response({**found, "needed": needed} if needed else found)
        if self.cut_after == method:
            self.cut_after = ""
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": True, **answer}, headers={"X-OAuth-Scopes": self.scopes})

    def _check_token(self, method: str, shown: str) -> None:
        if self.revoked:
            refuse("token_revoked")
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if shown != f"Bearer {wanted}":
            refuse("invalid_auth")

    def ticket(self) -> str:
        """Return the address of a socket, for one connection."""
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return f"{self.url.replace('http', 'ws')}/link?ticket={ticket}"

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Take the bytes of a file."""
        self.uploads[request.match_info["file"]] = await request.read()
        return web.Response(text="OK")

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Give the bytes of a file to whoever shows the token; others are sent to a page."""
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            raise web.HTTPFound(_PAGE)
        return web.Response(body=self.files[request.match_info["file"]]["data"])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take the answer to a click or a command."""
        self.answers.append(await request.json())
        return web.Response(text="ok")

    async def post(self, channel: str, fields: Json, **more: Any) -> str:
        """Let the bot write; return the id."""
        ts = self._ts()
        raw = {"type": "message", "user": BOT, "bot_id": BOT_ID, "ts": ts, "text": "", **fields}
        self.channels[channel]["messages"][ts] = raw | more
        self._note_reply(channel, raw | more)
        await self._tell(channel, raw | more)
        return ts


def signed(body: bytes, at: float | None = None, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """Return the headers with which Slack signs a body."""
    now = f"{int(SystemClock().now().timestamp() if at is None else at)}"
    found = hmac.new(secret.encode(), f"v0:{now}:".encode() + body, sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={found}"}


def text_of(raw: Json) -> str:
    """Return what people see of a message."""
    for block in raw.get("blocks", ()):
        if block["type"] == "markdown":
            return str(block["text"])
        if block["type"] == "rich_text":
            parts = (e for section in block["elements"] for e in section["elements"])
            return "".join(each["text"] for each in parts)
    return str(raw["text"]).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


Method: TypeAlias = Callable[[SlackApi, Json], Awaitable[Json]]


@asynccontextmanager
async def open_workspace(methods: Mapping[str, Method]) -> AsyncGenerator[SlackApi]:
    """Run Slack on a port of loopback while the block runs."""
    api = SlackApi(methods)
    app = web.Application(client_max_size=100 * 1024 * 1024)
    app.router.add_post("/api/{method}", api.method)
    app.router.add_get("/link", api.socket)
    app.router.add_post("/upload/{file}", api.upload)
    app.router.add_get("/files/{file}/{name}", api.download)
    app.router.add_post("/answers/{number}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with anyio.create_task_group() as tasks:
            api.tasks = tasks
            tasks.start_soon(api.repeat)
            yield api
            tasks.cancel_scope.cancel()
    finally:
        await api.cut()
        await runner.cleanup()
