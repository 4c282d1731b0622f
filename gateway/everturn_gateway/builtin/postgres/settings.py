"""What `everturn.yaml` says of a database. Imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from everturn_gateway.plugins import StoreSettings

_SCHEMES: Final = ("postgres://", "postgresql://")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresSettings(StoreSettings):
    """`store` of `everturn.yaml` where its type is `postgres`."""

    url: str = Field(repr=False)
    """Address of the database: `postgresql://user:password@host:5432/name`, best as
    `${EVERTURN_DATABASE_URL}`. What follows a `?` is libpq's: `sslmode=verify-full`,
    `target_session_attrs=read-write`; several hosts are separated by commas."""
    table_schema: str = Field(default="everturn", alias="schema")
    "Schema of the tables; it is made where it is missing. Several gateways share a database by it."
    connections: int = Field(default=8, ge=2, le=100)
    """Connections for reading, at most; one more writes, and one keeps other gateways out."""
    outage_s: float = Field(default=30.0, gt=0, le=600)
    """How long an answer waits for a database that is away, in seconds; then it is refused. At a
    node of several at most 6: another one may reach it."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not url:
            message = "is empty; is the variable set that it names?"
            raise ValueError(message)
        if not url.startswith(_SCHEMES):
            message = "must begin with postgresql:// and name a host: postgresql://user@host/name"
            raise ValueError(message)
        return url

    @field_validator("table_schema")
    @classmethod
    def _check_schema(cls, name: str) -> str:
        if not _SCHEMA.fullmatch(name) or name.startswith("pg_"):
            message = "must be small letters, digits and _, and not begin with a digit or pg_"
            raise ValueError(message)
        return name


def secrets(section: PostgresSettings) -> Iterator[str]:
    """Yield what nothing that people read may show: the whole address, and its password."""
    yield section.url
    try:
        password = urlsplit(section.url).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
