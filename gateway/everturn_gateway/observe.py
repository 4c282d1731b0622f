"""Logging to stderr, and the one register of secrets that nothing printed may contain."""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import Any, Final, TextIO
from urllib.parse import quote

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
        self._values |= {value, quote(value, safe="")}
        longest_first = sorted(self._values, key=lambda known: (-len(known), known))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def mask(self, text: str) -> str:
        """Return `text` with every secret replaced by `***`."""
        if self._pattern is not None:
            text = self._pattern.sub(_MASK, text)
        for form, masked in _FORMS:
            text = form.sub(masked, text)
        return text


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
        for name, value in _fields(record).items():
            if not isinstance(value, int | float):
                setattr(record, name, self._registry.mask(str(value)))
        return True


class PlainFormatter(logging.Formatter):
    """One line for a person: time (UTC), level, logger, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s  %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - the base class's name
        """Return when the record was made, in UTC, to the millisecond."""
        instant = time.strftime(datefmt or "%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{instant}.{int(record.msecs):03d}Z"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        """Return the line without its traceback."""
        line = super().formatMessage(record)
        fields = " ".join(f"{name}={_shown(value)}" for name, value in _fields(record).items())
        return f"{line}  {fields}" if fields else line


def setup_logging(
    level: int | str, registry: SecretRegistry, *, stream: TextIO | None = None
) -> None:
    """Send all log records of this process to `stream` (stderr), masked; replaces earlier handlers.

    Libraries that log each request they make are kept to warnings: what they would say can hold
    addresses with tokens, and it says nothing about the gateway's own work.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(PlainFormatter())
    handler.addFilter(MaskingFilter(registry))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def _shown(value: object) -> str:
    text = str(value)
    # A field with blanks, quotes or line breaks in it is quoted, so that a line stays a line.
    return text if text.isprintable() and " " not in text and text else repr(text)
