"""Rows of the sessions that other nodes work on, as new as a list needs that somebody looks at.

A node hears of its own sessions only. Those of the others it sees in the store that all share:
while somebody looks it asks once a second what is newest there. A row is a state, so one that
changed twice meanwhile is read once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NoReturn

import anyio

from everturn_actors.errors import JournalError, UnknownSessionError
from everturn_actors.ports import Clock, Ownership, SessionSummary
from everturn_actors.service import TurnService
from everturn_gateway.session_changes import Changes

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0  # between two looks: so late is what a list says of another node's session
NEWEST: Final = 50  # sessions that a look sees: a page of the list
JUST_NOW: Final = timedelta(minutes=1)  # of what changed before somebody looked, this is told again


async def show_rows_of_others(
    changes: Changes, service: TurnService, ownership: Ownership, clock: Clock
) -> NoReturn:
    """Take what other nodes change into the rows of this one, until cancelled.

    Costs nothing while nobody looks. A session that another node deletes leaves the list when that
    is read again.

    Args:
        changes: The rows.
        service: Reads sessions.
        ownership: Says which of them are this node's.
        clock: Makes the pauses.
    """
    known: Mapping[str, SessionSummary] = {}
    while True:
        await changes.until_looked_at()
        try:
            known = await _look(changes, service, ownership, known, clock.now() - JUST_NOW)
        except JournalError as error:  # whoever asks for the list is told
            logger.warning("rows of other nodes cannot be read", extra={"error": str(error)})
        await clock.sleep(LOOK_S)


async def _look(
    changes: Changes,
    service: TurnService,
    ownership: Ownership,
    known: Mapping[str, SessionSummary],
    begun: datetime,
) -> Mapping[str, SessionSummary]:
    """Tell what changed since the look before; return what is newest now."""
    newest = await service.reader.recent(before=None, limit=NEWEST)
    for summary in newest:
        session_id = summary.session_id
        before = known.get(session_id)
        is_new = summary != before if before is not None or known else summary.updated_at >= begun
        if is_new and ownership.epoch(ownership.partition(session_id)) is None:
            try:
                await changes.read_again(service, session_id)
            except (UnknownSessionError, JournalError):
                continue  # it was deleted, or is damaged
            await anyio.lowlevel.checkpoint()
    return {each.session_id: each for each in newest}
