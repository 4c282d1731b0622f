"""What is known of rooms: who is in them, how they are called, whether they are encrypted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import anyio
from msgspec import Struct

from everturn_channels.adapter import ChatRef, Person
from everturn_channels.ingestion.json_fields import Json, objects_of, text_of
from everturn_channels.matrix.requests import Homeserver, RequestFailedError, room_path

ROOMS_MAX: Final = 1_000  # that are remembered; the one that was asked for longest ago goes
_HERE: Final = frozenset({"join", "invite"})


class Room(Struct, frozen=True, kw_only=True):
    """A room as it stands."""

    id: str
    members: Mapping[str, str]
    "Who is in it or invited, and what they are called there."
    name: str = ""
    is_encrypted: bool = False

    def chat(self, topic: str = "") -> ChatRef:
        """Return it as a chat: with one other person it is theirs."""
        is_dm = len(self.members) <= 2
        return ChatRef(
            id=self.id, type="dm" if is_dm else "group", topic=topic, title=self.name or self.id
        )

    def person(self, user_id: str) -> Person:
        """Return somebody by the name that people see there."""
        return Person(id=user_id, name=self.members.get(user_id) or user_id)


class Rooms:
    """The rooms of one account, each asked for once and then kept until something changes."""

    def __init__(self, server: Homeserver) -> None:
        self._server = server
        self._known: OrderedDict[str, Room] = OrderedDict()
        self._asking: dict[str, anyio.Lock] = {}
        self._changes = 0
        self._encrypted: set[str] = set()
        "A room that was encrypted stays it, whatever a homeserver says later."

    def known(self, room_id: str) -> Room | None:
        """Return a room if nothing has to be asked for that."""
        return self._known.get(room_id)

    def forget(self, room_id: str) -> None:
        """Ask anew when it is next needed: somebody came, went, or changed something."""
        self._known.pop(room_id, None)
        self._changes += 1

    def mark_encrypted(self, *room_ids: str) -> None:
        """Note that rooms are encrypted, for ever."""
        self._encrypted.update(room_ids)

    async def get(self, room_id: str) -> Room:
        """Return a room.

        Raises:
            RequestFailedError: The homeserver does not tell.
        """
        async with self._asking.setdefault(room_id, anyio.Lock()):
            try:
                room, changes = self._known.get(room_id), self._changes
                if room is None:
                    room = await self._ask(room_id)
                    if changes == self._changes:  # what was told meanwhile may be newer
                        self._known[room_id] = room
            finally:
                self._asking.pop(room_id, None)
        if len(self._known) > ROOMS_MAX:
            self._known.popitem(last=False)
        return room

    async def _ask(self, room_id: str) -> Room:
        members = await self._server.ask(
            "GET", room_path(room_id, "members"), query={"not_membership": "leave"}
        )
        there = {
            text_of(each, "state_key"): text_of(each, "content", "displayname")
            for each in objects_of(members, "chunk")
            if text_of(each, "content", "membership") in _HERE
        }
        if await self._state(room_id, "m.room.encryption"):
            self._encrypted.add(room_id)
        return Room(
            id=room_id,
            members=there,
            name=text_of(await self._state(room_id, "m.room.name"), "name"),
            is_encrypted=room_id in self._encrypted,
        )

    async def _state(self, room_id: str, kind: str) -> Json:
        """Return a state of a room; empty where it was never set."""
        try:
            return await self._server.ask("GET", room_path(room_id, "state", kind) + "/")
        except RequestFailedError as error:
            if error.status == 404:
                return {}
            raise
