"""The fields of a form: read from a server's schema, asked, and their answers read. Pure.

A form of the protocol is flat: texts, numbers, yes or no, and choices. What a server checks by a
pattern it checks itself: an expression of a stranger can take for ever.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.json_values import as_object, is_list, is_object
from everturn_channels.names import one_line
from everturn_gateway.tools.mcp.requests.values import RefusedError

FIELDS_MOST: Final = 20
CHOICES_MOST: Final = 100
BUTTONS_MOST: Final = 20  # of choices; a longer list stands in the text
LABEL_CHARACTERS: Final = 60  # what the button of every platform shows
_TEXT_CHARACTERS: Final = 500  # of what a server says of a field
_NAME_CHARACTERS: Final = 200
DECLINE: Final = "Do not answer"
LEAVE: Final = "Leave it as it is"
NO: Final = "decline"
SKIP: Final = "skip"
_YES, _NO = "Yes", "No"

_FORMS: Final = {
    "email": "an e-mail address",
    "uri": "an address",
    "date": "a date, YYYY-MM-DD",
    "date-time": "a time, as 2026-01-31T09:00:00Z",
}

Kind: TypeAlias = Literal["text", "number", "integer", "choice", "choices"]
Value: TypeAlias = str | int | float | bool | list[str]


class InvalidAnswerError(ValueError):
    """An answer does not fit; the text says what would."""


class Choice(Struct, frozen=True):
    """One of several answers."""

    label: str
    "As people see it; no two of a field are the same."
    value: str | bool


class Field(Struct, frozen=True, kw_only=True):
    """One thing that a server wants to know."""

    name: str
    title: str
    description: str = ""
    kind: Kind
    is_required: bool = False
    choices: tuple[Choice, ...] = ()
    default: Value | None = None
    form: str = ""
    "text: `email`, `uri`, `date` or `date-time`; empty = any."
    least: float | None = None
    "Of a number, of the characters of a text, or of how many are chosen."
    most: float | None = None

    @property
    def takes_text(self) -> bool:
        """Whether more than one of a few choices is an answer."""
        return self.kind != "choice" or len(self.choices) > BUTTONS_MOST

    @property
    def buttons(self) -> tuple[str, ...]:
        """The answers that people choose from; none where a number may be an answer itself."""
        if self.takes_text:
            return ()
        more = (LEAVE,) if self.may_skip else ()
        return (*(each.label for each in self.choices), *more, DECLINE)

    @property
    def may_skip(self) -> bool:
        """Whether it may be left as it is."""
        return not self.is_required or self.default is not None

    @property
    def ways(self) -> str:
        """What else may be written than an answer; empty where buttons say so."""
        as_it_is = f"at “{self.told_default}”" if self.default is not None else "empty"
        skip = f"Write “{SKIP}” to leave it {as_it_is}. " if self.may_skip else ""
        return f"{skip}Write “{NO}” to answer nothing of this." if self.takes_text else ""

    def skips(self, typed: str) -> bool:
        """Whether what somebody typed leaves the field as it is."""
        word = SKIP if self.takes_text else LEAVE.casefold()
        return self.may_skip and typed.strip().casefold() == word

    def declines(self, typed: str) -> bool:
        """Whether what somebody typed says that they do not answer."""
        return typed.strip().casefold() == (NO if self.takes_text else DECLINE.casefold())

    @property
    def told_default(self) -> str:
        """What holds where it is left as it is, as people see it."""
        given = self.default if isinstance(self.default, list) else [self.default]
        labels: dict[object, str] = {each.value: each.label for each in self.choices}
        return one_line(", ".join(str(labels.get(each, each)) for each in given), LABEL_CHARACTERS)

    @property
    def hint(self) -> str:
        """What kind of answer is wanted, in one sentence; empty where any text is."""
        if self.kind == "choices":
            many = _range(self.least, self.most, "any number")
            return f"Choose {many} of them, by numbers or names with commas."
        if self.kind == "choice":
            return "Answer with a number or a name." if self.takes_text else ""
        if self.kind == "text":
            return f"It has to be {_FORMS[self.form]}." if self.form else ""
        what = "a whole number" if self.kind == "integer" else "a number"
        return f"It has to be {what}{_range(self.least, self.most, '', ', ')}."

    @property
    def listed(self) -> tuple[str, ...]:
        """The choices that are too many for buttons, or of which several are chosen."""
        if not self.choices or not self.takes_text:
            return ()
        return tuple(f"{number}. {each.label}" for number, each in enumerate(self.choices, 1))

    def read(self, typed: str) -> Value:
        """Return the value that somebody typed.

        Raises:
            InvalidAnswerError: It does not fit.
        """
        word = typed.strip()
        if self.kind == "choice":
            return self._chosen(word)
        if self.kind == "choices":
            found = dict.fromkeys(str(self._chosen(each.strip())) for each in word.split(","))
            self._check(len(found), "so many")
            return list(found)
        if self.kind == "text":
            self._check(len(word), "so many characters")
            if not _has_form(word, self.form):
                raise InvalidAnswerError(self.hint)
            return word
        return self._number(word)

    def _number(self, word: str) -> int | float:
        try:
            number = int(word) if self.kind == "integer" else float(word)
        except (ValueError, OverflowError):
            raise InvalidAnswerError(self.hint) from None
        if not math.isfinite(number) or not self._is_within(number):
            raise InvalidAnswerError(self.hint)
        return number

    def _chosen(self, word: str) -> str | bool:
        for each in self.choices:
            if word.casefold() == each.label.casefold():
                return each.value
        if word.isdecimal() and 1 <= int(word) <= len(self.choices):
            return self.choices[int(word) - 1].value
        msg = f"“{one_line(word, LABEL_CHARACTERS)}” is none of them."
        raise InvalidAnswerError(msg)

    def _check(self, size: int, what: str) -> None:
        if not self._is_within(size):
            msg = f"It takes {_range(self.least, self.most, '')}, not {what}: {size:,}."
            raise InvalidAnswerError(msg)

    def _is_within(self, number: float) -> bool:
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )


def read_fields(schema: object) -> tuple[Field, ...]:
    """Return the fields of a form, in their order.

    Raises:
        RefusedError: It is none that a person is asked.
    """
    said = as_object(schema)
    properties = said.get("properties")
    if said.get("type") != "object" or not is_object(properties):
        msg = "its form is no object with properties"
        raise RefusedError(msg)
    if len(properties) > FIELDS_MOST:
        msg = f"its form has {len(properties):,} fields; {FIELDS_MOST} are asked at most"
        raise RefusedError(msg)
    required = said.get("required")
    needed = required if is_list(required) else []
    return tuple(
        _field(name, as_object(each), is_required=name in needed)
        for name, each in properties.items()
    )


def _field(name: str, said: dict[str, object], *, is_required: bool) -> Field:
    if len(name) > _NAME_CHARACTERS:
        msg = f"a field of its form has a name of {len(name):,} characters"
        raise RefusedError(msg)
    kind, choices = _kind(name, said)
    sizes = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}
    least, most = sizes.get(kind, ("minimum", "maximum"))
    form = said.get("format")
    made = Field(
        name=name,
        title=one_line(_text(said.get("title")) or name),
        description=one_line(_text(said.get("description")), _TEXT_CHARACTERS),
        kind=kind,
        is_required=is_required,
        choices=choices,
        form=form if kind == "text" and isinstance(form, str) and form in _FORMS else "",
        least=_number(said.get(least)),
        most=_number(said.get(most)),
    )
    return replace(made, default=_default(said.get("default"), made))


def _kind(name: str, said: dict[str, object]) -> tuple[Kind, tuple[Choice, ...]]:
    match said.get("type"):
        case "boolean":
            return "choice", (Choice(_YES, value=True), Choice(_NO, value=False))
        case "number":
            return "number", ()
        case "integer":
            return "integer", ()
        case "string":
            choices = _choices(name, said)
            return ("choice", choices) if choices else ("text", ())
        case "array":
            choices = _choices(name, as_object(said.get("items")))
            if choices:
                return "choices", choices
        case _:
            pass
    msg = f"the field {one_line(name)!r} of its form is none of text, number, yes or no, or choices"
    raise RefusedError(msg)


def _choices(name: str, said: dict[str, object]) -> tuple[Choice, ...]:
    titled = said.get("oneOf") or said.get("anyOf")
    if is_list(titled):
        pairs = [(as_object(each).get("title"), as_object(each).get("const")) for each in titled]
    else:
        values, names = said.get("enum"), said.get("enumNames")
        known = values if is_list(values) else []
        titles: Sequence[object] = names if is_list(names) and len(names) == len(known) else known
        pairs = list(zip(titles, known, strict=True))
    if len(pairs) > CHOICES_MOST:
        what = f"the field {one_line(name)!r} of its form has {len(pairs):,} choices"
        msg = f"{what}; {CHOICES_MOST} are shown at most"
        raise RefusedError(msg)
    return tuple(_labelled((_text(t) or _text(v), v) for t, v in pairs if isinstance(v, str)))


def _labelled(pairs: Iterable[tuple[str, str]]) -> Iterable[Choice]:
    taken = {DECLINE.casefold(), LEAVE.casefold()}
    for number, (title, value) in enumerate(pairs, 1):
        # A comma stands between two answers.
        label = one_line(title.replace(",", " "), LABEL_CHARACTERS - 5) or f"({number})"
        if label.casefold() in taken:
            label = f"{label} ({number})"
        taken.add(label.casefold())
        yield Choice(label, value)


def _default(said: object, made: Field) -> Value | None:
    """Return what stands in a field at first; None where nothing does, or what does not fit."""
    values = {each.value for each in made.choices}
    match made.kind, said:
        case "choice", str() | bool():
            return said if said in values else None
        case "choices", _ if is_list(said):
            known = [each for each in said if isinstance(each, str) and each in values]
            return known if known and len(known) == len(said) else None
        case "text", str() if said and len(said) <= LABEL_CHARACTERS and said == one_line(said):
            return said
        case "integer", int() if not isinstance(said, bool):
            return said
        case "number", int() | float() if not isinstance(said, bool):
            return said
        case _:
            return None


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""


def _number(said: object) -> float | None:
    if not isinstance(said, int | float) or isinstance(said, bool):
        return None
    return said if math.isfinite(said) else None


def _range(least: float | None, most: float | None, without: str, before: str = "") -> str:
    """Return bounds in words; `without` where there are none."""
    match least, most:
        case None, None:
            return without
        case _, None:
            return f"{before}{least:,.15g} or more"
        case None, _:
            return f"{before}{most:,.15g} at most"
        case _:
            return f"{before}{least:,.15g} to {most:,.15g}"


def _has_form(word: str, form: str) -> bool:
    try:
        match form:
            case "email":
                name, at, host = word.partition("@")
                return bool(name and at and host) and not any(map(str.isspace, word))
            case "uri":
                return bool(urlsplit(word).scheme) and not any(map(str.isspace, word))
            case "date":
                date.fromisoformat(word)
            case "date-time":
                datetime.fromisoformat(word)
            case _:
                pass
    except ValueError:
        return False
    return True
