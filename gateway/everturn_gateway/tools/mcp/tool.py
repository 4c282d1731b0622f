"""A tool of an MCP server, as an agent has it."""

from __future__ import annotations

import json
from typing import Final, NoReturn

from msgspec.structs import replace

from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import is_object
from everturn_actors.model import ToolCall, ToolDefinition, Upload
from everturn_actors.outside import one_source
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_actors.state.validation import sniffed
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.images.scaling import scaled
from everturn_gateway.tools.mcp.connection import Connection
from everturn_gateway.tools.mcp.errors import (
    McpAnswerError,
    McpDownError,
    McpError,
    McpExpiredError,
    McpGoneError,
    McpHttpError,
    McpRefusedError,
    McpTimeoutError,
)
from everturn_gateway.tools.mcp.listing import RemoteDefinition
from everturn_gateway.tools.mcp.requests.dialogue import Dialogue
from everturn_gateway.tools.mcp.requests.sampling import Sampler, SamplingModel
from everturn_gateway.tools.mcp.requests.values import Respond, Result, Sent, roots_of
from everturn_gateway.tools.mcp.results import Answer

_SENT: Final = "[the images were sent to the people of this conversation]"
MARGIN_S: Final = 35.0  # of the loop's deadline for a call beyond the connection's own: for images
_INVALID_PARAMS: Final = -32602


class McpTool:
    """One tool of one server; implements `Tool`, and for policies `FromServer`."""

    def __init__(
        self,
        name: str,
        definition: RemoteDefinition,
        connection: Connection,
        sampling: SamplingModel | None = None,
    ) -> None:
        """Offer a tool to the model as `name`; None = its server may use no model."""
        self._sampling = sampling
        settings, limits = connection.settings, connection.limits
        self._remote, self._connection = definition, connection
        self.definition = ToolDefinition(
            name=name, description=definition.description, parameters=definition.parameters
        )
        # What a server says of itself holds where its owner's word stands behind it.
        self.capabilities = ToolCapabilities(
            kind="mcp",
            read_only=settings.trusted and definition.read_only,
            repeatable=settings.trusted and definition.repeatable,
            timeout_s=limits.call_wait_s + settings.timeout_s + MARGIN_S,
        )

    @property
    def server(self) -> str:
        """The server's name, as the agent's owner calls it."""
        return self._connection.settings.name

    @property
    def says_itself(self) -> bool:
        """Whether nobody but its server stands behind its description."""
        return not self._connection.settings.trusted

    @property
    def remote_name(self) -> str:
        """The tool's name, as the server calls it."""
        return self._remote.name

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Call it; the server is started if it is not up. What it says is trusted as it is.

        A program on this machine that opened a file with text from outside is trusted with nothing
        of it; what it changes while such text is shown is marked.

        Raises:
            ToolFailedError: The arguments are no JSON object, or there is no result; the text says
                whether the call may have taken effect.
        """
        if not self._connection.settings.command:
            return await self._call(call, context)
        async with self._connection.environment.marks.running(sources_behind(context)) as run:
            output = await self._call(call, context)
        if not run.opened or output.untrusted:
            return output
        source = one_source(f"{self._gave}, with text from: {', '.join(run.opened)}")
        return replace(output, untrusted=True, source=source)

    @property
    def _gave(self) -> str:
        return f"what {self.remote_name} of the MCP server {self.server} gave"

    async def _call(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        settings, environment = self._connection.settings, self._connection.environment
        untrusted = not settings.trusted
        source = self._gave * untrusted
        sampler = Sampler(settings, self._sampling, environment.secrets, agent=environment.agent)
        try:
            answer = await self._answer(_arguments(call), context, sampler)
        except McpRefusedError as error:
            what = "does not take these arguments" if error.code == _INVALID_PARAMS else "refuses"
            text = f"the MCP server {self.server!r} {what}: {error.words}"
            return ToolOutput(text=text, is_error=True, untrusted=untrusted, source=source)
        except McpError as error:
            self._fail(error)
        if sampler.calls:  # nobody vouches for what a model makes of a stranger's words
            untrusted, source = True, self._gave
        images, notes = await self._images(answer)
        sent = images if settings.send_images and not answer.is_error else ()
        if sent:
            notes.append(_SENT)
        return ToolOutput(
            text="\n".join((answer.text, *notes)),
            is_error=answer.is_error,
            untrusted=untrusted,
            source=source,
            images=images,
            files=sent,
        )

    async def _answer(
        self, arguments: dict[str, object], context: ToolContext, sampler: Sampler
    ) -> Answer:
        """Call it, and answer what its server asks meanwhile."""
        connection = self._connection

        async def call(respond: Respond, sent: Sent) -> Result:
            return await connection.call(self.remote_name, arguments, respond, sent)

        dialogue = Dialogue(
            self.server,
            self.remote_name,
            context,
            sampler=sampler,
            roots=roots_of(connection.settings, connection.environment),
        )
        return await dialogue.run(call)

    async def _images(self, answer: Answer) -> tuple[tuple[Upload, ...], list[str]]:
        """Return the images of a result as models take them, and why others cannot be shown."""
        images, faults = list[Upload](), list[str]()
        for number, data in enumerate(answer.images, 1):
            name = f"image {number}"
            try:
                image = await scaled(name, data, self._connection.environment.environ)
            except ToolFailedError as error:
                faults.append(f"[{error}]")
            else:
                images.append(Upload(data=image.data, file_name=_named(name, image.data)))
        return tuple(images), faults

    def _fail(self, error: McpError) -> NoReturn:
        server = f"the MCP server {self.server!r}"
        why = self._connection.environment.secrets.mask(str(error))
        match error:
            case McpDownError():
                text = f"{server} is not there, and nothing was sent to it: {why}"
            case McpGoneError():
                text = (
                    f"{server} went away while it worked on this: {why}. Whether the call took"
                    " effect is unknown; look before you repeat it. The server is started again"
                    " with the next call"
                )
            case McpTimeoutError():
                text = (
                    f"{server} was too slow: {why}, and was told to stop. Whether the call took"
                    " effect is unknown; look before you repeat it"
                )
            case McpAnswerError() | McpHttpError() | McpExpiredError():
                text = f"{server} gave no usable result: {why}"
            case _:
                text = f"{server} failed: {why}"
        raise ToolFailedError(text) from error


def _arguments(call: ToolCall) -> dict[str, object]:
    """Return the arguments of a call. Whether they fit its schema is for the server to say.

    Raises:
        ToolFailedError: They are no JSON object.
    """
    try:
        found: object = json.loads(call.arguments or "{}", parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        msg = f"the arguments are not JSON: {error}"
        raise ToolFailedError(msg) from error
    if not is_object(found):
        msg = "the arguments must be a JSON object"
        raise ToolFailedError(msg)
    return found


def _no_number(text: str) -> NoReturn:
    msg = f"{text} is no number in JSON"
    raise ValueError(msg)


def _named(name: str, data: bytes) -> str:
    """Return the name of an image as a file: `image 1.png`."""
    kind = sniffed(data).partition("/")[2]
    return f"{name}.{'jpg' if kind == 'jpeg' else kind}" if kind else name
