"""`spec.schedules` and `spec.heartbeat`: the scheduled jobs that stand in an agent's own file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Protocol

from msgspec import Struct, field
from pydantic import AfterValidator, Field

from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.making import FaultList, Source, destination_of, job_of
from everturn_gateway.scheduler.definitions.reading import MAX_TEXT_BYTES, check_line, read_clock
from everturn_gateway.scheduler.definitions.settings import (
    Interval,
    JobFields,
    JobId,
    ToSettings,
)
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.jobs import (
    GRACE_S,
    Every,
    Job,
    Made,
    QuietHours,
    Retries,
    RunTask,
)
from everturn_gateway.specs.prompts import read_text_field
from everturn_gateway.time_zones import check_zone
from everturn_gateway.yaml_files import Document, FieldPath, SettingsModel

PROMPT_FILE: Final = "HEARTBEAT.md"
SILENT_ANSWER: Final = "HEARTBEAT_OK"
_HEARTBEAT: Final[FieldPath] = ("spec", "heartbeat")
_SCHEDULES: Final[FieldPath] = ("spec", "schedules")
_SHORTEST_S: Final = 60  # each beat is a turn, and a turn has a price
_SILENT_CHARACTERS: Final = 64
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING: Final = re.compile(r"^[ \t]*#{1,6}(?:[ \t].*)?$|^[ \t]*(?:=+|-{2,})[ \t]*$", re.MULTILINE)

# --- the sections --------------------------------------------------------------------------------


def _not_too_often(value: int) -> int:
    if value < _SHORTEST_S:
        msg = "must be at least a minute"
        raise ValueError(msg)
    return value


def _clock(value: str) -> str:
    read_clock(value)
    return value


def _silent(value: str) -> str:
    return check_line(value, _SILENT_CHARACTERS)


Clock = Annotated[str, AfterValidator(_clock)]


class AgentJobSettings(JobFields):
    """A scheduled job of this agent."""

    id: JobId
    "Unique among the jobs of the agent; its whole id has the agent's name and a dot before it."


class QuietSettings(SettingsModel):
    """A part of each day without heartbeats."""

    begins: Clock = Field(alias="from")
    "Like 22:00."
    ends: Clock = Field(alias="to")
    "Before from, it is of the next day."
    timezone: str | None = None
    "By default schedules.timezone of everturn.yaml."


class HeartbeatSettings(SettingsModel):
    """A recurring look at what may be to do, silent where there is nothing."""

    every: Annotated[Interval, AfterValidator(_not_too_often)] = 1800
    "So many seconds; also 15m, 6h, 1d."
    prompt: str | None = None
    "What to look at: a path in the agent's folder, or the text. By default HEARTBEAT.md."
    to: ToSettings | None = None
    "Who is told what it finds; by default nobody."
    quiet_hours: QuietSettings | None = None
    silent_answer: Annotated[str, AfterValidator(_silent)] = SILENT_ANSWER
    "What it answers where there is nothing to say; this is not passed on."


# --- reading -------------------------------------------------------------------------------------


class ReadJobs(Struct, frozen=True, kw_only=True):
    """The jobs of an agent, and what is wrong with them."""

    jobs: tuple[Job, ...] = ()
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    "Why there is no heartbeat, where one is set."


class HasJobs(Protocol):
    """The `spec` of an agent, as far as jobs stand in it."""

    @property
    def schedules(self) -> Sequence[AgentJobSettings]:
        """What the agent does by the clock."""
        ...

    @property
    def heartbeat(self) -> HeartbeatSettings | None:
        """What it looks at again and again; None = nothing."""
        ...


def read_jobs(
    document: Document,
    spec: HasJobs,
    folder: Path,
    *,
    agent: str,
    timezone: str,
    written_at: datetime | None,
) -> ReadJobs:
    """Read the jobs of an agent.

    Args:
        document: Its `agent.yaml`.
        spec: Its `spec`, with the schedules and the heartbeat.
        folder: Of the agent, with the file of the heartbeat's prompt.
        agent: Its name.
        timezone: Of the workspace; empty = there is none.
        written_at: When `agent.yaml` was written, UTC.
    """
    reader = _Reader(document, agent, timezone, written_at)
    jobs = [*reader.listed(spec.schedules)]
    if spec.heartbeat is not None:
        jobs += reader.heartbeat(spec.heartbeat, folder)
    return ReadJobs(
        jobs=tuple(jobs),
        faults=tuple(sorted(reader.faults, key=lambda fault: fault.line)),
        warnings=tuple(reader.warnings),
    )


class _Reader(Struct):
    document: Document
    agent: str
    timezone: str
    written_at: datetime | None
    faults: list[Fault] = field(default_factory=list[Fault])
    warnings: list[Fault] = field(default_factory=list[Fault])
    ids: dict[str, FieldPath] = field(default_factory=dict[str, FieldPath])

    def listed(self, sections: Sequence[AgentJobSettings]) -> Iterator[Job]:
        for number, section in enumerate(sections):
            path = (*_SCHEDULES, number)
            if first := self.ids.get(section.id):
                line = self.document.line(first)
                message = f"is also the id of the job in line {line}"
                self.faults.append(self.document.fault((*path, "id"), message))
                continue
            self.ids[section.id] = path
            try:
                yield job_of(
                    section,
                    job_id=self._job_id(section.id),
                    agent=self.agent,
                    timezone=self.timezone,
                    source=self._source(path),
                    made=Made(by="agent"),
                )
            except JobRefusedError as error:
                self.faults += error.faults

    def heartbeat(self, section: HeartbeatSettings, folder: Path) -> Iterator[Job]:
        faults = FaultList(self._source(_HEARTBEAT))
        if taken := self.ids.get("heartbeat"):
            message = "heartbeat is the id of spec.heartbeat; choose another one"
            self.faults.append(self.document.fault((*taken, "id"), message))
        path = (*_HEARTBEAT, "prompt")
        prompt, problems = read_text_field(self.document, folder, path, PROMPT_FILE)
        if len(prompt.encode()) > MAX_TEXT_BYTES:
            faults.add("prompt", f"has more than {MAX_TEXT_BYTES:,} bytes, which are the most")
        to = None if section.to is None else destination_of(section.to, faults)
        quiet = None if section.quiet_hours is None else self._quiet(section.quiet_hours, faults)
        self.faults += (*problems, *faults.found)
        if problems or faults.found:
            return
        if not _says_anything(prompt):
            message = "holds nothing to do, so there is no heartbeat"
            self.warnings.append(self.document.fault(path, message))
            return
        silent = section.silent_answer
        sentence = f"If there is nothing to say, answer exactly {silent} and nothing else."
        yield Job(
            job_id=self._job_id("heartbeat"),
            agent=self.agent,
            when=Every(interval_s=section.every),
            payload=RunTask(text=f"{prompt.strip()}\n\n{sentence}", silent_answer=silent),
            to=to,
            where="isolated",
            misfire="skip",
            grace_s=GRACE_S["skip"],
            retries=Retries(most=0),
            quiet=quiet,
            timezone=quiet.timezone if quiet else self.timezone or "UTC",
            made=Made(by="heartbeat"),
            file=self.document.file,
            line=self.document.line(_HEARTBEAT),
            written_at=self.written_at,
        )

    def _quiet(self, section: QuietSettings, faults: FaultList) -> QuietHours | None:
        begins, ends = read_clock(section.begins), read_clock(section.ends)
        zone = section.timezone or self.timezone
        if begins == ends:
            faults.add(("quiet_hours", "to"), "is the same as from; leave heartbeat out instead")
        if not zone:
            message = (
                "needs a timezone, like Europe/Berlin;"
                " or set schedules: {timezone: ...} in everturn.yaml"
            )
            faults.add("quiet_hours", message)
        elif section.timezone is not None:
            faults.try_(("quiet_hours", "timezone"), lambda: check_zone(zone))
        return QuietHours(begins=begins, ends=ends, timezone=zone)

    def _job_id(self, own: str) -> str:
        # Ids are names of files, which some systems do not tell apart by case.
        return f"{self.agent.lower()}.{own}"

    def _source(self, path: FieldPath) -> Source:
        return Source(document=self.document, path=path, written_at=self.written_at)


def _says_anything(prompt: str) -> bool:
    """Return whether a prompt has more than headings and comments."""
    return bool(_HEADING.sub("", _COMMENT.sub("", prompt)).strip())
