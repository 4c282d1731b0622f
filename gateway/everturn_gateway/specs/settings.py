"""The fields of `agent.yaml`, as models: what may stand in the file, not what is done with it.

The docstrings of the fields are the descriptions in the JSON Schema.
Source: Duragent's format v1alpha1, and Everturn's additions to it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from everturn_actors.model import Compaction, Overflow
from everturn_actors.spec import OnDisconnect
from everturn_channels.settings import AccessPolicy, Disposition, QueueMode
from everturn_gateway.specs.jobs import AgentJobSection, HeartbeatSection
from everturn_gateway.specs.numbers import ContextSection, Count
from everturn_gateway.yaml_files import Section

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME_CHARACTERS = 64

SandboxKind: TypeAlias = Literal["bwrap", "plain"]
SearchProvider: TypeAlias = Literal["brave", "searxng", "tavily"]
Effort: TypeAlias = Literal["low", "medium", "high"]


def _agent_name(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > _NAME_CHARACTERS:
        msg = f"must be letters, digits and hyphens between them, at most {_NAME_CHARACTERS}"
        raise ValueError(msg)
    return value


def _some(value: str) -> str:
    if not value.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return value


def _server_name(value: str) -> str:
    """Refuse a name in which a pattern could not tell the server from its tool."""
    if not _some(value).isprintable() or value != value.strip() or set(value) & set(":*\\"):
        msg = (
            "names a server in patterns, as mcp:NAME:tool: it takes no :, *, backslash or blank end"
        )
        raise ValueError(msg)
    return value


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        valid = False
    if not valid:
        msg = "must be an address that starts with http:// or https://"
        raise ValueError(msg)
    return value


AgentName = Annotated[
    str,
    AfterValidator(_agent_name),
    Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$", "maxLength": _NAME_CHARACTERS}),
]
Text = Annotated[str, AfterValidator(_some), Field(json_schema_extra={"minLength": 1})]
ServerName = Annotated[str, AfterValidator(_server_name), Field(json_schema_extra={"minLength": 1})]
Address = Annotated[str, AfterValidator(_address)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MetadataSection(Section):
    """Who the agent is among the others."""

    name: AgentName
    "Letters, digits, hyphens; unique among the agents of a gateway."
    description: str = ""
    version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)


class FallbackSection(Section):
    """A model that is tried when the one before it is out of reach."""

    provider: Text
    name: Text
    base_url: Address | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None
    context_window: Count | None = None


class OneModelSection(Section):
    """One model, and its limits in tokens."""

    provider: Text
    "Whose model it is; the schema names those that are installed."
    name: Text
    base_url: Address | None = None
    "Any endpoint that speaks the provider's protocol."
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    max_input_tokens: Count | None = None
    "The window in tokens, or a cap on context_window where that is set; by default by the name."
    max_output_tokens: Count | None = None
    "Reserved for the reply; 4096 where the budget needs a number."
    max_tokens: Count | None = None
    "Another name of max_output_tokens."
    context_window: Count | None = None
    "The model's own window, where max_input_tokens is only a cap on it."
    reasoning_effort: Effort | None = None
    "How much it thinks before it answers; by default as its provider does."

    @model_validator(mode="after")
    def _one_limit(self) -> OneModelSection:
        if self.max_tokens is not None and self.max_output_tokens is not None:
            msg = "max_tokens is another name of max_output_tokens; keep one of the two"
            raise ValueError(msg)
        return self


class ModelSection(OneModelSection):
    """Which model answers, and its limits in tokens."""

    fallbacks: tuple[FallbackSection, ...] = ()
    "Tried next, in this order, on an outage."
    retry_for_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 900
    "An outage of all of them is waited out for so long; 0 = a turn fails after four tries."


class SummarizerSection(OneModelSection):
    """Which model writes summaries; the fields are those of spec.model."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    "At most 0.3 is sent."


def _model_or_none(value: object, check: ValidatorFunctionWrapHandler) -> SummarizerSection | None:
    """Read a section, or the word `none`, which gives None."""
    if value == "none":
        return None
    if isinstance(value, str):
        kind, text = "summarizer", "must be none, or a section with provider and name"
        raise PydanticCustomError(kind, text)
    found: SummarizerSection = check(value)
    return found


Summarizer = Annotated[
    SummarizerSection | None,
    WrapValidator(_model_or_none, json_schema_input_type=Literal["none"] | SummarizerSection),
]


class SessionContextSection(ContextSection):
    """How the conversation is made to fit the model's window."""

    summarizer: Summarizer = None
    "Who writes summaries: a model, or none. By default the agent's own; builtin, scripted: none."
    summary_timeout_seconds: Seconds = 120
    "Deadline of one summary, all tries together."

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that are set, by their names."""
        found = super().numbers()
        return {name: found[name] for name in found if name in ContextSection.model_fields}


class SessionSection(Section):
    """How the agent's sessions behave."""

    on_disconnect: OnDisconnect = "pause"
    "What a turn does when its HTTP client goes away."
    max_tool_iterations: Count = 25
    llm_timeout_seconds: Seconds = 300
    "Deadline of one model call."
    turn_timeout_seconds: Seconds = 1800
    "Deadline of a whole turn."
    steering: bool = True
    "Whether messages that come during a turn reach the model before its next call."
    ttl_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    "An idle session ends after this, 0 = never; by default as in everturn.yaml (168)."
    compaction: Compaction | None = None
    "What becomes of events behind the checkpoint; by default as in everturn.yaml (archive)."
    context: SessionContextSection = SessionContextSection()


class DebounceSection(Section):
    """Messages of one sender in quick succession are one."""

    enabled: bool = True
    window_ms: Annotated[int, Field(ge=0, le=60_000)] = 1500


class QueueSection(Section):
    """What becomes of messages that arrive during a turn."""

    mode: QueueMode = "batch"
    "One turn for all that waits, a turn for each burst, or none while a turn runs."
    max_pending: Count = 10
    overflow: Overflow = "drop_old"
    reject_message: str | None = None
    "What is answered where a message is rejected."
    debounce: DebounceSection = DebounceSection()


class DmSection(Section):
    """Who may write to the agent alone."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "Sender ids, a trailing * matches the rest; an empty list admits nobody."
    queue: QueueSection = QueueSection()


class ContextBufferSection(Section):
    """Messages that did not address the agent, given to it when somebody does."""

    mode: Literal["silent", "passive"] = "silent"
    "silent: told of in one block, the newest; passive: kept as messages of the conversation."
    max_messages: Annotated[int, Field(ge=0)] = 100
    max_age_hours: Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False)] = 24


class GroupsSection(Section):
    """In which groups the agent takes part, and how."""

    policy: AccessPolicy = "allowlist"
    allowlist: tuple[str, ...] = ()
    "Groups as channel:chat_id, a trailing * matches the rest; an empty list admits nobody."
    sender_default: Disposition = "allow"
    sender_overrides: dict[str, Disposition] = Field(default_factory=dict)
    "By sender id or prefix*; exact beats wildcard, the longer wildcard beats the shorter."
    activation: Literal["mention", "always"] = "mention"
    context_buffer: ContextBufferSection = ContextBufferSection()
    queue: QueueSection = QueueSection()


class AccessSection(Section):
    """Who may talk to the agent on a chat platform."""

    dm: DmSection = DmSection()
    groups: GroupsSection = GroupsSection()


class MemorySection(Section):
    """What the agent remembers beyond a session."""

    backend: Literal["filesystem"] = "filesystem"


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


class UsageSection(Section):
    """What the agent may use up in a day, all its conversations together; by UTC."""

    daily_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    daily_tokens: Count | None = None


class HooksSection(Section):
    """Guards that refuse, notes that steer."""

    before_tool: tuple[BeforeToolSection, ...] = ()
    after_tool: tuple[AfterToolSection, ...] = ()


class SpecSection(Section):
    """What the agent is made of."""

    model: ModelSection
    soul: str | None = None
    "Who the agent is: a path in its folder, or the text. By default SOUL.md, if it is there."
    system_prompt: str | None = None
    "What the agent does: a path, or the text. By default SYSTEM_PROMPT.md, if it is there."
    instructions: str | None = None
    "Its playbook: a path, or the text. By default INSTRUCTIONS.md, if it is there."
    session: SessionSection = SessionSection()
    access: AccessSection = AccessSection()
    memory: MemorySection | None = None
    tools: tuple[ToolSection, ...] = ()
    skills_dir: str = "./skills/"
    hooks: HooksSection = HooksSection()
    workspace: str | None = None
    "Folder for its files and commands, relative to the agent's; by default one in .everturn."
    usage: UsageSection = UsageSection()
    schedules: tuple[AgentJobSection, ...] = ()
    "What it says and does at set times."
    heartbeat: HeartbeatSection | None = None
    "A recurring look at what may be to do; by default none."


class AgentDocument(Section):
    """An agent in Duragent's format v1alpha1, with Everturn's additions."""

    api_version: Literal["duragent/v1alpha1"] = Field(alias="apiVersion")
    kind: Literal["Agent"]
    metadata: MetadataSection
    spec: SpecSection
