"""The fields of a snapshot, read one by one and believed of none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast, get_args

from everturn_actors.journal.log.archive import ArchiveRecord, record_of
from everturn_actors.journal.snapshot.turns import EntryError, explain, read_message
from everturn_actors.journal.snapshot.yaml_text import line_of
from everturn_actors.model import ConversationKey, SessionStatus, Usage, UserMessage
from everturn_actors.state.serialization import in_utc, read_value

T = TypeVar("T")


class BadSnapshotError(Exception):
    """A `state.yaml` that cannot be read; the text names the line. Never leaves `journal`."""


class Fields:
    """The fields of a document, each read as what it has to be."""

    def __init__(self, document: Mapping[str, Any], data: bytes) -> None:
        self._document = document
        self._data = data

    def fault(self, name: str, why: str, index: int | None = None) -> BadSnapshotError:
        """Return the error of a field, or of one entry of a section."""
        return BadSnapshotError(f"line {line_of(self._data, name, index)}: {why}")

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field of text."""
        return self._value(name, str, default)

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a number."""
        return self._value(name, int, default)

    def instant(self, name: str) -> datetime:
        """Return a field that is an instant."""
        return self.read(name, instant_of)

    def key(self) -> ConversationKey:
        """Return the conversation."""
        return self.read("conversation", key_of)

    def status(self) -> SessionStatus:
        """Return the status."""
        return self.read("status", status_of)

    def archive(self) -> ArchiveRecord | None:
        """Return what the archive holds; None where nothing was archived."""
        return self.read("archive", record_of) if "archive" in self._document else None

    def usage(self, name: str, default: Usage | None = None) -> Usage:
        """Return a field that is a usage."""
        return self.read(name, lambda value: read_value(Usage, value), default)

    def section(self, name: str, read: Callable[[list[Mapping[str, Any]]], T]) -> T:
        """Return what `read` makes of the lines of a section."""
        lines = self._document[name]
        if not isinstance(lines, list):
            raise self.fault(name, f"{name} must be a list")
        for index, line in enumerate(cast("list[object]", lines)):
            if not isinstance(line, dict):
                raise self.fault(name, f"an entry of {name} must be a mapping", index)
        try:
            return read(cast("list[Mapping[str, Any]]", lines))
        except EntryError as error:
            raise self.fault(name, str(error), error.index) from error

    def _value(self, name: str, kind: type[T], default: T | None = None) -> T:
        value = self._document.get(name, default)
        if value is None:
            raise self.fault(name, f"the field {name!r} is missing")
        if type(value) is not kind:
            why = f"{name} must be {kind.__name__}, not {type(value).__name__}"
            raise self.fault(name, why)
        return value

    def read(self, name: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """Return what `read` makes of a field."""
        if name not in self._document:
            if default is not None:
                return default
            raise self.fault(name, f"the field {name!r} is missing")
        try:
            return read(self._document[name])
        except (KeyError, TypeError, ValueError) as error:
            raise self.fault(name, f"{name}: {explain(error)}") from error


def instant_of(value: object) -> datetime:
    """Read a time: text as it is written, or what YAML makes of it where the quotes are gone."""
    return in_utc(value if isinstance(value, datetime) else datetime.fromisoformat(text_of(value)))


def text_of(value: object) -> str:
    """Return a value that has to be text."""
    if not isinstance(value, str):
        msg = f"{value!r} is no text"
        raise TypeError(msg)
    return value


def key_of(value: object) -> ConversationKey:
    """Return the conversation that a value names."""
    return read_value(ConversationKey, value)


def status_of(value: object) -> SessionStatus:
    """Return the status that a value names."""
    if value not in get_args(SessionStatus):
        msg = f"{value!r} is none of {', '.join(get_args(SessionStatus))}"
        raise ValueError(msg)
    return cast("SessionStatus", value)


def names_of(value: object) -> tuple[str, ...]:
    """Return a value that has to be a list of names."""
    if not isinstance(value, list):
        msg = f"must be a list, not {type(value).__name__}"
        raise TypeError(msg)
    names = cast("list[object]", value)
    if not all(isinstance(name, str) for name in names):
        msg = "must be a list of names"
        raise TypeError(msg)
    return tuple(map(str, names))


def seen_of(lines: list[Mapping[str, Any]]) -> dict[str, int]:
    """Return the idempotency keys that lines hold."""
    seen: dict[str, int] = {}
    for index, line in enumerate(lines):
        key, seq = line.get("key"), line.get("seq")
        if not isinstance(key, str) or type(seq) is not int:
            raise EntryError(index, "an entry of seen has a key (text) and a seq (number)")
        seen[key] = seq
    return seen


def waiting_of(lines: list[Mapping[str, Any]]) -> tuple[UserMessage, ...]:
    """Return the messages that lines hold."""
    messages: list[UserMessage] = []
    for index, line in enumerate(lines):
        try:
            message = read_message(line)
        except (KeyError, TypeError, ValueError) as error:
            raise EntryError(index, explain(error)) from error
        if not isinstance(message, UserMessage):
            raise EntryError(index, "only messages of the user wait")
        messages.append(message)
    return tuple(messages)
