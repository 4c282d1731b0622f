"""What comes from a homeserver, put into the queues of its rooms.

A sync brings what is new in all rooms, and one token for all of it. The token is kept when all that
came with it is durable: what waits in a queue when the process ends comes again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import anyio
import orjson
from msgspec import Struct

from everturn_channels.adapter import InboundEvent
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.history import History
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.ingestion.watermark import Watermark
from everturn_channels.matrix.content import BEACONS, is_message, redacted_by, time_of
from everturn_channels.matrix.reading import Connection, EventReader, awaited_at
from everturn_channels.matrix.requests import RequestFailedError, room_path
from everturn_channels.matrix.visiting import Visitor, is_own

logger = logging.getLogger(__name__)

SYNC: Final = "sync"
"The cursor with the token of the last sync of which everything is durable."
LAST: Final = "last"
"The cursor with the last event that was taken: its time, its room and its id."
POLL_S: Final = 30.0
_SLACK_S: Final = 30.0
_TOO_SOON_S: Final = 0.05
_FULL_S: Final = 1.0
_PAGE: Final = 100  # events of a history that a homeserver tells at once
_TIMELINE: Final = 50  # events of a room in one sync; more are read from its history
_BACKOFF_S: Final = (1.0, 2.0, 5.0, 10.0)
_FAILURES_MAX: Final = 4
_UNREAD_MAX: Final = 200  # messages whose key is waited for
_STATE: Final = frozenset({"m.room.member", "m.room.name", "m.room.encryption"})
_OTHERS: Final = BEACONS | {"m.reaction", "m.room.redaction"}
"What is read, and is no message that counts."


class Receiver:
    """Receives for one login."""

    def __init__(self, connection: Connection, reader: EventReader, queues: ChatQueues) -> None:
        self._me, self._server, self._handler = connection.me, connection.server, connection.handler
        self._rooms = connection.rooms
        self._visitor = Visitor(connection)
        self._encryption, self._clock = connection.encryption, connection.clock
        self._limits, self._reader, self._queues = connection.limits, reader, queues
        self._mark: Watermark[str] = Watermark()
        self._unread: OrderedDict[tuple[str, str], list[Json]] = OrderedDict()
        "Messages without a key, by room and session."
        reader.on_missing_key = self._note_missing_key
        self._receipts: dict[str, str] = {}
        self._has_receipts = anyio.Event()
        self._is_catching_up = True
        "Whether what comes was written while nobody listened."

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            RequestFailedError: The homeserver does not answer, or not as it should.
        """
        since = self._handler.cursor(SYNC)
        after: datetime | None = None
        if since and not await self._knows_last():
            since, after = "", self._look_by_time("it does not have what was read last")
        timeout_s = 0.0  # that the homeserver answers is known at once
        while True:
            asked_at = anyio.current_time()
            try:
                sync = await self._ask(since, timeout_s, reads_nothing=not since and after is None)
            except RequestFailedError as error:
                if not since or error.status != 400:
                    raise
                since, after = "", self._look_by_time(str(error))
                continue
            self._handler.received()
            await self._take(sync, since, after)
            since, after = text_of(sync, "next_batch"), None
            self._is_catching_up = False
            if timeout_s and anyio.current_time() - asked_at < _TOO_SOON_S:
                await self._clock.sleep(_TOO_SOON_S)  # a server that does not wait, as it should
            timeout_s = POLL_S

    async def send_receipts(self) -> None:
        """Show people what was read, as far as that is durable, until cancelled."""
        while True:
            await self._has_receipts.wait()
            self._has_receipts = anyio.Event()
            while self._receipts:
                room_id, event_id = self._receipts.popitem()
                try:
                    path = room_path(room_id, "receipt", "m.read", event_id)
                    await self._server.ask("POST", path, {})
                except RequestFailedError as error:
                    logger.debug("a receipt could not be sent", extra={"why": str(error)})

    # --- asking ---

    async def _ask(self, since: str, timeout_s: float, *, reads_nothing: bool) -> Json:
        """Return what is new; a failure is no reason to log in again, several are."""
        query = {
            "timeout": str(int(timeout_s * 1000)),
            "filter": _filter(0 if reads_nothing else _TIMELINE),
        }
        if since:
            query["since"] = since
        failures = 0
        while True:
            try:
                found = await self._server.ask(
                    "GET",
                    "/_matrix/client/v3/sync",
                    query=query,
                    deadline_s=timeout_s + _SLACK_S,
                )
                _next(found)
            except RequestFailedError as error:
                failures += 1
                if failures >= _FAILURES_MAX or (error.is_refusal and error.status != 404):
                    raise
                extra = {"failures": failures, "why": str(error)}
                logger.info("asking for what is new failed", extra=extra)
                wait_s = error.retry_after_s or _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1]
                await self._clock.sleep(wait_s)
            else:
                return found

    async def _knows_last(self) -> bool:
        """Whether the homeserver still has what was read last.

        One that was put back from a copy takes a token of a later time without a word, and tells
        nothing of what is written until then.
        """
        _, room_id, event_id = _kept(self._handler.cursor(LAST))
        if not event_id:
            return True
        try:
            await self._server.ask("GET", room_path(room_id, "event", event_id))
        except RequestFailedError as error:
            # A room that the bot was sent away from is no reason to doubt.
            return error.status != 404 or error.code != "M_NOT_FOUND"
        return True

    def _look_by_time(self, why: str) -> datetime:
        """Return the time of what was read last, where the token is of no use any more."""
        logger.warning(
            "the homeserver does not know how far was read: what was written since is found by its"
            " time",
            extra={"why": why},
        )
        at = _time_kept(self._handler.cursor(LAST))
        return at or self._clock.now() - timedelta(seconds=self._limits.max_age_s)

    # --- taking ---

    async def _take(self, sync: Json, since: str, after: datetime | None) -> None:
        """Take one sync: keys first, which may be those of its messages."""
        position = text_of(sync, "next_batch")
        self._mark.begin(position)
        if self._encryption is not None:
            for key in await self._encryption.take(sync):
                await self._read_again(key, position)
        for room_id, invited in object_of(sync, "rooms", "invite").items():
            await self._visitor.answer(room_id, invited)
        for room_id in object_of(sync, "rooms", "leave"):
            self._rooms.forget(room_id)
        for room_id, joined in object_of(sync, "rooms", "join").items():
            await self._take_room(room_id, joined, since, position, after)
        await self._settle(position)

    async def _take_room(
        self, room_id: str, joined: object, since: str, position: str, after: datetime | None
    ) -> None:
        is_catching_up = self._is_catching_up
        events = objects_of(joined, "timeline", "events")
        state = objects_of(joined, "state", "events")
        start = text_of(joined, "timeline", "prev_batch")
        is_limited = object_of(joined, "timeline").get("limited") is True
        if is_limited or any(text_of(each, "type") in _STATE for each in (*state, *events)):
            self._rooms.forget(room_id)
        for each in (*state, *events):
            if text_of(each, "type") == "m.room.encryption":
                self._rooms.mark_encrypted(room_id)
        if any(_is_leaving(each) for each in events):
            await self._visitor.leave_if_alone(room_id)
        is_read: Callable[[Json], bool] = _is_any
        for raw in events:
            if text_of(raw, "type") == "m.room.tombstone":
                await self._visitor.follow(text_of(raw, "content", "replacement_room"))
        if after is not None:
            is_read, since = partial(_is_after, after, self._clock.now()), ""
        elif not since:
            return  # the very first sync: nothing old is read
        elif self._has_joined((*state, *events)):
            await self._put_move(room_id, position)
            # What was written between an invitation and its acceptance is meant for the bot.
            is_read, since = partial(self._is_since_invitation, {"is_open": True}), ""
        fresh, is_complete = _newest(events, is_read)
        has_more = bool(start) and not is_complete and (is_limited or not since)
        if is_catching_up or has_more:  # then there are bounds
            stretch = _Stretch(fresh, start if has_more else "", since, is_read)
            self._put_gap(room_id, stretch, position)
            return
        for raw in fresh:
            await self._put(raw, room_id, position)

    def _put_gap(self, room_id: str, stretch: _Stretch, position: str) -> None:
        """Have what is missing in a room read before what comes after it."""
        self._mark.begin(position)
        read = partial(self._backfill, room_id, stretch, position)
        self._queues.append_gap(Gap(chat=room_id, read=read))

    async def _put(self, raw: Json, room_id: str, position: str, *, again: bool = False) -> None:
        event = self._event(raw, room_id, position, again=again)
        if event is None:
            return
        self._mark.begin(position)
        while not self._queues.put_nowait(event):
            await self._queues.make_room(room_id)
            await self._clock.sleep(_FULL_S)

    def _event(
        self, raw: Json, room_id: str, position: str, *, again: bool = False
    ) -> PlatformEvent | None:
        """Return what is handed over for an event; None where it is for nobody."""
        kind, event_id = text_of(raw, "type"), text_of(raw, "event_id")
        is_read = kind in _OTHERS or is_message(kind, object_of(raw, "content"))
        if not is_read or "state_key" in raw or text_of(raw, "sender") == self._me:
            return None
        if not event_id or not text_of(raw, "sender"):
            self._handler.unreadable(kind, "it has no id, or no sender")
            return None
        is_redaction = kind == "m.room.redaction"
        read = (
            partial(_take_back, self._unread, self._reader) if is_redaction else self._reader.read
        )
        return PlatformEvent(
            chat=room_id,
            id=(event_id, again),
            read=partial(read, raw, room_id),
            is_in_order=is_redaction,
            kind=kind,
            awaited_at=awaited_at(self._rooms, room_id),
            confirm=partial(self._confirm, raw, room_id, position),
        )

    async def _confirm(self, raw: Json, room_id: str, position: str) -> None:
        """Note that an event is durable, and show its writer that it was read."""
        await self._settle(position)
        event_id = text_of(raw, "event_id")
        stamp = time_of(raw, self._clock.now()).isoformat()
        await self._handler.keep_cursor(LAST, f"{stamp} {room_id} {event_id}")
        self._receipts[room_id] = event_id
        self._has_receipts.set()

    async def _settle(self, position: str) -> None:
        await self._mark.settle(position)
        before = self._mark.reached
        self._mark.advance()
        if self._mark.reached not in {None, before}:
            await self._handler.keep_cursor(SYNC, self._mark.reached or "")

    # --- what was missed ---

    async def _backfill(self, room_id: str, stretch: _Stretch, position: str) -> Backfill:
        """Return what was written in a stretch; nothing where the homeserver will never tell it.

        Raises:
            ConnectionLostError: It does not tell it now.
        """
        history = History(self._limits, self._clock.now())
        last = PlatformEvent(chat=room_id, confirm=partial(self._settle, position))
        chat, clicks = None, list[PlatformEvent]()
        try:
            chat = (await self._rooms.get(room_id)).chat()
            async for raw in self._read_back(room_id, stretch, history):
                event = self._event(raw, room_id, position)
                if event is not None and event.kind not in _OTHERS:
                    history.add(event, time_of(raw, self._clock.now()))
                elif event is not None:
                    clicks.append(event)
        except RequestFailedError as error:
            if not error.is_refusal or error.is_token:
                raise ConnectionLostError(str(error)) from error
            fields = {"room": room_id, "why": str(error)}
            logger.warning("what was missed in a room cannot be read", extra=fields)
        found = history.backfill(chat, *reversed(clicks), last)
        for _ in found.events[:-1]:
            self._mark.begin(position)
        return found

    async def _read_back(
        self, room_id: str, stretch: _Stretch, history: History
    ) -> AsyncGenerator[Json]:
        """Yield the events of a stretch, the newest first."""
        for raw in reversed(stretch.newest):
            yield raw
        token = stretch.start
        while token and history.left > 0:
            query = {"dir": "b", "from": token, "limit": str(min(_PAGE, history.left))}
            if stretch.end:
                query["to"] = stretch.end
            page = await self._server.ask("GET", room_path(room_id, "messages"), query=query)
            events = objects_of(page, "chunk")
            for raw in events:
                if not stretch.is_read(raw):
                    return
                yield raw
            following = text_of(page, "end")
            if not events or following == token:
                return
            token = following

    # --- messages whose key comes later ---

    def _note_missing_key(self, room_id: str, session_id: str, raw: Json) -> None:
        """Keep a message until its key comes; while the process lives."""
        self._unread.setdefault((room_id, session_id), []).append(raw)
        while sum(map(len, self._unread.values())) > _UNREAD_MAX:
            self._unread.popitem(last=False)

    async def _read_again(self, key: tuple[str, str], position: str) -> None:
        room_id, _ = key
        for raw in self._unread.pop(key, []):
            await self._put(raw, room_id, position, again=True)

    async def _put_move(self, room_id: str, position: str) -> None:
        """Have it said first that a room takes the place of another, if it does."""
        self._mark.begin(position)
        event = PlatformEvent(
            chat=room_id,
            read=partial(self._visitor.moved, room_id),
            kind="m.room.create",
            confirm=partial(self._settle, position),
        )
        await self._queues.put(event)

    def _has_joined(self, events: Sequence[Json]) -> bool:
        """Whether the bot came in just now; a change of its name is another join."""
        return any(is_own(each, self._me, "join") and _before(each) != "join" for each in events)

    def _is_since_invitation(self, reading: dict[str, bool], raw: Json) -> bool:
        """Whether an event, of those read backwards, came after the bot was invited."""
        if is_own(raw, self._me, "invite") or (
            is_own(raw, self._me, "join") and _before(raw) not in {"invite", "join"}
        ):
            reading["is_open"] = False
        return reading["is_open"]


class _Stretch(Struct, frozen=True):
    """A stretch of the history of a room, read backwards."""

    newest: Sequence[Json]
    "Events that are known, oldest first."
    start: str
    "From where those before them are read; empty = there are none."
    end: str
    "Empty = `is_read` says where it ends."
    is_read: Callable[[Json], bool]


def _newest(events: Sequence[Json], is_read: Callable[[Json], bool]) -> tuple[Sequence[Json], bool]:
    """Return the events, oldest first, that are read, and whether the first that is not was met."""
    found: list[Json] = []
    for raw in reversed(events):
        if not is_read(raw):
            return found[::-1], True
        found.append(raw)
    return found[::-1], False


def _next(sync: Json) -> str:
    """Return from where the next sync is asked for."""
    token = text_of(sync, "next_batch")
    if not token:
        msg = "a sync has no next_batch"
        raise RequestFailedError(msg, status=200)
    return token


def _is_after(after: datetime, now: datetime, raw: Json) -> bool:
    return time_of(raw, now) > after


def _before(raw: Json) -> str:
    """Return what a membership was before."""
    unsigned = text_of(raw, "unsigned", "prev_content", "membership")
    return unsigned or text_of(raw, "prev_content", "membership")


def _is_leaving(raw: Json) -> bool:
    gone = text_of(raw, "content", "membership") in {"leave", "ban"}
    return text_of(raw, "type") == "m.room.member" and gone


def _kept(cursor: str) -> tuple[str, str, str]:
    """Return the time, the room and the id of the event that was taken last; empty = none."""
    parts = cursor.split(" ")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")


def _time_kept(cursor: str) -> datetime | None:
    try:
        return datetime.fromisoformat(_kept(cursor)[0])
    except ValueError:
        return None


def _filter(timeline: int) -> str:
    """Return what a sync is to bring: nothing of presence, receipts and settings.

    Source: https://spec.matrix.org/v1.16/client-server-api/#filtering.
    """
    nothing: dict[str, list[str]] = {"types": []}
    room = {
        "timeline": {"limit": timeline, "lazy_load_members": True},
        "state": {"lazy_load_members": True, "types": sorted(_STATE)},
        "ephemeral": nothing,
        "account_data": nothing,
    }
    found = {"room": room, "presence": nothing, "account_data": nothing}
    return orjson.dumps(found).decode()


def _is_any(_: Json) -> bool:
    """Read all: there are no bounds."""
    return True


async def _take_back(
    unread: Mapping[tuple[str, str], list[Json]], reader: EventReader, raw: Json, room_id: str
) -> Sequence[InboundEvent]:
    """Read a redaction; its message is not read any more when its key comes."""
    gone = redacted_by(raw)
    for waiting in unread.values():
        waiting[:] = [each for each in waiting if text_of(each, "event_id") != gone]
    return await reader.read(raw, room_id)
