"""What was found in the folder of another program. Values."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

Source: TypeAlias = Literal["duragent", "nanobot", "openclaw", "hermes", "picoclaw"]


class FoundModel(Struct, frozen=True, kw_only=True):
    """Which model an agent used."""

    provider: str = "builtin"
    name: str = "builtin"
    base_url: str = ""


class FoundAgent(Struct, kw_only=True):
    """An agent, as the files of the folder that it gets here."""

    name: str
    model: FoundModel = FoundModel()
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    "By path in its folder: SOUL.md, skills/weather/SKILL.md."
    people: list[str] = field(default_factory=list[str])
    "Ids of those who may write to it."
    is_whole: bool = False
    "Whether `files` has its agent.yaml."


class FoundJob(Struct, frozen=True, kw_only=True):
    """A scheduled job, as a file of ours has it."""

    job_id: str
    fields: dict[str, object]


class FoundConversation(Struct, frozen=True, kw_only=True):
    """A conversation: what people and the agent said, oldest first."""

    agent: str
    channel: str
    chat: str
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]


class Found(Struct, kw_only=True):
    """All that can move in, and what cannot."""

    agents: list[FoundAgent] = field(default_factory=list[FoundAgent])
    jobs: list[FoundJob] = field(default_factory=list[FoundJob])
    conversations: list[FoundConversation] = field(default_factory=list[FoundConversation])
    bots: dict[str, str] = field(default_factory=dict[str, str])
    "By platform: the token."
    keys: dict[str, str] = field(default_factory=dict[str, str])
    "By variable: OPENAI_API_KEY."
    config: bytes = b""
    "Of Duragent: its configuration, which is one of ours."
    left: list[str] = field(default_factory=list[str])
    "What has no counterpart, or could not be read, and why."
