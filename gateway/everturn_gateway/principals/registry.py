"""The tokens as a running gateway knows them: what the file says now, and who used which when."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import anyio

from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.supervisor import Supervisor
from everturn_gateway.principals.stored import StoredTokens, TokenError
from everturn_gateway.principals.tokens import digest_of
from everturn_gateway.principals.values import TokenRecord

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0  # how soon a stream that is open learns that its token was revoked
USED_EVERY: Final = timedelta(minutes=1)  # how exact it is when a token was used last
CLOSE_S: Final = 2.0  # for the last write


class TokenRegistry:
    """Recognises tokens. Made by `open_tokens`; for the event loop alone.

    What the command line writes is in force with the next request: each one that shows a token
    looks whether the file has changed. A file that cannot be read opens nothing.
    """

    def __init__(self, store: KeyedStore, clock: Clock) -> None:
        self._stored, self._clock = StoredTokens(store), clock
        self._tokens: tuple[TokenRecord, ...] = ()
        self._fault = ""
        "Why they cannot be read."
        self._by_digest: dict[str, TokenRecord] = {}
        self._by_name: dict[str, TokenRecord] = {}
        self._used: dict[str, datetime] = {}
        self._kept_used: dict[str, datetime] = {}
        "As it was written last."

    async def recognise(self, token: str, *, may_be_new: bool = True) -> TokenRecord | None:
        """Return the record of a token, expired or not; None where it is none, or was revoked.

        Args:
            token: As it was sent.
            may_be_new: Whether the file is looked at for one that is not known yet. Whoever sends
                wrong ones in numbers is not worth that, and keeps nobody else waiting for it.
        """
        digest = digest_of(token)
        if digest not in self._by_digest and not may_be_new:
            return None
        await self.refresh()
        return self._by_digest.get(digest)

    def note_use(self, record: TokenRecord) -> None:
        """Remember that a token was used now; on disk within a minute."""
        self._used[record.name] = self._clock.now()

    def record(self, name: str) -> TokenRecord | None:
        """Return what is known of the token of a principal, revoked and expired ones too."""
        return self._by_name.get(name)

    def is_valid(self, record: TokenRecord) -> bool:
        """Return whether a token that was recognised still opens what it did.

        As of the last look at the file, which is never older than `LOOK_EVERY_S` while the gateway
        serves. One that was made anew under the same name is another token.
        """
        return self._by_digest.get(record.digest) == record and record.is_valid(self._clock.now())

    async def refresh(self) -> None:
        """Read the tokens where they have changed."""
        try:
            tokens, fault = await self._stored.all(), ""
        except TokenError as error:
            tokens, fault = (), str(error)
        if fault and fault != self._fault:
            logger.error(
                "no token of a principal holds: they cannot be read", extra={"error": fault}
            )
        self._fault = fault
        if tokens is not self._tokens:
            self._tokens = tokens
            self._by_name = {each.name: each for each in tokens}
            self._by_digest = {each.digest: each for each in tokens if each.digest}

    async def load(self) -> None:
        """Read the tokens, and when they were used."""
        await self.refresh()
        self._used = await self._stored.used()
        self._kept_used = dict(self._used)

    async def watch(self) -> None:
        """Look at the file again and again, and keep when tokens were used; never returns."""
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            await self.refresh()
            await self.save_used()

    async def save_used(self, *, last: bool = False) -> None:
        """Write when tokens were used, where that is not known yet; a failure is tried again."""
        used = {name: at for name, at in self._used.items() if name in self._by_name}
        if used == self._kept_used or not (last or self._is_due(used)):
            return
        try:
            await self._stored.save_used(used)
        except JournalError as error:
            logger.debug("it is not kept when tokens were used", extra={"error": str(error)})
        else:
            self._kept_used = used

    def _is_due(self, used: dict[str, datetime]) -> bool:
        kept = self._kept_used
        return any(name not in kept or at - kept[name] >= USED_EVERY for name, at in used.items())


@asynccontextmanager
async def open_tokens(
    store: KeyedStore, clock: Clock, *, supervisor: Supervisor | None = None, watch: bool = True
) -> AsyncGenerator[TokenRegistry]:
    """Open the tokens of a gateway.

    Args:
        store: Where they are kept.
        clock: Says when tokens expire.
        supervisor: Runs the task that looks at the file; by default one of its own.
        watch: Whether it serves: then the file is looked at again and again.
    """
    registry = TokenRegistry(store, clock)
    await registry.load()
    supervisor = supervisor or Supervisor(clock)
    try:
        async with anyio.create_task_group() as tasks:
            if watch:
                supervisor.start(tasks, "tokens", registry.watch)
            yield registry
            tasks.cancel_scope.cancel()
    finally:
        if watch:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await registry.save_used(last=True)
