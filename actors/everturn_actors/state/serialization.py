"""Events as plain dicts, for whoever writes them down or sends them: the journal, HTTP. Pure.

A record is `{"seq": 1, "at": "2026-11-21T22:49:56.123456Z", "type": "received", ...}`; fields that
hold their default are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Body, Event

FORMAT_VERSION = 2
"""How a record is to be read: the names of its head, its times, what a left out field means.

New types and new fields leave it as it is. A version that does not know one stops at the event that
has it, names it and says what to do, which tells more than a number could; and a log in which none
of them stands can still be read by the version before.
"""

_WAY_OUT = "use the version that wrote it, or a later one"
_T = TypeVar("_T")
_Read: TypeAlias = Callable[[str, Any], object]
"Makes a value of what stands in a record; the name is that of its place, for errors."
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
    return in_utc(instant).isoformat(timespec="microseconds")[:-6] + "Z"


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
    found = ((f, getattr(value, f.name)) for f in fields(value))
    return {f.name: _plain(each) for f, each in found if each or each != f.default}


def from_record(record: Mapping[str, Any]) -> Event:
    """Return the event of a record; the inverse of `to_record`.

    Raises:
        UnknownFormatError: A type or field that this version does not know, or a value of the
            wrong kind.
    """
    data = dict(record)
    try:
        seq, at, kind = data.pop("seq"), data.pop("at"), data.pop("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            msg = (
                f"event {seq} has the type {kind!r}, which this version (event format "
                f"{FORMAT_VERSION}) does not know; {_WAY_OUT}"
            )
            raise UnknownFormatError(msg)
        body = cast("Body", read("", data))
        _check_kinds("", {"seq": seq, "at": at}, _HEAD)
        return Event(seq=seq, at=_instant(at), body=body)
    except KeyError as error:
        raise _unreadable(record, f"it has no {error.args[0]}") from error
    except (TypeError, ValueError) as error:
        raise _unreadable(record, str(error)) from error


def _unreadable(record: Mapping[str, Any], why: str) -> UnknownFormatError:
    return UnknownFormatError(
        f"event {record.get('seq')} cannot be read by event format {FORMAT_VERSION}: {why}"
    )


def _check_kinds(where: str, data: Mapping[str, object], kinds: Mapping[str, type]) -> None:
    for name, value in data.items():
        if type(value) is not kinds[name]:
            raise _wrong_kind(_within(where, name), value, kinds[name])


def _wrong_kind(name: str, value: object, kind: type) -> TypeError:
    return TypeError(f"{name or 'it'} must be {kind.__name__}, not {type(value).__name__}")


def _within(where: str, name: str) -> str:
    """Return the name of a field as errors give it: `usage.input_tokens`."""
    return f"{where}.{name}" if where else name


def _item(where: str, index: int) -> str:
    return f"{where}[{index}]"


def _instant(text: str) -> datetime:
    return in_utc(datetime.fromisoformat(text))


def in_utc(instant: datetime) -> datetime:
    """Return an instant that was read in UTC.

    Raises:
        ValueError: It names no time zone, or lies outside the years that there are in UTC.
    """
    if instant.tzinfo is UTC:
        return instant
    if instant.tzinfo is None:
        msg = f"{instant} names no time zone"
        raise ValueError(msg)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        msg = f"{instant} is no time in UTC"
        raise ValueError(msg) from error


def _kind(hint: object) -> type:
    """Return what a value of this type is in Python, once it is read."""
    origin = get_origin(hint)
    return cast("type", str if origin is Literal else origin or hint)


def _reader(hint: object) -> _Read | None:
    """Return what reads a value of this type; None where it is taken as it stands."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple:
        return _tuple_of(arguments[0])
    return _value_of(hint) if isinstance(hint, type) and is_dataclass(hint) else None


def _one_of(allowed: tuple[str, ...]) -> _Read:
    def read(name: str, value: object) -> object:
        if value not in allowed:
            msg = f"{name} is {value!r}, which is none of {', '.join(allowed)}"
            raise ValueError(msg)
        return value

    return read


def _tuple_of(hint: object) -> _Read:
    read_item, kind = _reader(hint), _kind(hint)

    def read(name: str, value: Any) -> object:  # noqa: ANN401 - whatever stands in the record
        if type(value) is not list:
            raise _wrong_kind(name, value, list)
        items = enumerate(cast("list[object]", value))
        if read_item is not None:
            return tuple([read_item(_item(name, index), item) for index, item in items])
        for index, item in items:
            if type(item) is not kind:
                raise _wrong_kind(_item(name, index), item, kind)
        return tuple(cast("list[object]", value))

    return read


def _value_of(cls: type) -> _Read:
    """Return what reads the fields of a value; those that are left out hold their default."""
    own = {field.name for field in fields(cls) if field.init}
    hints = {name: hint for name, hint in get_type_hints(cls).items() if name in own}
    nested = [(name, reader) for name, hint in hints.items() if (reader := _reader(hint))]
    kinds = {name: _kind(hint) for name, hint in hints.items()}

    def read(name: str, value: Any) -> object:  # noqa: ANN401 - whatever stands in the record
        if type(value) is not dict:
            raise _wrong_kind(name, value, dict)
        data = cast("dict[str, Any]", {**value} if nested else value)
        for part, reader in nested:
            if part in data:
                data[part] = reader(_within(name, part), data[part])
        try:
            found = cls(**data)
        except TypeError as error:
            raise _misfit(cls, name, data) from error
        _check_kinds(name, data, kinds)
        return cast("object", found)

    return read


def _misfit(cls: type, where: str, data: Mapping[str, Any]) -> ValueError:
    """Return the error of a record whose fields are not those of `cls`."""
    known = {
        f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls) if f.init
    }
    for name in data:
        if name not in known:
            why = f"{_within(where, name)} is a field that this version does not know; {_WAY_OUT}"
            return ValueError(why)
    missing = next(name for name, is_needed in known.items() if is_needed and name not in data)
    return ValueError(f"it has no {_within(where, missing)}")


_READERS = {name: _value_of(cls) for name, cls in _TYPES.items()}
_VALUES: dict[type, _Read] = {}


def read_value(cls: type[_T], data: object) -> _T:
    """Return the value whose fields stand in `data`, a dict; those left out hold their default.

    All are checked, those of values inside it as well: what the types of `cls` do not allow is
    refused. Fields that are no JSON (times) are taken as they are, if they are of that kind.

    Raises:
        TypeError: It is no dict, or a field is of another kind.
        ValueError: A field is missing, unknown, or none of those it may be.
    """
    read = _VALUES.get(cls)
    if read is None:
        read = _VALUES[cls] = _value_of(cls)
    return cast("_T", read("", data))
