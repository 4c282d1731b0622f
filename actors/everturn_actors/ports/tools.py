"""What an agent can do, and what decides whether it may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

import anyio
from msgspec import Struct, field

from everturn_actors.model import (
    Approval,
    Conversation,
    ConversationKey,
    FileDigest,
    Inquiry,
    ToolCall,
    ToolDefinition,
    Upload,
)
from everturn_actors.ports.store import SessionStore


class InquiryToMake(Struct, frozen=True, kw_only=True):
    """What a call of a tool asks a person."""

    inquiry: Inquiry
    timeout_s: int = 3600
    "How long there is to answer."
    approvers: tuple[str, ...] = ()
    "Who may answer, see `Approval.approvers`; empty = whoever began the turn."
    state: str = ""
    """What the call goes on with. Where there is some, a restart of the gateway lets the question
    wait, and runs the call again with the answer, see `ToolContext.asked`. Without any the call is
    cut short then, as every call that runs."""


class Questions(Protocol):
    """What a call that runs asks a person, one question after the other."""

    @property
    def withdrawn(self) -> anyio.Event | None:
        """Set when nobody needs the answers any more; None = that does not happen."""
        ...

    def current(self) -> InquiryToMake | None:
        """Return the question that is to be asked now; None = there is none left."""
        ...

    def take(self, answer: Approval) -> None:
        """Take what became of the present question; the next one is another."""
        ...


Ask: TypeAlias = Callable[[Questions], Awaitable[None]]
"Asks until there is no question left. Deadlines of the call and its turn stand still meanwhile."


class ToolContext(Struct, frozen=True, kw_only=True):
    """Where a call runs."""

    session_id: str
    key: ConversationKey
    store: SessionStore
    "Holds the session's log and large results. For reading alone."
    conversation: Conversation = field(default_factory=Conversation)
    "The session as it stands when the call begins."
    principal: str = ""
    "Whose session it is; empty = a chat channel's, or that of whoever runs the gateway."
    shared_with: tuple[str, ...] = ()
    "Principals that see the session, too, beside whose it is."
    ask: Ask | None = None
    "Asks the people of the conversation in the middle of the call; None = nobody can be asked."
    asked: Approval | None = None
    "What the call asked before a restart, with the answer and its state; None = nothing."

    @property
    def is_shared(self) -> bool:
        """Whether others than who began the session see it, too."""
        return bool(self.shared_with)

    @property
    def viewers(self) -> frozenset[str]:
        """The principals that see the session; empty where it belongs to none of them."""
        return frozenset(filter(None, (self.principal, *self.shared_with)))


class ToolOutput(Struct, frozen=True, kw_only=True):
    """What a call gave."""

    text: str
    is_error: bool = False
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for: a web page, another's message."
    source: str = ""
    "untrusted: what that text is, in a few words for people: `the page https://...`."
    files: tuple[Upload, ...] = ()
    "What the people of the conversation are sent."
    images: tuple[Upload, ...] = ()
    "What the model is shown with the text, where it sees: images of `model.IMAGE_TYPES`."


ToolKind: TypeAlias = Literal["builtin", "bash", "cli", "mcp"]


class ToolCapabilities(Struct, frozen=True, kw_only=True):
    """What whoever runs a tool needs to know of it."""

    kind: ToolKind = "builtin"
    "The first part of the patterns of a tool policy."
    read_only: bool = False
    "It changes nothing: calls may run side by side, and again after a crash."
    repeatable: bool = False
    "Running a call of it twice does no harm: after a crash it runs again."
    safe: bool = False
    "It reaches nothing beyond the agent's own conversation, notes and files: nobody is asked."
    asks_people: bool = False
    "Its calls ask a person something: it is one of `AsksPeople`."
    timeout_s: float = 300
    "Deadline of one call; the call is cancelled then, and its result says so."


class Tool(Protocol):
    """Something an agent can do."""

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        ...

    @property
    def capabilities(self) -> ToolCapabilities:
        """How it may be run."""
        ...

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run one call and return its result; a plain text is one that is trusted.

        Cancellation ends within a second all that the call began, and leaves nothing half done
        that a result would not tell of.

        Raises:
            ToolFailedError: With the text that the model should read.
        """
        ...


class AsksPeople(Protocol):
    """A tool whose calls ask a person; the answer is their result, and nothing runs.

    Its `capabilities.asks_people` is set.
    """

    def inquiry_of(self, call: ToolCall, context: ToolContext) -> InquiryToMake:
        """Return what the call asks.

        Raises:
            ToolFailedError: With the text that the model should read.
        """
        ...


class Verdict(Struct, frozen=True, kw_only=True):
    """What a gate says of one call."""

    effect: Literal["allow", "deny", "ask"]
    reason: str = ""
    "Why it is refused or asked, in words for the model and for people."
    pattern: str = ""
    "ask: what allow_always would allow from then on; empty = this cannot be allowed for good."
    approvers: tuple[str, ...] = ()
    "ask: who may answer, see `Approval.approvers`; empty = whoever began the turn."
    timeout_s: int = 3600
    "ask: how long there is to answer."
    files: tuple[FileDigest, ...] = ()
    """What it was judged by beside the call: files of the workspace, as they stood.

    Where there are any, the call is judged once more as it begins, and does not run where they
    have changed.
    """


ALLOW = Verdict(effect="allow")


class Gate(Protocol):
    """Decides which calls of an agent may run."""

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say whether a call may run. Asked again for the same call, it may say something else.

        Asked before a call runs, when a person has answered, and, where the verdict names files,
        once more as the call begins.
        """
        ...

    async def remember(self, pattern: str) -> None:
        """Allow `pattern` for good; return when that is durable. Doing it twice does no harm.

        Raises:
            CoreError: It could not be written; the call that was allowed runs all the same.
        """
        ...
