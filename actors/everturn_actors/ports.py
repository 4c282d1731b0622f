"""What the core needs from outside, as Protocols; the composition root chooses them.

The docstrings of `SessionStore` are the durability contract: every implementation passes the same
contract suite.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.model import (
    Compaction,
    Conversation,
    ConversationKey,
    FileDigest,
    ModelRequest,
    Reply,
    SessionStatus,
    ToolCall,
    ToolDefinition,
    Upload,
)
from everturn_actors.spec import AgentSpec, ModelSpec
from everturn_actors.state.session_state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a store holds of one session."""

    snapshot: SessionState | None
    "State at its last checkpoint; None where none was saved."
    events: tuple[Event, ...]
    "Events after the snapshot (all, where there is none), oldest first, without holes."
    repairs: tuple[str, ...] = ()
    "What was set right while loading, in words for the operator: a torn last line that was cut."
    losses: tuple[str, ...] = ()
    "What of the history before the snapshot is lost, in the same words; the session works without."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One row of the list of sessions."""

    session_id: str
    key: ConversationKey
    status: SessionStatus
    created_at: datetime
    updated_at: datetime
    "UTC. When something was last written for the session."
    principal: str = ""
    "Who began it; empty = a chat channel, or whoever runs the gateway."
    shared_with: tuple[str, ...] = ()
    "Who was given it besides, by name."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions of a list are wanted."""

    seen_by: str = ""
    "Only those that this principal began or was given; empty = all."
    agents: frozenset[str] | None = None
    "Only those of these agents; None = of all."

    def admits(self, summary: SessionSummary) -> bool:
        """Return whether a session is wanted."""
        if self.agents is not None and summary.key.agent not in self.agents:
            return False
        viewers = (summary.principal, *summary.shared_with)
        return not self.seen_by or self.seen_by in viewers


ALL_SESSIONS: Final = SessionFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStats:
    """A group commit of a store, for whoever measures."""

    jobs: int
    "Appends and marks that shared it."
    size_bytes: int
    "Of the lines in it, also of those that could not be written."
    duration_s: float
    "From the first write to the last sync, the way to a thread and back included."


class SessionStore(Protocol):
    """Keeps journals, snapshots, and the two small indexes that can be rebuilt from them.

    Every method may raise `JournalError`. Methods of different sessions may run at the same time;
    for one session, the one actor that owns it calls `append` and `save_snapshot` in order.
    """

    async def load(self, session_id: str) -> Loaded | None:
        """Return what is stored, or None where there is no such session.

        A torn last line of the log (a write that a crash cut short, so nobody was told that it was
        accepted) is cut off, kept beside the log, and named in `Loaded.repairs`.

        Raises:
            CorruptJournalError: A hole in the numbers, a bad line with good ones after it, or a
                log or snapshot of another session. The files are left as they are.
            UnknownFormatError: Written by another version.
        """
        ...

    async def inspect(self, session_id: str) -> Loaded | None:
        """Return what `load` would, for reading alone: nothing is written, synced or repaired.

        `Loaded.repairs` names what a load would set right. May be called at any time by anybody;
        what another process left unsynced is shown as well.

        Raises:
            CorruptJournalError, UnknownFormatError: As `load` does.
        """
        ...

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append all `events` or none; return only when they survive a crash of the machine.

        `expected_seq` is the last seq the caller knows (0 = the session is new): compare, then
        append. The first append of a session creates it.

        Raises:
            FencedError: The stored log does not end at `expected_seq`. Nothing was written.
            JournalWriteError: Not written (disk full, read-only, failing). What was begun is
                undone, so that the log still ends at `expected_seq`; where even that fails, the
                next `load` finds a torn line and cuts it.
        """
        ...

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """Replace the snapshot atomically; then let go of the log up to `state.last_seq`.

        archive: those lines move to the archive, archive first, then the log is rewritten.
        discard: they are dropped. disabled: the log keeps them. A crash at any point leaves a
        session that loads to the same state.

        Raises:
            JournalWriteError: Nothing is lost: the old log still stands, under the old snapshot
                or already under the new one.
            FencedError: The log ends before `state` does.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return up to `limit` events with a seq above `after`, oldest first, archive included.

        Events that were discarded are missing: the first one returned may then be later than
        `after + 1`. Unknown session: empty. Changes nothing: a torn last line is passed over.
        The same is true of events that were lost; `explain_gap` tells which they are.
        """
        ...

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """Return why `read` does not give the events `first` to `last`, piece by piece, ascending.

        For runs that are known to be missing: whether they are is not looked at.
        """
        ...

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return up to `limit` wanted sessions with an id below `after`, newest first.

        `after` "" begins with the newest.
        A session that cannot be read is left out here; `doctor` reports it.
        """
        ...

    async def summary(self, session_id: str) -> SessionSummary | None:
        """Return what a list says of one session; None where there is none, or it cannot be read.

        Costs the same however much is stored of it.
        """
        ...

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents with sessions that have not ended, in any order."""
        ...

    def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """Yield the sessions of an agent in which nothing happened since `before`.

        Those that ended are left out. Takes as long as there are such sessions. What changes
        meanwhile may be seen or not.
        """
        ...

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """Keep a text that is too large for the log, under `name`; return when it is durable.

        A text of the same name is replaced. `name` is letters, digits, `-`, `_` and dots inside,
        at most 100 of them. The oldest texts of the session go where all together exceed the
        store's limit; never the one just saved.

        Raises:
            JournalWriteError: It could not be written. A text that stood there before still does.
            InvalidInputError: The name is none.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read_result(self, session_id: str, name: str) -> str | None:
        """Return a text that was kept, or None where there is none (any more).

        Raises:
            JournalError: It is there and cannot be read.
        """
        ...

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file that came with a message, under `name`; return when it is durable.

        What `save_result` says of names, of a file of the same name and of the oldest ones holds
        here too; the limit is one of its own.

        Raises:
            JournalWriteError: It could not be written. A file that stood there before still does.
            InvalidInputError: The name is none.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """Return a file that was kept, or None where there is none (any more).

        Raises:
            JournalError: It is there and cannot be read.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session and all that belongs to it; return when that is durable."""
        ...

    async def bind(self, key: ConversationKey, session_id: str) -> None:
        """Make `session_id` the current session of `key`, durably. It need not exist yet."""
        ...

    async def bound(self, key: ConversationKey) -> str:
        """Return the current session of `key`, "" where there is none. A hint, not the truth."""
        ...

    async def mark_active(self, session_id: str) -> None:
        """Remember durably that this session may have an open turn."""
        ...

    async def mark_passive(self, session_id: str) -> None:
        """Take the mark back: the session has no open turn. Need not be durable."""
        ...

    async def active(self) -> tuple[str, ...]:
        """Return every session that may have an open turn, without reading any session."""
        ...


class ModelProvider(Protocol):
    """Talks to one model API."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; call `on_text` with each piece of its text as it arrives.

        One try: who retries, and for how long, is decided by the turn. Cancellation closes the
        request. Reply.seq is 0.

        Raises:
            ModelError: One of its kinds, for every failure of the API, with a text that a person
                may read and that holds no secret. Anything else is a fault of the provider, and
                fails this call alone.
        """
        ...


@runtime_checkable
class WindowSource(Protocol):
    """A provider that can say how large its model's window is."""

    async def window_tokens(self) -> int | None:
        """Return the window of the model as it is served, in tokens; None where it is not told.

        Never raises for a server that does not answer; returns within seconds.
        """
        ...


class ModelStatisticsStore(Protocol):
    """What was learnt about models, across sessions and restarts."""

    def of(self, model: ModelSpec) -> ModelStatistics:
        """Return what is known of a model now; of one that was never used, what its name tells.

        Hints that have expired are marked as over.
        """
        ...

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember `statistics`; where they are kept on disk, that happens later."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Where a call runs."""

    session_id: str
    key: ConversationKey
    store: SessionStore
    "Holds the session's log and large results. For reading alone."
    conversation: Conversation = field(default_factory=Conversation)
    "The session as it stands when the call begins."
    principal: str = ""
    "Whose session it is; empty = a chat channel's, or that of whoever runs the gateway."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a call gave."""

    text: str
    is_error: bool = False
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for: a web page, another's message."
    source: str = ""
    "untrusted: what that text is, in a few words for people: `the page https://...`."
    files: tuple[Upload, ...] = ()
    "What the people of the conversation are sent."


ToolKind: TypeAlias = Literal["builtin", "bash", "cli", "mcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCapabilities:
    """What whoever runs a tool needs to know of it."""

    kind: ToolKind = "builtin"
    "The first part of the patterns of a tool policy."
    read_only: bool = False
    "It changes nothing: calls may run side by side, and again after a crash."
    repeatable: bool = False
    "Running a call of it twice does no harm: after a crash it runs again."
    safe: bool = False
    "It reaches nothing beyond the agent's own conversation, notes and files: nobody is asked."
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """The model that writes summaries."""

    provider: ModelProvider
    model: ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent, ready to work: its values and the live things behind them."""

    spec: AgentSpec
    provider: ModelProvider
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    summariser: Summariser | None = None
    "None: older turns leave without a summary."
    gate: Gate | None = None
    "None: every call may run."
    prepare: Callable[[], Awaitable[None]] | None = None
    """Brings up what its tools need, before each turn; `tools` may have changed when it returns.

    Never raises, and has a deadline of its own: a tool that cannot be had says so when called.
    """

    def offered(self, statistics: ModelStatistics) -> tuple[ToolDefinition, ...]:
        """Return its tools as its model sees them; none for a model that takes none."""
        return (
            tuple(tool.definition for tool in self.tools.values()) if statistics.calls_tools else ()
        )


class Agents(Protocol):
    """Finds agents. A turn keeps the version it began with."""

    def get(self, name: str) -> Agent:
        """Return the current version of an agent.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...


class Clock(Protocol):
    """The time, so that tests can own it."""

    def now(self) -> datetime:
        """Return the present instant, UTC, aware."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        ...


class Observer(Protocol):
    """Is told what sessions do, to count and to trace it; nothing depends on what it makes of it.

    It stands in the path of every turn: each method takes microseconds, does no IO and never
    raises.
    """

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Take note of events of one session that are on disk now: oldest first, each told once.

        Args:
            before: The session without them; None where it begins with them.
            after: The session with them.
            events: At least one.
        """
        ...

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """Enclose all that the actor of a session does, in its task, from waking to rest."""
        ...

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """Enclose the work on the open turn, in its task; one that goes on later has several.

        Args:
            state: The session as the work begins.
            turn: The number of the turn.
            agent: Who works; None where there is no such agent, and the turn can only fail.
        """
        ...


class NullObserver:
    """An `Observer` that looks away."""

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Take no note."""

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """Enclose nothing."""
        del session_id
        return nullcontext()

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """Enclose nothing."""
        del state, turn, agent
        return nullcontext()
