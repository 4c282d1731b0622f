"""A Matrix homeserver on loopback, as far as the channel and the people of its tests use it.

    async with open_matrix_api() as homeserver:     # of `matrix_routes`
        user, token = homeserver.add_user("ann")    # `matrix_people.Person` acts as her
        ...                                         # an adapter with homeserver.url

Routes and error codes are those of https://spec.matrix.org/v1.16/client-server-api/ (read 2026-11).
The same tests run against a real Synapse: `make synapse`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import anyio
from aiohttp import web
from support.patience import WAIT_S

from everturn_gateway.clock import SystemClock

Json: TypeAlias = dict[str, Any]
Route: TypeAlias = Callable[["MatrixApi", str, web.Request, Json], Awaitable[Json | web.Response]]

NAME: Final = "everturn.test"
EVENT_MAX_BYTES: Final = 65_536
STARTED_MS: Final = int(SystemClock().now().timestamp() * 1000)
"The homeserver's clock, which moves a little for each event. Gateways pass over old messages."


class MatrixError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, code: str, words: str = "", **more: object) -> None:
        self.status, self.body = status, {"errcode": code, "error": words or code, **more}
        super().__init__(code)


@dataclass(slots=True)
class Room:
    """A room, with its events in their order and the newest state of each kind."""

    events: list[tuple[int, Json]] = field(default_factory=list)
    state: dict[tuple[str, str], Json] = field(default_factory=dict)

    def membership(self, user: str) -> str:
        member = self.state.get(("m.room.member", user))
        return str(member["content"]["membership"]) if member else "leave"


@dataclass(slots=True)
class Device:
    """A login."""

    user: str
    id: str
    keys: Json = field(default_factory=dict)
    one_time_keys: Json = field(default_factory=dict)
    inbox: list[tuple[int, Json]] = field(default_factory=list)


@dataclass(slots=True)
class Fault:
    """What is to go wrong with the next requests whose path holds a text."""

    part: str
    times: int
    error: MatrixError | None
    "None = the connection is cut."
    is_done: bool = False
    "Whether the request is carried out all the same."
    token: str = ""
    "Of whoever asks; empty = anybody."


class MatrixApi:
    """The homeserver. What it holds is public: tests look at it, and change it."""

    def __init__(self, route_of: Callable[[str, str], Route]) -> None:
        self._route_of = route_of
        self.url = ""
        self.passwords: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.devices: dict[str, Device] = {}
        "By token."
        self.rooms: dict[str, Room] = {}
        self.done: dict[tuple[str, str], Json] = {}
        "What requests with a transaction id were answered, by device and path."
        self.media: dict[str, tuple[bytes, str]] = {}
        self.is_old = False
        "Whether files are where they were before 2024, and not where they are since."
        self.signing: dict[str, Json] = defaultdict(dict)
        self.changed: list[tuple[int, str]] = []
        self.requests: list[tuple[str, str, Json]] = []
        "Method, path and body of each."
        self.faults: list[Fault] = []
        self.redirects: dict[str, web.HTTPException] = {}
        "By a part of the path."
        self.receipts: dict[str, str] = {}
        self.typing: set[str] = set()
        self.has_poll = anyio.Event()
        self._position = 0
        self._numbers = count(1)
        self._moved = anyio.Event()

    # --- what tests do ---

    def add_user(self, name: str, password: str = "secret", device: str = "") -> tuple[str, str]:  # noqa: S107
        """Make a user with a login; return the id and the token."""
        user = f"@{name}:{NAME}"
        self.passwords[user], self.names[user] = password, name.capitalize()
        return user, self._log_in(user, device)

    def fail(
        self,
        part: str,
        status: int,
        code: str,
        *,
        times: int = 1,
        token: str = "",
        **more: object,
    ) -> None:
        """Refuse the next requests whose path holds a text."""
        error = MatrixError(status, code)
        error.body |= more
        self.faults.append(Fault(part, times, error, token=token))

    def cut(self, part: str, *, times: int = 1, is_done: bool = True, token: str = "") -> None:
        """Cut the connection at the next such requests, by default once they were carried out."""
        self.faults.append(Fault(part, times, None, is_done, token))

    def sent(self, part: str) -> list[Json]:
        """Return the bodies of requests whose path holds a text."""
        return [body for _, path, body in self.requests if part in path]

    # --- events ---

    def say(self, room_id: str, sender: str, kind: str, content: Json, **more: object) -> Json:
        """Add an event to a room."""
        self._position += 1
        event: Json = {
            "type": kind,
            "sender": sender,
            "content": content,
            "event_id": f"${next(self._numbers)}-event",
            "origin_server_ts": STARTED_MS + self._position,
            **more,
        }
        room = self.rooms[room_id]
        if "state_key" in more:
            key = (kind, str(more["state_key"]))
            if before := room.state.get(key):
                event["unsigned"] = {"prev_content": before["content"]}
            room.state[key] = event
        room.events.append((self._position, event))
        self.wake()
        return event

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, looked at whenever something changed."""
        with anyio.fail_after(WAIT_S):
            while not is_so():
                await self._moved.wait()

    def wake(self) -> None:
        """Answer those who wait for news."""
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    def member(
        self, room_id: str, user: str, membership: str, by: str = "", **more: object
    ) -> Json:
        """Change who is in a room."""
        content = {"membership": membership, "displayname": self.names[user], **more}
        return self.say(room_id, by or user, "m.room.member", content, state_key=user)

    def _log_in(self, user: str, device: str = "") -> str:
        device = device or f"DEVICE{next(self._numbers)}"
        old = [t for t, d in self.devices.items() if (d.user, d.id) == (user, device)]
        kept = self.devices.pop(old[0]) if old else Device(user, device)
        token = f"token-{next(self._numbers)}"
        self.devices[token] = kept
        return token

    def device_of(self, user: str, device: str) -> Device | None:
        return next((d for d in self.devices.values() if (d.user, d.id) == (user, device)), None)

    # --- serving ---

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or let it fail as a test wants."""
        path = unquote(request.rel_url.raw_path)
        raw = await request.read()
        is_json = "json" in request.headers.get("Content-Type", "")
        body: Json = json.loads(raw) if raw and is_json else {}
        self.requests.append((request.method, path, body))
        for part, redirect in self.redirects.items():
            if part in path:
                raise redirect
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        faults = (f for f in self.faults if f.part in path and f.token in {"", token})
        fault = next(faults, None)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self.faults.remove(fault)
            if fault.is_done:
                await self._answer(request, path, body)
            if fault.error is None:
                assert request.transport is not None
                request.transport.abort()
                raise web.HTTPInternalServerError
            return web.json_response(fault.error.body, status=fault.error.status)
        return await self._answer(request, path, body)

    async def _answer(self, request: web.Request, path: str, body: Json) -> web.StreamResponse:
        try:
            found = await self._route_of(request.method, path)(self, path, request, body)
        except MatrixError as error:
            return web.json_response(error.body, status=error.status)
        return found if isinstance(found, web.Response) else web.json_response(found)

    def device(self, request: web.Request) -> Device:
        """Return the login that a request shows."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.devices:
            raise MatrixError(401, "M_UNKNOWN_TOKEN", "Unrecognised access token")
        return self.devices[token]

    async def once(self, device: Device, path: str, do: Callable[[], Json]) -> Json:
        """Do something with a transaction id once."""
        key = (f"{device.user} {device.id}", path)
        if key not in self.done:
            self.done[key] = do()
        return self.done[key]

    # --- what is new ---

    async def sync(self, device: Device, query: Json) -> Json:
        """Return what is new since a token, waiting for it where nothing is."""
        since = int(query["since"][1:]) if query.get("since") else None
        chosen = json.loads(query.get("filter", "{}")).get("room", {})
        limit = chosen.get("timeline", {}).get("limit", 10)
        with anyio.move_on_after(int(query.get("timeout", "0")) / 1000):
            while since is not None and not self._has_news(device, since):
                moved = self._moved
                self.has_poll.set()
                await moved.wait()
        device.inbox = [each for each in device.inbox if each[0] > (since or 0)]
        changed = sorted({user for at, user in self.changed if at > (since or 0)})
        rooms: Json = {"join": {}, "invite": {}, "leave": {}}
        for room_id, room in self.rooms.items():
            self._add_room(rooms, room_id, room, device.user, since, limit)
        return {
            "next_batch": f"s{self._position}",
            "rooms": rooms,
            "to_device": {"events": [event for _, event in device.inbox]},
            "device_lists": {"changed": changed if since is not None else []},
            "device_one_time_keys_count": {"signed_curve25519": len(device.one_time_keys)},
        }

    def _has_news(self, device: Device, since: int) -> bool:
        if any(at > since for at, _ in device.inbox):
            return True
        for room in self.rooms.values():
            member = room.state.get(("m.room.member", device.user))
            is_here = room.membership(device.user) in {"join", "invite"}
            moved = bool(room.events) and room.events[-1][0] > since
            if moved and (is_here or (member and self._at(room, member) > since)):
                return True
        return False

    @staticmethod
    def _at(room: Room, event: Json) -> int:
        return next(at for at, each in room.events if each is event)

    def _add_room(
        self, rooms: Json, room_id: str, room: Room, user: str, since: int | None, limit: int
    ) -> None:
        member = room.state.get(("m.room.member", user))
        if member is None:
            return
        at, membership = self._at(room, member), room.membership(user)
        is_fresh = since is None or at > since
        if membership == "invite" and is_fresh:
            state = [e for e in room.state.values() if e["type"] != "m.room.member"]
            rooms["invite"][room_id] = {"invite_state": {"events": [*state, member]}}
        elif membership in {"leave", "ban"} and since is not None and is_fresh:
            rooms["leave"][room_id] = {"timeline": {"events": [member]}}
        elif membership == "join":
            before = member.get("unsigned", {}).get("prev_content", {}).get("membership")
            is_joined = is_fresh and before != "join"
            start = 0 if since is None or is_joined else since
            events = [each for each in room.events if each[0] > start]
            if not events:
                return
            shown = events[len(events) - min(limit, len(events)) :]
            first = shown[0][0] if shown else self._position + 1
            rooms["join"][room_id] = {
                "timeline": {
                    "events": [event for _, event in shown],
                    "limited": len(shown) < len(events) or is_joined,
                    "prev_batch": f"s{first - 1}",
                },
                "state": {"events": list(room.state.values()) if start == 0 else []},
            }

    def history(self, room_id: str, query: Json) -> Json:
        """Return a page of a room's events, newest first."""
        start = int(query["from"][1:]) if query.get("from") else self._position
        end = int(query["to"][1:]) if query.get("to") else 0
        events = [each for each in self.rooms[room_id].events if end < each[0] <= start][::-1]
        page = events[: int(query.get("limit", "10"))]
        found: Json = {"chunk": [event for _, event in page], "start": f"s{start}"}
        if len(page) < len(events):
            found["end"] = f"s{page[-1][0] - 1}"
        return found

    def events(self) -> Iterator[tuple[str, Json]]:
        """Yield all events with their rooms."""
        for room_id, room in self.rooms.items():
            for _, event in room.events:
                yield room_id, event

    def note_changed(self, user: str) -> None:
        """Tell everybody that somebody's devices are different now."""
        self._position += 1
        self.changed.append((self._position, user))

    def deliver(self, user: str, device: str, event: Json) -> None:
        """Put a message into the inbox of a device, or of all."""
        self._position += 1
        for each in self.devices.values():
            if each.user == user and device in {each.id, "*"}:
                each.inbox.append((self._position, event))
        self.wake()
