"""The whole of `agent.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from everturn_actors.model import Compaction
from everturn_actors.spec import OnDisconnect, SpokenReplies
from everturn_channels.languages import Language
from everturn_gateway.specs.jobs import AgentJobSettings, HeartbeatSettings
from everturn_gateway.specs.settings.access import AccessSettings
from everturn_gateway.specs.settings.commands import CommandSettings
from everturn_gateway.specs.settings.context import ContextSettings
from everturn_gateway.specs.settings.hooks import HooksSettings
from everturn_gateway.specs.settings.model import ModelSettings
from everturn_gateway.specs.settings.tools import ToolSearchSettings, ToolSettings
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import AgentName, Count, Seconds


class MetadataSettings(SettingsModel):
    """Who the agent is among the others."""

    name: AgentName
    "Letters, digits, hyphens; unique among the agents of a gateway."
    description: str = ""
    version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)


class SessionSettings(SettingsModel):
    """How the agent's sessions behave."""

    on_disconnect: OnDisconnect = "pause"
    "What a turn does when its HTTP client goes away."
    max_tool_iterations: Count = 25
    llm_timeout_seconds: Seconds = 300
    "Deadline of one model call."
    turn_timeout_seconds: Seconds = 1800
    "Deadline of a whole turn."
    client_tool_timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] = 3600
    "How long a client may take for a call of a tool that it brought itself."
    client_overrides: bool = False
    "Whether OpenAI clients set temperature, output limit, reasoning effort and the like."
    steering: bool = True
    "Whether messages that come during a turn reach the model before its next call."
    ttl_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    "An idle session ends after this, 0 = never; by default as in everturn.yaml (168)."
    compaction: Compaction | None = None
    "What becomes of events behind the checkpoint; by default as in everturn.yaml (archive)."
    context: ContextSettings = ContextSettings.model_construct()


class UsageSettings(SettingsModel):
    """What the agent may use up in a day, all its conversations together; by UTC."""

    daily_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    daily_tokens: Count | None = None


class VoiceSettings(SettingsModel):
    """Whether the agent speaks; by whom, `voice.speech` of everturn.yaml says."""

    reply: SpokenReplies = "never"
    "When an answer in a chat goes as a voice note, too, beside its text."


class SpecSettings(SettingsModel):
    """What the agent is made of."""

    model: ModelSettings
    soul: str | None = None
    "Who the agent is: a path in its folder, or the text. By default SOUL.md, if it is there."
    system_prompt: str | None = None
    "What the agent does: a path, or the text. By default SYSTEM_PROMPT.md, if it is there."
    instructions: str | None = None
    "Its playbook: a path, or the text. By default INSTRUCTIONS.md, if it is there."
    language: Language | None = None
    "Of what its channels say to people beside its replies; by default each person's own."
    session: SessionSettings = SessionSettings.model_construct()
    voice: VoiceSettings = VoiceSettings.model_construct()
    access: AccessSettings = AccessSettings.model_construct()
    memory: dict[str, object] | None = None
    "What it remembers beyond a session; the built-in tool memory reads it."
    tools: tuple[ToolSettings, ...] = ()
    tool_search: ToolSearchSettings = ToolSearchSettings.model_construct()
    skills_dir: str = "./skills/"
    commands: tuple[CommandSettings, ...] = ()
    "Commands of its own; each of its skills is one as well."
    hooks: HooksSettings = HooksSettings.model_construct()
    workspace: str | None = None
    "Folder for its files and commands, relative to the agent's; by default one in .everturn."
    placement: Literal["anywhere", "home"] | None = None
    """Of several gateways: whether any works for it, or one alone, on whose machine its folder is;
    by default the latter where its tools touch files, run commands or keep notes."""
    usage: UsageSettings = UsageSettings.model_construct()
    schedules: tuple[AgentJobSettings, ...] = ()
    "What it says and does at set times."
    heartbeat: HeartbeatSettings | None = None
    "A recurring look at what may be to do; by default none."


class AgentDocument(SettingsModel):
    """An agent in Duragent's format v1alpha1, with Everturn's additions."""

    api_version: Literal["duragent/v1alpha1"] = Field(alias="apiVersion")
    kind: Literal["Agent"]
    metadata: MetadataSettings
    spec: SpecSettings
