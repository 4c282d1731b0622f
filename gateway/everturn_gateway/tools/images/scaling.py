"""Has images scaled by a process of its own, see `program`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

import anyio.to_thread
from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import IMAGE_TYPES
from everturn_actors.state.validation import sniffed
from everturn_gateway.tools.helper_process import HelperFailedError, run_helper
from everturn_gateway.tools.images.program import Answer
from everturn_gateway.tools.wording import counted

# Anthropic refuses an image of more than 5 MB in base64, and makes smaller what is longer than this
# on a side; OpenAI takes more. Source, read 2026-11: platform.claude.com/docs/en/build-with-claude.
LIMIT_BYTES: Final = 3_500_000
SIDE_PIXELS: Final = 1568
DEADLINE_S: Final = 30.0
INSTALL: Final = "pip install 'everturn[images]'"
_PROGRAM: Final = Path(__file__).with_name("program.py")
_HEAD_BYTES: Final = 16_384


class Scaled(Struct, frozen=True, kw_only=True):
    """An image as a model is shown it."""

    data: bytes
    described: str
    "What it is, in words: its size and how it was changed."


async def scaled(name: str, data: bytes, environ: Mapping[str, str]) -> Scaled:
    """Return an image as models take it; what fits stays as it is.

    Args:
        name: What the file is called, for errors.
        data: Its bytes.
        environ: The gateway's environment, see `run_helper`.

    Raises:
        ToolFailedError: It is no image, or needs a library that is not installed.
    """
    size = counted(len(data), "byte")
    if await anyio.to_thread.run_sync(find_spec, "PIL") is None:
        if sniffed(data) in IMAGE_TYPES and len(data) <= LIMIT_BYTES:
            return Scaled(data=data, described=size)
        msg = f"{name} ({size}) has to be made smaller, or another kind of image: {INSTALL}"
        raise ToolFailedError(msg)
    order = {"side_pixels": SIDE_PIXELS, "limit_bytes": LIMIT_BYTES, "types": sorted(IMAGE_TYPES)}
    try:
        head, made = await run_helper(
            _PROGRAM,
            order,
            data,
            environ,
            limit_bytes=2 * LIMIT_BYTES + _HEAD_BYTES,
            deadline_s=DEADLINE_S,
        )
    except (HelperFailedError, TimeoutError) as error:
        msg = f"{name} ({size}) is damaged, or too much to be taken apart, and cannot be shown"
        raise ToolFailedError(msg) from error
    answer = cast("Answer", head)
    if answer["error"]:
        msg = f"{name} ({size}) {answer['error']}"
        raise ToolFailedError(msg)
    pixels = f"{answer['width']} x {answer['height']} pixels, {size}"
    return Scaled(data=made or data, described=f"{pixels}{', shown smaller' if made else ''}")
