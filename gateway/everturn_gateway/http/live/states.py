"""What stands beside sessions in the one stream: approvals, channels, jobs and agents, as they are.

Each is sent when it differs from what this reader was sent; nothing is kept for a slow one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Final, Protocol, TypeAlias

import anyio

from everturn_actors.errors import CoreError
from everturn_gateway.http.access.visibility import sees_state
from everturn_gateway.http.ports import (
    HasAgents,
    HasChannels,
    HasConfig,
    HasSchedules,
    HasSessions,
)
from everturn_gateway.http.schemas.channels import ChannelBody
from everturn_gateway.http.schemas.sessions import WaitingApproval, approval_bodies
from everturn_gateway.principals import Principal
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.schemas import JobDetail

JOBS_MOST: Final = 100  # in a frame; who has missed more fetches the list again
CHANNELS_S: Final = 1.0  # between two looks at the status of channels
JOBS_S: Final = 0.25  # and at what changed of jobs
APPROVALS_S: Final = 0.25
AGENTS_S: Final = 0.25
FAULT_S: Final = 5.0  # before what could not be read is read again

Frame: TypeAlias = tuple[str, dict[str, object]]
Put: TypeAlias = Callable[[Frame], Awaitable[None]]


class StatesHost(HasAgents, HasChannels, HasConfig, HasSchedules, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


async def waiting_approvals(gateway: StatesHost, viewer: Principal) -> tuple[WaitingApproval, ...]:
    """Return every call that waits for a person, in all sessions that a principal may see.

    Raises:
        JournalError: The sessions with an open turn cannot be told.
    """
    found: list[WaitingApproval] = []
    for state in await gateway.service.reader.open_turns():
        # A row may be behind what the state says.
        if not state.open_approvals or not (viewer.sees_all or sees_state(viewer, state)):
            continue
        overview = await gateway.changes.overview(gateway.service, state.session_id)
        found += (
            WaitingApproval(
                **each.model_dump(),
                session_id=state.session_id,
                agent=state.key.agent,
                channel=state.key.channel,
                chat=state.key.chat,
                title=overview.title,
            )
            for each in approval_bodies(state)
        )
    return tuple(sorted(found, key=lambda each: each.expires_at))


class OtherStates:
    """Sends one reader what it may see of these."""

    def __init__(self, gateway: StatesHost, viewer: Principal, put: Put) -> None:
        """Send nothing yet."""
        self._gateway, self._viewer, self._put = gateway, viewer, put

    def tasks(self) -> Iterator[Callable[[], Coroutine[object, object, None]]]:
        """Yield what is to run as long as somebody reads."""
        yield self._send_approvals
        yield self._send_agents
        if self._viewer.may("operate"):  # jobs and channels are the operator's
            yield self._send_jobs
            if self._viewer.agents is None:
                yield self._send_channels

    async def _send_approvals(self) -> None:
        changes, version = self._gateway.changes, self._gateway.changes.version
        shown: tuple[WaitingApproval, ...] | None = None
        while True:
            try:
                found = await waiting_approvals(self._gateway, self._viewer)
            except CoreError:  # whoever asks for the list is told
                await anyio.sleep(FAULT_S)
                continue
            if found != shown:  # most changes of a session leave its questions as they are
                shown = found
                rows = [each.model_dump(mode="json") for each in found]
                await self._put(("approvals", {"approvals": rows}))
            asking, is_touched = {each.session_id for each in found}, False
            while not is_touched:
                await changes.wait(version)
                changed = changes.since(version)
                version = changes.version
                is_touched = any(e.approvals or e.session_id in asking for e in changed)
                await anyio.sleep(APPROVALS_S)

    async def _send_agents(self) -> None:
        library = self._gateway.library
        version = library.version
        while True:
            await library.wait_beyond(version)
            version = library.version
            # Not which: a list says what this reader may see of it.
            await self._put(("agents", {"version": version}))
            await anyio.sleep(AGENTS_S)  # an editor saves several files behind one another

    async def _send_channels(self) -> None:
        shown: tuple[object, ...] | None = None
        while True:
            statuses = self._gateway.channels.statuses()
            state = (statuses, self._gateway.pairing.version)
            if state != shown:
                shown = state
                rows = [ChannelBody.of(each).model_dump(mode="json") for each in statuses]
                await self._put(("channels", {"channels": rows, "pairing": state[1]}))
            await anyio.sleep(CHANNELS_S)

    async def _send_jobs(self) -> None:
        schedules, config = self._gateway.schedules, self._gateway.config
        places = Places(workspace=config.workspace, agents_dir=config.agents_dir)
        version = schedules.changes.version
        while True:
            await schedules.changes.wait(version)
            await anyio.sleep(JOBS_S)  # what comes together is told together
            changed = schedules.changes.since(version)
            version = schedules.changes.version
            rows: list[object] = []
            gone: list[str] = []
            for job_id in changed[:JOBS_MOST]:
                try:
                    view = schedules.job(job_id)
                except UnknownJobError:
                    gone.append(job_id)
                    continue
                if self._viewer.knows_agent(view.job.agent):
                    rows.append(JobDetail.whole(view, places).model_dump(mode="json"))
            # Ids of jobs of others are not told: such a reader fetches its list again.
            is_limited = self._viewer.agents is not None
            is_fresh = len(changed) > JOBS_MOST or bool(gone and is_limited)
            if rows or gone:
                data: dict[str, object] = {"schedules": rows, "fresh": is_fresh}
                await self._put(("schedules", {**data, "gone": [] if is_limited else gone}))
