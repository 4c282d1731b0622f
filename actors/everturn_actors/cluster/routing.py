"""Commands on their way to the node that works on a session, and what follows from them here.

A session that is this process's is asked as if there were no other. All else goes over a link to
its owner, and again to the next one where the owner has changed or cannot be reached, until the
patience is over. So whatever is asked twice has to count once: a message that brings no idempotency
key is given one on its way out.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from secrets import token_hex
from typing import Final, TypeVar, cast, get_args

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.cluster.hub import Subscriber
from everturn_actors.cluster.link import Asked, Given, Link
from everturn_actors.cluster.relay import Relay, pause
from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    LinkBrokenError,
    LinkRefusedError,
    MovedError,
    OwnerAwayError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.ports import Node, Ownership
from everturn_actors.protocol.commands import (
    Accepted,
    AnswerCalls,
    Cancel,
    Command,
    Compact,
    End,
    GetStatus,
    OutsideCommand,
    Retry,
    Submit,
)
from everturn_actors.protocol.feed import READ_EVENTS, Feed, TextDelta
from everturn_actors.protocol.placing import place
from everturn_actors.protocol.subscription import follow, log_of
from everturn_actors.session.registry import Registry
from everturn_actors.state.session_state import SessionState

T = TypeVar("T")

PATIENCE_S: Final = 15.0
"How long an owner is looked for: a lease runs out meanwhile, and is taken."
AWAY_S: Final = 1.5
"The same where nobody can say who that is: what was here is nobody's here after a lease's time."
QUICK_S: Final = 30.0
"How long an answer may take that waits for a write and for nothing else."
SLOW_S: Final = 900.0
"How long one may take that waits for a turn to be closed, or for a model."
SHOWN_MAX: Final = 50
"Events that go back with an answer."
_SLOW: Final = (Cancel, Compact, End)
_OUTSIDE: Final = get_args(OutsideCommand)
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.5)


class RoutedActors:
    """`Actors` of all nodes, and the `Host` whom other nodes ask for those of this one."""

    def __init__(
        self,
        local: Registry,
        ownership: Ownership,
        link: Link,
        tasks: TaskGroup,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Know whom to ask; `watch` has to run.

        Args:
            local: The actors of this process.
            ownership: Who works on what.
            link: The way to the others.
            tasks: Where what is followed elsewhere is read.
            patience_s: How long an owner is looked for.
        """
        self.ownership, self.link, self.tasks = ownership, link, tasks
        self.relays = set[Relay]()
        "Those that bring something."
        self.delete_here: Callable[[str], Awaitable[None]] = _cannot
        "Deletes a session of this process for another one; set by whoever opens the service."
        self.store = local.store
        "Where sessions live."
        self._local, self._patience_s = local, patience_s
        self._served: dict[Subscriber, _Served] = {}
        self._asking = set[_Asking]()

    # --- Actors ---

    @property
    def max_active(self) -> int:
        """See `Actors.max_active`."""
        return self._local.max_active

    @property
    def quarantined(self) -> int:
        """See `Actors.quarantined`."""
        return self._local.quarantined

    async def ask(
        self,
        session_id: str,
        command: Command[T],
        *,
        begin_with: SessionStarted | None = None,
        passivate_at_once: bool = False,
        is_new: bool = False,
    ) -> T:
        """See `Actors.ask`."""
        await self.place(session_id, begin_with)
        # Once for all tries, here as well: whichever of them arrives, it is the same message.
        outside = _outside(command)
        if self.is_here(session_id):
            try:
                return await self._local.ask(
                    session_id,
                    command if outside is None else cast("Command[T]", outside),
                    begin_with=begin_with,
                    passivate_at_once=passivate_at_once,
                    is_new=is_new,
                )
            except MovedError:
                pass  # in this moment
        if outside is None:
            raise MovedError(session_id)
        asked = Asked(session_id=session_id, command=outside, begin_with=begin_with)
        return cast("T", await self._route(asked))

    def feed(self, session_id: str) -> Feed:
        """See `Actors.feed`."""
        feed = self._local.feed(session_id)
        if feed.source is None:
            feed.source = Relay(session_id, self)
        return feed

    def waiting_for(self, session_id: str) -> str:
        """See `Actors.waiting_for`; empty where another node has the session."""
        return self._local.waiting_for(session_id)

    def present(self, session_id: str) -> SessionState | None:
        """See `Actors.present`."""
        return self._local.present(session_id) if self.is_here(session_id) else None

    def each_active(self) -> AsyncGenerator[tuple[SessionState | None, int]]:
        """See `Actors.each_active`."""
        return self._local.each_active()

    def release(self, session_id: str) -> None:
        """See `Actors.release`."""
        self._local.release(session_id)

    async def gone(self, session_id: str) -> None:
        """See `Actors.gone`."""
        await self._local.gone(session_id)

    async def is_deleted_elsewhere(self, session_id: str) -> bool:
        """See `Actors.is_deleted_elsewhere`."""
        await self.place(session_id)
        if self.is_here(session_id):
            return False
        await self._route(Asked(session_id=session_id, command=None))
        return True

    def is_here(self, session_id: str) -> bool:
        """See `Actors.is_here`."""
        return self._local.is_here(session_id)

    async def place(self, session_id: str, begin_with: SessionStarted | None = None) -> None:
        """Find out whose a session is, where its id alone does not say it; see `place`."""
        if not self.ownership.is_known(session_id):
            await place(self.ownership, self.store, session_id, begin_with)

    # --- the way to the owner ---

    async def _route(self, asked: Asked) -> object:
        """Ask the owner of a session, whoever that is by then; return what it gave.

        Raises:
            OwnerAwayError: Nobody could be asked, or no answer came in time.
            CoreError: What the session answered.
        """
        session_id, ownership = asked.session_id, self.ownership
        until_s, away_until_s, tries = anyio.current_time() + self._patience_s, math.inf, 0
        name, why = "", "its partition is on its way to another node"
        while True:
            partition = ownership.partition(session_id)
            node = ownership.holder(partition)
            try:
                if self.is_here(session_id):
                    return (await self._answer(asked)).answer
                if node is not None and node.name != ownership.me.name:
                    name = node.name
                    asking = _Asking(node=node, partition=partition)
                    given = await asking.ask(self.link, asked, self._asking)
                    if given.events:
                        self._local.feed(session_id).relay(given.events)
                    return given.answer
            except MovedError:
                why = "its partition is on its way to another node"
            except LinkBrokenError as error:
                why = str(error)
            except LinkRefusedError as error:
                raise OwnerAwayError(session_id, name, str(error)) from error
            # Another node may know it: who waits here keeps its client from asking there.
            now_s = anyio.current_time()
            away_until_s = min(away_until_s, now_s + AWAY_S) if ownership.fault else math.inf
            if now_s >= min(until_s, away_until_s):
                raise OwnerAwayError(session_id, name, ownership.why_nobody(partition) or why)
            await pause(self.ownership, _PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1

    async def watch(self) -> None:
        """Follow changes of owners, until cancelled: what waits for one goes to the next."""
        while True:
            await self.ownership.changed()
            for asking in tuple(self._asking):
                # It may be frozen, or wait for the store itself. Who has the session now knows the
                # command by its key, where it was done.
                holder = self.ownership.holder(asking.partition)
                if holder is not None and holder.name != asking.node.name:
                    asking.scope.cancel()
            for subscriber, served in tuple(self._served.items()):
                if not self.is_here(subscriber.session_id):
                    served.scope.cancel()
            for relay in tuple(self.relays):
                relay.look_again()
            for feed in self._local.followed():
                after = feed.awaited
                if feed.source is not None and after is not None:
                    feed.source.wanted(feed, after)

    # --- Host ---

    async def answer(self, asked: Asked) -> Given:
        """See `Host.answer`."""
        try:
            return await self._answer(asked)
        except ActorStoppedError as error:  # whoever has it next does it
            raise MovedError(asked.session_id) from error

    async def _answer(self, asked: Asked) -> Given:
        session_id, command = asked.session_id, asked.command
        await self.place(session_id, asked.begin_with)
        if not self.is_here(session_id):
            raise MovedError(session_id)
        if command is None:
            await self.delete_here(session_id)
            return Given(answer=None)
        feed = self._local.feed(session_id)
        ask: Command[object] = command
        answer = await self._local.ask(session_id, ask, begin_with=asked.begin_with)
        events = (feed.since(answer.seq - 1) or ()) if isinstance(answer, Accepted) else ()
        return Given(answer=answer, events=events if len(events) <= SHOWN_MAX else ())

    async def serve(self, subscriber: Subscriber) -> None:
        """See `Host.serve`."""
        session_id = subscriber.session_id
        await self.place(session_id)
        if not self.is_here(session_id):
            raise MovedError(session_id)
        known = self.present(session_id)
        if subscriber.waits and (known is None or known.last_seq < subscriber.after):
            # What they wait for goes on, also where nobody said that it is open.
            with suppress(CoreError):
                await self._local.ask(
                    session_id, GetStatus(at_least=subscriber.after), passivate_at_once=True
                )
        served = self._served[subscriber] = _Served(self._local.feed(session_id))
        self.followers_changed(subscriber)
        try:
            with served.scope:
                await self._push(subscriber, served.feed)
        finally:
            del self._served[subscriber]
            served.count(waits=False, is_final=False)
        if served.scope.cancelled_caught:
            raise MovedError(session_id)

    def followers_changed(self, subscriber: Subscriber) -> None:
        """See `Host.followers_changed`."""
        served = self._served.get(subscriber)
        if served is not None:
            served.count(waits=subscriber.waits, is_final=subscriber.is_final)

    async def _push(self, subscriber: Subscriber, feed: Feed) -> None:
        """Push what the session's feed shows, and before that what it never showed here."""
        read_log, after = log_of(self.store, subscriber.session_id), subscriber.after
        while feed.newest < after or not feed.newest:
            events = await read_log(after, READ_EVENTS, 0)
            for event in events:
                await subscriber.push(event)
                after = event.seq
            if len(events) < READ_EVENTS:
                break

        def offer(delta: TextDelta) -> bool:
            if subscriber.is_final:
                feed.mark_read()
            return subscriber.offer(delta)

        followed = follow(
            feed, after, read_log, last_seq=after, pieces="live", take=offer, waits=False
        )
        async with aclosing(followed) as updates:
            async for update in updates:
                if isinstance(update, TextDelta) and subscriber.is_final:
                    feed.mark_read()
                await subscriber.push(update)


class _Asking(Struct, eq=False, kw_only=True):
    """A command that another node was asked for, and that is not answered yet."""

    node: Node
    partition: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def ask(self, link: Link, asked: Asked, asking: set[_Asking]) -> Given:
        """Ask, as one of those who are `asking`; raise `MovedError` where `scope` is cancelled."""
        deadline_s = SLOW_S if isinstance(asked.command, _SLOW) else QUICK_S
        asking.add(self)
        try:
            with self.scope:
                return await link.ask(self.node, asked, deadline_s=deadline_s)
        finally:
            asking.discard(self)
        raise MovedError(asked.session_id)


class _Served(Struct, eq=False):
    """Somebody elsewhere who follows a session of this process, and counts here."""

    feed: Feed
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    waits: bool = False
    is_final: bool = False

    def count(self, *, waits: bool, is_final: bool) -> None:
        """Count them as somebody who waits, and cannot take text back; or no more."""
        if (waits, is_final) == (self.waits, self.is_final):
            return
        if self.waits:
            self.feed.leave(is_final=self.is_final)
        self.waits, self.is_final = waits, is_final
        if waits:
            self.feed.enter(is_final=is_final)
        elif is_final:
            self.feed.mark_read()


def _outside(command: object) -> OutsideCommand | None:
    """Return a command that comes from outside, see `with_key`; None where it is no such one."""
    return with_key(cast("OutsideCommand", command)) if isinstance(command, _OUTSIDE) else None


def with_key(command: OutsideCommand) -> OutsideCommand:
    """Return a command that counts once however often it arrives."""
    key = f"link-{token_hex(12)}"
    match command:
        case Submit(message=message) if not message.idempotency_key:
            return replace(command, message=replace(message, idempotency_key=key))
        case AnswerCalls(idempotency_key="") | Retry(idempotency_key=""):
            return replace(command, idempotency_key=key)
        case _:
            return command


async def _cannot(session_id: str) -> None:
    raise MovedError(session_id)
