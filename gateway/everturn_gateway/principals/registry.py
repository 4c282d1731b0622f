"""The tokens as a running gateway knows them: what the file says now, and who used which when."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import anyio
from anyio import to_thread

from everturn_actors.ports import Clock
from everturn_actors.supervisor import Supervisor
from everturn_channels.files import Stamp
from everturn_gateway.principals.files import (
    TokenError,
    read_tokens,
    read_used,
    tokens_stamp,
    write_used,
)
from everturn_gateway.principals.tokens import digest_of
from everturn_gateway.principals.values import TokenRecord

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0  # how soon a stream that is open learns that its token was revoked
USED_EVERY: Final = timedelta(minutes=1)  # how exact it is when a token was used last
CLOSE_S: Final = 2.0  # for the last write

_Found: TypeAlias = tuple[Stamp, tuple[TokenRecord, ...]]


class TokenRegistry:
    """Recognises tokens. Made by `open_tokens`; for the event loop alone.

    What the command line writes is in force with the next request: each one that shows a token
    looks whether the file has changed. A file that cannot be read opens nothing.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._reading = anyio.Lock()
        self._stamp: Stamp | None = None
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
        """Read the file where it has changed."""
        # One at a time: what an older look found must not come after what a newer one did.
        async with self._reading:
            found = await to_thread.run_sync(partial(_read_changed, self._folder, self._stamp))
            if found is not None:
                self._stamp, tokens = found
                self._by_name = {each.name: each for each in tokens}
                self._by_digest = {each.digest: each for each in tokens if each.digest}

    async def load(self) -> None:
        """Read both files."""
        await self.refresh()
        self._used = await to_thread.run_sync(read_used, self._folder)
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
            await to_thread.run_sync(write_used, self._folder, used, abandon_on_cancel=last)
        except OSError as error:
            logger.debug("it is not kept when tokens were used", extra={"error": str(error)})
        else:
            self._kept_used = used

    def _is_due(self, used: dict[str, datetime]) -> bool:
        kept = self._kept_used
        return any(name not in kept or at - kept[name] >= USED_EVERY for name, at in used.items())


@asynccontextmanager
async def open_tokens(
    folder: Path, clock: Clock, *, supervisor: Supervisor | None = None, watch: bool = True
) -> AsyncGenerator[TokenRegistry]:
    """Open the tokens of a workspace.

    Args:
        folder: Where their files are.
        clock: Says when tokens expire.
        supervisor: Runs the task that looks at the file; by default one of its own.
        watch: Whether it serves: then the file is looked at again and again.
    """
    registry = TokenRegistry(folder, clock)
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


def _read_changed(folder: Path, known: Stamp | None) -> _Found | None:
    """Return the file's stamp and its tokens; None where the stamp is the known one."""
    stamp = tokens_stamp(folder)  # before the file is read: what is written meanwhile is read again
    if stamp == known:
        return None
    try:
        return stamp, read_tokens(folder)
    except TokenError as error:
        logger.error(  # noqa: TRY400 - the words say it all
            "no token of a principal holds: they cannot be read", extra={"error": str(error)}
        )
        return stamp, ()
