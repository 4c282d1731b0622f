"""What happens in a session that another node has, brought to those who follow it here.

One stream for a session and node, however many follow there. Pieces of text may be lost where the
owner changes or the link breaks; events never: whatever did not come is read from the log.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from everturn_actors.cluster.frames import Pushed, Text
from everturn_actors.cluster.link import Following, Link
from everturn_actors.errors import (
    CoreError,
    JournalError,
    LinkBrokenError,
    LinkRefusedError,
    MovedError,
)
from everturn_actors.ports import Node, Ownership, SessionStore
from everturn_actors.protocol.feed import READ_EVENTS, Feed, LiveReply

logger = logging.getLogger(__name__)

LEAVE_S: Final = 0.05
"After so long the owner is told that nobody waits any more, if the session is still followed."
LOOK_S: Final = 1.0
"How often the log is read while nobody can be followed."


class Place(Protocol):
    """Where relays are."""

    ownership: Ownership
    link: Link
    tasks: TaskGroup
    relays: set[Relay]

    @property
    def store(self) -> SessionStore:
        """Where sessions live."""
        ...

    def is_here(self, session_id: str) -> bool:
        """Whether this process works on a session."""
        ...

    async def place(self, session_id: str) -> None:
        """Find out whose a session is, where its id alone does not say it."""
        ...


async def pause(ownership: Ownership, longest_s: float) -> None:
    """Wait until who owns what has changed, at most so long."""
    with anyio.move_on_after(longest_s):
        await ownership.changed()


def _notify(following: Following) -> None:
    if following.notify is not None:
        following.notify()


class Relay:
    """Implements `FeedSource` for the feed of one session."""

    def __init__(self, session_id: str, place: Place) -> None:
        """Bring nothing yet."""
        self._session_id, self._place = session_id, place
        self._is_running = False
        self._following: Following | None = None
        self._at: Node | None = None
        "Who is being followed."
        self._step: anyio.CancelScope | None = None
        "Of what is being followed; cancelled where another node is to be followed."
        self._live: LiveReply | None = None
        self._length = 0
        "Code points of `_live`."

    def wanted(self, feed: Feed, after: int) -> None:
        """See `FeedSource.wanted`."""
        if self._is_running or feed.is_closed or self._place.is_here(self._session_id):
            return
        self._is_running = True
        scope = anyio.CancelScope()

        def end(_: object) -> None:  # who held the feed follows no more
            if self._is_running:
                scope.cancel()

        ref = weakref.ref(feed, end)
        self._place.tasks.start_soon(self._run, ref, after, scope)

    def followers_changed(self, feed: Feed) -> None:
        """See `FeedSource.followers_changed`."""
        following = self._following
        if following is None:
            return
        now = (feed.followers > 0, feed.finals > 0)
        if now != (following.waits, following.is_final):
            following.waits, following.is_final = now
            # Who leaves last lets the feed go in most cases, and that is said with one word.
            if any(now):
                _notify(following)
            else:
                asyncio.get_running_loop().call_later(LEAVE_S, _notify, following)

    def look_again(self) -> None:
        """Who owns what has changed: follow whoever has the session now."""
        if self._step is not None and self._at != self._owner():
            self._step.cancel()

    async def _run(self, ref: weakref.ref[Feed], after: int, scope: anyio.CancelScope) -> None:
        """Follow the session at its owners, one after the other."""
        place = self._place
        place.relays.add(self)
        try:
            with scope:
                while (feed := ref()) is not None and not feed.is_closed:
                    after = max(after, feed.newest)
                    with suppress(CoreError):  # the next look may
                        await place.place(self._session_id)
                    owner = self._owner()
                    following = self._prepare(ref, feed, after)
                    del feed
                    if owner is not None:
                        await self._follow(owner, following, ref)
                    await self._catch_up(ref, after)
                    if place.is_here(self._session_id):
                        return  # its own actor publishes from now on
                    if owner == self._owner():
                        await pause(place.ownership, LOOK_S)
        finally:
            place.relays.discard(self)
            self._is_running = False

    def _prepare(self, ref: weakref.ref[Feed], feed: Feed, after: int) -> Following:
        self._live = None
        return Following(
            session_id=self._session_id,
            after=after,
            take=partial(self._take, ref),
            waits=feed.followers > 0,
            is_final=feed.finals > 0,
        )

    def _owner(self) -> Node | None:
        """Return the other node that has the session; None = nobody, or this one."""
        ownership = self._place.ownership
        node = ownership.holder(ownership.partition(self._session_id))
        return None if node is None or node.name == ownership.me.name else node

    async def _follow(self, node: Node, following: Following, ref: weakref.ref[Feed]) -> None:
        """Follow an owner until the session, or the link, ends or goes elsewhere. A boundary."""
        place = self._place
        self._following, self._at = following, node
        try:
            with anyio.CancelScope() as self._step:
                await place.link.follow(node, following)
        except (MovedError, LinkBrokenError, LinkRefusedError):
            pass
        except CoreError as error:  # the session failed there
            feed = ref()
            if feed is not None:
                feed.fail(error)
        except Exception:
            logger.exception("a session cannot be followed", extra={"session": self._session_id})
        finally:
            self._following = self._at = self._step = None

    def _take(self, ref: weakref.ref[Feed], frame: Pushed | Text) -> None:
        feed = ref()
        if feed is None:
            return
        if isinstance(frame, Text):
            self._take_text(feed, frame)
        elif frame.events:
            feed.relay(frame.events)
        else:
            self._place.tasks.start_soon(self._catch_up, ref, frame.last_seq - 1)

    def _take_text(self, feed: Feed, frame: Text) -> None:
        live = self._live
        if frame.offset == 0:  # it begins, or begins anew
            live = self._live = feed.begin_reply(frame.turn, frame.step)
            self._length = 0
        elif live is None or frame.offset != self._length:
            return  # something was lost: the event will have all of it
        feed.add_text(live, frame.text)
        self._length += len(frame.text)

    async def _catch_up(self, ref: weakref.ref[Feed], after: int) -> None:
        """Read from the log what did not come."""
        with suppress(JournalError):  # the next look may
            while (feed := ref()) is not None:
                after = max(after, feed.newest)
                del feed
                events = await self._place.store.read(
                    self._session_id, after=after, limit=READ_EVENTS
                )
                feed = ref()
                if feed is None or not events:
                    return
                feed.relay(events)
