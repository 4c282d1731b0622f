"""What the model asks for, read from the arguments of its call. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import is_object

QUERY_CHARACTERS: Final = 500
_ARGUMENTS: Final = (
    "message",
    "call_id",
    "from",
    "to",
    "file",
    "summary",
    "search",
    "scope",
    "sender",
    "since",
    "until",
    "session",
    "page",
)
Scope: TypeAlias = Literal["session", "person", "agent"]
"Where is searched: here; in all that this person said to the agent; in all that it may read."
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_NUMBER_MAX: Final = 1 << 53


class AskMessage(Struct, frozen=True, kw_only=True):
    """One message, whole."""

    seq: int


class AskCall(Struct, frozen=True, kw_only=True):
    """The newest result of a call."""

    call_id: str


class AskRange(Struct, frozen=True, kw_only=True):
    """What was said between two numbers, both included."""

    first: int
    last: int | None
    "None = to the newest."


class AskFile(Struct, frozen=True, kw_only=True):
    """A text that is kept as a file."""

    name: str


class AskSearch(Struct, frozen=True, kw_only=True):
    """Where words were said."""

    query: str
    "As it was given, without blanks around it."
    scope: Scope = "session"
    sender: str = ""
    "Only what these said."
    since: date | None = None
    until: date | None = None


class AskSummary(Struct, frozen=True, kw_only=True):
    """What a summary stands for."""

    turn: int
    "One that it tells of; of several the first."


class AskOverview(Struct, frozen=True, kw_only=True):
    """What there is."""


Ask: TypeAlias = AskMessage | AskCall | AskRange | AskFile | AskSearch | AskSummary | AskOverview


class Asked(Struct, frozen=True, kw_only=True):
    """One question, and the page of its answer."""

    ask: Ask
    page: int = 1
    session_id: str = ""
    "Another session, of a message or a range; empty = this one."


def read_arguments(arguments: str) -> Asked:
    """Return what a call asks for. What is null or an empty text counts as left out.

    Raises:
        ToolFailedError: It makes no sense; names the argument and says what to do.
    """
    given = _given(arguments)
    page = _number(given, "page") or 1
    found: dict[str, Ask] = {}
    if (seq := _number(given, "message")) is not None:
        found["message"] = AskMessage(seq=seq)
    if (call_id := _text(given, "call_id")) is not None:
        found["call_id"] = AskCall(call_id=call_id)
    if (between := _range(given)) is not None:
        found["from/to"] = between
    if (name := _text(given, "file")) is not None:
        found["file"] = AskFile(name=_file_name(name))
    if (query := _text(given, "search")) is not None:
        found["search"] = AskSearch(
            query=_query(query),
            scope=_scope(_text(given, "scope") or "session"),
            sender=_text(given, "sender") or "",
            since=_day(given, "since"),
            until=_day(given, "until"),
        )
    if (turn := _number(given, "summary")) is not None:
        found["summary"] = AskSummary(turn=turn)
    # Two questions have two answers: which of them was meant is not for us to guess.
    if len(found) > 1:
        msg = f"give one of {_listed(found)}, not all of them"
        raise ToolFailedError(msg)
    ask = next(iter(found.values()), AskOverview())
    for name in ("scope", "sender", "since", "until"):
        # Passed over, the model would take all it gets for what was said by them, or then.
        if name in given and not isinstance(ask, AskSearch):
            msg = f"{name}: goes with search"
            raise ToolFailedError(msg)
    session_id = (_text(given, "session") or "").strip()
    # Files and calls are named within a session; a number alone says which one.
    if session_id and not isinstance(ask, AskMessage | AskRange):
        msg = "session: goes with message, or with from and to"
        raise ToolFailedError(msg)
    return Asked(ask=ask, page=page, session_id=session_id)


def _given(arguments: str) -> Mapping[str, object]:
    try:
        data: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        msg = f"the arguments are no JSON: {error}"
        raise ToolFailedError(msg) from error
    if not is_object(data):
        msg = "the arguments must be a JSON object"
        raise ToolFailedError(msg)
    unknown = [name for name in data if name not in _ARGUMENTS]
    if unknown:
        names = ", ".join(_ARGUMENTS)
        msg = f"there is no argument {unknown[0][:40]!r}; there are: {names}"
        raise ToolFailedError(msg)
    return {name: value for name, value in data.items() if value is not None and value != ""}


def _number(given: Mapping[str, Any], name: str) -> int | None:
    """Return a number from 1, also where it was written as a text."""
    value = given.get(name)
    if value is None:
        return None
    read: Callable[[Any], float] = int if isinstance(value, str) else float
    try:
        number = 0 if isinstance(value, bool | list | dict) else read(value)
    except (ValueError, OverflowError):
        number = 0
    if not 1 <= number <= _NUMBER_MAX or number % 1:  # NaN is not among them either
        msg = f"{name}: must be a whole number from 1 on; leave it out where you do not need it"
        raise ToolFailedError(msg)
    return int(number)


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        msg = f"{name}: must be a text"
        raise ToolFailedError(msg)
    return value


def _range(given: Mapping[str, object]) -> AskRange | None:
    first, last = _number(given, "from"), _number(given, "to")
    if first is None and last is None:
        return None
    # Models swap the two: told so, they turn them round.
    if last is not None and (first or 1) > last:
        msg = f"from: {first} comes after to: {last}"
        raise ToolFailedError(msg)
    return AskRange(first=first or 1, last=last)


_FOLDERS = ("results/", "large_tool_results/")
"How markers may call the place where files are kept."


def _file_name(name: str) -> str:
    short = name.strip()
    for folder in _FOLDERS:
        short = short.removeprefix(folder)
    if not _FILE_NAME.fullmatch(short):
        msg = "file: is no name of a file; give it as a marker or the overview names it"
        raise ToolFailedError(msg)
    return short


def _scope(scope: str) -> Scope:
    if scope in {"session", "person", "agent"}:
        return cast("Scope", scope)
    msg = f"scope: must be one of session, person and agent, not {scope[:40]!r}"
    raise ToolFailedError(msg)


def _day(given: Mapping[str, Any], name: str) -> date | None:
    text = _text(given, name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        msg = f"{name}: must be a day such as 2026-05-07"
        raise ToolFailedError(msg) from error


def _query(query: str) -> str:
    query = query.strip()
    if not query:
        msg = "search: needs a word at least"
        raise ToolFailedError(msg)
    if len(query) > QUERY_CHARACTERS:
        msg = f"search: takes at most {QUERY_CHARACTERS} characters"
        raise ToolFailedError(msg)
    return query


def _listed(names: Mapping[str, object]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"
