"""Has web pages turned into text by a process of its own, see `converter`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from everturn_gateway.tools.helper_process import HelperFailedError, run_helper
from everturn_gateway.tools.web.converter import Answer, Order

DEADLINE_S: Final = 15.0
_PROGRAM: Final = Path(__file__).with_name("converter.py")
_BYTES_PER_CHARACTER: Final = 4
_HEAD_BYTES: Final = 16_384


class ConversionError(Exception):
    """A page cannot be turned into text; the text is for the model."""


class Converted(Struct, frozen=True, kw_only=True):
    """A page as text."""

    title: str
    text: str
    notes: tuple[str, ...] = ()
    "What a reader has to know, in words."


async def convert(
    order: Order, body: bytes, environ: Mapping[str, str], *, deadline_s: float = DEADLINE_S
) -> Converted:
    """Return a page as text.

    Cancelled or late, the process is killed.

    Raises:
        ConversionError: The page is not what it says, or more than the process could bear.
    """
    limit_bytes = order["limit_characters"] * _BYTES_PER_CHARACTER + _HEAD_BYTES
    try:
        head, text = await run_helper(
            _PROGRAM, order, body, environ, limit_bytes=limit_bytes, deadline_s=deadline_s
        )
    except TimeoutError as error:
        msg = f"the page could not be turned into text within {deadline_s:g} s"
        raise ConversionError(msg) from error
    except HelperFailedError as error:
        msg = "the page is damaged, or too much for the converter, and could not be made into text"
        raise ConversionError(msg) from error
    answer = cast("Answer", head)
    return Converted(
        title=answer["title"],
        text=text.decode("utf-8", "replace"),
        notes=tuple(answer["notes"]),
    )
