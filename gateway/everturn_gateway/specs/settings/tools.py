"""`spec.tools`: what every entry has to be, whichever tools it names."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from everturn_gateway.specs.settings.model import OneModelSettings
from everturn_gateway.tools.shell.settings import ConfinedSettings, SandboxKind
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Address, Amount, Seconds, Share, Text


def _server_name(value: str) -> str:
    """Refuse a name in which a pattern could not tell the server from its tool."""
    if (
        not value.strip()
        or not value.isprintable()
        or value != value.strip()
        or set(value) & set(":*\\")
    ):
        msg = (
            "names a server in patterns, as mcp:NAME:tool: it takes no :, *, backslash or blank end"
        )
        raise ValueError(msg)
    return value


ServerName = Annotated[str, AfterValidator(_server_name), Field(json_schema_extra={"minLength": 1})]


class NamedToolSettings(SettingsModel):
    """Tools that are found by their name; `specs.tooling` reads the settings beside it."""

    model_config = ConfigDict(extra="allow")

    type: Literal["builtin", "plugin"]
    "builtin: of Everturn; plugin: of a package that is installed beside it."
    name: Text
    "`everturn doctor` lists what other packages bring."


class CliToolSettings(ConfinedSettings):
    """A program in the agent's folder."""

    type: Literal["cli"]
    name: Text
    command: Text
    description: str | None = None
    readme: str | None = None
    "Path to a longer description, read when the tool is needed."
    sandbox: SandboxKind = "plain"
    "plain: it is the owner's program, and runs as the gateway does; bwrap: as bash's commands."
    run_as: Text | None = None
    "plain: the user that it runs as, as of bash; by default the gateway's own."
    network: bool = True
    "Whether it reaches the network from the sandbox."
    env: dict[str, str] = Field(default_factory=dict)
    "Set for the program; nothing else of the gateway's environment reaches it."


class McpOAuthEntry(SettingsModel):
    """As whom the gateway logs in at a server behind an address (`everturn mcp login`)."""

    client_id: Text | None = None
    "As the server's operator registered it; by default the gateway registers itself."
    client_secret: Text | None = None
    client_metadata_url: Address | None = None
    "Of the client's metadata document, for servers that take its address as the client's id."
    redirect_port: int = Field(default=0, ge=0, le=65535)
    "Port of this machine where the browser ends; 0: a free one."


class McpSamplingEntry(SettingsModel):
    """How far a server may use a model, in the agent's name and at its cost."""

    max_calls: int = Field(default=5, ge=1, le=100)
    "Of the model, in one call of a tool."
    max_tokens: int = Field(default=1024, ge=1, le=32_768)
    "Of one answer."
    model: OneModelSettings | None = None
    "By default the agent's own; the fields are those of spec.model."


class McpToolSettings(SettingsModel):
    """A Model Context Protocol server: started by command, or reached by url."""

    type: Literal["mcp"]
    name: ServerName
    command: Text | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    url: Address | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    include: tuple[str, ...] = ()
    "Which of its tools are offered, a trailing * matches the rest; by default all."
    trusted: bool = False
    "Whether what its tools return counts as said by the owner, not by the outside."
    timeout_seconds: Seconds = 60
    "Deadline of one call."
    send_images: bool = False
    "Whether images that its tools give go to the people of the chat, too."
    sampling: bool | McpSamplingEntry = False
    "Whether, or how far, it may use the agent's model."
    oauth: McpOAuthEntry = Field(default_factory=McpOAuthEntry)

    @model_validator(mode="after")
    def _one_way(self) -> McpToolSettings:
        if (self.command is None) == (self.url is None):
            msg = "needs either a command or a url"
            raise ValueError(msg)
        if "oauth" in self.model_fields_set and self.url is None:
            msg = "oauth is for a server with a url"
            raise ValueError(msg)
        return self


ToolSettings: TypeAlias = Annotated[
    NamedToolSettings | CliToolSettings | McpToolSettings, Field(discriminator="type")
]


class ToolSearchSettings(SettingsModel):
    """When tools of MCP servers and programs are found by a search, not listed in each request."""

    mode: Literal["auto", "always", "never"] = "auto"
    max_tools: Amount = 30
    "auto: how many tools there are, of all kinds, before those are searched."
    max_window_share: Share = 0.2
    "auto: how much of the model's window the definitions may take, all together."
