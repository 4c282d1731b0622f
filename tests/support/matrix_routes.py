"""The routes of the pretended homeserver."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from aiohttp import web
from support.matrix_api import (
    EVENT_MAX_BYTES,
    NAME,
    Json,
    MatrixApi,
    MatrixError,
    Room,
    Route,
)

_ROUTES: Final[list[tuple[str, re.Pattern[str], Route]]] = []


def route_of(method: str, path: str) -> Route:
    """Return what answers a request."""
    for each, pattern, route in _ROUTES:
        if each == method and pattern.fullmatch(path):
            return route
    raise MatrixError(404, "M_UNRECOGNIZED", f"Unrecognized request {method} {path}")


def _on(method: str, pattern: str) -> Callable[[Route], Route]:
    compiled = re.compile(r"/_matrix/(?:client/(?:v1|v3)|media/v3)" + pattern)

    def register(route: Route) -> Route:
        _ROUTES.append((method, compiled, route))
        return route

    return register


_ROOM: Final = r"/rooms/(![^/]+)"


def _room(api: MatrixApi, path: str, request: web.Request) -> tuple[str, Room, str]:
    """Return a room in which whoever asks is, and who that is."""
    user = api.device(request).user
    room_id = path.split("/rooms/")[1].split("/", maxsplit=1)[0]
    room = api.rooms.get(room_id)
    if room is None or room.membership(user) != "join":
        raise MatrixError(403, "M_FORBIDDEN", f"User {user} not in room {room_id}")
    return room_id, room, user


# --- logging in ---


@_on("POST", "/login")
async def login(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user = body["identifier"]["user"]
    user = user if user.startswith("@") else f"@{user}:{NAME}"
    if api.passwords.get(user) != body["password"]:
        raise MatrixError(403, "M_FORBIDDEN", "Invalid username or password")
    token = api._log_in(user, body.get("device_id", ""))
    return {"user_id": user, "device_id": api.devices[token].id, "access_token": token}


@_on("POST", "/logout")
async def logout(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    device = api.device(request)
    api.devices = {token: each for token, each in api.devices.items() if each is not device}
    return {}


@_on("GET", "/account/whoami")
async def whoami(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    device = api.device(request)
    return {"user_id": device.user, "device_id": device.id}


@_on("GET", "/profile/([^/]+)/displayname")
async def displayname(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    return {"displayname": api.names[path.split("/")[-2]]}


# --- rooms ---


@_on("POST", "/createRoom")
async def create_room(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user = api.device(request).user
    room_id = f"!room{len(api.rooms)}:{NAME}"
    api.rooms[room_id] = Room()
    created = {"room_version": "11", **body.get("creation_content", {})}
    api.say(room_id, user, "m.room.create", created, state_key="")
    api.member(room_id, user, "join")
    for state in body.get("initial_state", ()):
        api.say(room_id, user, state["type"], state["content"], state_key="")
    if body.get("name"):
        api.say(room_id, user, "m.room.name", {"name": body["name"]}, state_key="")
    more = {"is_direct": True} if body.get("is_direct") else {}
    for invited in body.get("invite", ()):
        api.member(room_id, invited, "invite", by=user, **more)
    return {"room_id": room_id}


@_on("GET", "/joined_rooms")
async def joined_rooms(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user = api.device(request).user
    return {"joined_rooms": [r for r, room in api.rooms.items() if room.membership(user) == "join"]}


@_on("POST", _ROOM + "/join")
async def join(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user, room_id = api.device(request).user, path.split("/")[-2]
    if api.rooms[room_id].membership(user) not in {"invite", "join"}:
        raise MatrixError(403, "M_FORBIDDEN", "You are not invited to this room.")
    if api.rooms[room_id].membership(user) != "join":
        api.member(room_id, user, "join")
    return {"room_id": room_id}


@_on("POST", _ROOM + "/invite")
async def invite(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, _, user = _room(api, path, request)
    api.member(room_id, body["user_id"], "invite", by=user)
    return {}


@_on("POST", _ROOM + "/(leave|kick)")
async def leave(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user = api.device(request).user
    api.member(path.split("/")[-2], body.get("user_id", user), "leave", by=user)
    return {}


@_on("GET", _ROOM + "/members")
async def members(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    _, room, _ = _room(api, path, request)
    there = [e for (kind, _), e in room.state.items() if kind == "m.room.member"]
    unwanted = request.query.get("not_membership")
    return {"chunk": [e for e in there if e["content"]["membership"] != unwanted]}


@_on("GET", _ROOM + "/joined_members")
async def joined_members(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    _, room, _ = _room(api, path, request)
    there = {who for kind, who in room.state if kind == "m.room.member"}
    return {"joined": {who: {} for who in there if room.membership(who) == "join"}}


@_on("GET", _ROOM + "/state/([^/]+)/?")
async def state(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    _, room, _ = _room(api, path, request)
    found = room.state.get((path.rstrip("/").split("/")[-1], ""))
    if found is None:
        raise MatrixError(404, "M_NOT_FOUND", "Event not found.")
    content: Json = found["content"]
    return content


@_on("PUT", _ROOM + "/state/([^/]+)/?")
async def put_state(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, _, user = _room(api, path, request)
    kind = path.rstrip("/").split("/")[-1]
    return {"event_id": api.say(room_id, user, kind, body, state_key="")["event_id"]}


@_on("GET", _ROOM + "/event/(.+)")
async def event(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, room, _ = _room(api, path, request)
    found = [e for _, e in room.events if e["event_id"] == path.rsplit("/", maxsplit=1)[-1]]
    if not found:
        raise MatrixError(404, "M_NOT_FOUND", "Could not find event")
    return {**found[0], "room_id": room_id}


@_on("GET", _ROOM + "/messages")
async def messages(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, _, _ = _room(api, path, request)
    return api.history(room_id, dict(request.query))


@_on("GET", _ROOM + "/relations/(.+)")
async def relations(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    _, room, _ = _room(api, path, request)
    target = path.split("/relations/")[1].split("/", maxsplit=1)[0]
    found = [
        e
        for _, e in room.events
        if e["content"].get("m.relates_to", {}).get("event_id") == target
        and e["type"] == "m.reaction"
    ]
    return {"chunk": found}


# --- saying something ---


@_on("PUT", _ROOM + "/send/(.+)")
async def send(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, room, user = _room(api, path, request)
    kind = path.split("/")[-2]
    if len(json.dumps(body, ensure_ascii=False).encode()) > EVENT_MAX_BYTES - 1_000:
        raise MatrixError(413, "M_TOO_LARGE", "event too large")
    if kind == "m.reaction" and any(
        e["sender"] == user and e["type"] == kind and e["content"] == body for _, e in room.events
    ):
        raise MatrixError(400, "M_DUPLICATE_ANNOTATION", "Can't send same reaction twice")
    say = api.say
    return await api.once(
        api.device(request),
        path,
        lambda: {"event_id": say(room_id, user, kind, body)["event_id"]},
    )


@_on("PUT", _ROOM + "/redact/(.+)")
async def redact(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, room, user = _room(api, path, request)
    target = path.split("/redact/")[1].split("/", maxsplit=1)[0]
    for _, each in room.events:
        if each["event_id"] == target:
            each["content"] = {}
    return {"event_id": api.say(room_id, user, "m.room.redaction", {"redacts": target})["event_id"]}


@_on("PUT", _ROOM + "/typing/(.+)")
async def typing(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, _, _ = _room(api, path, request)
    api.typing.add(room_id)
    return {}


@_on("POST", _ROOM + "/receipt/m.read/(.+)")
async def receipt(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    room_id, _, _ = _room(api, path, request)
    api.receipts[room_id] = path.rsplit("/", maxsplit=1)[-1]
    return {}


@_on("GET", "/sync")
async def sync(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    return await api.sync(api.device(request), dict(request.query))


# --- files ---


@_on("POST", "/upload")
async def upload(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    api.device(request)
    name = f"file{len(api.media)}"
    api.media[name] = await request.read(), request.headers["Content-Type"]
    return {"content_uri": f"mxc://{NAME}/{name}"}


@_on("GET", "/media/download/(.+)")
async def download(api: MatrixApi, path: str, request: web.Request, body: Json) -> web.Response:
    if api.is_old:
        raise MatrixError(404, "M_UNRECOGNIZED", "Unrecognized request")
    api.device(request)
    return _file(api, path)


@_on("GET", "/download/(.+)")
async def download_before(
    api: MatrixApi, path: str, request: web.Request, body: Json
) -> web.Response:
    if not api.is_old:
        raise MatrixError(404, "M_NOT_FOUND", "Not found")
    return _file(api, path)


def _file(api: MatrixApi, path: str) -> web.Response:
    found = api.media.get(path.rsplit("/", maxsplit=1)[-1])
    if found is None:
        raise MatrixError(404, "M_NOT_FOUND", "Not found")
    return web.Response(body=found[0], content_type=found[1])


# --- keys ---


@_on("POST", "/keys/upload")
async def keys_upload(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    device = api.device(request)
    if body.get("device_keys"):
        device.keys = body["device_keys"]
        api.note_changed(device.user)
    for key, value in body.get("one_time_keys", {}).items():
        if key in device.one_time_keys and device.one_time_keys[key] != value:
            raise MatrixError(400, "M_UNKNOWN", f"One time key {key} already exists.")
        device.one_time_keys[key] = value
    return {"one_time_key_counts": {"signed_curve25519": len(device.one_time_keys)}}


@_on("POST", "/keys/query")
async def keys_query(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    found: Json = {"device_keys": {}, "failures": {}}
    for user in body["device_keys"]:
        own = [d for d in api.devices.values() if d.user == user and d.keys]
        found["device_keys"][user] = {d.id: d.keys for d in own}
        for usage, key in api.signing[user].items():
            found.setdefault(f"{usage}_keys", {})[user] = key
    return found


@_on("POST", "/keys/claim")
async def keys_claim(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    found: Json = {}
    for user, devices in body["one_time_keys"].items():
        for name in devices:
            device = api.device_of(user, name)
            if device is not None and device.one_time_keys:
                key = next(iter(device.one_time_keys))
                given = {key: device.one_time_keys.pop(key)}
                found.setdefault(user, {})[name] = given
    return {"one_time_keys": found, "failures": {}}


@_on("PUT", "/sendToDevice/(.+)")
async def send_to_device(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    sender, kind = api.device(request), path.split("/")[-2]

    def do() -> Json:
        for user, devices in body["messages"].items():
            for name, content in devices.items():
                event = {"type": kind, "sender": sender.user, "content": content}
                api.deliver(user, name, event)
        return {}

    return await api.once(sender, path, do)


@_on("POST", "/keys/device_signing/upload")
async def device_signing(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    user = api.device(request).user
    if api.signing[user] and not body.get("auth"):
        flows = [{"stages": ["m.login.password"]}]
        raise MatrixError(401, "M_FORBIDDEN", session="uia-1", flows=flows, params={})
    for usage in ("master", "self_signing", "user_signing"):
        api.signing[user][usage] = body[f"{usage}_key"]
    return {}


@_on("POST", "/keys/signatures/upload")
async def signatures(api: MatrixApi, path: str, request: web.Request, body: Json) -> Json:
    for user, devices in body.items():
        for name, signed in devices.items():
            device = api.device_of(user, name)
            assert device is not None
            for who, them in signed["signatures"].items():
                device.keys["signatures"].setdefault(who, {}).update(them)
    return {"failures": {}}


@asynccontextmanager
async def open_matrix_api() -> AsyncGenerator[MatrixApi]:
    """Serve a homeserver of its own on a free port of loopback while the block runs."""
    api = MatrixApi(route_of)
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", api.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
