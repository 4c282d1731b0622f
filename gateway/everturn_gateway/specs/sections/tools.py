"""`spec.tools` and `spec.hooks`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from everturn_gateway.yaml_files import Section
from everturn_gateway.yaml_files.fields import Address, AgentName, Count, Seconds, Text

SandboxKind: TypeAlias = Literal["bwrap", "plain"]
SearchProvider: TypeAlias = Literal["brave", "searxng", "tavily"]


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


class PlainToolSection(Section):
    """A tool that comes with the gateway, and takes no settings."""

    type: Literal["builtin"]
    name: Literal["reload_tools", "send_file"]


class LimitsSection(Section):
    """What one command in the sandbox may take of the machine, with all that it starts."""

    max_tasks: Count = 1024
    "Processes and threads at once; a command that starts more is ended."
    max_memory_mib: Count | None = None
    "Memory that it holds; a command that takes more is ended. By default half of the machine's."
    max_file_mib: Count = 8192
    "Of one file that it writes."


class ConfinedSection(Section):
    """How far the commands of a tool reach."""

    sandbox: SandboxKind = "bwrap"
    "bwrap: they see their workspace and programs; plain: they run as the user `run_as`."
    run_as: Text | None = None
    "plain: the user of its commands, by name, number or UID:GID; not the gateway's own."
    network: bool = False
    "Whether commands in the sandbox reach the network."
    readable: tuple[Text, ...] = ()
    "What they see beside that in the sandbox: files and folders; relative to the agent's folder."
    writable: tuple[Text, ...] = ()
    "The same, for what they may change as well."
    limits: LimitsSection = LimitsSection()


class BashToolSection(ConfinedSection):
    """Runs commands in the agent's workspace."""

    type: Literal["builtin"]
    name: Literal["bash"]
    timeout_seconds: Seconds = 120
    "Deadline of one command, unless the call asks for less."


class ProcessToolSection(ConfinedSection):
    """Runs commands that go on while the conversation does."""

    type: Literal["builtin"]
    name: Literal["background_process"]
    max_processes: Count = 8
    "Running at the same time, for this agent."


class FilesToolSection(Section):
    """read_file, write_file, edit_file, list_files and search_files in the agent's workspace."""

    type: Literal["builtin"]
    name: Literal["files"]
    read_only: bool = False
    "Whether write_file and edit_file are left out."


class SearchSection(Section):
    """Who searches the web."""

    provider: SearchProvider
    base_url: Address | None = None
    "Of the provider's API; searxng has no address of its own."
    api_key: str | None = None
    "By default the environment's BRAVE_API_KEY or TAVILY_API_KEY."


class WebToolSection(Section):
    """web_fetch, and web_search where a provider is set."""

    type: Literal["builtin"]
    name: Literal["web", "web_fetch", "web_search"]
    search: SearchSection | None = None
    allow_private: tuple[str, ...] = ()
    "Hosts and networks beyond the public Internet that may be fetched: wiki.lan, 10.1.0.0/16."


class SessionToolSection(Section):
    """Lists and reads the agent's conversations, and writes to others where that is allowed."""

    type: Literal["builtin"]
    name: Literal["session"]
    send_to: tuple[str, ...] = ()
    "Conversations as channel:chat, a trailing * matches the rest; by default none."
    read_from: tuple[str, ...] = ()
    "Conversations that it may read, in the same form; by default its own alone."


class ScheduleToolSection(Section):
    """Sends messages and does tasks at their time, in the conversation that asked for them."""

    type: Literal["builtin"]
    name: Literal[
        "schedule",
        # What older agents call it; each gives the one tool.
        "cancel_schedule",
        "list_schedules",
        "schedule_task",
    ]
    max_jobs: Count = 20
    "That are to come at the same time, all conversations of this agent together."
    min_interval_seconds: Count = 60
    "The shortest time between two runs of a job."


class DelegateToolSection(Section):
    """Lets another agent, or this one afresh, work on a task and return its conclusion."""

    type: Literal["builtin"]
    name: Literal["delegate"]
    agents: tuple[AgentName, ...] = ()
    "Who may be asked; by default the agent itself alone."
    max_depth: Count = 2
    "How deep delegates may delegate."


class CliToolSection(ConfinedSection):
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


class McpToolSection(Section):
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

    @model_validator(mode="after")
    def _one_way(self) -> McpToolSection:
        if (self.command is None) == (self.url is None):
            msg = "needs either a command or a url"
            raise ValueError(msg)
        return self


class PluginToolEntry(Section):
    """Tools of a package that is installed beside Everturn."""

    type: Literal["plugin"]
    name: Text
    "Of the plug-in; `everturn doctor` lists those that are installed."
    settings: dict[str, Any] = Field(default_factory=dict)
    "As the plug-in describes them."


BuiltinToolSection: TypeAlias = Annotated[
    BashToolSection
    | DelegateToolSection
    | FilesToolSection
    | PlainToolSection
    | ProcessToolSection
    | ScheduleToolSection
    | SessionToolSection
    | WebToolSection,
    Field(discriminator="name"),
]
ToolSection: TypeAlias = Annotated[
    BuiltinToolSection | CliToolSection | McpToolSection | PluginToolEntry,
    Field(discriminator="type"),
]


class BeforeToolSection(Section):
    """A guard that can refuse a call."""

    match: Text
    "tool, or tool:action; * matches the rest."
    type: Literal["depends_on", "skip_duplicate"]
    prior: str | None = None
    "depends_on: the tool:action that must have run before."
    match_arg: str | None = None
    "depends_on: the argument that must be the same in both."
    match_args: tuple[str, ...] = ()
    "skip_duplicate: the arguments that make two calls the same."


class AfterToolSection(Section):
    """A note to the model after a call."""

    match: Text
    "tool, or tool:action; * matches the rest."
    message: Text
    unless: dict[str, object] = Field(default_factory=dict)
    "No note where one of these arguments has this value."


class HooksSection(Section):
    """Guards that refuse, notes that steer."""

    before_tool: tuple[BeforeToolSection, ...] = ()
    after_tool: tuple[AfterToolSection, ...] = ()
