"""Errors of the gateway. All of them are for the operator to act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong in a file, and where."""

    file: Path
    line: int = 0
    "Counted from 1; 0 where the fault belongs to the whole file."
    field: str = ""
    "Dotted name with list positions, `spec.tools[0].name`; empty where no field is at fault."
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


class GatewayError(Exception):
    """The gateway cannot do what it was asked to."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


class ConfigError(GatewayError):
    """The configuration or an agent is not valid.

    Prints as one line for each fault, `path:line: field: message`.

    Attributes:
        faults: Everything that was found, in the order of files and lines; empty where the
            message says it all.
    """

    def __init__(self, message: str = "", *, faults: Iterable[Fault] = ()) -> None:
        self.faults = tuple(faults)
        super().__init__(message or "\n".join(map(str, self.faults)))
