"""From the section of a file to the job it describes, or to what is wrong with it, by field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from everturn_actors.model import ConversationKey
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.reading import read_written
from everturn_gateway.scheduler.definitions.settings import (
    JobFields,
    JobSettings,
    MadeSettings,
    ToSettings,
    check_job_id,
)
from everturn_gateway.scheduler.definitions.words import from_now, is_from_now
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.jobs import (
    GRACE_S,
    At,
    Cron,
    Destination,
    Every,
    Job,
    Made,
    Payload,
    Retries,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
    ToWebhook,
    When,
    Where,
)
from everturn_gateway.scheduler.rules.rules import check_cron
from everturn_gateway.time_zones import check_zone
from everturn_gateway.yaml_files import Document, FieldPath, dotted

T = TypeVar("T")


class Source(Struct, frozen=True, kw_only=True):
    """Where a section stands, for what is found wrong with it, and for what shows the job."""

    document: Document | None = None
    "None: it stands in no file."
    path: FieldPath = ()
    "Of the section in the document."
    written_at: datetime | None = None
    "UTC. When the file was written."

    @property
    def place(self) -> tuple[Path, int]:
        """The file, and the line of the section; 0 where there is no document."""
        if self.document is None:
            return Path(), 0
        return self.document.file, self.document.line(self.path)

    def fault(self, path: FieldPath, message: str) -> Fault:
        """Return a fault that points to a field of the section."""
        if self.document is None:
            return Fault(file=Path(), field=dotted((*self.path, *path)), message=message)
        return self.document.fault((*self.path, *path), message)


class FaultList(Struct):
    """What is found wrong with one section."""

    source: Source
    found: list[Fault] = field(default_factory=list[Fault])

    def add(self, path: FieldPath | str, message: str) -> None:
        """Add what is wrong with a field, `()` for the section."""
        self.found.append(self.source.fault((path,) if isinstance(path, str) else path, message))

    def try_(self, path: FieldPath | str, read: Callable[[], T]) -> T | None:
        """Return what `read` gives, or None where it raises `ValueError`, which is added."""
        try:
            return read()
        except ValueError as error:
            self.add(path, str(error))
            return None


def job_of(
    section: JobFields,
    *,
    job_id: str,
    agent: str = "",
    timezone: str = "",
    source: Source | None = None,
    made: Made | None = None,
) -> Job:
    """Return the job that a section describes.

    Reads the file of a time zone that was not used before.

    Args:
        section: What was written.
        job_id: Its id, whatever the section says.
        agent: Whose job it is; empty = as the section says.
        timezone: Of the workspace, for sections that name none; empty = there is none.
        source: Where the section stands; None = in no file.
        made: Who made it; None = as the section says.

    Raises:
        JobRefusedError: With every fault, by field.
    """
    source = source or Source()
    faults = FaultList(source)
    faults.try_("id", lambda: check_job_id(job_id))
    own = section if isinstance(section, JobSettings) else None
    agent = agent or (own.agent if own else None) or ""
    if not agent:
        faults.add("agent", "is required: the name of the agent whose job it is")
    zone: str | None = section.timezone or timezone
    if section.timezone is not None:
        checked = faults.try_("timezone", lambda: check_zone(section.timezone or ""))
        zone = section.timezone if checked is not None else None
    when = _when(section, zone, faults)
    begins_at, ends_at = (_limit(section, name, zone, faults) for name in ("start", "end"))
    _check_limits(section, when, begins_at, ends_at, faults)
    to = None if section.to is None else destination_of(section.to, faults)
    payload = _payload(section, faults)
    where = _where(section, faults)
    if made is None:
        made = made_of(own.made if own else None)
    if faults.found or when is None or payload is None:
        raise JobRefusedError(faults=sorted(faults.found, key=lambda fault: fault.line))
    file, line = source.place
    grace = section.grace_seconds
    return Job(
        job_id=job_id,
        agent=agent,
        when=when,
        payload=payload,
        to=to,
        where=where,
        misfire=section.misfire,
        grace_s=GRACE_S[section.misfire] if grace is None else grace,
        jitter_s=section.jitter_seconds,
        begins_at=begins_at,
        ends_at=ends_at,
        max_runs=section.max_runs,
        retries=Retries(most=section.retries.max, backoff_s=section.retries.backoff_seconds),
        paused=section.paused,
        process=section.process or "",
        label=section.label or "",
        timezone=check_zone(zone or "UTC").key,
        made=made,
        file=file,
        line=line,
        written_at=source.written_at,
    )


def dated(section: JobSettings, *, now: datetime, timezone: str = "") -> JobSettings:
    """Return a section with dates for what is counted from now, for a job that is made now.

    Reads the file of a time zone that was not used before.

    Args:
        section: What was asked for.
        now: UTC.
        timezone: Of the workspace, for sections that name none; empty = there is none.

    Raises:
        JobRefusedError: With every fault, by field.
    """
    faults = FaultList(Source())
    zone = section.timezone or timezone
    # Nothing can be counted from now without a clock to read it by.
    if faults.try_("timezone", lambda: check_zone(zone or "UTC")) is None:
        return section  # said with all else that is wrong
    changed: dict[str, str] = {}
    for name in ("at", "start", "end"):
        text: str | None = getattr(section, name)
        if text is None:
            continue
        found = faults.try_(name, partial(from_now, text, now=now, zone=zone))
        if found is not None and found != text:
            changed[name] = found
    if faults.found:
        raise JobRefusedError(faults=faults.found)
    return section.model_copy(update=changed) if changed else section


def made_of(section: MadeSettings | None) -> Made:
    """Return who made a job; a file without that section was written by hand."""
    # Only programs say who made a job; a person writes what it does.
    if section is None:
        return Made(by="file")
    key = section.conversation
    return Made(
        by=section.by,
        at=read_written(section.at).scheduled_at("UTC") if section.at else None,
        key=None
        if key is None
        else ConversationKey(channel=key.channel, chat=key.chat, topic=key.topic, agent=key.agent),
        untrusted=section.untrusted,
        principal=section.principal,
    )


def destination_of(section: ToSettings, faults: FaultList) -> Destination | None:
    """Return who is told; None where the section does not say, which is added to the faults."""
    named = [name for name in ("channel", "session", "webhook") if getattr(section, name)]
    # First: "names no destination" would be no help to who forgot a word of one.
    if section.channel is None and (section.chat or section.topic):
        stray = "chat" if section.chat else "topic"
        faults.add(("to", stray), "needs the channel that it is in: to: {channel: ..., chat: ...}")
    elif not named:
        faults.add("to", "must name a channel and a chat, or a session, or a webhook")
    elif len(named) > 1:
        faults.add(("to", named[1]), f"is given beside {named[0]}; keep one of the two")
    elif section.session is not None:
        return ToSession(session_id=section.session)
    elif section.webhook is not None:
        return ToWebhook(url=section.webhook)
    elif section.channel is not None and section.chat is not None:
        return ToChat(channel=section.channel, chat=section.chat, topic=section.topic or "")
    else:
        faults.add("to", "needs a chat: the id of one in this channel")
    return None


def _when(section: JobFields, zone: str | None, faults: FaultList) -> When | None:
    """Return its times; `zone` is None where it is known to be wrong."""
    given = [name for name in ("at", "every", "cron") if getattr(section, name) is not None]
    if not given:
        faults.add((), "needs one of at, every and cron: when is it to run?")
        return None
    # To run by both would be two jobs; which one is meant is not for us to guess.
    if len(given) > 1:
        faults.add(given[1], f"is given beside {given[0]}; keep one of at, every and cron")
        return None
    if section.at is not None:
        scheduled_at = _timestamp_of(section.at, "at", zone, faults)
        return None if scheduled_at is None else At(scheduled_at=scheduled_at)
    if section.every is not None:
        return Every(interval_s=section.every)
    return _cron(section.cron or "", zone, faults)


def _cron(expression: str, zone: str | None, faults: FaultList) -> Cron | None:
    if zone is None:
        return None
    if not zone:
        message = (
            "is required with cron: the name of a time zone, like Europe/Berlin;"
            " or set schedules: {timezone: ...} in everturn.yaml"
        )
        faults.add("timezone", message)
        return None
    before = len(faults.found)
    faults.try_("cron", lambda: check_cron(expression, zone))
    if len(faults.found) > before:
        return None
    return Cron(expression=expression, timezone=zone)


def _timestamp_of(text: str, name: str, zone: str | None, faults: FaultList) -> datetime | None:
    # A file is read again at each start: "in ten minutes" would never come.
    if is_from_now(text):
        if zone is not None:
            message = (
                f"{text!r} is counted from the moment at which it is said; a file needs a date:"
                " 2026-12-01T08:30"
            )
            faults.add(name, message)
        return None
    written = read_written(text)
    # Told already, with the zone.
    if written.offset is None and zone is None:
        return None
    return faults.try_(name, lambda: written.scheduled_at(zone or ""))


def _limit(section: JobFields, name: str, zone: str | None, faults: FaultList) -> datetime | None:
    text: str | None = getattr(section, name)
    return None if text is None else _timestamp_of(text, name, zone, faults)


def _check_limits(
    section: JobFields,
    when: When | None,
    begins_at: datetime | None,
    ends_at: datetime | None,
    faults: FaultList,
) -> None:
    """Add what makes it run never, or not as it says."""
    # A job that can never run is a mistake, and silence would hide it.
    if begins_at and ends_at and ends_at <= begins_at:
        faults.add("end", "is not after start: it would never run")
    match when:
        case At(scheduled_at=scheduled_at):
            if begins_at and scheduled_at < begins_at:
                faults.add("at", "is before start: it would never run")
            if ends_at and scheduled_at > ends_at:
                faults.add("at", "is after end: it would never run")
        # Runs would overtake each other.
        case Every(interval_s=interval) if section.jitter_seconds >= interval:
            message = f"must be below every ({interval:,} seconds), not {section.jitter_seconds:,}"
            faults.add("jitter_seconds", message)
        case _:
            pass


def _payload(section: JobFields, faults: FaultList) -> Payload | None:
    if section.message is not None and section.task is not None:
        faults.add("task", "is given beside message; keep one of the two")
        return None
    if section.task is not None:
        return RunTask(text=section.task)
    if section.message is None:
        faults.add((), "needs a message or a task: what is to be done?")
        return None
    # A task may be done for its session alone; words need somebody who hears them.
    if section.to is None:
        faults.add("to", "is required for a message: a channel and a chat, a session or a webhook")
    if section.session is not None:
        faults.add("session", "is for tasks; a message is said in the conversation that to names")
    return SendMessage(text=section.message)


def _where(section: JobFields, faults: FaultList) -> Where:
    to = section.to
    talks = to is not None and (to.channel is not None or to.session is not None)
    if section.session == "conversation" and not talks:
        faults.add("session", "conversation needs a chat or a session in to")
    if section.session == "isolated" or not talks:
        return "isolated"
    return "conversation"
