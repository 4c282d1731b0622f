"""Speaks about scheduled jobs with a gateway in another process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import httpx2
import orjson

from everturn_actors.errors import InvalidInputError
from everturn_channels.errors import ClientError
from everturn_gateway.client.answers import TryAgainError, document, refuse, value_of
from everturn_gateway.client.http_client import open_client
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.schemas import (
    ComingList,
    JobBody,
    JobDetail,
    JobList,
    RunBody,
    RunList,
    ScheduleBody,
)

_SCHEDULES: Final = "/api/v1/schedules"
_ANSWER_S: Final = 30.0  # it may wait for the disk
_PAGE: Final = 100  # jobs asked for at once
_LOOKS_S: Final = (0.05, 0.1, 0.2, 0.5)  # between two looks at a run, the last one repeated
_UNPROCESSABLE: Final = 422

BodyT = TypeVar("BodyT", bound=ScheduleBody)


@asynccontextmanager
async def open_http_schedules(
    url: str, *, token: str, admin_token: str
) -> AsyncGenerator[HttpSchedules]:
    """Connect to the gateway at `url`.

    Args:
        url: Where it listens.
        token: Its API token; empty where it asks for none.
        admin_token: Its admin token, for jobs that go to a webhook; empty where it has none.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with open_client(url, headers=headers, silence_s=_ANSWER_S) as http:
        yield HttpSchedules(http, url, admin_token)


class HttpSchedules:
    """The scheduled jobs of a running gateway.

    Whatever is asked raises `CoreError` or `GatewayError` where the gateway refuses it, and
    `ClientError` where it cannot be reached or its answer is not understood.
    """

    def __init__(self, http: httpx2.AsyncClient, url: str, admin_token: str) -> None:
        self._http = http
        self._url = url
        self._admin_token = admin_token

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        data = await self._ask("GET", "/api/v1/agents")
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
        params: dict[str, str | int] = {"limit": _PAGE}
        if after:
            params["after"] = after
        return _read(JobList, await self._ask("GET", _SCHEDULES, params=params))

    async def job(self, job_id: str) -> JobDetail:
        """Return one job and its newest runs."""
        return _read(JobDetail, await self._ask("GET", _path(job_id)))

    async def coming(self, job_id: str, *, count: int) -> ComingList:
        """Return when a job is due next."""
        params: dict[str, str | int] = {"count": count}
        return _read(ComingList, await self._ask("GET", _path(job_id, "next"), params=params))

    async def add(self, fields: Mapping[str, object]) -> JobBody:
        """Make a job of what its file would say.

        Raises:
            JobRefusedError: It cannot be as it is described, by field.
        """
        return _read(JobBody, await self._ask("POST", _SCHEDULES, body=fields))

    async def cancel(self, job_id: str) -> None:
        """Call a job off."""
        await self._ask("DELETE", _path(job_id))

    async def pause(self, job_id: str) -> JobBody:
        """Let nothing of a job run until it is resumed."""
        return _read(JobBody, await self._ask("POST", _path(job_id, "pause")))

    async def resume(self, job_id: str) -> JobBody:
        """Let a paused job go on."""
        return _read(JobBody, await self._ask("POST", _path(job_id, "resume")))

    async def run(self, job_id: str) -> RunBody:
        """Run a job once, now; return when that is durable."""
        return _read(RunBody, await self._ask("POST", _path(job_id, "run")))

    async def wait(self, job_id: str, run: RunBody) -> RunBody:
        """Return how a run came out, when it has. The caller sets the deadline."""
        looks = 0
        while run.outcome is None:
            await anyio.sleep(_LOOKS_S[min(looks, len(_LOOKS_S) - 1)])
            looks += 1
            found = _read(RunList, await self._ask("GET", _path(job_id, "runs")))
            here = [each for each in found.runs if each.scheduled_at == run.scheduled_at]
            if not here:
                msg = f"the gateway no longer knows of the run of {job_id} at {run.scheduled_at}"
                raise ClientError(msg)
            run = here[0]
        return run

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if body is not None and self._admin_token:
            headers["Authorization"] = f"Bearer {self._admin_token}"
        try:
            response = await self._http.request(
                method,
                path,
                params=params,
                content=None if body is None else _encode(body),
                headers=headers,
            )
            if response.status_code == _UNPROCESSABLE:
                _refuse_fields(response.content)
            if not response.is_success:
                refuse(response, response.content)
        except (httpx2.TransportError, TryAgainError) as error:
            why = f": {error}" if str(error) else ""
            msg = f"the gateway at {self._url} cannot be reached{why}"
            raise ClientError(msg) from error
        return document(response.content)


def _encode(body: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        msg = "what is asked for is not valid Unicode text"
        raise InvalidInputError(msg) from None


def _read(kind: type[BodyT], data: dict[str, Any]) -> BodyT:
    return value_of(kind.model_validate, data)


def _refuse_fields(content: bytes) -> None:
    """Raise what is wrong with fields of a body, where that is said.

    Raises:
        JobRefusedError: With a fault for each field.
    """
    errors: list[dict[str, str]] = document(content).get("errors") or []
    faults = [
        Fault(file=Path("request"), field=_field(each["pointer"]), message=each["detail"])
        for each in errors
        if "pointer" in each
    ]
    if faults:
        raise JobRefusedError(faults=faults)


def _field(pointer: str) -> str:
    """Return a place in a body as files' faults name it: `#/to/webhook` is `to.webhook`."""
    return pointer.removeprefix("#").removeprefix("/").replace("/", ".")


def _path(job_id: str, verb: str = "") -> str:
    return f"{_SCHEDULES}/{quote(job_id, safe='')}" + (f"/{verb}" if verb else "")
