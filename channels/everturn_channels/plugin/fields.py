"""Reads the fields of a JSON object, strictly: a wrong one is named. Pure."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar, cast

from everturn_channels.errors import ChannelError

ID_MOST: Final = 256  # characters of an id, a name, a short word

_Word = TypeVar("_Word", bound=str)


class BadFieldError(ChannelError):
    """A field cannot be used.

    Attributes:
        field: Its name, with those of the objects around it: `chat.id`.
        why: What is wrong with it.
    """

    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


class Fields:
    """The fields of one object. All methods raise BadFieldError.

    A field that is null counts as absent. One without a default has to be there.
    """

    def __init__(self, found: Mapping[str, object], where: str = "") -> None:
        self._found, self._where = found, where

    def text(self, name: str, default: str | None = None, *, most: int = ID_MOST) -> str:
        """Return a text of at most so many characters; without a default it is not empty."""
        value = self._value(name, required=default is None)
        if value is None:
            return default or ""
        if not isinstance(value, str):
            raise self.wrong(name, "has to be a text")
        if not value and default is None:
            raise self.wrong(name, "must not be empty")
        if len(value) > most:
            raise self.wrong(name, f"has {len(value):,} characters; {most:,} are the most")
        return _whole(value)

    def words(self, name: str, most: int) -> str:
        """Return an explanation in one line, shortened where it is long; empty where absent."""
        value = self._value(name, required=False)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "has to be a text")
        words = " ".join(_whole(value or "").split())
        return words if len(words) <= most else f"{words[: most - 1]}…"

    def number(self, name: str, default: int | None = None, *, least: int, most: int) -> int:
        """Return a whole number."""
        value = self._value(name, required=default is None)
        if value is None:
            return default or 0
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, "has to be a whole number")
        if not least <= value <= most:
            raise self.wrong(name, f"has to be from {least:,} to {most:,}")
        return value

    def seconds(self, name: str, default: float | None, *, most: float) -> float | None:
        """Return a time in seconds, 0 or more."""
        value = self._value(name, required=False)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "has to be a number of seconds")
        if not math.isfinite(value) or not 0 <= value <= most:
            raise self.wrong(name, f"has to be from 0 to {most:,}")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return true or false; false where absent."""
        value = self._value(name, required=False)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "has to be true or false")
        return bool(value)

    def one_of(self, name: str, allowed: tuple[_Word, ...], default: _Word | None = None) -> _Word:
        """Return one of some words."""
        value = self._value(name, required=default is None)
        if value is None and default is not None:
            return default
        for word in allowed:
            if word == value:
                return word
        raise self.wrong(name, f"has to be one of {', '.join(allowed)}")

    def instant(self, name: str, default: datetime) -> datetime:
        """Return a moment, in UTC."""
        value = self._value(name, required=False)
        if value is None:
            return default
        why = "has to be a time with its zone, as 2026-11-05T12:30:00Z"
        if not isinstance(value, str):
            raise self.wrong(name, why)
        try:
            read = datetime.fromisoformat(value)
            found = read.astimezone(UTC) if read.tzinfo else None
        except (ValueError, OverflowError) as error:
            raise self.wrong(name, why) from error
        if found is None:
            raise self.wrong(name, why)
        return found

    def data(self, name: str, most: int) -> bytes | None:
        """Return bytes that stand there as base64; None where absent."""
        value = self._value(name, required=False)
        if value is None:
            return None
        try:
            if not isinstance(value, str):
                raise self.wrong(name, "has to be a text")
            found = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.wrong(name, "has to be base64") from error
        if len(found) > most:
            raise self.wrong(name, f"holds {len(found):,} bytes; {most:,} are the most")
        return found

    def part(self, name: str, *, required: bool = True) -> Fields:
        """Return an object inside this one; an empty one where it is absent."""
        value = self._value(name, required=required)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "has to be an object")
        return Fields(cast("dict[str, object]", value or {}), f"{self._where}{name}.")

    def parts(self, name: str, most: int) -> tuple[Fields, ...]:
        """Return a list of objects; none where it is absent."""
        found: list[Fields] = []
        for number, value in enumerate(self._list(name, most)):
            which = f"{name}[{number}]"
            if not isinstance(value, dict):
                raise self.wrong(which, "has to be an object")
            found.append(Fields(cast("dict[str, object]", value), f"{self._where}{which}."))
        return tuple(found)

    def lines(self, name: str, most: int, *, long: int) -> tuple[str, ...]:
        """Return a list of texts, each in one line and shortened; none where it is absent."""
        listed = self._list(name, most)
        items = Fields({f"{name}[{at}]": value for at, value in enumerate(listed)}, self._where)
        return tuple(items.words(f"{name}[{at}]", long) for at in range(len(listed)))

    def wrong(self, name: str, why: str) -> BadFieldError:
        """Return the error that names a field."""
        return BadFieldError(f"{self._where}{name}", why)

    def _list(self, name: str, most: int) -> list[object]:
        value = self._value(name, required=False)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, "has to be a list")
        found = cast("list[object]", value)
        if len(found) > most:
            raise self.wrong(name, f"has {len(found):,} entries; {most:,} are the most")
        return found

    def _value(self, name: str, *, required: bool) -> object:
        value = self._found.get(name)
        if value is None and required:
            raise self.wrong(name, "is missing")
        return value


def _whole(text: str) -> str:
    """Return a text without halves of characters, which JSON can hold and files cannot."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
