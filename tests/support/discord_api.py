"""A pretended Discord on loopback: REST version 10 and the gateway, for the real discord.py.

    async with open_discord_api() as api:
        DiscordAdapter(..., servers=DiscordServers(api_base=api.base, gateway_url=api.gateway)),
        await api.says("hello")

What it knows: the gateway with zlib-stream, IDENTIFY, RESUME with replay, reconnect and invalid
session, close codes 4004 and 4014; and, in `discord_rest`, messages with nonces, references,
components, files and the limit of 2,000; history; edits, reactions, typing; DMs, threads; commands
and interactions with their three seconds; buckets and 429. `fail` and `refuse` plant faults.

Source: https://docs.discord.com/developers (gateway events, opcodes and status codes), 2026-11.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from aiohttp import WSMsgType, web
from support.discord_rest import TOKEN, Call, Rest
from support.discord_world import DM, FORUM, Payload

GUILDS, GUILD_MESSAGES, DM_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
GUILD_MEMBERS, PRESENCES = 1 << 1, 1 << 8
_Api = TypeVar("_Api", bound="DiscordApi")


@dataclass
class Session:
    """A session of the gateway; it outlives its connection so that it can be resumed."""

    id: str
    intents: int
    seq: int = 0
    sent: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=1000))
    line: Line | None = None


class Line:
    """One websocket."""

    def __init__(self, ws: web.WebSocketResponse, request: web.Request) -> None:
        self.ws, self.request = ws, request
        self.session: Session | None = None
        self._zlib = zlib.compressobj()
        self._lock = anyio.Lock()

    async def send(self, payload: Payload) -> None:
        """Send one payload, as zlib-stream has it."""
        await self.send_text(json.dumps(payload))

    async def send_text(self, text: str) -> None:
        """Send what stands in a frame, whatever it is."""
        data = text.encode()
        async with self._lock:
            if not self.ws.closed:
                packed = self._zlib.compress(data) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
                await self.ws.send_bytes(packed)

    def cut(self) -> None:
        """Cut it without a word."""
        if self.request.transport is not None:
            self.request.transport.abort()


class DiscordApi(Rest):
    """The pretended platform. Public attributes may be read and set by tests at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.base = self.gateway = ""
        self.allowed_privileged = MESSAGE_CONTENT
        self.heartbeat_ms = 41_250
        self.refuses_handshakes = 0
        "The next so many are answered with 503."
        self.silent_handshakes = 0
        "The next so many connections end before their first word."
        self.identifies: list[Payload] = []
        self.resumes: list[Payload] = []
        self.sessions: dict[str, Session] = {}
        self.lines: set[Line] = set()
        self.heartbeats = 0

    # --- what people do ---

    async def says(
        self,
        content: str,
        *,
        author: Payload | None = None,
        channel: str = "",
        **extra: Any,
    ) -> Payload:
        """Somebody writes; in the guild's first channel where no other is named."""
        message = self.world.add_message(
            author or self.world.add_user("ann"), channel or self.world.general, content, **extra
        )
        await self.emit("MESSAGE_CREATE", message)
        return message

    async def edits(self, message: Payload, content: str, *, at: str = "") -> None:
        """Somebody changes what they wrote; without `at` only an embed was added to it."""
        message |= {"content": content, "edited_timestamp": at or None}
        await self.emit("MESSAGE_UPDATE", message)

    async def deletes(self, message: Payload) -> None:
        """Somebody deletes what they wrote."""
        names = ("id", "channel_id", "guild_id")
        gone: Payload = {name: message[name] for name in names if name in message}
        await self.emit("MESSAGE_DELETE", gone)

    async def reacts(
        self, channel: str, message_id: str, emoji: str, *, who: Payload, author: Payload
    ) -> None:
        """Somebody puts a reaction on a message of an author's."""
        reaction: Payload = {
            "user_id": who["id"],
            "channel_id": channel,
            "message_id": message_id,
            "message_author_id": author["id"],
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
        }
        if self.world.channels[channel]["type"] != DM:
            reaction |= {"guild_id": self.world.guild_id, "member": self.world.member(who)}
        await self.emit("MESSAGE_REACTION_ADD", reaction)

    async def uses(
        self, kind: int, data: Payload, *, author: Payload, channel: str, **more: Any
    ) -> Payload:
        """Somebody uses a slash command (2) or a component (3)."""
        world, where = self.world, self.world.channels[channel]
        token = f"interaction-{world.new_id()}"
        interaction: Payload = {
            "id": world.new_id(),
            "application_id": world.bot["id"],
            "type": kind,
            "token": token,
            "version": 1,
            "channel_id": channel,
            "channel": where,
            "locale": "en-US",
            "app_permissions": "8",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": 1 if where["type"] == DM else 0,
            "attachment_size_limit": 10 * 2**20,
            "data": data,
            **more,
        }
        if where["type"] == DM:
            interaction["user"] = author
        else:
            interaction |= {"guild_id": world.guild_id, "member": world.member(author)}
        state: Payload = {"callbacks": [], "said": [], "at": anyio.current_time(), "original": ""}
        self.interactions[token] = state
        await self.emit("INTERACTION_CREATE", interaction)
        return state

    async def slash(
        self, name: str, /, *, author: Payload, channel: str = "", **options: str
    ) -> Payload:
        """Somebody uses a slash command; return what the bot answers."""
        given = [{"name": k, "type": 3, "value": v} for k, v in options.items()]
        data: Payload = {"id": self.world.new_id(), "name": name, "type": 1, "options": given}
        where = channel or self.world.general
        return await self.uses(2, data, author=author, channel=where)

    async def button_clicks(
        self, data: str, *, author: Payload, channel: str = "", below: str = ""
    ) -> Payload:
        """Somebody presses a button below a message; return what the bot answers."""
        where = channel or self.world.general
        pressed: Payload = {"custom_id": data, "component_type": 2}
        message = {"message": self.world.messages[where][below]} if below else {}
        return await self.uses(3, pressed, author=author, channel=where, **message)

    async def emit(self, event: str, data: Payload) -> None:
        """Tell every session what happened, as far as its intents go."""
        for session in list(self.sessions.values()):
            seen = data
            if event.startswith("MESSAGE_"):
                is_dm = "guild_id" not in data
                needed = DM_MESSAGES if is_dm else GUILD_MESSAGES
                if event.startswith("MESSAGE_REACTION_"):
                    needed <<= 1  # those of reactions stand one above those of messages
                if not session.intents & needed:
                    continue
                who = (data["author"]["id"], *_ids(data["mentions"])) if "author" in data else ()
                own = self.world.bot["id"] in who
                if event in {"MESSAGE_CREATE", "MESSAGE_UPDATE"} and not (
                    is_dm or own or session.intents & MESSAGE_CONTENT
                ):
                    seen = data | {"content": "", "attachments": [], "embeds": []}
            await self._dispatch(session, event, seen)

    async def emit_raw(self, event: str, data: bytes) -> None:
        """Tell every session of something in the words of `data`, which need not be JSON."""
        for session in list(self.sessions.values()):
            session.seq += 1
            head = json.dumps({"op": 0, "t": event, "s": session.seq})[:-1]
            text = f'{head}, "d": {data.decode()}}}'
            session.sent.append((session.seq, text))
            if session.line:
                try:
                    await session.line.send_text(text)
                except ConnectionError:
                    session.line = None

    # --- what the gateway does to the bot ---

    def cut(self) -> None:
        """Cut all connections to the gateway."""
        for line in list(self.lines):
            if line.session:
                line.session.line = None
            line.cut()

    async def close(self, code: int) -> None:
        """Close all connections to the gateway with a code."""
        for line in list(self.lines):
            await line.ws.close(code=code)

    async def ask_to_reconnect(self) -> None:
        """Send opcode 7."""
        for line in list(self.lines):
            await line.send({"op": 7, "d": None})

    async def invalidate(self, *, resumable: bool = False) -> None:
        """Send opcode 9; without `resumable` the sessions are forgotten, with all they missed."""
        lines = list(self.lines)
        if not resumable:
            self.sessions.clear()
        for line in lines:
            await line.send({"op": 9, "d": resumable})

    # --- what the bot did ---

    def said(self, channel: str = "") -> list[Payload]:
        """Return the bot's messages, oldest first."""
        found = self.world.messages.get(channel or self.world.general, {}).values()
        return [m for m in found if m["author"]["id"] == self.world.bot["id"]]

    def requests(self, method: str, path: str) -> list[Call]:
        """Return the requests whose path ends so."""
        return [c for c in self.calls if c.method == method and c.path.endswith(path)]

    async def until(self, condition: Callable[[], object], timeout_s: float = 10) -> None:
        """Wait until something holds."""
        with anyio.move_on_after(timeout_s):
            while not condition():  # noqa: ASYNC110 - of anything, there is no event
                await anyio.sleep(0.005)
            return
        seen = [(c.method, c.path, c.status) for c in self.calls][-12:]
        raise AssertionError(f"it never came true; requests: {seen}")  # noqa: EM102, TRY003 - for a reader of tests

    # --- the gateway ---

    async def _dispatch(self, session: Session, event: str, data: Payload) -> None:
        session.seq += 1
        payload: Payload = {"op": 0, "t": event, "s": session.seq, "d": data}
        session.sent.append((session.seq, json.dumps(payload)))
        if session.line:
            try:
                await session.line.send(payload)
            except ConnectionError:
                session.line = None

    async def serve_gateway(self, request: web.Request) -> web.StreamResponse:
        """Serve one websocket."""
        if self.refuses_handshakes:
            self.refuses_handshakes -= 1
            return web.Response(status=503)
        assert request.query["compress"] == "zlib-stream", request.query
        ws = web.WebSocketResponse(max_msg_size=0, compress=False)
        await ws.prepare(request)
        line = Line(ws, request)
        self.lines.add(line)
        try:
            if self.silent_handshakes:
                self.silent_handshakes -= 1
                return ws
            await line.send({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    payload = json.loads(message.data)
                    await self._gateway_op(line, payload["op"], payload.get("d"))
        finally:
            self.lines.discard(line)
            if line.session and line.session.line is line:
                line.session.line = None
        return ws

    async def _gateway_op(self, line: Line, op: int, data: Any) -> None:
        if op == 1:
            self.heartbeats += 1
            await line.send({"op": 11})
        elif op == 2:
            await self._identify(line, data)
        elif op == 6:
            await self._resume(line, data)

    async def _identify(self, line: Line, data: Payload) -> None:
        self.identifies.append(data)
        intents = data["intents"]
        privileged = intents & (MESSAGE_CONTENT | GUILD_MEMBERS | PRESENCES)
        if data["token"] != TOKEN:
            await line.ws.close(code=4004)
            return
        if privileged & ~self.allowed_privileged:
            await line.ws.close(code=4014)
            return
        world = self.world
        session = Session(f"session-{world.new_id()}", intents, line=line)
        line.session, self.sessions = session, {session.id: session}
        ready: Payload = {
            "v": 10,
            "user": world.bot | {"verified": True, "mfa_enabled": False},
            "session_id": session.id,
            "resume_gateway_url": self.gateway,
            "guilds": [{"id": world.guild_id, "unavailable": True}],
            "application": {"id": world.bot["id"], "flags": self.application_flags},
        }
        await self._dispatch(session, "READY", ready)
        await self._dispatch(session, "GUILD_CREATE", world.guild())

    async def _resume(self, line: Line, data: Payload) -> None:
        self.resumes.append(data)
        session = self.sessions.get(data["session_id"])
        if session is None:
            await line.send({"op": 9, "d": False})
            return
        line.session, session.line = session, line
        for seq, text in list(session.sent):
            if seq > (data["seq"] or 0):
                await line.send_text(text)
        await self._dispatch(session, "RESUMED", {})


def _ids(users: list[Payload]) -> list[str]:
    return [u["id"] for u in users]


@asynccontextmanager
async def serve_discord_api(api: _Api) -> AsyncGenerator[_Api]:
    """Serve this pretended Discord on a free port while the block runs."""
    app = web.Application(client_max_size=30 * 2**20)
    app.router.add_route("*", "/api/v10/{path:.*}", api.serve_rest)
    app.router.add_get("/cdn/{name}", api.serve_blob)
    app.router.add_get("/", api.serve_gateway)
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        api.base = f"http://127.0.0.1:{port}/api/v10"
        api.gateway = f"ws://127.0.0.1:{port}/"
        yield api
    finally:
        for line in list(api.lines):
            line.cut()
        await runner.cleanup()


@asynccontextmanager
async def open_discord_api() -> AsyncGenerator[DiscordApi]:
    """Serve a pretended Discord of its own on a free port while the block runs."""
    async with serve_discord_api(DiscordApi()) as api:
        yield api


__all__ = ["FORUM", "TOKEN", "DiscordApi", "open_discord_api", "serve_discord_api"]
