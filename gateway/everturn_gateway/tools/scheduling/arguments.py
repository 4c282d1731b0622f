"""What a call of `schedule` may say, and the job that it asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ConversationKey
from everturn_gateway.scheduler.definitions.reading import interval_text
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.jobs import Cron
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.tools.arguments import Arguments

_TIMES: Final = ("at", "in_minutes", "every", "cron")
_PAYLOADS: Final = ("message", "task")
_MOST_MINUTES: Final = 10 * 366 * 24 * 60


def _number_as_text(value: object) -> object:
    # The field is text, so that its schema has one type; many a model writes the number all the
    # same.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _some_minutes(value: float) -> float:
    # Not in the schema: not every provider knows all of JSON Schema's words.
    if not 0 < value <= _MOST_MINUTES:
        msg = "must be more than 0, and at most ten years"
        raise ValueError(msg)
    return value


class ScheduleArguments(Arguments):
    """Arguments of `schedule`; what a job of these may hold is checked as in a file of its own."""

    action: Literal["create", "list", "cancel"]
    at: str | None = Field(
        default=None, description="2026-12-01T08:30, tomorrow 9:00, monday 18:00"
    )
    in_minutes: Annotated[float, AfterValidator(_some_minutes)] | None = None
    every: Annotated[str, BeforeValidator(_number_as_text)] | None = Field(
        default=None, description="15m, 6h, 90 minutes"
    )
    cron: str | None = Field(default=None, description="five fields, or @daily")
    timezone: str | None = Field(default=None, description="of at, cron, end: Europe/Berlin")
    message: str | None = Field(default=None, description="text for the people here, sent as it is")
    task: str | None = Field(
        default=None, description="what you are to do then, with all you need to know"
    )
    label: str | None = None
    isolated: bool = Field(
        default=False, description="task: apart from this conversation; your answer is sent here"
    )
    max_runs: int | None = None
    end: str | None = Field(default=None, description="no run after it; as at")
    process: str | None = Field(
        default=None, description="background process with which the job ends"
    )
    job: str | None = Field(default=None, description="cancel: its id")


def section_of(
    asked: ScheduleArguments, *, agent: str, key: ConversationKey, now: datetime
) -> JobSettings:
    """Return the job that a call asks for; its destination is the conversation `key`.

    Raises:
        ToolFailedError: The call makes no sense; the text names each field that is wrong.
    """
    given = asked.model_dump(exclude_none=True)
    if wrong := "; ".join(_contradictions(asked, given)):
        raise ToolFailedError(wrong)
    fields: dict[str, object] = {
        name: value
        for name, value in given.items()
        if name not in {"action", "in_minutes", "isolated", "job"}
    }
    if asked.in_minutes is not None:
        # Whole seconds, for people to read; never earlier than was asked for.
        later = now + timedelta(minutes=asked.in_minutes, microseconds=999_999)
        fields["at"] = later.replace(microsecond=0).isoformat()
    if asked.isolated:
        fields["session"] = "isolated"
    to = {"channel": key.channel, "chat": key.chat, "topic": key.topic or None}
    try:
        return JobSettings.model_validate({**fields, "agent": agent, "to": to})
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
            for each in found
        )
        raise ToolFailedError(wrong) from error


def check_interval(section: JobSettings, least_s: int) -> None:
    """Check that `least_s` lies between two runs of a job.

    An expression that rarely fires takes some hundredths of a second. What is wrong with the times
    otherwise is for others to say.

    Raises:
        ToolFailedError: Less does.
    """
    found_s: float | None = section.every
    if section.cron is not None:
        # How far two times are from each other does not depend on the zone.
        cron = Cron(expression=section.cron, timezone=section.timezone or "UTC")
        try:
            found_s = rules.minimum_interval_s(cron)
        except ValueError:
            return
    if found_s is not None and found_s < least_s:
        name = "cron" if section.cron is not None else "every"
        msg = f"{name}: at least {interval_text(least_s)} has to lie between two runs of a job"
        raise ToolFailedError(msg)


def _contradictions(asked: ScheduleArguments, given: dict[str, object]) -> Iterator[str]:
    """Yield what is wrong with the fields together."""
    for names, what in ((_TIMES, "when"), (_PAYLOADS, "what")):
        said = [name for name in names if name in given]
        if len(said) != 1:
            count = f"not {' and '.join(said)} together" if said else "none is there"
            yield f"{what}: give exactly one of {', '.join(names)}; {count}"
    if asked.isolated and asked.task is None:
        yield "isolated: is for a task; a message is sent to the people here"
    if asked.job is not None:
        yield "job: is for cancel; a new job gets its id by itself"
