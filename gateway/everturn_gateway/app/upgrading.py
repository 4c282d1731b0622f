"""What an upgrade changes in a workspace: the plan, and the change with its backup."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Final

from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import JournalError
from everturn_actors.journal import doctor
from everturn_actors.journal.doctor import FormatOf
from everturn_actors.journal.opening import open_file_store
from everturn_gateway.config.settings import Config
from everturn_gateway.plugins import installed

BACKUPS_FOLDER: Final = "backups"
Told = Callable[[int, int], None]


class UpgradePlan(Struct, frozen=True, kw_only=True):
    """What an upgrade would change on disk."""

    sessions: int
    "How many there are."
    changes: tuple[FormatOf, ...]
    "Those whose snapshot is of an earlier version."
    newer: tuple[FormatOf, ...]
    "Those that a later version wrote: this one cannot open them."
    is_in_files: bool = True
    "False = the store is a database, which sets itself right when it is opened."


class Upgraded(Struct, frozen=True, kw_only=True):
    """What an upgrade changed."""

    done: tuple[tuple[str, str], ...]
    "Sessions, and what was done."
    left: tuple[tuple[str, str], ...]
    "Sessions that are as they were, and why."
    backup: Path | None
    "Where the former files are; None = nothing was changed."


async def plan_upgrade(config: Config, told: Told) -> UpgradePlan:
    """Return what would change, by the head of each snapshot. Changes nothing, needs no lock.

    Args:
        config: Names the workspace.
        told: Is told how many sessions were looked at, and how many there are.
    """
    store = await to_thread.run_sync(installed().stores.get, config.store.type)
    if store is None or not store.is_in_files:
        return UpgradePlan(sessions=0, changes=(), newer=(), is_in_files=False)
    sessions = await doctor.session_ids(config.workspace)
    changes: list[FormatOf] = []
    newer: list[FormatOf] = []
    async with aclosing(doctor.formats_of(config.workspace, sessions)) as formats:
        count = 0
        async for each in formats:
            count += 1
            told(count, len(sessions))
            if each.how_old in {"before", "older"}:
                changes.append(each)
            elif each.how_old == "newer":
                newer.append(each)
    return UpgradePlan(sessions=len(sessions), changes=tuple(changes), newer=tuple(newer))


async def upgrade_files(config: Config, plan: UpgradePlan, now: datetime, told: Told) -> Upgraded:
    """Change what the plan names, one session after the other; the former files are kept.

    Whatever cuts it off leaves each session as it was or as it will be; the next run does the rest.

    Args:
        config: Names the workspace.
        plan: What to change.
        now: Names the folder of the backup.
        told: Is told how many sessions are done, and how many there are.

    Raises:
        WorkspaceLockedError: A gateway runs.
        JournalError: The workspace cannot be opened.
    """
    backup = config.workspace / BACKUPS_FOLDER / f"{now:%Y%m%dT%H%M%SZ}"
    done: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    async with open_file_store(config.workspace) as store:
        for number, each in enumerate(plan.changes, 1):
            try:
                what = await doctor.migrate_session(store, each.session_id, backup)
                done.append((each.session_id, what))
            except JournalError as error:
                left.append((each.session_id, str(error)))
            told(number, len(plan.changes))
    return Upgraded(done=tuple(done), left=tuple(left), backup=backup if plan.changes else None)
