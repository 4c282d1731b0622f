"""The journals of a workspace, looked at and set right; what `doctor` asks for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from anyio import to_thread

from everturn_actors.errors import JournalError
from everturn_actors.journal import doctor
from everturn_actors.journal.opening import open_file_store
from everturn_gateway.app.storage import plugin_of, setup_of
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.findings import JournalNote
from everturn_gateway.plugins import installed

_TOLD_EVERY: Final = 100  # sessions


def can_be_examined(config: Config) -> bool:
    """Say whether the store of a gateway can be looked at.

    May import a plug-in: not for the event loop.
    """
    store = installed().stores.get(config.store.type)
    return store is not None and (store.is_in_files or store.examine is not None)


async def check_journals(
    config: Config, *, repair: bool, looked: Callable[[int, int], None]
) -> list[JournalNote]:
    """Look at every session of a workspace; return what is wrong, or was, and what was done.

    A store of another kind looks at itself, and repairs nothing.

    Args:
        config: Names the workspace.
        repair: Rebuild what is damaged, and the marks and pointers that can be rebuilt. Damaged
            files are kept beside the new ones.

        looked: Told now and then how many sessions were looked at, and how many there are.

    Raises:
        WorkspaceLockedError: To repair, no other process may use the workspace.
        JournalError: The store cannot be used.
    """
    plugin = await to_thread.run_sync(installed().stores.get, config.store.type)
    if plugin is not None and plugin.examine is not None:
        await plugin_of(config)
        found = () if repair else await plugin.examine(setup_of(config, is_change=False))
        return [JournalNote(text=note.text, is_problem=note.is_problem) for note in found]
    lines: list[JournalNote] = []
    damaged: list[str] = []
    sessions = await doctor.session_ids(config.workspace)
    async with aclosing(doctor.check_all(config.workspace, sessions)) as checked:
        count = 0
        async for session_id, findings in checked:
            count += 1
            if count % _TOLD_EVERY == 0:
                looked(count, len(sessions))
            lines += [JournalNote(text=_place(finding)) for finding in findings]
            if findings:
                damaged.append(session_id)
    if not repair:
        return lines
    async with open_file_store(config.workspace) as store:
        for session_id in damaged:
            try:
                done = await doctor.repair(store, session_id)
                lines += [JournalNote(text=text, is_repair=True) for text in done]
            except JournalError as error:
                lines.append(JournalNote(text=str(error)))
        report = await doctor.rebuild_index(store)
    text = (
        f"index rebuilt: {report.sessions} sessions, {report.active} with open turns, "
        f"{report.conversations} conversations"
    )
    lines.append(JournalNote(text=text, is_repair=True))
    return lines


def _place(finding: doctor.Finding) -> str:
    where = f"{finding.path}:{finding.line}" if finding.line else str(finding.path)
    return f"{where}: {finding.text}"
