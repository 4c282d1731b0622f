"""What a principal gets to see: what is not its own is answered like what is not there."""

from __future__ import annotations

import math
from typing import Final

import anyio

from everturn_actors.errors import UnknownAgentError, UnknownSessionError
from everturn_actors.model import ConversationKey
from everturn_actors.ports import ALL_SESSIONS, SessionFilter
from everturn_actors.service import TurnService
from everturn_actors.state.session_state import SessionState
from everturn_gateway.http.ports import Library
from everturn_gateway.principals import Principal
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.errors import UnknownJobError

ANSWER_STEP_S: Final = 0.05
"An answer that there is no such thing comes at a multiple of this, whatever was looked up for it."
OWN_TOPIC: Final = "@{}"
"The part of a conversation that keeps its name apart from the same name of somebody else."


async def visible_session(
    service: TurnService, principal: Principal, session_id: str
) -> SessionState | None:
    """Return a session that a principal may see; None where it sees all, and nothing was read.

    One of somebody else is told like one that is not there, in words and in time: what it costs to
    find out does not depend on how much is stored of it, and the answer is held until a step of
    time is full.

    Raises:
        UnknownSessionError: There is none, or it is not the principal's to see.
    """
    if principal.sees_all:
        return None
    began_s = anyio.current_time()
    summary = await service.reader.summary(session_id)
    if summary is not None and principal.sees(
        agent=summary.key.agent, began_by=summary.principal, shared_with=summary.shared_with
    ):
        # The head of a snapshot may be behind the log, where a disk was full.
        state = await service.view(session_id)
        if sees_state(principal, state):
            return state
    # How long it took must not tell whether there is such a session.
    await _until_full_step(began_s)
    raise UnknownSessionError(session_id)


def sees_state(principal: Principal, state: SessionState) -> bool:
    """Return whether a session is open to a principal."""
    return principal.sees(
        agent=state.key.agent, began_by=state.principal, shared_with=state.shared_with
    )


def session_filter(principal: Principal) -> SessionFilter:
    """Return which sessions of a list are shown to a principal."""
    if principal.sees_all:
        return ALL_SESSIONS
    seen_by = "" if principal.may("operate") else principal.name
    return SessionFilter(seen_by=seen_by, agents=principal.agents)


def own_key(principal: Principal, key: ConversationKey) -> ConversationKey:
    """Return the conversation that a principal means by a name.

    Names of principals that do not see all are their own: `ticket 4711` of one is another
    conversation than that of another, and neither can find out whether the other has it.
    """
    if principal.may("operate"):
        return key
    return ConversationKey(
        channel=key.channel,
        chat=key.chat,
        agent=key.agent,
        topic=OWN_TOPIC.format(principal.name),  # two who call a chat the same are in two sessions
    )


def visible_agents(principal: Principal, library: Library) -> tuple[str, ...]:
    """Return the names of the agents that a principal gets to know, sorted."""
    return tuple(filter(principal.knows_agent, library.names()))


def check_agent(principal: Principal, library: Library, name: str) -> None:
    """Refuse an agent that a principal does not get to know, like one that is not there.

    Raises:
        UnknownAgentError: It names those that the principal knows.
    """
    if principal.agents is None:
        return
    known = visible_agents(principal, library)
    if name not in known:
        raise UnknownAgentError(name, known)  # as of one that is not there, and with no other names


def visible_jobs(principal: Principal, schedules: SchedulerClient) -> tuple[str, ...]:
    """Return the ids of the jobs of agents that a principal gets to know, sorted."""
    ids = schedules.ids()
    if principal.agents is None:
        return ids
    return tuple(each for each in ids if principal.knows_agent(schedules.job(each).job.agent))


def check_job(principal: Principal, schedules: SchedulerClient, job_id: str) -> None:
    """Refuse a job of an agent that a principal does not get to know, like one that is not there.

    Raises:
        UnknownJobError: It names jobs that the principal sees.
    """
    if principal.agents is None:
        return
    known = visible_jobs(principal, schedules)
    if job_id not in known:
        raise UnknownJobError(job_id, known)


async def _until_full_step(began_s: float) -> None:
    # Slow disks make it several.
    steps = math.floor((anyio.current_time() - began_s) / ANSWER_STEP_S) + 1
    await anyio.sleep_until(began_s + steps * ANSWER_STEP_S)
