"""Has web pages turned into text by a process of its own, see `converter`."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import anyio
import anyio.abc
from msgspec import Struct

from everturn_gateway.tools.web.converter import Answer, Order

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 15.0
_PROGRAM: Final = Path(__file__).with_name("converter.py")
# What a Python may need to find its own libraries; it gets nothing else of the environment.
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
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
        # The deadline stands around the process: when it passes, leaving kills it.
        with anyio.fail_after(deadline_s):
            code, output = await _run(
                json.dumps(order).encode() + b"\n" + body, environ, limit_bytes
            )
    except TimeoutError as error:
        msg = f"the page could not be turned into text within {deadline_s:g} s"
        raise ConversionError(msg) from error
    head, _, text = output.partition(b"\n")
    if code or not head:
        logger.info("a web page could not be converted", extra={"exit_code": code})
        msg = "the page is damaged, or too much for the converter, and could not be made into text"
        raise ConversionError(msg)
    answer = cast("Answer", json.loads(head))
    return Converted(
        title=answer["title"],
        text=text.decode("utf-8", "replace"),
        notes=tuple(answer["notes"]),
    )


async def _run(data: bytes, environ: Mapping[str, str], limit_bytes: int) -> tuple[int, bytes]:
    """Return exit code and output of the converter; output beyond the limit ends it."""
    # -I: neither the folder of the program nor variables of the environment tell it what to import
    command = [sys.executable, "-I", str(_PROGRAM)]
    passed = {name: environ[name] for name in _PASSED if name in environ}
    async with await anyio.open_process(command, env=passed, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        output = bytearray()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, process.stdin, data)
            async for piece in process.stdout:
                output += piece
                if len(output) > limit_bytes:
                    process.kill()
                    return 1, b""
        return await process.wait(), bytes(output)


async def _feed(stdin: anyio.abc.ByteSendStream, data: bytes) -> None:
    try:
        await stdin.send(data)
        await stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        logger.debug("the converter ended before it had read its page")
