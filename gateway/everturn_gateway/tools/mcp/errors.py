"""What can go wrong between the gateway and an MCP server; none of it is a bug of the gateway."""

from __future__ import annotations

from everturn_gateway.errors import GatewayError


class McpError(GatewayError):
    """An MCP server could not do what it was asked to.

    Attributes:
        words: What the server said with it; empty where it said nothing. Not in the message:
            nobody vouches for it.
    """

    def __init__(self, message: str = "", *, words: str = "") -> None:
        self.words = words
        super().__init__(message)


class McpStartError(McpError):
    """The server cannot be started or reached."""


class McpDownError(McpError):
    """The server is down; nothing was sent to it."""


class McpGoneError(McpError):
    """The connection ended while the server worked; whether the call took effect is unknown."""


class McpExpiredError(McpError):
    """The server knows the session no more; it did not look at the call."""


class McpTimeoutError(McpError):
    """The server did not answer in time; it was told to stop."""


class McpAnswerError(McpError):
    """The server answered with something that cannot be used."""


class McpHttpError(McpError):
    """The server answered with an HTTP error, or could not be reached.

    Attributes:
        status: The HTTP status; 0 where there was no answer.
    """

    def __init__(self, message: str, *, status: int) -> None:
        self.status = status
        super().__init__(message)


class McpRefusedError(McpError):
    """The server refuses it.

    Attributes:
        code: The JSON-RPC error code.
        data: What came with it.
    """

    def __init__(self, *, words: str, code: int, data: object = None) -> None:
        self.code, self.data = code, data
        super().__init__(words=words)


class UnknownPromptError(McpError):
    """No server of the agent has such a prompt."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        there = f"there are: {', '.join(known)}" if known else "its MCP servers have none"
        super().__init__(f"there is no prompt {name!r}; {there}")
