"""The scheduled jobs of a gateway, for the commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import anyio

from everturn_channels.errors import ClientError
from everturn_gateway.client.answers import FieldsRefusedError, value_of
from everturn_gateway.client.api import Api
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.schemas import (
    COMMAND_LINE,
    ComingList,
    JobBody,
    JobDetail,
    JobList,
    RunBody,
    RunList,
    ScheduleBody,
)

_SCHEDULES: Final = "/api/v1/schedules"
_PAGE: Final = 100  # jobs asked for at once
_LOOKS_S: Final = (0.05, 0.1, 0.2, 0.5)  # between two looks at a run, the last one repeated

BodyT = TypeVar("BodyT", bound=ScheduleBody)


class ScheduleClient:
    """The scheduled jobs of a gateway.

    Whatever is asked raises `CoreError` or `GatewayError` where the gateway refuses it, and
    `ClientError` where it cannot be reached or its answer is not understood.
    """

    def __init__(self, api: Api, *, admin_token: str = "") -> None:
        """Prepare.

        Args:
            api: The gateway.
            admin_token: For jobs that go to a webhook; empty where it has none.
        """
        self._api = api
        authorization = {"Authorization": f"Bearer {admin_token}"} if admin_token else {}
        self._headers = {"User-Agent": COMMAND_LINE, **authorization}

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        data = await self._api.ask("GET", "/api/v1/agents")
        return value_of(lambda body: tuple(str(each["name"]) for each in body["agents"]), data)

    async def all(self) -> JobList:
        """Return all jobs, by id, and what is wrong with definitions."""
        page = first = await self._page("")
        jobs = [*page.schedules]
        while page.next is not None:
            page = await self._page(page.next)
            jobs += page.schedules
        return JobList(schedules=tuple(jobs), next=None, faults=first.faults)

    async def _page(self, after: str) -> JobList:
        params: dict[str, str | int] = {"limit": _PAGE, "after": after}
        return _read(JobList, await self._api.ask("GET", _SCHEDULES, params=params))

    async def job(self, job_id: str) -> JobDetail:
        """Return one job and its newest runs."""
        return _read(JobDetail, await self._api.ask("GET", _path(job_id)))

    async def coming(self, job_id: str, *, count: int) -> ComingList:
        """Return when a job is due next."""
        data = await self._api.ask("GET", _path(job_id, "next"), params={"count": count})
        return _read(ComingList, data)

    async def add(self, fields: Mapping[str, object]) -> JobBody:
        """Make a job of what its file would say.

        Raises:
            JobRefusedError: It cannot be as it is described, by field.
        """
        try:
            data = await self._api.ask("POST", _SCHEDULES, body=fields, headers=self._headers)
        except FieldsRefusedError as error:
            raise JobRefusedError(
                faults=[
                    Fault(file=Path("request"), field=field, message=message)
                    for field, message in error.fields
                ]
            ) from error
        return _read(JobBody, data)

    async def cancel(self, job_id: str) -> None:
        """Call a job off."""
        await self._api.ask("DELETE", _path(job_id))

    async def pause(self, job_id: str) -> JobBody:
        """Let nothing of a job run until it is resumed."""
        return _read(JobBody, await self._api.ask("POST", _path(job_id, "pause")))

    async def resume(self, job_id: str) -> JobBody:
        """Let a paused job go on."""
        return _read(JobBody, await self._api.ask("POST", _path(job_id, "resume")))

    async def run(self, job_id: str) -> RunBody:
        """Run a job once, now; return when that is durable."""
        return _read(RunBody, await self._api.ask("POST", _path(job_id, "run")))

    async def wait(self, job_id: str, run: RunBody) -> RunBody:
        """Return how a run came out, when it has. The caller sets the deadline."""
        looks = 0
        while run.outcome is None:
            await anyio.sleep(_LOOKS_S[min(looks, len(_LOOKS_S) - 1)])
            looks += 1
            found = _read(RunList, await self._api.ask("GET", _path(job_id, "runs")))
            here = [each for each in found.runs if each.scheduled_at == run.scheduled_at]
            if not here:
                msg = f"the gateway no longer knows of the run of {job_id} at {run.scheduled_at}"
                raise ClientError(msg)
            run = here[0]
        return run


def _read(kind: type[BodyT], data: dict[str, object]) -> BodyT:
    return value_of(kind.model_validate, data)


def _path(job_id: str, verb: str = "") -> str:
    return f"{_SCHEDULES}/{quote(job_id, safe='')}" + (f"/{verb}" if verb else "")
