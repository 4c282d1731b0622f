"""Has what strangers made taken apart by a process of its own, with limits on time and memory.

Whatever a file does to a parser - never ends, takes all memory, brings it down - it does to that
process. A program reads one line of JSON, the order, and then the bytes; it writes one line of
JSON, its answer, and then what it made of them. It needs nothing of the gateway.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from everturn_actors.json_values import as_object

logger = logging.getLogger(__name__)

# What a Python may need to find its own libraries; it gets nothing else of the environment.
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class HelperFailedError(Exception):
    """The program ended without an answer, or with one that is too large."""


async def run_helper(
    program: Path,
    order: Mapping[str, object],
    body: bytes,
    environ: Mapping[str, str],
    *,
    limit_bytes: int,
    deadline_s: float,
) -> tuple[dict[str, object], bytes]:
    """Return what the program answers, and what it made of the bytes.

    Cancelled or late, the process is killed.

    Args:
        program: A file of Python.
        order: What is to be done, as JSON.
        body: The bytes.
        environ: The gateway's; the process is passed what a Python needs of it.
        limit_bytes: Of all that it writes; one that writes more is killed.
        deadline_s: How long it may take.

    Raises:
        HelperFailedError: It could not do it.
        TimeoutError: It took too long.
    """
    # The deadline stands around the process: when it passes, leaving kills it.
    with anyio.fail_after(deadline_s):
        data = json.dumps(order).encode() + b"\n" + body
        code, output = await _run(program, data, environ, limit_bytes)
    head, _, rest = output.partition(b"\n")
    if code or not head:
        logger.info("a helper failed", extra={"program": program.name, "exit_code": code})
        msg = f"{program.name} ended with exit code {code}"
        raise HelperFailedError(msg)
    return as_object(json.loads(head)), rest


async def _run(
    program: Path, data: bytes, environ: Mapping[str, str], limit_bytes: int
) -> tuple[int, bytes]:
    """Return exit code and output; output beyond the limit ends the process."""
    # -I: neither the folder of the program nor variables of the environment tell it what to import
    command = [sys.executable, "-I", str(program)]
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
        logger.debug("a helper ended before it had read all that it was given")
