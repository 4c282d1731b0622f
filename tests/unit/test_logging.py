"""Logging: one plain line, and no secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator
from typing import Any

import pytest
from support.tables import table

from everturn_gateway.logs import (
    SecretRegistry,
    Whereabouts,
    present_whereabouts,
    setup_logging,
    working_on,
)

KEY = "sk-live-1234567890"


@pytest.fixture
def stream() -> Generator[io.StringIO]:
    """Log into a text for one test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    registry = SecretRegistry()
    registry.add(KEY)
    written = io.StringIO()
    setup_logging("INFO", registry, stream=written)
    yield written
    root.handlers[:] = handlers
    root.setLevel(level)


def parsed(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return what was logged as JSON."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def as_json(stream: io.StringIO) -> None:
    """Log JSON into `stream` from here on."""
    registry = SecretRegistry()
    registry.add(KEY)
    setup_logging("INFO", registry, stream=stream, form="json")


@table(
    ("text", "masked"),
    [
        (f"key {KEY}.", "key ***."),
        ("https://api.telegram.org/bot123:AAh-x_9/getMe", "https://api.telegram.org/bot***/getMe"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("{'authorization': 'secretvalue', 'x': 1}", "{'authorization': '***', 'x': 1}"),
        ("x-api-key=abcdef", "x-api-key=***"),
        ("(b'Authorization', b'Basic Zm9v')", "(b'Authorization', b'Basic ***')"),
        ("proxy-authorization=b64", "proxy-authorization=***"),
        ("curl -H 'x: Bearer 0123456789abcdef'", "curl -H 'x: Bearer ***'"),
        ("the bearer of this letter, on the Basic plan",) * 2,
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_are_masked_wherever_they_stand(text: str, masked: str) -> None:
    """A log is read and pasted by people who must not have the key."""
    registry = SecretRegistry()
    registry.add(KEY)

    assert registry.mask(text) == masked


def test_secrets_are_masked_whole_and_in_addresses() -> None:
    """If a part of one stayed, the rest might be guessed."""
    # The longer of two secrets is masked whole. If the shorter went first, the rest of the longer
    # would stand there.
    registry = SecretRegistry()
    registry.add("token")
    registry.add("token-and-more")

    assert registry.mask("token-and-more, token") == "***, ***"

    # A secret is masked in an address too. Percent-encoded it is the same key.
    registry = SecretRegistry()
    registry.add("a/b+c==d")

    assert registry.mask("?key=a%2Fb%2Bc%3D%3Dd") == "?key=***"


@table("short", ["", "abc"])
def test_an_empty_or_tiny_value_masks_nothing(short: str) -> None:
    """A key that is not set must not turn every text into stars."""
    registry = SecretRegistry()
    registry.add(short)

    assert registry.mask("abc def") == "abc def"


def test_message_arguments_fields_and_tracebacks_are_masked(stream: io.StringIO) -> None:
    """A key hides in all four."""
    logger = logging.getLogger("everturn.x")
    try:
        int(KEY)
    except ValueError:
        logger.exception("failed with %s", KEY, extra={"url": f"http://h/?k={KEY}", "n": 1})

    written = stream.getvalue()
    assert KEY not in written
    assert "failed with ***" in written
    assert "url=http://h/?k=***" in written
    assert "ValueError: invalid literal for int() with base 10: '***'" in written


def test_a_record_is_one_plain_line_with_its_fields(stream: io.StringIO) -> None:
    """And only what the gateway has to say."""
    # Libraries that log every request are quiet. Their lines hold addresses with tokens, and bury
    # the gateway's own.
    logging.getLogger("httpx2").info("HTTP Request: POST https://api/bot1:A/x")

    assert stream.getvalue() == ""

    # People read it in a terminal; tools split it at the blanks.
    logging.getLogger("everturn.x").info("turn done", extra={"turn": 3, "text": "two words"})

    line = stream.getvalue()
    assert line.endswith(" INFO    everturn.x  turn done  turn=3 text='two words'\n")
    assert line[:4].isdigit()
    assert line.split(" ")[0].endswith("Z")


def test_a_record_is_one_json_object_a_line(stream: io.StringIO) -> None:
    """People search by field, and find no secret."""
    # Nothing in a json line shows a secret. A collector keeps lines for months, and many can read
    # them.
    as_json(stream)
    logger = logging.getLogger("everturn.x")
    try:
        int(KEY)
    except ValueError:
        logger.exception(
            "failed with %s",
            KEY,
            extra={"urls": [f"http://h/?k={KEY}"], "headers": {"x": {KEY: KEY}}},
            stack_info=True,
        )
    (line,) = parsed(stream)

    assert KEY not in stream.getvalue()
    assert line["urls"] == ["http://h/?k=***"]
    assert line["headers"] == {"x": {"***": "***"}}
    assert "ValueError: invalid literal for int() with base 10: '***'" in line["exception"]
    assert "test_logging.py" in line["stack"]

    # Whoever collects logs splits them at line breaks, and searches by field.
    as_json(stream)
    fields = {
        "turn": 3,
        "agents": ["a", "b"],
        "why": None,
        "text": "two\nlines \ud800 ü",
        "share": float("nan"),
        "level": "high",
        "more": {"x": (1, 2.5)},
    }
    logging.getLogger("everturn.x").warning("it %s", "happened", extra=fields)
    _, line = parsed(stream)
    at = line.pop("time")

    assert stream.getvalue().isascii()
    assert (at[10], at[-1], len(at)) == ("T", "Z", 24)
    assert line == {
        "level": "WARNING",
        "logger": "everturn.x",
        "message": "it happened",
        "turn": 3,
        "agents": ["a", "b"],
        "why": None,
        "text": "two\nlines \ud800 ü",
        "share": "nan",
        "level_": "high",
        "more": {"x": [1, 2.5]},
    }


def log_about_sessions() -> None:
    """Log five lines, each about something else."""
    logger = logging.getLogger("everturn.x")
    with working_on(Whereabouts(session_id="s-1")):
        logger.info("between turns")
        with working_on(Whereabouts(session_id="s-1", turn=4, trace_id="abab")):
            logger.info("own words", extra={"session_id": "s-1", "turn": 9})
            logger.info("another session's", extra={"session_id": "s-2"})
        logger.info("after it")
    logger.info("no session's")


def test_a_line_says_what_the_work_is_about(stream: io.StringIO) -> None:
    """A provider or a library does not know for which session it works; whoever reads has to."""
    as_json(stream)
    log_about_sessions()
    known = ("session_id", "turn", "trace_id")
    about = [{name: line[name] for name in known if name in line} for line in parsed(stream)]

    assert present_whereabouts() is None
    assert about == [
        {"session_id": "s-1"},
        {"session_id": "s-1", "turn": 9, "trace_id": "abab"},
        {"session_id": "s-2"},
        {"session_id": "s-1"},
        {},
    ]


def test_a_plain_line_says_it_as_well(stream: io.StringIO) -> None:
    """People search for a session in a terminal, too."""
    log_about_sessions()
    ends = [line.partition("everturn.x  ")[2] for line in stream.getvalue().splitlines()]

    assert ends == [
        "between turns  session_id=s-1",
        "own words  session_id=s-1 turn=9 trace_id=abab",
        "another session's  session_id=s-2",
        "after it  session_id=s-1",
        "no session's",
    ]
