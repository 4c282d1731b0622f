"""Scheduled jobs: make, look, pause, run, call off."""

from __future__ import annotations

from typing import Annotated, Final, Protocol, TypeAlias

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from everturn_gateway.http.access.auth import Access, scope_refusal
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import check_agent, visible_jobs, visible_session
from everturn_gateway.http.job_problems import answering_problems, cannot_run
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import HasAgents, HasConfig, HasSchedules, HasSessions
from everturn_gateway.http.problems import ProblemError
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.schedules import JobTimes, NewJob
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.jobs import JobView, Made
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.schemas import (
    COMMAND_LINE,
    RECENT_RUNS,
    ComingList,
    JobBody,
    JobDetail,
    JobFaultBody,
    JobList,
    RunBody,
    RunList,
)

SCHEDULES_PATH: Final = "/api/v1/schedules"
LIST_LIMIT: Final = 100  # jobs a page: 8 ms
FAULTS_LIMIT: Final = 200  # where one thing is missing, thousands of jobs may say so
RUNS_LIMIT: Final = 100  # runs
COMING_LIMIT: Final = 100  # instants

ScheduleId: TypeAlias = Annotated[
    str, Path(description="Id of a scheduled job.", max_length=256, examples=["standup"])
]


class Host(HasAgents, HasConfig, HasSchedules, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


def schedules_router(gateway: Host, access: Access) -> APIRouter:
    """Return the routes under `/api/v1/schedules`."""
    config = gateway.config
    places = Places(workspace=config.workspace, agents_dir=config.agents_dir)

    async def loaded() -> None:
        with answering_problems(places):
            await gateway.schedules.load()

    router = APIRouter(prefix=SCHEDULES_PATH, tags=["schedules"], dependencies=[Depends(loaded)])
    _add_list(router, gateway, places)
    _add_creation(router, gateway, access, places)
    _add_preview(router, gateway, places)
    _add_job(router, gateway, places)
    _add_runs(router, gateway, places)
    return router


def _add_list(router: APIRouter, gateway: Host, places: Places) -> None:
    """Add the routes that list jobs and make one."""

    @router.get("", response_model=JobList)
    async def list_schedules(
        caller: CallerOf,
        after: Annotated[str, Query(max_length=256, description="`next` of the page before.")] = "",
        limit: Annotated[int, Query(ge=1, le=LIST_LIMIT)] = 50,
        runs: Annotated[
            int, Query(ge=0, le=RECENT_RUNS, description="Tell so many runs of each as well.")
        ] = 0,
    ) -> Response:
        """List scheduled jobs by id; on the first page, what is wrong with definitions as well."""
        visible = visible_jobs(caller, gateway.schedules)
        found = [job_id for job_id in visible if job_id > after]
        page = found[:limit]
        return answer(
            JobList(
                schedules=tuple(_row(gateway.schedules.job(each), places, runs) for each in page),
                next=page[-1] if len(found) > limit else None,
                faults=tuple(
                    JobFaultBody.of(fault, places)
                    # They name files and ids of all agents.
                    for fault in (
                        () if after or caller.agents else gateway.schedules.faults()[:FAULTS_LIMIT]
                    )
                ),
            )
        )


def _row(view: JobView, places: Places, runs: int) -> JobBody:
    return JobDetail.whole(view, places, runs=runs) if runs else JobBody.of(view, places)


def _add_creation(router: APIRouter, gateway: Host, access: Access, places: Places) -> None:
    @router.post(
        "", status_code=201, response_model=JobBody, responses=problems(401, 403, 409, 507)
    )
    async def create_schedule(request: Request, body: NewJob, caller: CallerOf) -> Response:
        """Make a scheduled job.

        One that goes to a webhook makes the gateway send something to an address: it is for the
        administration alone.
        """
        if body.is_for_admin and (refusal := scope_refusal(access, caller, "admin")) is not None:
            raise ProblemError(refusal)
        check_agent(caller, gateway.library, body.agent)
        if body.to is not None and body.to.session:
            await visible_session(gateway.service, caller, body.to.session)
        with answering_problems(places):
            is_typed = request.headers.get("user-agent") == COMMAND_LINE
            made = Made(by="cli" if is_typed else "http", principal=caller.owns_as)
            view = await gateway.schedules.add(body.section(), made=made)
        headers = {"Location": f"{SCHEDULES_PATH}/{view.job.job_id}"}
        return answer(JobBody.of(view, places), 201, headers)


def _add_preview(router: APIRouter, gateway: Host, places: Places) -> None:
    @router.post("/preview", response_model=ComingList)
    async def preview_schedule(
        body: JobTimes, count: Annotated[int, Query(ge=1, le=COMING_LIMIT)] = 5
    ) -> Response:
        """Tell when a job with these times would be due, or what is wrong with them.

        Makes nothing.
        """
        with answering_problems(places):
            job, times = await gateway.schedules.preview(body.section(), count=count)
        return answer(ComingList.of(job, times))


def _add_job(router: APIRouter, gateway: Host, places: Places) -> None:
    """Add the routes of one job: read, cancel, pause, resume."""

    @router.get("/{schedule_id}", response_model=JobDetail, responses=problems(404))
    async def get_schedule(schedule_id: ScheduleId) -> Response:
        """Show a scheduled job and its newest runs."""
        with answering_problems(places):
            return answer(JobDetail.whole(gateway.schedules.job(schedule_id), places))

    @router.delete("/{schedule_id}", status_code=204, responses=problems(404, 409, 507))
    async def cancel_schedule(schedule_id: ScheduleId) -> Response:
        """Call a scheduled job off; what runs of it is finished."""
        with answering_problems(places):
            await gateway.schedules.cancel(schedule_id)
        return Response(status_code=204)

    @router.post("/{schedule_id}/pause", response_model=JobBody, responses=problems(404, 409, 507))
    async def pause_schedule(schedule_id: ScheduleId) -> Response:
        """Let nothing of a job run until it is resumed."""
        with answering_problems(places):
            await gateway.schedules.pause(schedule_id)
            return answer(JobBody.of(gateway.schedules.job(schedule_id), places))

    @router.post("/{schedule_id}/resume", response_model=JobBody, responses=problems(404, 409, 507))
    async def resume_schedule(schedule_id: ScheduleId) -> Response:
        """Let a paused job go on with what comes due from now on."""
        with answering_problems(places):
            await gateway.schedules.resume(schedule_id)
            return answer(JobBody.of(gateway.schedules.job(schedule_id), places))


def _add_runs(router: APIRouter, gateway: Host, places: Places) -> None:
    """Add the routes that run a job and tell of its runs."""

    @router.post(
        "/{schedule_id}/run",
        status_code=202,
        response_model=RunBody,
        responses=problems(404, 409, 507),
    )
    async def run_schedule(schedule_id: ScheduleId) -> Response:
        """Run a job once, now, beside its own times.

        Answers when that is durable; the job's runs tell how it comes out.
        """
        with answering_problems(places):
            try:
                run = await gateway.schedules.run_now(schedule_id)
            except JobRefusedError as error:
                raise ProblemError(cannot_run(error, places)) from error
        headers = {"Location": f"{SCHEDULES_PATH}/{schedule_id}/runs"}
        return answer(RunBody.of(run), 202, headers)

    @router.get("/{schedule_id}/runs", response_model=RunList, responses=problems(404))
    async def list_runs(
        schedule_id: ScheduleId, limit: Annotated[int, Query(ge=1, le=RUNS_LIMIT)] = 50
    ) -> Response:
        """List a job's runs, newest first; older ones are forgotten."""
        with answering_problems(places):
            job_state = gateway.schedules.job(schedule_id).job_state
        return answer(RunList.of(job_state, limit=limit))

    @router.get("/{schedule_id}/next", response_model=ComingList, responses=problems(404))
    async def list_next(
        schedule_id: ScheduleId, count: Annotated[int, Query(ge=1, le=COMING_LIMIT)] = 5
    ) -> Response:
        """Tell when a job is due next."""

        def look() -> ComingList:
            job = gateway.schedules.job(schedule_id).job
            return ComingList.of(job, gateway.schedules.coming(schedule_id, count=count))

        with answering_problems(places):
            # A hundred leap days are centuries away: in a thread, which only looks.
            return answer(await run_sync(look))
