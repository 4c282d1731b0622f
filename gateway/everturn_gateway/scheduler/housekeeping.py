"""What is put away and forgotten of jobs that are over."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final, NoReturn

import anyio.lowlevel

from everturn_actors.errors import CoreError, UnknownSessionError
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_gateway.scheduler.job_registry import AT_ONCE, JobRegistry
from everturn_gateway.scheduler.jobs import ISOLATED, WRITTEN, Run
from everturn_gateway.scheduler.run_logs.files import RunLogs

logger = logging.getLogger(__name__)

DONE_KEPT: Final = timedelta(days=7)  # of a job that a program made, when nothing of it is to come
GONE_KEPT: Final = timedelta(days=30)  # of the run log of a job that is no more
TIDY_S: Final = 3600.0


async def delete_sessions(service: TurnService, runs: tuple[Run, ...]) -> None:
    """Delete the sessions that tasks had of their own, when no run log names them any more."""
    for session_id in {run.session_id for run in runs} - {""}:
        try:
            state = await service.view(session_id)
            if state.key.channel == ISOLATED:
                await service.delete(session_id)
        except UnknownSessionError:
            continue
        except CoreError as error:
            logger.warning(
                "the session of an old task cannot be deleted",
                extra={"session_id": session_id, "error": str(error)},
            )


async def tidy(
    registry: JobRegistry, logs: RunLogs, *, service: TurnService, clock: Clock
) -> NoReturn:
    """Put away what programs made and is long done, and forget what is long gone; each hour."""
    while True:
        try:
            await _put_away_done(registry, clock)
            await _forget_gone(registry, logs, service=service, clock=clock)
        except OSError as error:
            logger.warning("old jobs cannot be put away", extra={"error": str(error)})
        await clock.sleep(TIDY_S)


async def _put_away_done(registry: JobRegistry, clock: Clock) -> None:
    now = clock.now()
    for number, entry in enumerate(registry.entries(), 1):
        if number % AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        last = registry.job_state(entry.job_id).last
        ended_at = last.finished_at if last else entry.job.made.at
        is_old = ended_at is not None and now - ended_at > DONE_KEPT
        if is_old and entry.job.made.by in WRITTEN and registry.is_over(entry):
            await registry.store.put_away(entry.job.file)


async def _forget_gone(
    registry: JobRegistry, logs: RunLogs, *, service: TurnService, clock: Clock
) -> None:
    now = clock.now()
    for job_id in logs.ids():
        changed = logs.last_change(job_id)
        is_old = changed is not None and now - changed > GONE_KEPT
        if is_old and registry.find(job_id) is None:
            await delete_sessions(service, registry.job_state(job_id).recent)
            await logs.forget(job_id)
