"""The tool by which an agent sends a file to the people it talks with."""

from __future__ import annotations

import mimetypes
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import Upload
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolOutput
from everturn_actors.state.validation import ATTACHMENT_BYTES, sniffed
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.workspace import workspace_of
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.wording import counted, shown

_CAPABILITIES: Final = ToolCapabilities(safe=True, timeout_s=60)
_ANY_TYPE: Final = "application/octet-stream"
FILES_MAX: Final = 10
"Of one call: what Telegram and Discord take as one."


class SendFile(Arguments):
    """What to send."""

    path: str
    more_paths: Annotated[tuple[str, ...], Field(max_length=FILES_MAX - 1)] = Field(
        default=(), description="Further files, sent with it as one album."
    )


def send_file_tool(environment: ToolEnvironment) -> Tool:
    """Return the tool that sends files of one agent's workspace."""
    folder = workspace_of(environment)

    async def answer(asked: SendFile, _context: ToolContext) -> ToolOutput:
        paths = tuple(dict.fromkeys((asked.path, *asked.more_paths)))
        files = [await folder.run(partial(_read, folder, path), reads=True) for path in paths]
        told = (
            f"{shown(path)} ({counted(len(each.data), 'byte')})"
            for path, each in zip(paths, files, strict=True)
        )
        return ToolOutput(text=f"sent {', '.join(told)}", files=tuple(files))

    return FunctionTool(
        "send_file",
        "Send a file of your workspace to the people of this conversation.",
        arguments=SendFile,
        capabilities=_CAPABILITIES,
        answer=answer,
    )


def _read(folder: Confined, path: str) -> Upload:
    with folder.place(path) as place:
        data, version = place.read(ATTACHMENT_BYTES)
    if version[2] > ATTACHMENT_BYTES:
        msg = f"{shown(path)} has {version[2]:,} bytes; {ATTACHMENT_BYTES:,} are the most"
        raise ToolFailedError(msg)
    if not data:
        msg = f"{shown(path)} is empty"
        raise ToolFailedError(msg)
    name = PurePosixPath(path).name
    guessed, packed = mimetypes.guess_type(name)
    kind = _ANY_TYPE if packed or guessed is None or guessed.startswith("image/") else guessed
    return Upload(data=data, media_type=sniffed(data) or kind, file_name=name)
