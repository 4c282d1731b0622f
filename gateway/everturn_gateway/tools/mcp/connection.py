"""One MCP server of one agent: started when needed, restarted when it died, closed when idle.

One task owns a connection from its first byte to its last, because the protocol's client has to be
entered and left in the same task. Calls are tasks of that owner, so that whoever waits for one can
leave at once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio
import anyio.abc
from msgspec import Struct

from everturn_actors.errors import is_group
from everturn_actors.ports import Clock
from everturn_actors.supervisor import attempt, contain
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.errors import (
    McpDownError,
    McpError,
    McpExpiredError,
    McpGoneError,
    McpHttpError,
    McpTimeoutError,
)
from everturn_gateway.tools.mcp.listing import Listing
from everturn_gateway.tools.mcp.oauth import McpLogins
from everturn_gateway.tools.mcp.open_calls import CallToMake, PendingCall, refuse_all
from everturn_gateway.tools.mcp.requests.values import NOTHING, Respond, Result, Sent
from everturn_gateway.tools.mcp.session import Session, protocol
from everturn_gateway.tools.mcp.settings import McpServerSettings

BACK_OFF_S: Final = (0, 1, 5, 15, 60, 300)
"After so many failures in a row, until the server may be started again."
STEADY_S: Final = 60.0  # a server that was up for so long, or has answered a call, did not fail
LOGIN_S: Final = 5  # until a server is asked again that wants a login: a person may be at it
LIST_S: Final = 30.0  # to list its tools anew

logger = logging.getLogger(__name__)


class McpLimits(Struct, frozen=True, kw_only=True):
    """Times and numbers of MCP servers, the same for all of them."""

    turn_wait_s: float = 10
    "How long a turn waits for the first list of tools, of all its servers together."
    call_wait_s: float = 30
    "How long a call waits for a server that has to be started."
    start_s: float = 60
    "From the start of a server until it has listed its tools; a first start may load packages."
    idle_s: float = 15 * 60
    "Without a turn or a call, until a server is closed."
    refresh_s: float = 5
    "Between two lists of tools, however often a server says that they changed."
    probe_s: float = 5
    "For a server to show that it is there, when a call took too long."
    calls: int = 32
    "At work in one server at the same time."


class _Life:
    """One run of a server, from its start to its end."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.calls: anyio.abc.TaskGroup | None = None
        self.in_flight = 0
        "Calls that the server works on, or was told to stop."
        self.awaited = 0
        "Calls that somebody waits for."
        self.up_at: datetime | None = None
        self.has_answered = False
        self.why = ""
        "Why it is over."
        self.words = ""
        "What the server said at its end."
        self.is_clean = False
        "Whether its end says nothing against the server."
        self.wants_login = False
        self.changed = anyio.Event()
        self.settled = anyio.Event()
        "It is up, or over."
        self.over = anyio.Event()
        self.ended = anyio.Event()
        "Nothing of it is left."

    @property
    def is_up(self) -> bool:
        return self.calls is not None and not self.over.is_set()

    def change(self) -> None:
        self.changed.set()

    def end(self, why: str, *, is_clean: bool = False) -> None:
        if not self.over.is_set():
            self.why, self.is_clean = why, is_clean
            self.over.set()

    def stop(self, why: str) -> None:
        """Say that nothing of it is left, or ever was."""
        self.why = self.why or why
        self.calls = None
        for event in (self.over, self.settled, self.ended):
            event.set()


class Connection:
    """The connection of one agent to one server; all sessions of the agent share it."""

    def __init__(
        self,
        settings: McpServerSettings,
        environment: ToolEnvironment,
        *,
        tasks: anyio.abc.TaskGroup,
        clock: Clock,
        limits: McpLimits,
        logins: McpLogins,
    ) -> None:
        self.settings, self.environment, self.limits = settings, environment, limits
        self._logins = logins
        self.known: Listing | None = None
        "The tools as they were last listed, whether the server is up or not; None = never."
        self.fault = ""
        "Why the server is down; empty where it is up, or has not been needed. For operators."
        self._tasks, self._clock = tasks, clock
        self._name = f"MCP server {settings.name} of {environment.agent}"
        self._life: _Life | None = None
        self._failures = 0
        self._not_before = self._used_at = clock.now()
        self._is_retired = self._was_waited_for = False
        self._why = ""
        "Why it is down, without its own words: for the model."

    # --- for a turn ---

    def wake(self) -> _Life | None:
        """Start the server unless it runs, and return its run at once.

        None where it has to wait, after failures.
        """
        self._used_at = self._clock.now()
        before = self._life
        if before is not None and not before.over.is_set():
            return before
        if self._clock.now() < self._not_before or self._tasks.cancel_scope.cancel_called:
            return None
        self._life = life = _Life()
        # Not in the caller's task: its end must not end the server.
        self._tasks.start_soon(contain, self._name, partial(self._own, life, before))
        return life

    async def first_listing(self) -> None:
        """Wait until the tools of the server are known, or it has failed.

        A server that was waited for in vain is not waited for again: it costs a turn its time once.
        """
        life = self.wake()
        if self.known is not None or life is None or self._was_waited_for:
            return
        try:
            await life.settled.wait()
        finally:
            # Once: a server that is slow to start holds up one turn, not each.
            self._was_waited_for = True

    # --- for a call ---

    async def call(
        self,
        name: str,
        arguments: dict[str, object],
        respond: Respond = refuse_all,
        sent: Sent = NOTHING,
    ) -> Result:
        """Call a tool of the server, which is started for it if it has to be.

        A call that the server has not looked at, because its session had expired, is made again.

        Args:
            name: As the server calls it.
            arguments: Of the call.
            respond: Answers what the server asks while the call is open; its deadline stands still.
            sent: What the server wanted to know when the call was made before.

        Raises:
            McpError: There is no result; the text says why.
        """
        make = CallToMake(name=name, arguments=arguments, respond=respond, sent=sent)
        try:
            return await self._call(make)
        except McpExpiredError:
            return await self._call(make)

    async def _call(self, make: CallToMake) -> Result:
        """Make a call in a task of its owner, and wait for it no longer than its deadline."""
        life = await self._ready()
        if life.in_flight >= self.limits.calls:
            msg = f"it works on {life.in_flight} calls already; wait for one of them"
            raise McpDownError(msg)
        assert life.calls is not None
        pending = PendingCall()
        life.in_flight += 1
        life.awaited += 1
        work = partial(self._work, life, pending, make)
        life.calls.start_soon(contain, f"{self._name}: call", work)
        try:
            await pending.until_done(make.respond, self.settings.timeout_s)
        finally:
            # The task tells the server; nobody waits for that.
            pending.leave()
            life.awaited -= 1
            self._used_at = self._clock.now()
        if pending.answer is not None:
            return pending.answer
        if pending.error is not None:
            raise pending.error
        if life.is_up and life.awaited == 0:
            # Slow, or dead: only the server can tell.
            life.calls.start_soon(contain, f"{self._name}: probe", partial(self._probe, life))
        msg = f"it did not answer within {self.settings.timeout_s:g} s"
        raise McpTimeoutError(msg)

    async def _ready(self) -> _Life:
        life = self.wake()
        if life is None:
            raise McpDownError(self._waiting())
        with anyio.move_on_after(self.limits.call_wait_s):
            await life.settled.wait()
        if not life.is_up:
            raise McpDownError(life.why or "it is still starting; try again later")
        return life

    def _waiting(self) -> str:
        wait_s = (self._not_before - self._clock.now()).total_seconds()
        if wait_s <= 0:
            return "the gateway is stopping"
        return f"{self._why}; it is tried again in {math.ceil(wait_s)} s"

    async def _work(self, life: _Life, pending: PendingCall, make: CallToMake) -> None:
        """Make a call, and settle what waits for it however it ends."""
        assert life.session is not None
        try:
            with pending.scope:
                pending.answer = await life.session.call(
                    make.name, make.arguments, asker=pending.ask, sent=make.sent
                )
                life.has_answered = True  # it works: a failure later on begins to count anew
                self.fault = ""
        except McpExpiredError as error:
            pending.error = error
            # The server forgot the session; a new one is no failure.
            life.end(str(error), is_clean=True)
        except McpError as error:
            pending.error = error
            if _wants_login(error):
                self.fault = str(error)
        finally:
            if pending.answer is None and pending.error is None:
                pending.error = McpGoneError(life.why or "the connection was closed")
            life.in_flight -= 1
            pending.moved.set()
            if self._is_retired and life.in_flight == 0:
                life.end("it is not used any more", is_clean=True)

    async def _probe(self, life: _Life) -> None:
        """End a server that answers nothing at all any more."""
        assert life.session is not None
        with anyio.move_on_after(self.limits.probe_s):
            try:
                await life.session.ping()
            except McpError as error:
                logger.debug("MCP server refuses to be asked", extra=self._fields(error=str(error)))
            return
        life.end("it does not answer any more")

    # --- its life ---

    def retire(self) -> None:
        """End the server when no call is at work in it; the agent does not use it any more."""
        self._is_retired = True
        if self._life is not None and self._life.in_flight == 0:
            self._life.end("it is not used any more", is_clean=True)

    def close(self) -> None:
        """End the server now."""
        if self._life is not None:
            self._life.end("the gateway is stopping", is_clean=True)

    async def _own(self, life: _Life, before: _Life | None) -> None:
        """Own one run of the server. Whatever goes wrong in it ends it, and nothing else."""
        if before is not None:
            await before.ended.wait()  # two processes of one server would share its files
            if self._clock.now() < self._not_before:
                life.stop(self._waiting())
                return
        try:
            await self._live(life)
        except Exception as error:
            first = _first(error)
            if not isinstance(first, McpError):
                logger.warning("MCP client failed", extra=self._fields(), exc_info=error)
            life.why = life.why or str(first) or type(first).__name__
            if isinstance(first, McpError):
                life.words = life.words or first.words
            life.wants_login = _wants_login(first)
        finally:
            self._bury(life)

    async def _live(self, life: _Life) -> None:
        with anyio.move_on_after(self.limits.start_s) as starting:
            open_session = await protocol()
            async with open_session(
                self.settings,
                self.environment,
                self._logins,
                on_change=life.change,
                on_end=life.over.set,
            ) as session:
                try:
                    listing = await session.listing()
                    # It is up: from here on it may live for as long as it is used.
                    starting.deadline = math.inf
                    await self._serve(life, session, listing)
                finally:
                    session.cut()
                    life.why, life.words = life.why or session.why, session.words
        if starting.cancelled_caught and not life.why:
            life.why = f"it did not come up within {self.limits.start_s:g} s"

    async def _serve(self, life: _Life, session: Session, listing: Listing) -> None:
        async with anyio.create_task_group() as calls:
            life.session, life.calls, life.up_at = session, calls, self._clock.now()
            self.fault = self._why = ""
            self._learn(listing)
            logger.info(
                "MCP server is up",
                extra=self._fields(protocol=session.protocol, tools=len(listing.tools)),
            )
            life.settled.set()
            for beside in (
                partial(self._refresh, life, session),
                partial(self._watch_use, life),
                partial(session.watch, life.change),
            ):
                calls.start_soon(self._beside, life, beside)
            try:
                await life.over.wait()
            finally:
                # First of all: nothing that is on its way may hold up the end.
                session.cut()
                life.why = life.why or session.why
                calls.cancel_scope.cancel()

    async def _beside(self, life: _Life, body: Callable[[], Awaitable[None]]) -> None:
        """Run what goes on beside the calls; where it fails, the server is started anew."""
        failure = await attempt(body)
        if failure is None:
            return
        first = _first(failure)
        if isinstance(first, McpError):
            life.words = life.words or first.words
        else:
            logger.warning("MCP client failed", extra=self._fields(), exc_info=failure)
        life.end(str(first) or type(first).__name__)

    async def _refresh(self, life: _Life, session: Session) -> None:
        """List the tools anew when the server says that they changed."""
        while True:
            await life.changed.wait()
            life.changed = anyio.Event()
            try:
                with anyio.fail_after(LIST_S):
                    self._learn(await session.listing())
            except (McpError, TimeoutError) as error:
                fields = self._fields(error=str(error))
                logger.warning("tools of MCP server cannot be listed anew", extra=fields)
            # A server that tells of changes all the time is asked every few seconds.
            await self._clock.sleep(self.limits.refresh_s)

    async def _watch_use(self, life: _Life) -> None:
        """End the server when nobody has used it for long."""
        while True:
            idle_s = (self._clock.now() - self._used_at).total_seconds()
            if idle_s >= self.limits.idle_s and life.in_flight == 0:
                life.end("it was idle", is_clean=True)
                return
            await self._clock.sleep(max(self.limits.idle_s - idle_s, 1))

    def _learn(self, listing: Listing) -> None:
        if listing == self.known:
            return
        before = self.known.faults if self.known is not None else ()
        for fault in listing.faults:
            if fault not in before:
                logger.warning("MCP server has a fault", extra=self._fields(fault=fault))
        self.known = listing

    def _bury(self, life: _Life) -> None:
        now = self._clock.now()
        life.stop("it ended")
        if life.is_clean:
            logger.info("MCP server is closed", extra=self._fields(why=life.why))
            return
        up_s = (now - life.up_at).total_seconds() if life.up_at is not None else 0.0
        if life.has_answered or up_s >= STEADY_S:
            self._failures = 1  # it had been well: the first try comes at once
        else:
            self._failures = max(self._failures, 0 if life.up_at is not None else 1) + 1
        wait_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S)) - 1]
        if life.wants_login:
            wait_s = min(wait_s, LOGIN_S)
        self._not_before = now + timedelta(seconds=wait_s)
        mask = self.environment.secrets.mask
        self._why = mask(life.why)
        self.fault = f"{self._why}, and said: {mask(life.words)}" if life.words else self._why
        logger.warning("MCP server is down", extra=self._fields(why=self.fault, wait_s=wait_s))

    def _fields(self, **fields: object) -> dict[str, object]:
        return {"agent": self.environment.agent, "server": self.settings.name, **fields}


def _wants_login(error: BaseException) -> bool:
    return isinstance(error, McpHttpError) and error.status == HTTPStatus.UNAUTHORIZED


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group of errors."""
    while is_group(error):
        error = error.exceptions[0]
    return error
