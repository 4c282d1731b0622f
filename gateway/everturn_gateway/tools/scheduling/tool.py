"""`schedule`: an agent makes, lists and calls off jobs of the conversation that it is in."""

from __future__ import annotations

import hashlib
import logging
from functools import partial
from typing import Final, assert_never

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ConversationKey, ToolCall, ToolDefinition
from everturn_actors.ports import Clock, ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import JobFixedError, JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.jobs import JobView, Made, ToChat, ToSession
from everturn_gateway.tools.arguments import parameters, read_arguments
from everturn_gateway.tools.conversations import is_asked_by_person, name_of_call, sources_behind
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.places import NOBODY_ANSWERS
from everturn_gateway.tools.processes.table import ProcessTable
from everturn_gateway.tools.scheduling.arguments import (
    ScheduleArguments,
    check_interval,
    section_of,
)
from everturn_gateway.tools.scheduling.texts import SHOWN, described_job, listing

logger = logging.getLogger(__name__)

NAME: Final = "schedule"
_ID_DIGITS: Final = 12
_WRITE_S: Final = 10.0  # how long a job may take to become durable
_TIMEOUT_S: Final = 60.0
_MARKED: Final = "a scheduled job that was made while text from outside was shown"
_SHOWN_CHARACTERS: Final = 80  # of an id that is none

_DESCRIPTION: Final = (
    "Schedule what happens later in this conversation. create needs one of at, in_minutes, every,"
    " cron, and one of message, task. It answers with the job's id and its next times."
)


class ScheduleTool:
    """Jobs for one conversation, made, listed and called off there; implements `Tool`.

    A job is for the conversation in which it was asked for, and for no other. One is made where a
    person speaks: a turn that a job began makes none.
    """

    def __init__(
        self,
        environment: ToolEnvironment,
        clock: Clock,
        processes: ProcessTable,
        *,
        max_jobs: int,
        min_interval_s: int,
    ) -> None:
        """Work for the agent of `environment`.

        Args:
            environment: Where it works; its link leads to the scheduler.
            clock: The time.
            processes: Those that a job can be tied to.
            max_jobs: How many jobs of this agent, made by this tool, may be to come.
            min_interval_s: The shortest time between two runs of a job.
        """
        self._environment, self._clock, self._processes = environment, clock, processes
        self._max_jobs, self._min_interval_s = max_jobs, min_interval_s
        self.definition = ToolDefinition(
            name=NAME, description=_DESCRIPTION, parameters=parameters(ScheduleArguments)
        )
        # Repeatable: a job has its id from the call that asks for it, so it is made once.
        # What it makes goes on without the person who asked for it.
        self.capabilities = ToolCapabilities(repeatable=True, timeout_s=_TIMEOUT_S)
        self._tame = ToolCapabilities(repeatable=True, safe=True, timeout_s=_TIMEOUT_S)
        self._looking = ToolCapabilities(
            read_only=True, repeatable=True, safe=True, timeout_s=_TIMEOUT_S
        )

    def capabilities_of(self, call: ToolCall) -> ToolCapabilities:
        """Return how this call may be run: only to make a job needs a word of somebody."""
        try:
            action = read_arguments(call, ScheduleArguments).action
        except ToolFailedError:  # the call itself fails of that, and does nothing
            return self._looking
        match action:
            case "create":
                return self.capabilities
            case "list":
                return self._looking
            case "cancel":
                return self._tame
            case _:
                assert_never(action)

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Do one action; return what the model should know of it.

        Raises:
            ToolFailedError: It cannot be done; the text says why.
        """
        asked = read_arguments(call, ScheduleArguments)
        client = self._environment.link.schedules
        try:
            await client.load()
        except OSError as error:
            msg = f"scheduled jobs cannot be read now: {error.strerror or error}"
            raise ToolFailedError(msg) from error
        match asked.action:
            case "create":
                return await self._create(asked, client, call, context)
            case "list":
                return await self._list(client, context)
            case "cancel":
                return await self._cancel(asked, client, context)
            case _:
                assert_never(asked.action)

    # --- create ---

    async def _create(
        self,
        asked: ScheduleArguments,
        client: SchedulerClient,
        call: ToolCall,
        context: ToolContext,
    ) -> str:
        """Make a job for this conversation, and say when it is due."""
        if context.key.channel in NOBODY_ANSWERS:
            msg = "nobody can be reached in this conversation later on; leave it to who asked you"
            raise ToolFailedError(msg)
        job_id = _job_id(call, context)
        before = _find(client, job_id)
        if before is not None:  # this very call made it, and was cut short
            return await _told(client, before, is_new=False)
        if not is_asked_by_person(context.conversation):
            msg = (
                "a job is made only where a person asks for it, and this turn was begun by a"
                " program; tell the people here what you would schedule"
            )
            raise ToolFailedError(msg)
        if asked.isolated and context.is_shared:
            # It would reach what others may not see who read its answer here.
            msg = "isolated: others see this conversation, too; leave it out, and it runs here"
            raise ToolFailedError(msg)
        now = self._clock.now()
        section = section_of(asked, agent=self._environment.agent, key=context.key, now=now)
        await to_thread.run_sync(check_interval, section, self._min_interval_s)
        self._check_process(asked.process, context.key)
        made = Made(
            by="tool",
            at=now,
            key=context.key,
            untrusted=bool(sources_behind(context)),
            principal=context.principal,
        )
        said = await self._add(client, section, job_id, made)
        try:
            await checkpoint_if_cancelled()
            self._check_process(asked.process, context.key)  # it may have ended meanwhile
        except BaseException:
            await _take_back(client, job_id)
            raise
        return said

    async def _add(
        self, client: SchedulerClient, section: JobSettings, job_id: str, made: Made
    ) -> str:
        """Make a job, whole or not at all; return what is told of it."""
        try:
            with anyio.fail_after(_WRITE_S, shield=True):
                view = await client.add(section, job_id=job_id, made=made, max_jobs=self._max_jobs)
                return await _told(client, view, is_new=True)
        except JobRefusedError as error:
            before = _find(client, job_id)
            if before is not None:  # right after a start the scheduler had not read its jobs yet
                return await _told(client, before, is_new=False)
            raise ToolFailedError(str(error)) from error
        except TimeoutError as error:
            msg = "it is not known whether the job was made: the disk takes too long; list shows it"
            raise ToolFailedError(msg) from error
        except OSError as error:
            msg = f"the job could not be written: {error.strerror or error}"
            raise ToolFailedError(msg) from error

    def _check_process(self, handle: str | None, key: ConversationKey) -> None:
        if handle is None:
            return
        self._processes.find(key, handle)
        if not self._processes.is_running(handle):
            msg = f"process: {handle} has ended, so nothing can last as long as it"
            raise ToolFailedError(msg)

    # --- list and cancel ---

    async def _list(self, client: SchedulerClient, context: ToolContext) -> ToolOutput:
        views = self._here(client, context)
        own = [view for view in views if _is_own(view, context.key)]
        text = await to_thread.run_sync(listing, views, {view.job.job_id for view in own})
        untrusted = any(view.job.made.untrusted for view in own)
        return ToolOutput(text=text, untrusted=untrusted, source=_MARKED * untrusted)

    async def _cancel(
        self, asked: ScheduleArguments, client: SchedulerClient, context: ToolContext
    ) -> str:
        """Call off a job of this conversation, and say which it was."""
        job_id = (asked.job or "").strip()
        if not job_id:
            msg = "job: cancel needs the id of a job; list shows them"
            raise ToolFailedError(msg)
        views = self._here(client, context)
        found = next((view for view in views if view.job.job_id == job_id), None)
        if found is None:
            own = [view.job.job_id for view in views if _is_own(view, context.key)]
            known = ", ".join(own[:20]) or "none"
            # No error: where a crash cut the call short that called it off, this is how it went.
            return (
                f"{job_id[:_SHOWN_CHARACTERS]!r} is not, or no longer, scheduled in this"
                f" conversation; to be called off there are: {known}"
            )
        if not _is_own(found, context.key):
            msg = f"{job_id} was not made with this tool here; only its owner can call it off"
            raise ToolFailedError(msg)
        try:
            await client.cancel(job_id)
        except UnknownJobError:  # somebody was faster
            pass
        except JobFixedError as error:
            raise ToolFailedError(str(error)) from error
        except OSError as error:
            msg = f"{job_id} could not be called off: {error.strerror or error}"
            raise ToolFailedError(msg) from error
        return f"{job_id} is called off"

    def _here(self, client: SchedulerClient, context: ToolContext) -> list[JobView]:
        """Return the jobs of the agent that are for this conversation, or were made in it."""
        key = context.key
        places = (
            ToChat(channel=key.channel, chat=key.chat, topic=key.topic),
            ToSession(session_id=context.session_id),
        )
        return [
            view
            for view in client.jobs()
            if view.job.agent == key.agent and (view.job.to in places or _is_own(view, key))
        ]


def _job_id(call: ToolCall, context: ToolContext) -> str:
    """Return the id of the job that a call makes, whenever it is run: it has no other one's."""
    name = name_of_call(call, context).encode("utf-8", "surrogatepass")
    return f"j{hashlib.sha256(name).hexdigest()[:_ID_DIGITS]}"


def _is_own(view: JobView, key: ConversationKey) -> bool:
    """Return whether a job was made with this tool, in this conversation."""
    made = view.job.made
    return made.by == "tool" and made.key == key


def _find(client: SchedulerClient, job_id: str) -> JobView | None:
    try:
        return client.job(job_id)
    except UnknownJobError:
        return None


async def _told(client: SchedulerClient, view: JobView, *, is_new: bool) -> str:
    coming = client.coming(view.job.job_id, count=SHOWN + 1)
    return await to_thread.run_sync(partial(described_job, view, coming, is_new=is_new))


async def _take_back(client: SchedulerClient, job_id: str) -> None:
    """Call a job off that is not to be after all; where that fails, it is logged, and stays."""
    with anyio.move_on_after(_WRITE_S, shield=True):
        try:
            await client.cancel(job_id)
        except UnknownJobError:
            pass
        except (JobFixedError, OSError) as error:
            logger.warning(
                "a job that was not wanted stays", extra={"job": job_id, "error": str(error)}
            )
