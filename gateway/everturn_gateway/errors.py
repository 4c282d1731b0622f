"""Errors of the gateway. All of them are for the operator to act on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct


def printable(text: str) -> str:
    """Return a text with what is not printed, or not of Unicode, as escapes; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong in a file, and where."""

    file: Path
    line: int = 0
    "Counted from 1; 0 where the fault belongs to the whole file."
    field: str = ""
    "Dotted name with list positions, `spec.tools[0].name`; empty where no field is at fault."
    message: str

    @property
    def shown_file(self) -> str:
        """The path as a line of text: names of files need not be text, nor of one line."""
        return printable(str(self.file)).replace("\n", "\\n")

    def __str__(self) -> str:
        place = f"{self.shown_file}:{self.line}" if self.line else self.shown_file
        parts = (place, printable(self.field), printable(self.message))
        return ": ".join(part for part in parts if part)


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


class UnreadableNowError(ConfigError):
    """A file cannot be read for a reason that is not its own, and may be read another time."""
