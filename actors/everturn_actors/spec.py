"""What an agent is, as far as the core needs to know.

Pure values; the gateway reads them from files.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from everturn_actors.model import Compaction

SpokenReplies: TypeAlias = Literal["never", "when_spoken_to", "always"]
OnDisconnect: TypeAlias = Literal["pause", "continue"]


class ModelSpec(Struct, frozen=True, kw_only=True):
    """Which model answers, and its limits."""

    provider: str
    name: str
    base_url: str = ""
    temperature: float | None = 0.7
    context_window: int | None = None
    "The model's window in tokens; None = by its name."
    max_input_tokens: int | None = None
    "Caps `context_window`; where that is None, it is the window itself. None = neither."
    max_output_tokens: int | None = None
    "Reserved for the reply; None = 4096 where the budget needs a number, and none is sent."
    usual_window: int | None = None
    "The window of models of this name, as its provider lists them; None = it does not."
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    "How much it thinks before it answers; None = as its provider does."
    makes_images: bool = False
    "Whether it is asked for images with its text."
    cache_life_s: float = 0
    "For how long its provider caches the beginning of a request; 0 = not, or nobody knows."
    compacts: bool = False
    "Whether its provider can put a summary of its own in the place of a conversation."
    tokenizer: str = ""
    "The file by which its prompts are counted here; empty = they are not. See `docs/models.md`."
    fallbacks: tuple[ModelSpec, ...] = ()
    "Asked next, in this order, where it is out of reach; theirs are not looked at."


class PromptSpec(Struct, frozen=True, kw_only=True):
    """The agent's own texts, read from their files, `{{date}}` and `{{time}}` still in them."""

    soul: str = ""
    system_prompt: str = ""
    instructions: str = ""
    directives: tuple[str, ...] = ()
    skills: str = ""
    "Which skills there are, and how one is read."


class ContextPolicy(Protocol):
    """A `context.policy.Policy`, of which an agent's description knows the name alone."""

    @property
    def name(self) -> str:
        """By which people call it."""
        ...


class ContextSpec(Struct, frozen=True, kw_only=True):
    """How the conversation is made to fit."""

    policy: ContextPolicy | None = None
    "With the agent's numbers; None = `everturn`, with its own."
    summary_timeout_s: float = 120
    "Deadline of one summary, all tries together."
    recall: bool | None = None
    "Whether the model gets the tool that reads back what is hidden; None = where it can call it."
    auto_recall: bool | None = None
    """Whether older messages that fit a question are quoted with it; None = by policies that open
    summaries, where the model has that tool."""


class SessionSpec(Struct, frozen=True, kw_only=True):
    """How the agent's sessions behave."""

    on_disconnect: OnDisconnect = "pause"
    max_tool_iterations: int = 25
    call_timeout_s: float = 300
    "Deadline of one model call."
    model_retry_for_s: float = 900
    "In an outage of the model calls are made again for so long; 0 = a few times, at once."
    turn_timeout_s: float = 1800
    "Deadline of a whole turn."
    client_tool_timeout_s: int = 3600
    "How long the caller of a turn may take for a call that it runs itself."
    client_overrides: bool = False
    "Whether callers set temperature, output limit and the like in place of the agent's model."
    ttl_hours: float = 168
    "An idle session is ended after this; 0 = never."
    compaction: Compaction = "archive"
    steering: bool = True
    "Whether messages that come during a turn reach the model before its next call."
    context: ContextSpec = field(default_factory=ContextSpec)


class AgentSpec(Struct, frozen=True, kw_only=True):
    """One version of one agent."""

    name: str
    model: ModelSpec
    description: str = ""
    version: str = ""
    language: str = ""
    "In which language its channels speak to people, like `de`; empty = that of each of them."
    prompt: PromptSpec = field(default_factory=PromptSpec)
    session: SessionSpec = field(default_factory=SessionSpec)
    spoken_replies: SpokenReplies = "never"
    "When its answers go to the people of a channel as sound, beside the text."
