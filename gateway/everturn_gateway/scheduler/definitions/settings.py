"""A job as it is written: the fields of its YAML, and their way back to a file.

What a single field may be is checked here; what fields say together, and what depends on the time
zone, by `making.job_of`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from everturn_actors.ids import is_session_id
from everturn_actors.json_values import is_object
from everturn_gateway.scheduler.definitions.reading import (
    check_line,
    check_text,
    interval_text,
    read_written,
)
from everturn_gateway.scheduler.definitions.words import (
    EXAMPLES,
    cron_of,
    is_from_now,
    recurring,
    span_s,
)
from everturn_gateway.scheduler.jobs import (
    ISOLATED,
    Made,
    Misfire,
    Where,
)
from everturn_gateway.yaml_files import SettingsModel

JOB_ID_CHARACTERS: Final = 80
_JOB_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9_-]+)*")
_AGENT: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_NAME_CHARACTERS = 256  # of a chat, a topic, a process: platforms give short ones
_LABEL_CHARACTERS = 100
_URL_CHARACTERS = 2048
_YEAR_S = 366 * 86_400
_DAY_S = 86_400


# --- single fields -------------------------------------------------------------------------------


def check_job_id(value: str) -> str:
    """Return the id of a job.

    Raises:
        ValueError: It cannot be one.
    """
    if not _JOB_ID.fullmatch(value) or len(value) > JOB_ID_CHARACTERS:
        msg = (
            "must be lower-case letters, digits, - and _, with dots between them,"
            f" at most {JOB_ID_CHARACTERS} characters"
        )
        raise ValueError(msg)
    return value


def _agent(value: str) -> str:
    if not _AGENT.fullmatch(value):
        msg = "must be the name of an agent: letters, digits and hyphens"
        raise ValueError(msg)
    return value


def _number_as_text(value: object) -> object:
    # Ids of chats look like numbers, and JSON has them as such.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _name(value: str) -> str:
    return check_line(value, _NAME_CHARACTERS)


def _label(value: str) -> str:
    return check_line(value, _LABEL_CHARACTERS)


def _channel(value: str) -> str:
    value = check_line(value, _NAME_CHARACTERS)
    if value == ISOLATED:
        msg = f"{ISOLATED} is where tasks run by themselves: nobody is there"
        raise ValueError(msg)
    return value


def _session_id(value: str) -> str:
    if not is_session_id(value):
        msg = "is not the id of a session; `everturn sessions list` shows them"
        raise ValueError(msg)
    return value


def _webhook(value: str) -> str:
    """Return an address; what is wrong is said without it, for it may hold a secret."""
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        has_user = parts.username is not None or parts.password is not None
    except ValueError:
        is_valid = has_user = False
    if has_user:
        msg = "must not hold a user name or a password"
        raise ValueError(msg)
    if not is_valid or len(value) > _URL_CHARACTERS or not value.isprintable() or " " in value:
        msg = "must be an address that starts with https:// or http://"
        raise ValueError(msg)
    return value


def _date_as_text(value: object) -> object:
    # What YAML and Python programs make of an unquoted date.
    return value.isoformat() if isinstance(value, datetime | date) else value


def _timestamp(value: str) -> str:
    value = value.strip()
    read_written(value)
    return value


def _when(value: str) -> str:
    """Return a date with a time, or words for one; words are for who makes a job."""
    value = value.strip()
    if not is_from_now(value):
        try:
            read_written(value)
        except ValueError as error:
            told = str(error).replace("it like 2026-12-01T08:30", f"it like {EXAMPLES}")
            raise ValueError(told) from None
    return value


JobId = Annotated[
    str,
    AfterValidator(check_job_id),
    Field(
        json_schema_extra={"pattern": f"^{_JOB_ID.pattern}$", "maxLength": JOB_ID_CHARACTERS},
    ),
]
_Agent = Annotated[str, AfterValidator(_agent)]
_Name = Annotated[
    str, BeforeValidator(_number_as_text, json_schema_input_type=str | int), AfterValidator(_name)
]
_Timestamp = Annotated[
    str, BeforeValidator(_date_as_text, json_schema_input_type=str), AfterValidator(_timestamp)
]
_When = Annotated[
    str, BeforeValidator(_date_as_text, json_schema_input_type=str), AfterValidator(_when)
]
_Cron = Annotated[str, AfterValidator(_label), AfterValidator(cron_of)]
Interval = Annotated[int, BeforeValidator(span_s, json_schema_input_type=int | str)]
_Text = Annotated[str, AfterValidator(check_text)]

# --- the sections --------------------------------------------------------------------------------


class ToSettings(SettingsModel):
    """Who is told: a chat, a session, or a webhook."""

    channel: Annotated[str, AfterValidator(_channel)] | None = None
    "The name of a channel, as everturn.yaml has it; with chat."
    chat: _Name | None = None
    topic: _Name | None = None
    "The thread or topic in the chat."
    session: Annotated[str, AfterValidator(_session_id)] | None = None
    "The id of a session."
    webhook: Annotated[str, AfterValidator(_webhook)] | None = Field(default=None, repr=False)
    "An address that takes the result by HTTP POST."


class RetriesSettings(SettingsModel):
    """What follows a run that failed."""

    max: Annotated[int, Field(ge=0, le=10)] = 3
    "Tries after the first one."
    backoff_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    "Before the second try; doubled with each, up to an hour."


class ConversationSettings(SettingsModel):
    """A conversation, by its key."""

    channel: str
    chat: Annotated[str, BeforeValidator(_number_as_text)]
    topic: Annotated[str, BeforeValidator(_number_as_text)] = ""
    agent: str


class MadeSettings(SettingsModel):
    """Who made the job; only in files that Everturn wrote."""

    by: Literal["tool", "cli", "http"]
    at: _Timestamp | None = None
    conversation: ConversationSettings | None = None
    "The conversation in which it was made."
    untrusted: bool = False
    "Whether what it was made of came from outside."
    principal: str = ""
    "Whose job it is; left out = whoever runs the gateway."


class JobFields(SettingsModel):
    """What every job has, wherever it stands."""

    label: Annotated[str, AfterValidator(_label)] | None = None
    "What people call it; by default its id."
    at: _When | None = None
    "Once: 2026-12-01T08:30, in the zone of timezone, or with an offset from UTC behind it."
    every: Interval | None = None
    "Again and again, after so many seconds; also 15m, 90 minutes, 1d."
    cron: _Cron | None = None
    "By the clock: minute, hour, day of the month, month, day of the week; or @daily."
    timezone: str | None = None
    "Like Europe/Berlin; by default schedules.timezone of everturn.yaml."
    message: _Text | None = None
    "A text that is sent as it stands; no model is called."
    task: _Text | None = None
    "A text that the agent acts on; what it answers is sent."
    to: ToSettings | None = None
    "Who is told; a task may leave it out."
    session: Where | None = None
    "Where a task runs; by default in the conversation that `to` names, or else isolated."
    misfire: Misfire = "run_once"
    "What becomes of runs that came due while nothing could run."
    grace_seconds: Annotated[int, Field(ge=0, le=_YEAR_S)] | None = None
    "Later than this a run does not run; by default a day, with misfire skip 10 seconds."
    jitter_seconds: Annotated[int, Field(ge=0, le=_DAY_S)] = 0
    "Up to so much later it runs, always the same for the same run."
    start: _When | None = None
    "Nothing runs before; written as `at` is."
    end: _When | None = None
    "Nothing runs after; written as `at` is."
    max_runs: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    "It is over after so many runs."
    paused: bool = False
    retries: RetriesSettings = RetriesSettings()
    process: Annotated[str, AfterValidator(_name)] | None = None
    "The background process that it is tied to: it is over when that ends."

    @model_validator(mode="before")
    @classmethod
    def _recurring(cls, data: object) -> object:
        """Take `at: every 90 minutes` and `at: @daily` for what they mean."""
        if not is_object(data) or not isinstance(at := data.get("at"), str):
            return data
        if data.get("every") is not None or data.get("cron") is not None:
            return data
        found = recurring(at)
        if found is None:
            return data
        rest = {name: value for name, value in data.items() if name != "at"}
        return rest | ({"every": found.every} if found.every else {"cron": found.cron})


class JobSettings(JobFields):
    """A job of a file of its own, or as it is asked for."""

    id: JobId | None = None
    "By default the name of its file."
    agent: _Agent | None = None
    "Whose job it is."
    made: MadeSettings | None = None


# --- from a section to what is written -----------------------------------------------------------


def section_data(section: JobFields) -> dict[str, object]:
    """Return what a section says as plain data, in the order of its fields: only what is set."""
    data = section.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if section.every is not None:
        data["every"] = interval_text(section.every)
    first = ("id", "agent")
    return {name: data[name] for name in (*first, *data) if name in data}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text_node(_dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Where a block cannot hold the text, it is written in quotes all the same.
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text_node)


def section_text(section: JobFields) -> str:
    """Return a section as the YAML that people would write."""
    return yaml.dump(
        section_data(section),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=float("inf"),
    )


def made_section(made: Made) -> MadeSettings:
    """Return what a file says of who made its job.

    Raises:
        ValueError: It was not made by one of those that write files.
    """
    if made.by not in {"tool", "cli", "http"}:
        msg = f"jobs made by {made.by} have no file of their own"
        raise ValueError(msg)
    fields: dict[str, object] = {"by": made.by}
    if made.at is not None:
        fields["at"] = made.at.astimezone(UTC).isoformat()
    if made.key is not None:
        key = made.key
        fields["conversation"] = {
            name: value
            for name, value in (
                ("channel", key.channel),
                ("chat", key.chat),
                ("topic", key.topic),
                ("agent", key.agent),
            )
            if value
        }
    if made.untrusted:
        fields["untrusted"] = True
    if made.principal:
        fields["principal"] = made.principal
    return MadeSettings.model_validate(fields)
