"""Logging to stderr, and the one register of secrets that nothing printed may contain."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from itertools import islice
from typing import Final, Literal, TextIO, TypeAlias, cast
from urllib.parse import quote

from msgspec import Struct

LogFormat: TypeAlias = Literal["plain", "json"]
"Lines for people, or one JSON object a line."

RECENT_RECORDS: Final = 1000
_MESSAGE_CHARACTERS: Final = 2000  # that are kept of one of them
_EXCEPTION_CHARACTERS: Final = 8000
_FIELDS_KEPT: Final = 20
_FIELD_CHARACTERS: Final = 500
_MASK = "***"
_SHORTEST_SECRET = 4  # characters; masking shorter ones would blot out ordinary words

# What is secret by its form alone, whether anybody registered it or not.
_FORMS: Final = (
    # A Telegram bot token stands in the path of every call to its API.
    (re.compile(r"\bbot\d+:[\w-]+"), f"bot{_MASK}"),
    (
        re.compile(
            r"\b((?:proxy-)?authorization|x-api-key|api-key)"
            r"([\"']?+\s*+[:=,]\s*+(?:b(?=[\"']))?+[\"']?+)((?:Bearer|Basic)\s++)?+[^\s\"',;)]+",
            re.IGNORECASE,
        ),
        rf"\1\2\3{_MASK}",
    ),
    # Elsewhere only what is too long for the next word of a sentence about bearers.
    (re.compile(r"\b(Bearer)\s+[\w.~+/=-]{12,}", re.IGNORECASE), rf"\1 {_MASK}"),
)


_NOISY: Final = (
    "aiogram",
    "aiohttp",
    "asyncio",
    "discord",
    "httpcore2",
    "httpx2",
    "opentelemetry",
    "urllib3",
    "uvicorn",
    "watchfiles",
)


class SecretRegistry:
    """Knows the secrets of this process, so that they can be taken out of what people read.

    Safe to use from several threads: the pattern is replaced, never changed.
    """

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        """Mask `value` from now on, also where it stands percent-encoded in an address.

        Values of fewer than four characters are left alone.
        """
        if len(value) < _SHORTEST_SECRET or value in self._values:
            return
        self._compile(self._values | {value, quote(value, safe="")})

    def discard(self, value: str) -> None:
        """Mask `value` no more: it opens nothing now, and what is masked has to stay bounded."""
        if value in self._values:
            self._compile(self._values - {value, quote(value, safe="")})

    def _compile(self, values: frozenset[str]) -> None:
        self._values = values
        longest_first = sorted(values, key=lambda known: (-len(known), known))
        text = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(text) if text else None

    def mask(self, text: str) -> str:
        """Return `text` with every secret replaced by `***`."""
        if self._pattern is not None:
            text = self._pattern.sub(_MASK, text)
        for form, masked in _FORMS:
            text = form.sub(masked, text)
        return text


# --- what a line is about ---


class Whereabouts(Struct, kw_only=True):
    """What the work at hand is about."""

    session_id: str
    turn: int = 0
    "0 = none."
    trace_id: str = ""
    "32 hexadecimal digits; empty where the turn is not traced."


_whereabouts: ContextVar[Whereabouts | None] = ContextVar("whereabouts", default=None)


class working_on:  # noqa: N801 - used as a function: it is on the path of every turn
    """Have what is logged in this block say what it is about; also in its tasks and threads."""

    __slots__ = ("_token", "_whereabouts")

    def __init__(self, whereabouts: Whereabouts) -> None:
        self._whereabouts = whereabouts

    def __enter__(self) -> None:
        self._token = _whereabouts.set(self._whereabouts)

    def __exit__(self, *_: object) -> None:
        _whereabouts.reset(self._token)


def present_whereabouts() -> Whereabouts | None:
    """Return what the work at hand is about; None where that is no session."""
    return _whereabouts.get()


class WhereaboutsFilter(logging.Filter):
    """Adds session, turn and trace to a record, unless it speaks of another session itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields in place; let every record pass."""
        here = _whereabouts.get()
        fields = record.__dict__
        if here is None or fields.setdefault("session_id", here.session_id) != here.session_id:
            return True
        if here.turn:
            fields.setdefault("turn", here.turn)
        if here.trace_id:
            fields.setdefault("trace_id", here.trace_id)
        return True


# --- lines ---


class MaskingFilter(logging.Filter):
    """Takes secrets out of a log record before any handler formats it."""

    def __init__(self, registry: SecretRegistry) -> None:
        super().__init__()
        self._registry = registry

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask message, fields and traceback in place; let every record pass."""
        record.msg, record.args = self._registry.mask(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._registry.mask(record.exc_text)
        if record.stack_info:
            record.stack_info = self._registry.mask(record.stack_info)
        for name, value in _fields(record).items():
            setattr(record, name, self._masked(value))
        return True

    def _masked(self, value: object) -> object:
        """Return a field as JSON has it, without secrets."""
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value).items()
            return {self._registry.mask(str(key)): self._masked(each) for key, each in pairs}
        if isinstance(value, list | tuple | AbstractSet):
            return [self._masked(each) for each in cast("list[object]", value)]
        return self._registry.mask(str(value))


class PlainFormatter(logging.Formatter):
    """One line for a person: time (UTC), level, logger, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s  %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - the base class's name
        """Return when the record was made, in UTC, to the millisecond."""
        return _timestamp(record, datefmt or "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and below it, set in, its traceback.

        So nothing that a library or an exception says can pass for a line of its own.
        """
        line, *more = super().format(record).split("\n")
        return "\n".join((line, *(f"  {_printable(each)}" for each in more)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        """Return the line without its traceback."""
        line = _printable(super().formatMessage(record))
        fields = " ".join(f"{name}={_shown(value)}" for name, value in _fields(record).items())
        return f"{line}  {fields}" if fields else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, in ASCII: time (UTC), level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback stands in `exception`."""
        line: dict[str, object] = {
            "time": _timestamp(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = value
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(_finite(line), default=str, separators=(",", ":"))


# --- what was logged last ---


class LogEntry(Struct, frozen=True, kw_only=True):
    """A record that was logged, without secrets."""

    number: int
    "Counted from 1 in each process."
    at_s: float
    "Seconds since 1970."
    level: int
    logger: str
    message: str
    fields: Mapping[str, object]
    exception: str


class RecentLog:
    """Keeps what was logged last, for people who look at the gateway from elsewhere.

    Bounded, in records and in what it keeps of each. Safe to use from several threads.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: deque[LogEntry] = deque(maxlen=RECENT_RECORDS)
        self._count = 0
        self._lock = threading.Lock()

    def keep(self, record: logging.LogRecord) -> None:
        """Keep a record that `MaskingFilter` has seen."""
        fields = {
            name[:_FIELD_CHARACTERS]: value
            if value is None or isinstance(value, int | float)
            else _cut(str(value), _FIELD_CHARACTERS)
            for name, value in islice(_fields(record).items(), _FIELDS_KEPT)
        }
        message = _cut(record.getMessage(), _MESSAGE_CHARACTERS)
        exception = _cut(record.exc_text or "", _EXCEPTION_CHARACTERS)
        with self._lock:
            self._count += 1
            self._entries.append(
                LogEntry(
                    number=self._count,
                    at_s=record.created,
                    level=record.levelno,
                    logger=record.name,
                    message=message,
                    fields=fields,
                    exception=exception,
                )
            )

    @property
    def last(self) -> int:
        """The number of the newest entry; 0 = there is none."""
        return self._count

    def since(self, number: int = 0, *, level: int = 0, limit: int = 1000) -> list[LogEntry]:
        """Return the newest `limit` entries after `number` of at least this level, oldest first."""
        with self._lock:
            found = [e for e in self._entries if e.number > number and e.level >= level]
        return found[-limit:]


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


class _KeepingHandler(logging.StreamHandler[TextIO]):
    """Writes records, and has what was written kept: it was masked once for both."""

    def __init__(self, stream: TextIO, recent: RecentLog | None) -> None:
        super().__init__(stream)
        self._recent = recent

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._recent is not None:
            self._recent.keep(record)


def setup_logging(
    level: int | str,
    registry: SecretRegistry,
    *,
    stream: TextIO | None = None,
    form: LogFormat = "plain",
    recent: RecentLog | None = None,
) -> None:
    """Send all log records of this process to `stream` (stderr), masked; replaces earlier handlers.

    What is written is kept in `recent` as well, if there is one.

    Libraries that log each request they make are kept to warnings: what they would say can hold
    addresses with tokens, and it says nothing about the gateway's own work.
    """
    handler = _KeepingHandler(stream if stream is not None else sys.stderr, recent)
    handler.setFormatter(JsonFormatter() if form == "json" else PlainFormatter())
    handler.addFilter(WhereaboutsFilter())
    handler.addFilter(MaskingFilter(registry))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def speaks_json() -> bool:
    """Say whether this process logs JSON: then whoever reads its log is told in JSON alone."""
    handlers = logging.getLogger().handlers
    return any(isinstance(each.formatter, JsonFormatter) for each in handlers)


_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def _timestamp(record: logging.LogRecord, form: str) -> str:
    moment = time.strftime(form, time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


def _finite(value: object) -> object:
    """Return a value without numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {key: _finite(each) for key, each in pairs}
    if isinstance(value, list):
        return [_finite(each) for each in cast("list[object]", value)]
    return value


def _printable(text: str) -> str:
    """Return a text in one line, without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _shown(value: object) -> str:
    text = str(value)
    # A field with blanks, quotes or line breaks in it is quoted, so that a line stays a line.
    return text if text.isprintable() and " " not in text and text else repr(text)
