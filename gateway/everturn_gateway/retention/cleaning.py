"""Looks for what may go, and lets it go: by hand, and once a day in a gateway that serves."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import CoreError, JournalError
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock, KeyedStore, Place, SessionFilter, SessionStore
from everturn_actors.ports.maintenance import Maintenance, StoredSizes
from everturn_actors.service import TurnService
from everturn_gateway.config.keep import KeepConfig
from everturn_gateway.late_loading import giving_way
from everturn_gateway.retention.planning import KeptSession, Step, plan_sessions

logger = logging.getLogger(__name__)

EVERY_S: Final = 24 * 3600.0
AT_ONCE: Final = 4  # things that go side by side: most of it is waiting for the disk
_PAGE: Final = 500
_NOT_PINNED: Final = SessionFilter(pinned=False)
_MONTHS: Final = ("usage/", "usage/principals/")


class Done(Struct, frozen=True, kw_only=True):
    """How far a cleaning is."""

    done: int
    total: int
    step: Step
    "The last one."
    is_gone: bool
    "Whether it was done; otherwise it is in use, or failed."


class Cleaner(Struct, frozen=True, kw_only=True):
    """What cleaning works on."""

    keep: Callable[[], KeepConfig]
    service: TurnService
    store: SessionStore
    maintenance: Maintenance | None
    "None = the store cannot tell sizes, nor remove parts of sessions."
    keyed: KeyedStore
    cancelled: Path
    "The folder of jobs that were called off."
    clock: Clock
    on_gone: Callable[[str], None]
    "Is told of each session that was removed."
    owns: Callable[[str, ConversationKey], bool]
    "Whether a session is this process's to work on; others clean theirs."
    cleaning: anyio.Lock
    "Held while one cleaning works: one is enough."

    async def plan(self) -> list[Step]:
        """Return what would go now.

        Raises:
            JournalError: The store cannot be read.
        """
        keep, now = self.keep(), self.clock.now()
        if not keep.is_set:
            return []
        marked = frozenset(await self.store.active())
        rows: list[KeptSession] = []
        before: Place | None = None
        while True:
            page = await self.store.recent(before=before, limit=_PAGE, wanted=_NOT_PINNED)
            for each in page:
                state = self.service.activity.present(each.session_id)
                works = state.has_work or state.is_due if state else each.session_id in marked
                if not works and self.owns(each.session_id, each.key):
                    row = KeptSession(
                        session_id=each.session_id,
                        agent=each.key.agent,
                        updated_at=state.updated_at if state else each.updated_at,
                    )
                    rows.append(await self._measured(row, keep, now))
            if len(page) < _PAGE:
                break
            before = (page[-1].updated_at, page[-1].session_id)
        steps = await to_thread.run_sync(plan_sessions, rows, keep, now)
        return steps + await self._usage(keep, now) + await self._jobs(keep, now)

    async def clean(self) -> AsyncGenerator[Done]:
        """Let go of what may; yield each step when it is done.

        Raises:
            JournalError: The store cannot be read.
        """
        async with self.cleaning:
            with giving_way(), self.service.maintenance.watching() as waked:
                async with aclosing(self._clean(waked)) as steps:
                    async for each in steps:
                        yield each

    async def _clean(self, waked: Collection[str]) -> AsyncGenerator[Done]:
        steps = await self.plan()
        for first in range(0, len(steps), AT_ONCE):
            some = steps[first : first + AT_ONCE]
            gone = [False] * len(some)

            async def remove(number: int, step: Step, gone: list[bool] = gone) -> None:
                gone[number] = await self._try(step, waked)

            async with anyio.create_task_group() as tasks:
                for number, step in enumerate(some):
                    tasks.start_soon(remove, number, step)
            for number, step in enumerate(some):
                done = first + number + 1
                yield Done(done=done, total=len(steps), step=step, is_gone=gone[number])

    async def _try(self, step: Step, waked: Collection[str]) -> bool:
        try:
            return await self._do(step, waked)
        except (CoreError, OSError) as error:
            logger.warning(
                "what is old could not be removed",
                extra={"what": step.what, "entry": step.name, "error": str(error)},
            )
            return False

    async def _measured(self, row: KeptSession, keep: KeepConfig, now: datetime) -> KeptSession:
        """Return a session with its sizes, where they matter."""
        own = keep.of(row.agent)
        ages = (own.days, own.media_days, own.results_days, own.archives_days)
        is_old = any(limit and now - row.updated_at > timedelta(days=limit) for limit in ages)
        has_limit = keep.megabytes or own.megabytes
        if self.maintenance is None or not (is_old or has_limit):
            return row
        try:
            sizes = await self.maintenance.sizes(row.session_id)
        except JournalError:
            sizes = StoredSizes()
        return KeptSession(
            session_id=row.session_id, agent=row.agent, updated_at=row.updated_at, sizes=sizes
        )

    async def _usage(self, keep: KeepConfig, now: datetime) -> list[Step]:
        if not keep.usage_days:
            return []
        oldest = (now - timedelta(days=keep.usage_days)).strftime("%Y-%m")
        return [
            Step(what="usage", name=key, reason=f"it is older than {keep.usage_days:g} days")
            for folder in _MONTHS
            for key in await self.keyed.list(folder)
            if key.removeprefix(folder).removesuffix(".json") < oldest
        ]

    async def _jobs(self, keep: KeepConfig, now: datetime) -> list[Step]:
        if not keep.cancelled_jobs_days:
            return []
        before = now - timedelta(days=keep.cancelled_jobs_days)
        reason = f"it was called off more than {keep.cancelled_jobs_days:g} days ago"
        found = await to_thread.run_sync(_older, self.cancelled, before)
        return [
            Step(what="job", name=path.name, size_bytes=size, reason=reason) for path, size in found
        ]

    async def _do(self, step: Step, waked: Collection[str]) -> bool:
        if step.what == "usage":
            await self.keyed.delete(step.name)
            return True
        if step.what == "job":
            path = self.cancelled / step.name
            await to_thread.run_sync(partial(path.unlink, missing_ok=True))
            return True
        assert step.unused_since is not None
        unused = self.service.maintenance.unused(step.name, since=step.unused_since, waked=waked)
        async with unused as is_unused:
            if not is_unused:
                return False
            if step.what == "session":
                await self.service.maintenance.remove(step.name)
                self.on_gone(step.name)
                return True
            return (
                self.maintenance is not None
                and await self.maintenance.drop(step.name, step.what) > 0
            )


def _older(folder: Path, before: datetime) -> list[tuple[Path, int]]:
    """Return the files of a folder that were put there before."""
    found: list[tuple[Path, int]] = []
    if folder.is_dir() and not folder.is_symlink():
        for path in sorted(folder.iterdir()):
            info = path.lstat()
            if path.suffix in {".yaml", ".yml"} and (
                datetime.fromtimestamp(info.st_ctime, UTC) < before
            ):
                found.append((path, info.st_size))
    return found


async def clean_daily(cleaner: Cleaner) -> NoReturn:
    """Clean once a day, and say in the log what went."""
    while True:
        gone = failed = freed = 0
        try:
            async with aclosing(cleaner.clean()) as steps:
                async for each in steps:
                    gone, failed = gone + each.is_gone, failed + (not each.is_gone)
                    freed += each.step.size_bytes if each.is_gone else 0
        except JournalError as error:
            logger.warning("what is old cannot be looked for", extra={"error": str(error)})
        if gone or failed:
            told = {"removed": gone, "stayed": failed, "bytes": freed}
            logger.info("what is older than sessions.keep allows was removed", extra=told)
        await cleaner.clock.sleep(EVERY_S)
