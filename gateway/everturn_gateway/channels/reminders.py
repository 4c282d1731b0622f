"""`/remind` in a chat: a job of the agent, for the conversation in which it is given."""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from anyio import to_thread
from msgspec import Struct
from pydantic import ValidationError

from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_channels.languages import t
from everturn_channels.texts import reminder_how, reminder_past, reminder_set, sentence
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.jobs import Made

logger = logging.getLogger(__name__)

REMINDERS_MAX: Final = 50
"Jobs of an agent that are made in its conversations and are to come; its own tool counts, too."
_ID_DIGITS: Final = 12
_UNITS: Final = {"m": 60, "min": 60, "h": 3600, "d": 86_400}
_IN: Final = re.compile(r"(\d{1,5})\s?(min|m|h|d)\s+(.+)", re.DOTALL | re.IGNORECASE)
_AT: Final = re.compile(r"(?:(\d{4}-\d{2}-\d{2})[ T])?([01]?\d|2[0-3]):([0-5]\d)\s+(.+)", re.DOTALL)


class Reminder(Struct, frozen=True, kw_only=True):
    """What somebody is to be reminded of, and when."""

    at: datetime
    "Aware, in the zone in which it was read."
    text: str


def read_reminder(argument: str, now: datetime, zone: str) -> Reminder | None:
    """Return what stands after `/remind`; None where it is nothing of the kind.

    A time of day without a day is the next one that comes.

    Args:
        argument: `20m tea`, `18:30 call Bea`, or `2026-12-24 09:00 the tree`.
        now: The present instant, aware.
        zone: In which times are meant, such as `Europe/Berlin`.
    """
    typed = argument.strip()
    here = now.astimezone(ZoneInfo(zone))
    if (found := _IN.fullmatch(typed)) is not None:
        later = timedelta(seconds=int(found[1]) * _UNITS[found[2].lower()])
        return Reminder(at=(now + later).astimezone(here.tzinfo), text=found[3].strip())
    if (found := _AT.fullmatch(typed)) is None:
        return None
    try:
        day = datetime.fromisoformat(found[1]) if found[1] else here
        at = day.replace(
            hour=int(found[2]), minute=int(found[3]), second=0, microsecond=0, tzinfo=here.tzinfo
        )
    except ValueError:  # no such day
        return None
    if not found[1] and at <= here:
        at += timedelta(days=1)
    return Reminder(at=at, text=found[4].strip())


async def remind(
    schedules: SchedulerClient,
    clock: Clock,
    zone: str,
    key: ConversationKey,
    argument: str,
    name: str,
) -> str:
    """Make a job that sends a reminder into a conversation; return what its sender is told.

    Args:
        schedules: Where jobs are made.
        clock: The time.
        zone: In which times are meant.
        key: The conversation.
        argument: What stands after `/remind`.
        name: Of the command: the same once more makes no second job.
    """
    # In a thread: it may read the file of a time zone.
    wanted = await to_thread.run_sync(read_reminder, argument, clock.now(), zone)
    if wanted is None:
        return reminder_how()
    at, now = f"{wanted.at:%Y-%m-%d %H:%M}", clock.now()
    if wanted.at <= now:
        here = now.astimezone(wanted.at.tzinfo)
        return reminder_past(at, f"{here:%Y-%m-%d %H:%M}", zone)
    told = reminder_set(wanted.text, at, zone)
    job_id = f"r{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:_ID_DIGITS]}"
    to = {"channel": key.channel, "chat": key.chat, "topic": key.topic or None}
    fields = {
        "agent": key.agent,
        "at": wanted.at.replace(microsecond=0).isoformat(),
        "message": t("Reminder: {text}", text=wanted.text),
        "to": to,
    }
    try:
        section = JobSettings.model_validate(fields)
    except ValidationError:  # a text that is too long, or has characters that nobody sees
        return reminder_how()
    try:
        await schedules.load()
        made = Made(by="tool", at=clock.now(), key=key)
        await schedules.add(section, job_id=job_id, made=made, max_jobs=REMINDERS_MAX)
    except JobRefusedError as error:
        try:
            schedules.job(job_id)
        except UnknownJobError:
            return sentence(str(error))
    except OSError as error:
        logger.error("a reminder could not be written", extra={"error": str(error)})
        return t("Something is wrong on my side, and I could not note that. Please try later.")
    return told
