"""Which rooms the bot goes into, leaves, and follows into another."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from everturn_channels.adapter import ChatMoved
from everturn_channels.errors import ConnectionLostError, SendError
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.matrix.reading import Connection
from everturn_channels.matrix.requests import RequestFailedError, room_path

logger = logging.getLogger(__name__)


class Visitor:
    """Goes and comes for one login."""

    def __init__(self, connection: Connection) -> None:
        self._me, self._server, self._handler = connection.me, connection.server, connection.handler
        self._rooms, self._sender = connection.rooms, connection.sender

    async def answer(self, room_id: str, invited: object) -> None:
        """Join where whoever invites would be answered; turn it down else."""
        events = objects_of(invited, "invite_state", "events")
        own = next((e for e in events if is_own(e, self._me, "invite")), None)
        who = text_of(own, "sender")
        is_direct = own is not None and object_of(own, "content").get("is_direct") is True
        fields = {"room": room_id, "by": who}
        try:
            is_welcome = who and await self._handler.welcomes(who, room_id, is_direct=is_direct)
            if is_welcome or await self._is_successor(room_id, events):
                await self._sender.join(room_id)
                logger.info("an invitation was accepted", extra=fields)
            else:
                await self._sender.leave(room_id)
                logger.warning("an invitation was turned down", extra=fields)
        except SendError as error:  # who invites can do it again
            logger.warning(
                "an invitation could not be answered", extra={**fields, "why": str(error)}
            )

    async def _is_successor(self, room_id: str, invited: Sequence[Json]) -> bool:
        """Whether a room takes the place of one that the bot is in."""
        created = next((e for e in invited if text_of(e, "type") == "m.room.create"), None)
        old = text_of(created, "content", "predecessor", "room_id")
        try:
            return bool(old) and await self._is_replaced_by(old, room_id)
        except RequestFailedError:  # the bot is not in it, or it was never replaced
            return False

    async def leave_if_alone(self, room_id: str) -> None:
        """Leave a room in which nobody else is."""
        try:
            room = await self._rooms.get(room_id)
            if set(room.members) <= {self._me}:
                await self._sender.leave(room_id)
                logger.info("a room was left, nobody else is in it", extra={"room": room_id})
        except (SendError, RequestFailedError) as error:
            fields = {"room": room_id, "why": str(error)}
            logger.info("a room could not be looked at", extra=fields)

    async def follow(self, room_id: str) -> None:
        """Go into the room that takes the place of another; where that needs it, once invited."""
        try:
            if room_id:
                await self._sender.join(room_id)
        except SendError as error:
            fields = {"room": room_id, "why": str(error)}
            logger.info("a room that takes the place of another is not open", extra=fields)

    async def moved(self, room_id: str) -> Sequence[ChatMoved]:
        """Return from which room a room took over: both have to say so.

        Raises:
            ConnectionLostError: The homeserver does not tell now.
        """
        try:
            old = await self._replaced(room_id)
        except RequestFailedError as error:
            if error.is_refusal and not error.is_token:
                return ()
            raise ConnectionLostError(str(error)) from error
        return [ChatMoved(old=old, new=room_id)] if old else []

    async def _replaced(self, room_id: str) -> str:
        path = room_path(room_id, "state", "m.room.create") + "/"
        old = text_of(await self._server.ask("GET", path), "predecessor", "room_id")
        return old if old and await self._is_replaced_by(old, room_id) else ""

    async def _is_replaced_by(self, old: str, new: str) -> bool:
        """Whether a room says that another takes its place, which its administrators alone can."""
        path = room_path(old, "state", "m.room.tombstone") + "/"
        return text_of(await self._server.ask("GET", path), "replacement_room") == new


def is_own(raw: Json, me: str, membership: str) -> bool:
    """Whether an event says that the bot itself is now invited, in, or out."""
    is_member = text_of(raw, "type") == "m.room.member" and raw.get("state_key") == me
    return is_member and text_of(raw, "content", "membership") == membership
