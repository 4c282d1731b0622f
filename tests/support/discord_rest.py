"""The REST half of the pretended Discord: requests, their answers, and planted faults.

Source: https://docs.discord.com/developers (messages, rate limits, interactions, status codes),
2026-11. discord.py insists on JSON of the content type `application/json` without a charset, and
on a `Via` header with a 429.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web
from support.discord_world import FORUM, Payload, World
from support.patience import WAIT_S

TOKEN = "MTIzNDU2Nzg5.Gtest.not-a-real-one"
CONTENT_FLAG = 1 << 18
"Of an application: may read message content."
LIMIT = 2000


class ApiError(Exception):
    """An answer that refuses."""

    def __init__(self, status: int, code: int, message: str, **extra: object) -> None:
        super().__init__(message)
        self.status = status
        self.body: Payload = {"message": message, "code": code} | extra


@dataclass
class Call:
    """A request that came in."""

    method: str
    path: str
    body: Any
    files: list[tuple[str, bytes]]
    query: dict[str, str]
    status: int = 0


@dataclass
class Fault:
    """What happens to requests instead of an answer."""

    method: str
    path: re.Pattern[str]
    status: int
    "0 = the connection is cut."
    body: Payload
    headers: dict[str, str]
    times: int
    happens: bool
    "Whether the request takes effect before its answer is lost."


@dataclass
class Hold:
    """A request that waits in the server, once it came."""

    picks: Callable[[Call], object]
    carried_out: bool
    "Whether it waits for its answer only."
    reached: anyio.Event = field(default_factory=anyio.Event)
    released: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self) -> None:
        """Wait until it came."""
        with anyio.fail_after(WAIT_S):
            await self.reached.wait()


class Rest:
    """What requests find. Public attributes may be read and set by tests at any time."""

    def __init__(self) -> None:
        self.world = World()
        self.application_flags = CONTENT_FLAG
        self.application_extra: Payload = {}
        self.bucket: tuple[int, float] | None = None
        "Messages in a channel in so many seconds; None = no bound."
        self.calls: list[Call] = []
        self.commands: list[Payload] = []
        self.interactions: dict[str, Payload] = {}
        "By token: `callbacks` and `said` are what the bot answered."
        self.typing: list[str] = []
        self.reactions: dict[str, set[str]] = {}
        self.blobs: dict[str, bytes] = {}
        "What the content network serves, by name."
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._refused: dict[str, ApiError] = {}
        self._nonces: dict[tuple[str, str], Payload] = {}
        self._posted: dict[str, deque[float]] = {}

    async def emit(self, event: str, data: Payload) -> None:
        """Tell the gateway; the other half does."""

    def fail(
        self,
        method: str,
        path: str,
        status: int,
        *,
        body: Payload | None = None,
        headers: dict[str, str] | None = None,
        times: int = 1,
        happens: bool = False,
    ) -> None:
        """Answer the next requests to paths that `path` finds with an error, or cut them (0)."""
        fault = Fault(method, re.compile(path), status, body or {}, headers or {}, times, happens)
        self._faults.append(fault)

    def hold(self, picks: Callable[[Call], object], *, carried_out: bool = False) -> Hold:
        """Keep the next request that `picks` is true of waiting, before or after it has effect."""
        hold = Hold(picks, carried_out)
        self._holds.append(hold)
        return hold

    async def _wait(self, call: Call, *, carried_out: bool) -> None:
        for hold in self._holds:
            if hold.carried_out == carried_out and hold.picks(call):
                self._holds.remove(hold)
                hold.reached.set()
                await hold.released.wait()
                return

    def refuse(self, channel: str, status: int, code: int, message: str) -> None:
        """Refuse everything in a channel, as where the bot was removed."""
        self._refused[channel] = ApiError(status, code, message)

    async def serve_rest(self, request: web.Request) -> web.Response:
        """Serve one request."""
        path = "/" + request.match_info["path"]
        body, files = await _read(request)
        call = Call(request.method, path, body, files, dict(request.query))
        self.calls.append(call)
        fault = self._fault(request.method, path)
        headers: dict[str, str] = {}
        answer: Payload | list[Payload] | None = None
        try:
            if fault is None or fault.happens:
                await self._wait(call, carried_out=False)
                answer = await self._answer(request, call, headers)
                await self._wait(call, carried_out=True)
            if fault is not None:
                if not fault.status and request.transport is not None:
                    request.transport.abort()
                call.status = fault.status
                return _reply(fault.status or 500, fault.body, fault.headers)
            call.status = 204 if answer is None else 200
        except ApiError as error:
            call.status, answer = error.status, error.body
        return _reply(call.status, answer, headers)

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.times and fault.method == method and fault.path.search(path):
                fault.times -= 1
                return fault
        return None

    async def _answer(
        self, request: web.Request, call: Call, headers: dict[str, str]
    ) -> Payload | list[Payload] | None:
        is_open = call.path.startswith(("/interactions/", "/webhooks/"))
        if not is_open and request.headers.get("Authorization") != f"Bot {TOKEN}":
            raise ApiError(401, 0, "401: Unauthorized")
        for method, pattern, handle in self._routes():
            match = re.fullmatch(pattern, call.path)
            if match and method == call.method:
                channel = match.groupdict().get("channel")
                if channel in self._refused:
                    raise self._refused[channel]
                if channel is not None and channel not in self.world.channels:
                    raise ApiError(404, 10003, "Unknown Channel")
                return await handle(call, match.groupdict(), headers)
        raise ApiError(404, 0, f"404: Not Found ({call.method} {call.path})")

    def _routes(self) -> tuple[tuple[str, str, Handler], ...]:
        messages = r"/channels/(?P<channel>\d+)/messages"
        one = rf"{messages}/(?P<message>\d+)"
        reaction = rf"{one}/reactions/(?P<emoji>[^/]+)/@me"
        webhook = r"/webhooks/\d+/(?P<token>[^/]+)"
        commands = r"/applications/\d+/commands"
        return (
            ("GET", r"/users/@me", self._me),
            ("POST", r"/users/@me/channels", self._open_dm),
            ("GET", r"/oauth2/applications/@me", self._application),
            ("GET", r"/channels/(?P<channel>\d+)", self._channel),
            ("POST", messages, self._post),
            ("GET", messages, self._history),
            ("GET", one, self._message),
            ("PATCH", one, self._patch),
            ("POST", r"/channels/(?P<channel>\d+)/typing", self._type),
            ("POST", rf"{one}/threads", self._open_thread),
            ("PUT", reaction, self._react),
            ("DELETE", reaction, self._unreact),
            ("GET", commands, self._list_commands),
            ("PUT", commands, self._put_commands),
            ("POST", r"/interactions/\d+/(?P<token>[^/]+)/callback", self._callback),
            ("POST", webhook, self._follow_up),
            ("PATCH", rf"{webhook}/messages/@original", self._complete),
            ("DELETE", rf"{webhook}/messages/@original", self._withdraw),
        )

    async def _me(self, *_: object) -> Payload:
        return self.world.bot | {"verified": True, "mfa_enabled": False, "email": None}

    async def _open_dm(self, call: Call, *_: object) -> Payload:
        person = self.world.users.get(str(call.body["recipient_id"]))
        if person is None:
            raise ApiError(400, 50033, "Invalid Recipient(s)")
        return self.world.channels[self.world.dm(person)]

    async def _application(self, *_: object) -> Payload:
        return {
            "id": self.world.bot["id"],
            "name": "Everturn",
            "icon": None,
            "description": "",
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "flags": self.application_flags,
            "owner": self.world.bot,
            "team": None,
            "summary": "",
            "rpc_origins": [],
            "redirect_uris": [],
            "interactions_endpoint_url": None,
            "integration_types_config": {},
            "approximate_guild_count": 1,
        } | self.application_extra

    async def _channel(self, _call: Call, where: dict[str, str], _headers: object) -> Payload:
        return self.world.channels[where["channel"]]

    async def _history(self, call: Call, where: dict[str, str], _headers: object) -> list[Payload]:
        if self.world.channels[where["channel"]]["type"] == FORUM:
            raise ApiError(400, 50024, "Cannot execute action on this channel type")
        return self.world.history(
            where["channel"],
            limit=int(call.query.get("limit", 50)),
            after=call.query.get("after"),
            before=call.query.get("before"),
        )

    def _known(self, where: dict[str, str]) -> Payload:
        try:
            return self.world.messages[where["channel"]][where["message"]]
        except KeyError:
            raise ApiError(404, 10008, "Unknown Message") from None

    async def _message(self, _call: Call, where: dict[str, str], _headers: object) -> Payload:
        message = self._known(where)
        emojis = self.reactions.get(message["id"], set())
        reactions = [
            {"emoji": {"id": None, "name": e}, "me": True, "count": 1, "burst_colors": []}
            | {"count_details": {"burst": 0, "normal": 1}, "me_burst": False}
            for e in sorted(emojis)
        ]
        return message | {"reactions": reactions}

    async def _post(self, call: Call, where: dict[str, str], headers: dict[str, str]) -> Payload:
        channel, body = where["channel"], call.body
        self._count(channel, headers)
        _check_body(body, call.files)
        nonce = body.get("nonce")
        assert nonce is None or len(nonce) <= 25
        if nonce and body.get("enforce_nonce") and (channel, nonce) in self._nonces:
            return self._nonces[channel, nonce]
        extra: Payload = {"components": body.get("components") or []}
        if reference := body.get("message_reference"):
            original = self.world.messages.get(channel, {}).get(str(reference["message_id"]))
            if original is None and reference.get("fail_if_not_exists", True):
                raise _unknown_reference()
            if original is not None:
                extra |= {
                    "type": 19,
                    "message_reference": {"channel_id": channel, "message_id": original["id"]},
                    "referenced_message": original,
                }
        extra["attachments"] = [
            {"id": self.world.new_id(), "filename": n, "size": len(d), "url": "", "proxy_url": ""}
            for n, d in call.files
        ]
        content = body.get("content") or ""
        message = self.world.add_message(self.world.bot, channel, content, **extra)
        if nonce:
            self._nonces[channel, nonce] = message
        await self.emit("MESSAGE_CREATE", message)
        return message

    def _count(self, channel: str, headers: dict[str, str]) -> None:
        """Keep the bucket of a channel.

        Source: https://docs.discord.com/developers/topics/rate-limits, 2026-11.
        """
        if self.bucket is None:
            return
        limit, window_s = self.bucket
        posted, now = self._posted.setdefault(channel, deque()), anyio.current_time()
        while posted and posted[0] <= now - window_s:
            posted.popleft()
        is_full = len(posted) >= limit
        if not is_full:
            posted.append(now)
        after_s = posted[0] + window_s - now
        headers |= {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(limit - len(posted)),
            "X-RateLimit-Reset-After": f"{after_s:.3f}",
            "X-RateLimit-Bucket": "messages",
        }
        if is_full:
            headers |= {"Via": "1.1 google", "X-RateLimit-Scope": "user"}
            raise ApiError(429, 0, "You are being rate limited.", retry_after=after_s)

    async def _patch(self, call: Call, where: dict[str, str], _headers: object) -> Payload:
        message = self._known(where)
        if message["author"]["id"] != self.world.bot["id"]:
            raise ApiError(403, 50005, "Cannot edit a message authored by another user")
        _check_body(message | call.body, call.files)
        message |= {k: v for k, v in call.body.items() if k in ("content", "components")}
        message["edited_timestamp"] = self.world.now.isoformat()
        await self.emit("MESSAGE_UPDATE", message)
        return message

    async def _open_thread(self, call: Call, where: dict[str, str], _headers: object) -> Payload:
        """Open a thread below a message; it begins with that, once more.

        Source: https://docs.discord.com/developers/topics/threads, 2026-11.
        """
        first, world = self._known(where), self.world
        if first["id"] in world.channels:
            raise ApiError(400, 160004, "A thread has already been created for this message")
        assert 1 <= len(call.body["name"]) <= 100
        world.add_thread(
            where["channel"], call.body["name"], owner=world.bot, message_id=first["id"]
        )
        thread = world.channels[first["id"]]
        await self.emit("THREAD_CREATE", thread | {"newly_created": True})
        starter = world.add_message(
            first["author"],
            first["id"],
            "",
            type=21,
            message_reference={"channel_id": where["channel"], "message_id": first["id"]},
            referenced_message=first,
        )
        await self.emit("MESSAGE_CREATE", starter)
        return thread

    async def _type(self, _call: Call, where: dict[str, str], _headers: object) -> None:
        self.typing.append(where["channel"])

    async def _react(self, _call: Call, where: dict[str, str], _headers: object) -> None:
        self.reactions.setdefault(self._known(where)["id"], set()).add(where["emoji"])

    async def _unreact(self, _call: Call, where: dict[str, str], _headers: object) -> None:
        self.reactions.get(self._known(where)["id"], set()).discard(where["emoji"])

    async def _list_commands(self, *_: object) -> list[Payload]:
        return self.commands

    async def _put_commands(self, call: Call, *_: object) -> list[Payload]:
        added: Payload = {"version": "1", "application_id": self.world.bot["id"], "nsfw": False}
        added |= {"default_member_permissions": None, "dm_permission": True}
        self.commands = [added | {"id": self.world.new_id()} | c for c in call.body]
        return self.commands

    def _interaction(self, token: str) -> Payload:
        if token not in self.interactions:
            raise ApiError(404, 10015, "Unknown Webhook")
        return self.interactions[token]

    async def _callback(self, call: Call, where: dict[str, str], _headers: object) -> None:
        state = self._interaction(where["token"])
        if anyio.current_time() - state["at"] > 3:
            raise ApiError(404, 10062, "Unknown interaction")
        if state["callbacks"]:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        state["callbacks"].append(call.body)
        state["original"] = "thinking" if call.body["type"] == 5 else "kept"

    async def _follow_up(self, call: Call, where: dict[str, str], _headers: object) -> Payload:
        state = self._interaction(where["token"])
        _check_body(call.body, call.files)
        state["said"].append(call.body)
        return {"id": self.world.new_id()}

    async def _complete(self, call: Call, where: dict[str, str], _headers: object) -> Payload:
        state = self._interaction(where["token"])
        if state["original"] == "gone":
            raise ApiError(404, 10008, "Unknown Message")
        _check_body(call.body, call.files)
        state["original"] = "said"
        state["said"].append(call.body)
        return {"id": self.world.new_id()}

    async def _withdraw(self, _call: Call, where: dict[str, str], _headers: object) -> None:
        self._interaction(where["token"])["original"] = "gone"

    async def serve_blob(self, request: web.Request) -> web.Response:
        """Serve a file, as the content network does: without authorization."""
        assert "Authorization" not in request.headers
        data = self.blobs.get(request.match_info["name"])
        return web.Response(status=404) if data is None else web.Response(body=data)


Handler = Callable[
    [Call, dict[str, str], dict[str, str]], Awaitable[Payload | list[Payload] | None]
]


def _invalid(name: str, code: str, message: str) -> ApiError:
    details = {name: {"_errors": [{"code": code, "message": message}]}}
    return ApiError(400, 50035, "Invalid Form Body", errors=details)


def _unknown_reference() -> ApiError:
    return _invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")


def _too_long() -> ApiError:
    return _invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {LIMIT} or fewer in length.")


def _check_body(body: Payload, files: list[tuple[str, bytes]]) -> None:
    content = body.get("content") or ""
    if len(content.encode("utf-16-le")) // 2 > LIMIT:
        raise _too_long()
    if not content.strip() and not body.get("components") and not files:
        raise ApiError(400, 50006, "Cannot send an empty message")


async def _read(request: web.Request) -> tuple[Any, list[tuple[str, bytes]]]:
    if not request.content_type.startswith("multipart/"):
        raw = await request.read()
        return (json.loads(raw) if raw else None), []
    body: Any = None
    files: list[tuple[str, bytes]] = []
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            files.append((value.filename, value.file.read()))
        elif name == "payload_json":
            assert isinstance(value, str)
            body = json.loads(value)
    return body, files


def _reply(status: int, body: object, headers: dict[str, str]) -> web.Response:
    if status == 204:
        return web.Response(status=204, headers=headers)
    data = json.dumps(body).encode()
    return web.Response(status=status, body=data, content_type="application/json", headers=headers)
