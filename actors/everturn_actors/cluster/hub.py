"""The side that other nodes call: lets in who knows the secret, and answers what they ask.

What is hostile costs its own stream: a frame that is too large, unknown or half, a secret that
differs, somebody who connects and says nothing. Of each kind there are at most so many at once.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.cluster.addresses import Caller, Stream
from everturn_actors.cluster.frames import (
    EVENTS_MAX_BYTES,
    Answered,
    AnyFrame,
    Ask,
    Bye,
    Delete,
    Failed,
    Follow,
    Followed,
    Followers,
    Frame,
    Moved,
    Ping,
    Pushed,
    Text,
    Unfollow,
    UnreadableFrameError,
    failure_of,
    pack_answer,
    unpack,
)
from everturn_actors.cluster.greeting import Identity, Met, receive
from everturn_actors.cluster.link import Asked, Given
from everturn_actors.cluster.wire import Beat, FrameTooLargeError, Wire
from everturn_actors.errors import (
    CoreError,
    LinkBrokenError,
    LinkRefusedError,
    MailboxFullError,
    MovedError,
)
from everturn_actors.events import Event
from everturn_actors.protocol.feed import TextDelta

logger = logging.getLogger(__name__)

STRANGERS_MAX: Final = 64
"Streams at once whose other side has not shown yet that it knows the secret."
ASKS_MAX: Final = 1000
"Asks at once on one stream; more are refused, and may come again."
FOLLOWED_MAX: Final = 20_000
"Sessions that one stream follows."


class Subscriber(Protocol):
    """Somebody elsewhere who follows a session here."""

    session_id: str
    after: int
    waits: bool
    is_final: bool

    def offer(self, delta: TextDelta) -> bool:
        """Push a piece of a reply, if that can be done at once; return whether it was."""
        ...

    async def push(self, update: Event | TextDelta) -> None:
        """Push what comes next."""
        ...


class Host(Protocol):
    """Who has the sessions that other nodes ask for."""

    async def answer(self, asked: Asked) -> Given:
        """Do what another node asks; return what it gave when that is durable.

        Raises:
            MovedError: The session is not here.
            CoreError: What the session answered.
        """
        ...

    async def serve(self, subscriber: Subscriber) -> None:
        """Push what happens in a session, until it ends.

        Raises:
            MovedError: The session is not here, or no longer.
            CoreError: What the session failed with.
        """
        ...

    def followers_changed(self, subscriber: Subscriber) -> None:
        """`waits` or `is_final` of somebody who is served have changed."""
        ...


class _Subscriber(Struct, kw_only=True, eq=False):
    """Implements `Subscriber` over one stream."""

    number: int
    session_id: str
    after: int
    waits: bool
    is_final: bool
    wire: Wire
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def offer(self, delta: TextDelta) -> bool:
        return self.wire.send_soon(self._text(delta))

    async def push(self, update: Event | TextDelta) -> None:
        if isinstance(update, TextDelta):
            await self.wire.send(self._text(update))
            return
        pushed = Pushed(number=self.number, last_seq=update.seq, events=(update,))
        try:
            await self.wire.send(pushed, EVENTS_MAX_BYTES)
        except FrameTooLargeError:  # it is read from the log over there
            await self.wire.send(Pushed(number=self.number, last_seq=update.seq))

    def _text(self, delta: TextDelta) -> Text:
        return Text(
            number=self.number,
            turn=delta.turn,
            step=delta.step,
            offset=delta.offset,
            text=delta.text,
        )


class _Nobody:
    """`Host` of a node that has no session yet."""

    async def answer(self, asked: Asked) -> Given:
        raise MovedError(asked.session_id)

    async def serve(self, subscriber: Subscriber) -> None:
        raise MovedError(subscriber.session_id)

    def followers_changed(self, subscriber: Subscriber) -> None:
        """Nobody is followed."""


class Hub:
    """Serves the streams that other nodes open."""

    def __init__(self, me: Identity, host: Host | None = None, *, beat: Beat | None = None) -> None:
        """Serve nobody yet; `take` serves who calls.

        Args:
            me: Who this node is to others.
            host: Who answers; None = nobody yet, see `host`.
            beat: Times.
        """
        self.host: Host = host or _Nobody()
        "Who answers; may be set later."
        self._me, self._beat = me, beat or Beat()
        self._strangers = 0
        self._known = set[Wire]()

    async def take(self, caller: Caller) -> None:
        """Serve who calls until their stream ends. A boundary: nothing leaves it."""
        stream = await self._opened(caller)
        if stream is None:
            return
        wire = Wire(stream, self._beat)
        why = ""
        try:
            met = await self._let_in(wire)
            if met is not None:
                self._known.add(wire)
                await self._serve(wire, met)
        except* (LinkBrokenError, LinkRefusedError) as group:
            logger.info("a link ended", extra={"why": str(group.exceptions[0])})
        except* UnreadableFrameError as group:
            why = str(group.exceptions[0])
            logger.warning("a link is ended here", extra={"why": why})
        except* Exception as group:  # the boundary around one stream; logged here
            why = "a fault in the program"
            logger.exception("a link failed", exc_info=group)
        finally:
            self._known.discard(wire)
            await wire.close(why)

    async def _opened(self, caller: Caller) -> Stream | None:
        """Return the stream to who calls; None where TLS was not agreed on, or there is no room."""
        # Who has not shown the secret yet may keep few places, and none for long, whoever calls.
        if self._strangers >= STRANGERS_MAX:
            caller.close()
            return None
        try:
            with self._as_stranger():
                return await caller.open()
        except OSError as error:
            logger.info("a link was not begun", extra={"why": str(error)})
        return None

    async def _let_in(self, wire: Wire) -> Met | None:
        """Return who calls, once they have shown the secret; None where they did not."""
        try:
            with self._as_stranger():
                return await receive(wire, self._me)
        except LinkRefusedError as error:
            logger.warning("a node was not let in", extra={"why": str(error)})
        return None

    @contextmanager
    def _as_stranger(self) -> Generator[None]:
        """Count somebody who has not shown the secret, until the block ends or takes too long."""
        self._strangers += 1
        try:
            with anyio.move_on_after(self._beat.silence_s):
                yield
        finally:
            self._strangers -= 1

    async def _serve(self, wire: Wire, met: Met) -> None:
        """Read, write and listen until the stream ends."""
        del met
        stream = _Stream(wire, self)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.beat)
            try:
                async for body in wire.bodies():
                    await stream.take(body, tasks)
            finally:
                tasks.cancel_scope.cancel()

    async def close(self) -> None:
        """Say goodbye to all: what they ask from now on is asked elsewhere."""
        for wire in tuple(self._known):
            await wire.close("the node stops")


class _Stream:
    """What one node that was let in asks."""

    def __init__(self, wire: Wire, hub: Hub) -> None:
        self._wire, self._hub = wire, hub
        self._asks = 0
        self._followed: dict[int, _Subscriber] = {}

    async def take(self, body: bytes, tasks: TaskGroup) -> None:
        """Take the next frame.

        Raises:
            UnreadableFrameError: It is none, and nobody can be told what for.
            LinkBrokenError: The other side is gone.
        """
        try:
            frame = unpack(body)
        except UnreadableFrameError as error:
            if error.number is None:
                raise
            await self._wire.send(Failed(number=error.number, failure=failure_of(error)))
            return
        match frame:
            case Ask() | Delete():
                await self._begin(frame, tasks)
            case Follow():
                await self._follow(frame, tasks)
            case Followers():
                followed = self._followed.get(frame.number)
                if followed is not None:
                    followed.waits, followed.is_final = frame.waits, frame.is_final
                    self._hub.host.followers_changed(followed)
            case Unfollow():
                followed = self._followed.pop(frame.number, None)
                if followed is not None:
                    followed.scope.cancel()
            case Bye(why=text):
                raise LinkBrokenError(text)
            case Ping():
                pass
            case _:
                raise _out_of_place(frame)

    async def _begin(self, frame: Ask | Delete, tasks: TaskGroup) -> None:
        if self._asks >= ASKS_MAX:
            await self._wire.send(
                Failed(number=frame.number, failure=failure_of(MailboxFullError()))
            )
            return
        self._asks += 1
        tasks.start_soon(self._answer, frame)

    async def _answer(self, frame: Ask | Delete) -> None:
        """Answer an ask, and make room for the next one."""
        try:
            said = await self._said(frame)
        finally:
            self._asks -= 1
        try:
            await self._wire.send(said)
        except FrameTooLargeError as error:
            # The answer itself is small; what goes with it only saves a read of the log.
            if isinstance(said, Answered) and said.events:
                said = replace(said, events=())  # followers over there read them from the log
            else:
                said = Failed(number=frame.number, failure=failure_of(error))
            await self._wire.send(said)

    async def _said(self, frame: Ask | Delete) -> Frame:
        """Return what is said to an ask. A boundary: a fault is its own."""
        is_ask = isinstance(frame, Ask)
        asked = Asked(
            session_id=frame.session_id,
            command=frame.command if isinstance(frame, Ask) else None,
            begin_with=frame.begin_with if isinstance(frame, Ask) else None,
        )
        try:
            given = await self._hub.host.answer(asked)
        except MovedError:
            return Moved(number=frame.number)
        except CoreError as error:
            return Failed(number=frame.number, failure=failure_of(error))
        except Exception as error:
            logger.exception("what another node asked failed", extra={"ask": type(frame).__name__})
            return Failed(number=frame.number, failure=failure_of(error))
        # A deleted session gives nothing back.
        if not is_ask:
            return Answered(number=frame.number)
        answer = pack_answer(given.answer)
        return Answered(number=frame.number, answer=answer, events=given.events)

    async def _follow(self, frame: Follow, tasks: TaskGroup) -> None:
        """Begin to push a session to somebody at the other node."""
        # A node that asks for everything must not take the memory of this one.
        if frame.number in self._followed or len(self._followed) >= FOLLOWED_MAX:
            await self._wire.send(
                Followed(number=frame.number, failure=failure_of(MailboxFullError()))
            )
            return
        subscriber = self._followed[frame.number] = _Subscriber(
            number=frame.number,
            session_id=frame.session_id,
            after=frame.after,
            waits=frame.waits,
            is_final=frame.is_final,
            wire=self._wire,
        )
        tasks.start_soon(self._push, subscriber)

    async def _push(self, subscriber: _Subscriber) -> None:
        """Push to a follower until its session ends. A boundary: a fault is its own."""
        end: Frame = Followed(number=subscriber.number)
        with subscriber.scope:
            try:
                await self._hub.host.serve(subscriber)
            except MovedError:
                end = Moved(number=subscriber.number)
            except LinkBrokenError:
                return
            except CoreError as error:
                end = Followed(number=subscriber.number, failure=failure_of(error))
            except Exception as error:
                logger.exception("a session cannot be followed from another node")
                end = Followed(number=subscriber.number, failure=failure_of(error))
            finally:
                # Before the end is sent: the number may be used again from then on.
                self._followed.pop(subscriber.number, None)
            await self._wire.send(end)


def _out_of_place(frame: AnyFrame) -> UnreadableFrameError:
    return UnreadableFrameError(f"a {type(frame).__name__} comes from who calls", None)
