"""Links between nodes: each calls every other, and asks and follows over the stream it opened.

A stream carries many asks at once, each answered when it is done. What breaks, or is silent for too
long, fails all that waits on it with `LinkBrokenError`: nobody knows then whether it was done, and
whoever asked asks again, under the same idempotency key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from everturn_actors.cluster.addresses import Tls, connect, read_address
from everturn_actors.cluster.frames import (
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
    error_of,
    unpack,
    unpack_answer,
)
from everturn_actors.cluster.greeting import Identity, Met, greet
from everturn_actors.cluster.wire import Beat, Wire
from everturn_actors.errors import (
    InvalidInputError,
    LinkBrokenError,
    LinkRefusedError,
    MovedError,
    OwnerAwayError,
)
from everturn_actors.events import Event, SessionStarted
from everturn_actors.ports import Node
from everturn_actors.protocol.commands import OutsideCommand

logger = logging.getLogger(__name__)

REFUSED_S: Final = 5.0
"How long a node is left alone that has another secret, or another version."
UNFOLLOW_S: Final = 0.05
"How long the word that nobody follows any more may wait for the next one: a turn often follows."


class Asked(Struct, frozen=True, kw_only=True):
    """What a session is asked over a link."""

    session_id: str
    command: OutsideCommand | None
    "None = it is to be deleted."
    begin_with: SessionStarted | None = None


class Given(Struct, frozen=True, kw_only=True):
    """What came back."""

    answer: object
    events: tuple[Event, ...] = ()
    "What followers of the session are shown first."


class Following(Struct, kw_only=True, eq=False):
    """Somebody here follows a session that is elsewhere."""

    session_id: str
    after: int
    take: Callable[[Pushed | Text], None]
    "Is given what comes, at once and in order."
    waits: bool = False
    is_final: bool = False
    notify: Callable[[], None] | None = None
    "Lets the owner know that `waits` or `is_final` has changed; None = nobody listens."


class Link(Protocol):
    """The way to the other nodes."""

    async def ask(self, node: Node, asked: Asked, *, deadline_s: float) -> Given:
        """Ask a session at its owner; return what it gave, when that is durable.

        Raises:
            MovedError: The session is not there, or no longer. Perhaps it was done.
            LinkBrokenError: The node cannot be reached, or its answer. Perhaps it was done.
            LinkRefusedError: The two do not understand each other; nothing was done.
            OwnerAwayError: No answer came in time. Perhaps it is done later.
            CoreError: What the session answered.
        """
        ...

    async def follow(self, node: Node, following: Following) -> None:
        """Follow a session at its owner, until the owner ends it.

        Raises:
            MovedError: The session is not there, or no longer.
            LinkBrokenError, LinkRefusedError: As `ask`.
            CoreError: What the session failed with.
        """
        ...


class StreamLink:
    """`Link` over streams, opened when they are first needed and kept."""

    def __init__(
        self, me: Identity, tasks: TaskGroup, *, tls: Tls | None = None, beat: Beat | None = None
    ) -> None:
        """Reach nobody yet.

        Args:
            me: Who this node is to others.
            tasks: Where streams are read and written.
            tls: How others are reached; None = without TLS.
            beat: Times.
        """
        self._me, self._tasks, self._tls, self._beat = me, tasks, tls, beat or Beat()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._opening: dict[tuple[str, str], _Opening] = {}

    def refusals(self) -> dict[str, str]:
        """Return which nodes did not let this one in when they were called last, and why."""
        return {name: each.refused for (name, _), each in self._opening.items() if each.refused}

    def _forget_refusals(self, name: str) -> None:
        """Forget what a node said at this address or at one that it had before."""
        for (known, _), each in self._opening.items():
            if known == name:
                each.refused, each.refused_until_s = "", 0.0

    async def ask(self, node: Node, asked: Asked, *, deadline_s: float) -> Given:
        """See `Link.ask`."""
        line = await self._line_to(node)
        try:
            return await line.ask(asked, deadline_s)
        except TimeoutError as error:
            why = f"no answer within {deadline_s:g} s"
            raise OwnerAwayError(asked.session_id, node.name, why) from error

    async def follow(self, node: Node, following: Following) -> None:
        """See `Link.follow`."""
        line = await self._line_to(node)
        await line.follow(following)

    async def _line_to(self, node: Node) -> _Line:
        place = (node.name, node.address)
        line = self._lines.get(place)
        if line is None or line.is_over:
            # Many ask at once when a node comes back; one stream is enough.
            opening = self._opening.setdefault(place, _Opening())
            failures = opening.failures
            async with opening.lock:
                line = self._lines.get(place)
                if line is None or line.is_over:
                    if anyio.current_time() < opening.refused_until_s:
                        raise LinkRefusedError(opening.refused)
                    if (
                        opening.failures != failures
                    ):  # else each would wait for as long as the first
                        raise LinkBrokenError(opening.why)
                    line = self._lines[place] = await self._try_to_open(node, opening)
        return line

    async def _try_to_open(self, node: Node, opening: _Opening) -> _Line:
        try:
            line = await self._open(node)
        except LinkBrokenError as error:
            opening.failures, opening.why = opening.failures + 1, str(error)
            self._forget_refusals(node.name)
            raise
        except LinkRefusedError as error:
            self._forget_refusals(node.name)
            # It would say the same to each who asks, and log it.
            opening.refused, opening.refused_until_s = str(error), anyio.current_time() + REFUSED_S
            logger.warning("node %r cannot be asked: %s", node.name, error)
            raise
        self._forget_refusals(node.name)
        return line

    async def _open(self, node: Node) -> _Line:
        try:
            stream = await connect(read_address(node.address), self._tls)
        except (OSError, TimeoutError, InvalidInputError) as error:
            msg = f"node {node.name!r} cannot be reached at {node.address!r}: {_why(error)}"
            raise LinkBrokenError(msg) from error
        wire = Wire(stream, self._beat)
        try:
            with anyio.fail_after(self._beat.silence_s):
                met = await greet(wire, self._me, node.name)
            _check_name(met, node)
        except BaseException as error:
            await wire.close()
            # Another program may listen there: it is not what it says, and not a broken link.
            if isinstance(error, TimeoutError | UnreadableFrameError):
                msg = f"node {node.name!r} at {node.address!r} does not answer as a node does"
                raise LinkBrokenError(msg) from error
            raise
        line = _Line(wire, node)
        self._tasks.start_soon(line.run, name=f"link to {node.name}")
        return line


def _check_name(met: Met, node: Node) -> None:
    if met.name != node.name:
        msg = f"at {node.address!r} is node {met.name[:64]!r}, not {node.name!r}"
        raise LinkBrokenError(msg)


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer"
    return str(error)


class _Opening(Struct, eq=False):
    """A stream to one node that is being opened, for all who wait for it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    failures: int = 0
    why: str = ""
    "Of the last failure."
    refused: str = ""
    "Why the node does not let this one in, or is not understood; empty = it was not so."
    refused_until_s: float = 0.0
    "Until then it is not asked again."


class _Call(Struct, eq=False):
    """Who waits for what is said under one number."""

    done: asyncio.Future[Answered | Failed | Moved | Followed]
    following: Following | None = None

    def fail(self, error: Exception) -> None:
        """Tell who waits, where nothing was said yet."""
        if not self.done.done():
            self.done.set_exception(error)


class _Line:
    """One stream that this node opened."""

    def __init__(self, wire: Wire, node: Node) -> None:
        """Take a stream whose both ends know each other."""
        self._wire, self._node = wire, node
        self._numbers = count(1)
        self._calls: dict[int, _Call] = {}
        self._why: LinkBrokenError | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return self._why is not None

    async def ask(self, asked: Asked, deadline_s: float) -> Given:
        number = next(self._numbers)
        frame: Frame
        if asked.command is None:
            frame = Delete(number=number, session_id=asked.session_id)
        else:
            frame = Ask(
                number=number,
                session_id=asked.session_id,
                command=asked.command,
                begin_with=asked.begin_with,
            )
        said = await self._call(number, frame, None, deadline_s)
        if isinstance(said, Moved):
            raise MovedError(asked.session_id)
        if isinstance(said, Failed):
            raise error_of(said.failure)
        assert isinstance(said, Answered)
        if asked.command is None:
            return Given(answer=None)
        return Given(answer=unpack_answer(asked.command, said.answer), events=said.events)

    async def follow(self, following: Following) -> None:
        number = next(self._numbers)

        def notify() -> None:
            frame = Followers(number=number, waits=following.waits, is_final=following.is_final)
            self._wire.send_soon(frame)

        following.notify = notify
        frame = Follow(
            number=number,
            session_id=following.session_id,
            after=following.after,
            waits=following.waits,
            is_final=following.is_final,
        )
        said: object = None
        try:
            said = await self._call(number, frame, following)
        finally:
            following.notify = None
            # Cancelled here: the other side would go on pushing to nobody.
            if said is None:
                self._wire.send_soon(Unfollow(number=number), within_s=UNFOLLOW_S)
        if isinstance(said, Moved):
            raise MovedError(following.session_id)
        if isinstance(said, Followed | Failed) and said.failure is not None:
            raise error_of(said.failure)

    async def _call(
        self,
        number: int,
        frame: Frame,
        following: Following | None,
        deadline_s: float | None = None,
    ) -> Answered | Failed | Moved | Followed:
        # The stream ended while this was on its way to it; nobody would answer.
        if self._why is not None:
            raise self._why
        loop = asyncio.get_running_loop()
        call = _Call(loop.create_future(), following)
        self._calls[number] = call
        # A timer costs a tenth of a scope. Where there is no room to send, the stream breaks soon.
        timer = loop.call_later(deadline_s, call.fail, TimeoutError()) if deadline_s else None
        try:
            await self._wire.send(frame)
            return await call.done
        finally:
            self._calls.pop(number, None)
            if timer is not None:
                timer.cancel()

    async def run(self) -> None:
        """Read, write and listen until the stream ends; then let all that waits fail."""
        why = LinkBrokenError(f"the link to node {self._node.name!r} ended")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._wire.beat)
                async for body in self._wire.bodies():
                    self._take(unpack(body))
        except* (LinkBrokenError, LinkRefusedError, UnreadableFrameError) as group:
            text = f"the link to node {self._node.name!r} broke: {group.exceptions[0]}"
            why = LinkBrokenError(text)
            logger.warning(text)
        finally:
            self._why = why
            for call in self._calls.values():
                call.fail(why)
            await self._wire.close()

    def _take(self, frame: AnyFrame) -> None:
        match frame:
            case Pushed() | Text():
                call = self._calls.get(frame.number)
                if call is not None and call.following is not None and not call.done.done():
                    call.following.take(frame)
            case Answered() | Failed() | Moved() | Followed():
                call = self._calls.get(frame.number)  # None = who asked waits no more
                if call is not None and not call.done.done():
                    call.done.set_result(frame)
            # The other side goes down in order: what is asked again goes to who has the session
            # then.
            case Bye(why=text):
                raise LinkBrokenError(text)
            case Ping():
                pass
            case _:
                msg = f"a {type(frame).__name__} comes from who was called"
                raise UnreadableFrameError(msg, None)
