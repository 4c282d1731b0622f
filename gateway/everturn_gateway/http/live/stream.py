"""One stream for everything that a page shows: rows of sessions, and the sessions it looks into.

Nothing is queued for a slow reader: rows are states, of which the newest is sent; events are read
on from where it stands; and pieces of a reply are joined while they wait.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct, field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from everturn_actors.errors import CoreError
from everturn_actors.events import Event, SessionShared
from everturn_actors.service import TextDelta
from everturn_actors.state.serialization import to_record, type_name, utc_text
from everturn_actors.supervisor import attempt
from everturn_gateway.http import sse
from everturn_gateway.http.access.visibility import sees_state
from everturn_gateway.http.live.rows import EncodedRows
from everturn_gateway.http.live.states import Frame, OtherStates
from everturn_gateway.http.ports import (
    HasAgents,
    HasChannels,
    HasConfig,
    HasRuns,
    HasSchedules,
    HasSessions,
)
from everturn_gateway.http.problems import core_problem
from everturn_gateway.http.sse import EventStream, WriteNow
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.principals import Principal

WATCHED_MOST: Final = 8
ROWS_MOST: Final = 500  # in a frame; who has missed more fetches its list again
ROWS_S: Final = 0.1  # between two looks at what changed
STARTS_TOLD: Final = 20  # in the first frame
JOIN_S: Final = 0.05  # pieces of a reply that come within are one
_WATCH: Final = re.compile(r"([A-Za-z0-9-]{1,64}):([0-9]{1,15})")
_CURSOR: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,15})\.(.*)")


class LiveHost(HasAgents, HasChannels, HasConfig, HasRuns, HasSchedules, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


class Watch(Struct, frozen=True):
    """A session that a reader looks into, and the last event of it that it knows."""

    session_id: str
    after: int


class Cursor(Struct, frozen=True):
    """Where a reader was when its connection broke."""

    boot: str = ""
    version: int = 0
    watches: tuple[Watch, ...] = ()


def read_watches(texts: Sequence[str]) -> tuple[Watch, ...] | None:
    """Return what `ID:SEQ` name; None where one is none of it, or there are too many."""
    found = [_WATCH.fullmatch(each) for each in texts]
    if len(found) > WATCHED_MOST or any(each is None for each in found):
        return None
    return tuple(Watch(each[1], int(each[2])) for each in found if each)


def read_cursor(text: str) -> Cursor:
    """Return the place that the id of a frame names; one that cannot be read names none."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        return Cursor()
    watches = read_watches([each for each in found[3].split(",") if each])
    return Cursor(found[1], int(found[2]), watches or ())


class LiveStream(Response):
    """Sends frames until its reader leaves, or the server stops."""

    def __init__(
        self,
        gateway: LiveHost,
        waits: OpenWaits,
        viewer: Principal,
        watches: Sequence[Watch],
        cursor: Cursor,
        *,
        rows: EncodedRows,
    ) -> None:
        """Prepare the answer.

        Args:
            gateway: What is shown.
            waits: Ends the stream when the server stops.
            viewer: Who reads; only what is open to it is sent.
            watches: The sessions that it looks into.
            cursor: Where it stood before.
            rows: What all streams share.
        """
        super().__init__()
        self._rows = rows
        self._gateway, self._viewer = gateway, viewer
        known = {each.session_id: each.after for each in cursor.watches}
        self._seqs = {
            each.session_id: max(each.after, known.get(each.session_id, 0)) for each in watches
        }
        changes = gateway.changes
        self._is_fresh = (  # of what was missed not all is known: the page has to fetch its list
            cursor.boot != changes.boot
            or not changes.knows(cursor.version)
            or len(changes.since(cursor.version)) > ROWS_MOST
        )
        self._version = changes.version if self._is_fresh else cursor.version
        # Whoever writes waits for whoever sends: nothing is queued.
        self._put, self._frames = anyio.create_memory_object_stream[Frame](0)
        self._stream = EventStream(self._messages, waits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream.

        Raises:
            ProblemError: There is no room for another follower; nothing was sent.
        """
        failure: BaseException | None = None
        with self._put, self._frames, self._gateway.changes.looked_at():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_rows)
                for task in OtherStates(self._gateway, self._viewer, self._put.send).tasks():
                    tasks.start_soon(task)
                for session_id in self._seqs:
                    watcher = _Watcher(self._gateway, self._viewer, session_id, self._put)
                    tasks.start_soon(watcher.run, self._seqs[session_id])
                # Raised outside the group, which would wrap it.
                failure = await attempt(partial(self._stream, scope, receive, send))
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _messages(self, write_now: WriteNow) -> AsyncGenerator[bytes]:
        del write_now  # a frame may have to wait for the one before it
        yield sse.greeting()
        gateway = self._gateway
        hello: dict[str, object] = {
            "boot": gateway.changes.boot,
            "started_at": utc_text(gateway.started_at),
            "version": gateway.version,
            "node": gateway.node,
            "fresh": self._is_fresh,
            "starts": [
                {"at": utc_text(each.at), "after": each.after}
                for each in gateway.starts.newest(STARTS_TOLD)
            ],
        }
        yield sse.message("hello", hello, cursor=self._cursor())
        async for name, data in self._frames:
            if name == "rows":
                # The cursor says what was sent, not what was read.
                self._version = _number(data.pop("version"))
            elif name == "event":
                self._seqs[str(data["session_id"])] = _number(data["seq"])
            yield sse.message(name, data, cursor=self._cursor())

    def _cursor(self) -> str:
        watched = ",".join(f"{session_id}:{seq}" for session_id, seq in self._seqs.items())
        return f"{self._gateway.changes.boot}.{self._version}.{watched}"

    async def _send_rows(self) -> None:
        changes, viewer, version = self._gateway.changes, self._viewer, self._version
        while True:
            await changes.wait(version)
            # States: of a row that changed ten times only the last is sent.
            rows = changes.since(version)
            version, is_fresh = changes.version, len(rows) > ROWS_MOST
            shown = [
                self._rows.of(row)
                for row in rows[:ROWS_MOST]
                if viewer.sees_all
                or viewer.sees(
                    agent=row.key.agent, began_by=row.principal, shared_with=row.shared_with
                )
            ]
            if shown:
                data: dict[str, object] = {"sessions": shown, "fresh": is_fresh}
                await self._put.send(("rows", {**data, "version": version}))
            await anyio.sleep(ROWS_S)  # a busy gateway sends ten frames a second, not a thousand


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


class _Watcher(Struct):
    """Sends what comes in one session."""

    gateway: LiveHost
    viewer: Principal
    session_id: str
    put: MemoryObjectSendStream[Frame]
    pieces: list[TextDelta] = field(default_factory=list[TextDelta])
    "Of the running reply, which come behind one another; not sent yet."
    has_pieces: anyio.Event = field(default_factory=anyio.Event)
    sending: anyio.Lock = field(default_factory=anyio.Lock)
    "Held while pieces are sent, which keep their order."

    async def run(self, after: int) -> None:
        """Send events above `after` and pieces of replies, to the end of the session."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_pieces)
                await self._follow(after)
                tasks.cancel_scope.cancel()
        except* CoreError as group:
            error = group.exceptions[0]
            assert isinstance(error, CoreError)
            told = core_problem(error).document("")
            await self.put.send(("ended", {"session_id": self.session_id, "problem": told}))
        else:
            await self.put.send(("ended", {"session_id": self.session_id, "problem": None}))

    async def _follow(self, after: int) -> None:
        service = self.gateway.service
        updates = service.watch(self.session_id, after=after, take=self._take)
        async with aclosing(updates):
            async for update in updates:
                if isinstance(update, TextDelta):
                    self._take(update)
                    continue
                await self._flush()
                await self._send_event(update)
                if isinstance(update.body, SessionShared) and not sees_state(
                    self.viewer, await service.view(self.session_id)
                ):
                    return

    async def _send_event(self, event: Event) -> None:
        data: dict[str, object] = {
            "session_id": self.session_id,
            "seq": event.seq,
            "type": type_name(event.body),
            "event": to_record(event),
        }
        await self.put.send(("event", data))

    def _take(self, delta: TextDelta) -> bool:
        self.pieces.append(delta)
        self.has_pieces.set()
        return True  # taken, whether the stream is fast or not: nobody waits for it

    async def _send_pieces(self) -> None:
        while True:
            await self.has_pieces.wait()
            await anyio.sleep(JOIN_S)
            self.has_pieces = anyio.Event()
            await self._flush()

    async def _flush(self) -> None:
        async with self.sending:
            # What comes while this is sent goes with the next.
            pieces, self.pieces = self.pieces, []
            for delta in _joined(pieces):
                data: dict[str, object] = {
                    "session_id": self.session_id,
                    "turn_id": f"t{delta.turn}",
                    "step": delta.step,
                    "offset": delta.offset,
                    "text": delta.text,
                }
                await self.put.send(("token", data))


def _joined(pieces: Sequence[TextDelta]) -> list[TextDelta]:
    """Return pieces with those joined that continue one another."""
    joined: list[TextDelta] = []
    run: list[str] = []
    first, end = None, 0
    for piece in pieces:
        is_next = first is not None and (piece.turn, piece.step, piece.offset) == (
            first.turn,
            first.step,
            end,
        )
        if not is_next:  # another reply, or one that begins anew
            if first is not None:
                joined.append(_piece(first, run))
            first, run, end = piece, [], piece.offset
        run.append(piece.text)
        end += len(piece.text)
    return joined if first is None else [*joined, _piece(first, run)]


def _piece(first: TextDelta, run: list[str]) -> TextDelta:
    return TextDelta(turn=first.turn, step=first.step, offset=first.offset, text="".join(run))
