"""The tool by which an agent looks at an image of its workspace."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Final

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import Upload
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.workspace import workspace_of
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.images.scaling import scaled
from everturn_gateway.tools.marks import file_source
from everturn_gateway.tools.wording import shown

VIEW_IMAGE: Final = "view_image"
READ_BYTES: Final = 20 * 1024 * 1024
_CAPABILITIES: Final = ToolCapabilities(read_only=True, safe=True, timeout_s=60)


class ViewImage(Arguments):
    """What to look at."""

    path: str


def view_image_tool(environment: ToolEnvironment) -> Tool:
    """Return the tool that shows the model images of one agent's workspace."""
    folder, marks = workspace_of(environment), environment.marks

    def read(path: str) -> tuple[bytes, str]:
        """Return the bytes of a file, and the text from outside in it, in words."""
        found: list[str] = []
        with folder.place(path) as place:
            inside = place.inside
            with marks.reading():
                data, version = place.read(
                    READ_BYTES, look=lambda fd: found.extend(marks.sources(fd, inside))
                )
        if version[2] > READ_BYTES:
            msg = f"{shown(path)} has {version[2]:,} bytes; {READ_BYTES:,} are the most"
            raise ToolFailedError(msg)
        return data, file_source(inside, tuple(found)) if found else ""

    async def answer(asked: ViewImage, _context: ToolContext) -> ToolOutput:
        data, source = await folder.run(partial(read, asked.path), reads=True)
        image = await scaled(shown(asked.path), data, environment.environ)
        name = PurePosixPath(asked.path).name
        return ToolOutput(
            text=f"{shown(asked.path)}: {image.described}",
            untrusted=bool(source),
            source=source,
            images=(Upload(data=image.data, file_name=name),),
        )

    return FunctionTool(
        VIEW_IMAGE,
        "Look at an image file of your workspace: a photograph, a chart, a screenshot.",
        arguments=ViewImage,
        capabilities=_CAPABILITIES,
        answer=answer,
    )
