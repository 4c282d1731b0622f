"""Logging: one plain line, and no secret in it."""

from __future__ import annotations

import io
import logging
from collections.abc import Generator

import pytest

from everturn_gateway.observe import SecretRegistry, setup_logging

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


@pytest.mark.parametrize(
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


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    """If the shorter went first, the rest of the longer would stand there."""
    registry = SecretRegistry()
    registry.add("token")
    registry.add("token-and-more")

    assert registry.mask("token-and-more, token") == "***, ***"


def test_a_secret_is_masked_in_an_address_too() -> None:
    """Percent-encoded it is the same key."""
    registry = SecretRegistry()
    registry.add("a/b+c==d")

    assert registry.mask("?key=a%2Fb%2Bc%3D%3Dd") == "?key=***"


@pytest.mark.parametrize("short", ["", "abc"])
def test_an_empty_or_tiny_value_masks_nothing(short: str) -> None:
    """A key that is not set must not turn every text into stars."""
    registry = SecretRegistry()
    registry.add(short)

    assert registry.mask("abc def") == "abc def"


def test_a_record_is_one_plain_line_with_its_fields(stream: io.StringIO) -> None:
    """People read it in a terminal; tools split it at the blanks."""
    logging.getLogger("everturn.x").info("turn done", extra={"turn": 3, "text": "two words"})

    line = stream.getvalue()
    assert line.endswith(" INFO    everturn.x  turn done  turn=3 text='two words'\n")
    assert line[:4].isdigit()
    assert line.split(" ")[0].endswith("Z")


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


def test_libraries_that_log_every_request_are_quiet(stream: io.StringIO) -> None:
    """Their lines hold addresses with tokens, and bury the gateway's own."""
    logging.getLogger("httpx2").info("HTTP Request: POST https://api/bot1:A/x")

    assert stream.getvalue() == ""
