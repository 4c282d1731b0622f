"""What sessions, jobs and principals used, as far back as somebody asks."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Final, Protocol

from msgspec import structs

from everturn_actors.model import Usage
from everturn_actors.ports import SessionFilter
from everturn_gateway.http.live.overviews import read_overview
from everturn_gateway.http.ports import HasSessions, HasUsage
from everturn_gateway.http.schemas.usage import UsageGroupBody, UsageGroups
from everturn_gateway.scheduler.jobs import ISOLATED
from everturn_gateway.session_changes import SessionOverview

SESSIONS_MOST: Final = 200  # that one report looks at, those that were used last


class Host(HasSessions, HasUsage, Protocol):
    """The parts of the gateway that are used here."""


async def by_session(
    gateway: Host, wanted: SessionFilter, *, principal: str, days: int
) -> UsageGroups:
    """Return what sessions used since they began, of those that were used in the last days."""
    rows, is_partial = await _used(gateway, wanted, principal=principal, days=days)
    groups = [
        UsageGroupBody.group(
            row.usage, name=row.session_id, title=row.title, agent=row.key.agent, sessions=1
        )
        for row in rows
    ]
    return UsageGroups(by="session", groups=_sorted(groups), is_partial=is_partial)


async def by_schedule(
    gateway: Host, wanted: SessionFilter, *, principal: str, days: int
) -> UsageGroups:
    """Return what the runs of each job used that had a session of their own, and still have it."""
    wanted = structs.replace(wanted, channel=ISOLATED)
    rows, is_partial = await _used(gateway, wanted, principal=principal, days=days)
    used: dict[tuple[str, str], tuple[Usage, int]] = {}
    for row in rows:
        usage, sessions = used.get((row.key.chat, row.key.agent), (Usage(), 0))
        used[row.key.chat, row.key.agent] = usage + row.usage, sessions + 1
    groups = [
        UsageGroupBody.group(usage, name=job, agent=agent, sessions=sessions)
        for (job, agent), (usage, sessions) in used.items()
    ]
    return UsageGroups(by="schedule", groups=_sorted(groups), is_partial=is_partial)


async def by_principal(gateway: Host, *, agent: str, principal: str, days: int) -> UsageGroups:
    """Return what each principal used in the last days, or one of them."""
    used = await gateway.spending.by_principal(days=days, agent=agent)
    groups = [
        UsageGroupBody.group(tally, name=name)
        for name, tally in used.items()
        if principal in {"", name}
    ]
    return UsageGroups(by="principal", groups=_sorted(groups), is_partial=False)


async def _used(
    gateway: Host, wanted: SessionFilter, *, principal: str, days: int
) -> tuple[list[SessionOverview], bool]:
    """Return the sessions that were used in the last days, and whether there are more of them."""
    since = datetime.combine(gateway.usage.first_day(days), time(), UTC)
    rows = await gateway.service.reader.recent(before=None, limit=SESSIONS_MOST, wanted=wanted)
    found: list[SessionOverview] = []
    for row in rows:
        if row.updated_at < since:
            return found, False
        if principal not in {"", row.principal}:
            continue
        overview = await read_overview(gateway, row.session_id)
        if overview is not None:
            found.append(overview)
    return found, len(rows) == SESSIONS_MOST


def _sorted(groups: list[UsageGroupBody]) -> tuple[UsageGroupBody, ...]:
    def size(group: UsageGroupBody) -> tuple[float, int]:
        return group.cost_usd, group.input_tokens + group.output_tokens

    return tuple(sorted(groups, key=size, reverse=True))
