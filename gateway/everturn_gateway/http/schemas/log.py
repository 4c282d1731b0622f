"""The bodies of what the gateway logged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.logs import LogEntry

LevelName: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: Final[Mapping[LevelName, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


class LogRecordBody(Body):
    """One record; secrets are masked, and what is long is cut."""

    number: int = Field(description="Counted from 1 since the gateway started.")
    at: Timestamp
    level: LevelName
    logger: str = Field(description="The part of the program that says it.")
    message: str
    fields: dict[str, JsonValue] = Field(description="What it is about.")
    exception: str = Field(description="The traceback; empty where there is none.")

    @staticmethod
    def of(entry: LogEntry) -> LogRecordBody:
        """Return the body of `entry`."""
        reached: list[LevelName] = [
            name for name, number in LEVELS.items() if number <= entry.level
        ]
        return LogRecordBody(
            number=entry.number,
            at=utc_text(datetime.fromtimestamp(entry.at_s, UTC)),
            level=reached[-1] if reached else "debug",
            logger=entry.logger,
            message=entry.message,
            fields={name: _shown(value) for name, value in entry.fields.items()},
            exception=entry.exception,
        )


class RecentRecords(Body):
    """What was logged last, oldest first."""

    records: tuple[LogRecordBody, ...]
    last: int = Field(description="`after` of the next look: the newest record that was seen.")
    boot: str = Field(description="Names this run of the gateway; another one counts anew.")


def _shown(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
