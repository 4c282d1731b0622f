"""Which MCP servers an agent has, as its owner wrote it down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from everturn_actors.spec import ModelSpec

# Names that hold a secret wherever they stand.
_SECRET_NAME: Final = re.compile(
    r"auth|cookie|credential|key|pass|secret|session|signature|token", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOAuthSettings:
    """As whom the gateway logs in, where a server does not take whoever comes."""

    client_id: str = ""
    "As the server's operator registered it; empty = the gateway registers itself."
    client_secret: str = field(default="", repr=False)
    client_metadata_url: str = ""
    "Of a document that says who the client is, which servers read that take one as its id."
    redirect_port: int = 0
    "Of this machine, where a browser ends, as it was registered; 0 = a free one."


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSamplingSettings:
    """How far a server may use the agent's model."""

    max_calls: int = 5
    "Of the model, in one call of a tool."
    max_tokens: int = 1024
    "Of one answer."
    model: ModelSpec | None = None
    "None = the agent's own."


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerSettings:
    """One server: a program that is started, or an address that is reached."""

    name: str
    "Unique among the servers of an agent; the first part of the names of its tools."
    command: str = ""
    "The program. A relative path with a slash in it starts in the agent's folder."
    args: tuple[str, ...] = ()
    "As they are, but that `{{agent.home}}` stands for the agent's folder."
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    "Set for the program, beside the few variables that every command gets."
    url: str = field(default="", repr=False)
    "Of the server's one endpoint, where there is no command."
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    "Sent with every HTTP request."
    include: tuple[str, ...] = ()
    "Which of its tools are offered, a trailing `*` matches the rest; empty = all."
    trusted: bool = False
    "Whether what it says counts as said by the agent's owner, and its hints are believed."
    timeout_s: float = 60
    "Deadline of one call."
    send_images: bool = False
    "Whether images that its tools give go to the people of the conversation, too."
    sampling: McpSamplingSettings | None = None
    "How far it may use the agent's model; None = not at all."
    oauth: McpOAuthSettings = field(default_factory=McpOAuthSettings)
    "For a login at `url`; nobody logs in where the headers say who asks."

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            msg = f"the MCP server {self.name!r} needs either a command or a url"
            raise ValueError(msg)

    @property
    def is_signed(self) -> bool:
        """Whether the headers say who asks, so that no login does."""
        return any(name.lower() == "authorization" for name in self.headers)

    def offers(self, tool: str) -> bool:
        """Return whether the agent is offered this tool of the server."""
        return not self.include or any(
            tool.startswith(each[:-1]) if each.endswith("*") else tool == each
            for each in self.include
        )

    def secrets(self) -> tuple[str, ...]:
        """Return the values that nothing printed may contain.

        What a name tells to be one: in headers, in the environment, and in the address, where it
        may also be a password. A header's value is one with and without its scheme (`Bearer`).
        """
        named = [*self.headers.items(), *self.env.items()]
        try:
            parts = urlsplit(self.url)
        except ValueError:
            parts = urlsplit("")  # no address: nothing will be sent there
        named += parse_qsl(parts.query)
        found = [value for name, value in named if _SECRET_NAME.search(name)]
        found += [_SCHEME.sub("", value, count=1) for value in found]
        found += [parts.password or "", self.oauth.client_secret]
        return tuple(dict.fromkeys(value for value in found if value))
