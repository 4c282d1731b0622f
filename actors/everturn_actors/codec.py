"""Values to JSON and back: the one codec for all that is written down or sent. Pure.

What a codec reads and writes is said by a type alone: a `Value`, or a union of those that are told
apart by a tag. Fields that hold their default are left out. Whatever the
type does not allow is refused with the path of the field.

A new field needs a default: what was written before it is read as before, and a version that does
not know it stops at the first value that holds it, by name.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Annotated, Generic, TypeAlias, TypeVar, cast

import msgspec

T = TypeVar("T")

WAY_OUT = "use the version that wrote it, or a later one"
_PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_ENCODER = msgspec.json.Encoder()
_WORD = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)


Timestamp: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"A moment with its time zone."
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"A number of things, or the number of one; what every reader of JSON can hold."


class Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """A value that never changes; `msgspec.structs.replace` makes another one of it.

    It is made, compared, written and read in C (docs/decisions/0036-one-codec-over-structs.md). The
    garbage collector passes over it: what it is made of was there before it, so that none can ever
    hold itself.
    """


def snake(name: str) -> str:
    """Return the tag of a struct for the name of its class.

    >>> snake("TurnStarted")
    'turn_started'
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class CodecError(ValueError):
    """What was read is not what its type allows; the text names the field.

    Attributes:
        path: Of the field: `usage.input_tokens`, `steps[2].reply`; empty = all of it.
        why: What is wrong with it: `must be int, not str`.
        is_json: Whether it is JSON at all.
    """

    def __init__(self, why: str, path: str = "", *, is_json: bool = True) -> None:
        self.path, self.why, self.is_json = path, why, is_json
        super().__init__(f"{path or 'it'} {why}")


def encode(value: object) -> bytes:
    """Return `value` as compact JSON.

    Text with halves of characters (a model may send them), which UTF-8 cannot hold, is written
    with JSON's escapes.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain: object = msgspec.to_builtins(value)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def dump(value: object) -> dict[str, object]:
    """Return a struct as a dict of JSON values: what its JSON holds."""
    try:
        return cast("dict[str, object]", msgspec.json.decode(_ENCODER.encode(value)))
    except UnicodeEncodeError:
        return cast("dict[str, object]", json.loads(encode(value)))


class Codec(Generic[T]):
    """Reads values of one type. Safe to use in any thread."""

    def __init__(self, kind: object) -> None:
        """Prepare it for `kind`: `Codec[Reply](Reply)`, `Codec[Body](Body)` for a union."""
        self._kind = kind
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def decode(self, data: bytes) -> T:
        """Return the value that JSON holds.

        Raises:
            CodecError: It is no JSON, or none of this type.
        """
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError as error:
            raise _explained(str(error)) from error
        except _UNREADABLE as error:
            if b"\\u" in data:  # perhaps half a character, which only the slow way reads
                return self.load(load_json(data))
            raise _no_json(error) from error

    def load(self, found: object) -> T:
        """Return the value that dicts, lists and plain values hold, as JSON or YAML gives them.

        Raises:
            CodecError: It is none of this type.
        """
        try:
            return cast("T", msgspec.convert(found, type=self._kind, str_keys=True))
        except msgspec.ValidationError as error:
            raise _explained(str(error)) from error
        except UnicodeEncodeError as error:  # of msgspec's own, in its text about a wrong value
            msg = "holds half a character where only certain words may stand"
            raise CodecError(msg) from error


def load_json(data: bytes) -> object:
    """Return what JSON holds, with escaped halves of characters where they stand there.

    Raises:
        CodecError: It is no JSON.
    """
    try:
        return cast("object", msgspec.json.decode(data))
    except _UNREADABLE as error:
        if b"\\u" not in data:
            raise _no_json(error) from error
    try:
        return cast("object", json.loads(data))
    except (ValueError, RecursionError) as error:
        raise _no_json(error) from error


def _no_json(error: Exception) -> CodecError:
    return CodecError(f"is no JSON: {error}", is_json=False)


def _explained(told: str) -> CodecError:
    """Return the error of what msgspec tells, with the name of the field in front."""
    found = _PLACE.search(told)
    path = found[1] if found else ""
    why = told[: found.start()] if found else told
    if at_field := _FIELD.fullmatch(why):
        path = f"{path}.{at_field[2]}" if path else at_field[2]
        if at_field[1] == "missing required":
            return CodecError("is missing", path)
        return CodecError(f"is a field that this version does not know; {WAY_OUT}", path)
    if of_word := _WORD.fullmatch(why):
        return CodecError(f"is {of_word[1]}, which is none of those it may be", path)
    if why.startswith("Expected "):
        why = why.removeprefix("Expected ").replace(", got ", ", not ").replace("`", "")
        return CodecError(f"must be {why}", path)
    return CodecError(f"cannot stand: {why}", path)
