"""Kinds of values that fields of many sections hold."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME_CHARACTERS = 64

Count: TypeAlias = Annotated[int, Field(ge=1)]
Amount: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Percent: TypeAlias = Annotated[int, Field(ge=1, le=100)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


Text = Annotated[str, AfterValidator(_some), Field(json_schema_extra={"minLength": 1})]


def _path(value: str, *, what: str) -> str:
    """Return the path of `what`, a file or a folder, as it may be written in a YAML file.

    Raises:
        ValueError: It is none, or begins with a `~`.
    """
    if not value.strip():
        msg = f"must name {what}"
        raise ValueError(msg)
    if value.startswith("~"):
        msg = "~ is not expanded here; write ${HOME}"
        raise ValueError(msg)
    return value


FilePath = Annotated[str, AfterValidator(partial(_path, what="a file"))]
FolderPath = Annotated[str, AfterValidator(partial(_path, what="a folder"))]


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        msg = "must be an address that starts with http:// or https://"
        raise ValueError(msg)
    return value


Address = Annotated[str, AfterValidator(_address)]


def _agent_name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > _NAME_CHARACTERS:
        msg = f"must be letters, digits and hyphens between them, at most {_NAME_CHARACTERS}"
        raise ValueError(msg)
    return value


AgentName = Annotated[
    str,
    AfterValidator(_agent_name),
    Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$", "maxLength": _NAME_CHARACTERS}),
]
