"""Events as plain dicts, for whoever writes them down or sends them: the journal, HTTP. Pure.

A record is `{"seq": 1, "at": "2026-11-21T22:49:56.123456Z", "type": "received", ...}`; fields that
hold their default are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Body, Event
from everturn_actors.model import ConversationKey, ToolCall, Usage

FORMAT_VERSION = 1

_Build: TypeAlias = Callable[[str, Any], object]
"Builds the value of a field from its name and what stands in the record."
_HEAD: dict[str, type] = {"seq": int, "at": str}


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


_TYPES: dict[str, type[Body]] = {_snake(cls.__name__): cls for cls in get_args(Body)}
_NAMES = {cls: name for name, cls in _TYPES.items()}
_FIELDS = {
    cls: tuple((f.name, f.default if f.default is not MISSING else _TYPES) for f in fields(cls))
    for cls in _TYPES.values()
}


def utc_text(instant: datetime) -> str:
    """Write an aware instant in UTC with microseconds: `2026-11-21T22:49:56.123456Z`."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def type_name(body: Body) -> str:
    """Return the name of an event's type, as it stands in a record: `received`."""
    return _NAMES[type(body)]


def to_record(event: Event) -> dict[str, Any]:
    """Return `event` as a dict of JSON values."""
    body = event.body
    record: dict[str, Any] = {
        "seq": event.seq,
        "at": utc_text(event.at),
        "type": _NAMES[type(body)],
    }
    for name, default in _FIELDS[type(body)]:
        value = getattr(body, name)
        if value != default:
            record[name] = _plain(value)
    return record


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field of any event
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return {f.name: getattr(value, f.name) for f in fields(value)}


def from_record(record: Mapping[str, Any]) -> Event:
    """Return the event of a record; the inverse of `to_record`.

    Raises:
        UnknownFormatError: A type or field that this version does not know, or a value of the
            wrong kind.
    """
    data = dict(record)
    try:
        seq, at, kind = data.pop("seq"), data.pop("at"), data.pop("type")
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            msg = (
                f"event {seq} has the type {kind!r}, which this version (event format "
                f"{FORMAT_VERSION}) does not know; use the version that wrote it, or a later one"
            )
            raise UnknownFormatError(msg)
        cls, nested, kinds = reader
        for name, build in nested:
            if name in data:
                data[name] = build(name, data[name])
        body = cls(**data)
        _check_kinds(data, kinds)
        _check_kinds({"seq": seq, "at": at}, _HEAD)
        return Event(seq=seq, at=_instant(at), body=body)
    except KeyError as error:
        msg = (
            f"event {record.get('seq')} cannot be read by event format {FORMAT_VERSION}:"
            f" it has no {error.args[0]}"
        )
        raise UnknownFormatError(msg) from error
    except (TypeError, ValueError) as error:
        msg = f"event {record.get('seq')} cannot be read by event format {FORMAT_VERSION}: {error}"
        raise UnknownFormatError(msg) from error


def _check_kinds(data: Mapping[str, object], kinds: Mapping[str, type]) -> None:
    for name, value in data.items():
        if type(value) is not kinds[name]:
            msg = f"{name} must be {kinds[name].__name__}, not {type(value).__name__}"
            raise TypeError(msg)


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        msg = f"{text!r} names no time zone"
        raise ValueError(msg)
    return instant


def _one_of(hint: object) -> _Build:
    allowed = get_args(hint)

    def build(name: str, value: object) -> object:
        if value not in allowed:
            msg = f"{name} is {value!r}, which is none of {', '.join(allowed)}"
            raise ValueError(msg)
        return value

    return build


def _value_of(cls: type) -> _Build:
    kinds = get_type_hints(cls)

    def build(name: str, value: Any) -> object:  # noqa: ANN401 - whatever stands in the record
        _check_kinds({name: value}, {name: dict})
        found = cls(**value)
        _check_kinds(value, kinds)
        return found

    return build


def _tuple_of(build_item: _Build) -> _Build:
    def build(name: str, value: Any) -> object:  # noqa: ANN401 - whatever stands in the record
        _check_kinds({name: value}, {name: list})
        return tuple([build_item(name, item) for item in value])

    return build


def _whole(name: str, value: object) -> object:
    _check_kinds({name: value}, {name: int})
    return value


_NESTED: dict[str, _Build] = {
    "key": _value_of(ConversationKey),
    "usage": _value_of(Usage),
    "calls": _tuple_of(_value_of(ToolCall)),
    "received": _tuple_of(_whole),
}


def _reader(cls: type[Body]) -> tuple[type[Body], tuple[tuple[str, _Build], ...], dict[str, type]]:
    """Return the class, the fields that are more than a plain value, and the kind of each field."""
    hints = {name: (hint, get_origin(hint)) for name, hint in get_type_hints(cls).items()}
    nested = [(name, _NESTED[name]) for name in hints if name in _NESTED]
    nested += [(name, _one_of(hint)) for name, (hint, kind) in hints.items() if kind is Literal]
    kinds = {name: str if kind is Literal else kind or hint for name, (hint, kind) in hints.items()}
    return cls, tuple(nested), kinds


_READERS = {name: _reader(cls) for name, cls in _TYPES.items()}
