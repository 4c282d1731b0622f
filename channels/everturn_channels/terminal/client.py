"""What a terminal needs of a gateway; the client of the HTTP API, in the gateway, provides it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from everturn_actors.context.past.explain import Explanation
from everturn_actors.context.report import ContextReport
from everturn_actors.model import (
    Approval,
    ConversationKey,
    Decision,
    Outage,
    SessionStatus,
    Upload,
    Usage,
)
from everturn_actors.ports import SessionSummary
from everturn_actors.service import Compacted, Update
from everturn_channels.keeping import KnownNote, PinnedMessage
from everturn_channels.models import SessionModels
from everturn_channels.prompts import OfferedPrompt

LISTED_MAX = 20  # sessions in a list that a person picks from
HISTORY_MAX = 200  # messages given at once; a page of the HTTP API holds no more
_PAGE_EVENTS = 500


class Status(Struct, frozen=True, kw_only=True):
    """What a person may want to know about a session."""

    session_id: str
    key: ConversationKey
    status: SessionStatus
    turns: int
    "Turns started since the session began."
    messages: int
    "Messages since the session began."
    last_seq: int
    usage: Usage
    busy: bool
    "Whether something that was accepted is not answered yet."
    approvals: tuple[Approval, ...] = ()
    "Calls that wait for a person, in the order in which they were asked."
    outage: Outage | None = None
    "Where the model of the open turn is out of reach."
    waiting_for: str = ""
    "What its model call waits for before it is made; empty = for nothing."


class Said(Struct, frozen=True, kw_only=True):
    """One message of a session's history, or a gap in it."""

    seq: int
    "Of a gap: its last one."
    at: datetime | None
    "UTC, aware; None = a gap."
    role: Literal["user", "assistant", "tool", "gap"]
    text: str
    "With a line for each file that came with it. Of a gap: which events are missing, and why."


class Match(Struct, frozen=True, kw_only=True):
    """A message that was found."""

    session_id: str
    seq: int
    at: datetime
    role: str
    text: str
    "What stands around what was found, in one line."


class ListedSession(Struct, frozen=True, kw_only=True):
    """One session in a list that a person picks from."""

    session_id: str
    channel: str
    title: str
    "What somebody called it, or its first words; empty = nobody has said any."
    status: SessionStatus
    updated_at: datetime
    "UTC, aware."
    last_seq: int
    is_running: bool = False
    is_pinned: bool = False


class Prompts(Protocol):
    """What MCP servers of agents have for people to send.

    Its methods raise what those of `Client` do.
    """

    async def offered(self, agent: str) -> Sequence[OfferedPrompt]:
        """Return what MCP servers of an agent have for people to send."""
        ...

    async def text(self, agent: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt, with its places filled in; it is from outside."""
        ...


class Contexts(Protocol):
    """What the models of sessions see.

    Its methods raise what those of `Client` do.
    """

    async def report(self, session_id: str) -> ContextReport:
        """Return what the session's next request would hold. Waits for no turn."""
        ...

    async def explain(self, session_id: str, seq: int) -> Explanation:
        """Return why the request that was sent at event `seq` looked as it did.

        Raises:
            UnknownRequestError: None was sent there, or it cannot be made again.
        """
        ...

    async def compact(self, session_id: str, focus: str) -> Compacted:
        """Have older turns summarised; return when that is done, or found to be needless.

        The summary goes on where this is cancelled. An empty `focus` keeps nothing in particular.
        """
        ...


class History(Protocol):
    """What was said in sessions, which there are, and what they used.

    Its methods raise what those of `Client` do.
    """

    async def messages(self, session_id: str, *, after: int) -> Sequence[Said]:
        """Return the messages that came after event `after`, oldest first (`HISTORY_MAX`).

        Where events are missing, what says so stands between them.
        """
        ...

    async def search(self, text: str, **wanted: str | int) -> Sequence[Match]:
        """Return what was said that fits a question or words, the best match first.

        `wanted` are the parameters of `GET /api/v1/search`.
        """
        ...

    async def listed(self, *, agent: str, words: str, limit: int) -> Sequence[ListedSession]:
        """Return sessions of an agent, pinned ones first, then the one used last.

        With `words`, those that have them in title, id, chat or what was said last.
        """
        ...

    async def fork(
        self, session_id: str, *, at_seq: int, key: ConversationKey | None = None
    ) -> str:
        """Begin a session with the history of another one up to an event; return its id.

        The conversation `key` goes on in it from now on, where one is named.
        """
        ...

    def media(self, session_id: str, name: str) -> AsyncGenerator[bytes]:
        """Yield a file that came with a message, or was sent in the session."""
        ...

    async def spent(self, agent: str, *, days: int) -> Usage:
        """Return what an agent used in so many days, today (UTC) included."""
        ...


class Memory(Protocol):
    """What stays with the model of a session, whatever is hidden.

    Its methods raise what those of `Client` do.
    """

    async def pins(self, session_id: str) -> Sequence[PinnedMessage]:
        """Return the messages that the model is shown whatever is hidden, oldest first."""
        ...

    async def pin(
        self, session_id: str, message: int, *, is_off: bool = False
    ) -> Sequence[PinnedMessage]:
        """Pin a message, or take its pin off; return all that are pinned then."""
        ...

    async def notes(self, session_id: str) -> Sequence[KnownNote]:
        """Return what the agent knows of whom it talks with in a session."""
        ...

    async def note(self, session_id: str, topic: str, text: str) -> Sequence[KnownNote]:
        """Keep a note, in the place of the one on its topic; an empty text removes that.

        Returns all that are kept then.
        """
        ...


class Models(Protocol):
    """Which model answers in sessions.

    Its methods raise what those of `Client` do.
    """

    async def of(self, session_id: str) -> SessionModels:
        """Return which model answers in a session, and which others there are."""
        ...

    async def choose(self, session_id: str, name: str) -> SessionModels:
        """Have another model answer from the next turn on; empty: the agent's own again.

        Raises:
            InvalidInputError: There is no such model, or it cannot be used.
            ContextDoesNotFitError: It has no room for the session.
        """
        ...


class Connection(Protocol):
    """How a gateway is reached just now."""

    @property
    def is_shared(self) -> bool:
        """Whether others reach the gateway as well, while the client is open."""
        ...

    @property
    def is_away(self) -> bool:
        """Whether the gateway does not answer just now, and is looked for."""
        ...


class Client(Protocol):
    """The way into the conversations of one gateway.

    Every method may raise the errors of `everturn_actors.service.TurnService` for the same reasons,
    and an error of its own where the gateway cannot be reached.
    """

    @property
    def connection(self) -> Connection:
        """How the gateway is reached."""
        ...

    @property
    def prompts(self) -> Prompts:
        """What MCP servers have for people to send."""
        ...

    @property
    def contexts(self) -> Contexts:
        """What a model sees of a session."""
        ...

    @property
    def history(self) -> History:
        """What was said."""
        ...

    @property
    def memory(self) -> Memory:
        """What stays with the model of a session."""
        ...

    @property
    def models(self) -> Models:
        """Which model answers in a session."""
        ...

    async def agents(self) -> Sequence[str]:
        """Return the names of the agents that can be talked to, sorted."""
        ...

    async def open(self, key: ConversationKey) -> str:
        """Return the session in which a conversation goes on; start one where there is none."""
        ...

    async def submit(
        self,
        session_id: str,
        text: str,
        *,
        idempotency_key: str,
        attachments: Sequence[Upload] = (),
        untrusted: bool = False,
    ) -> int:
        """Hand in a message; return the number of its event when it, and its files, are durable.

        The same key again, in the same session, is the same message. With `untrusted` it holds text
        from outside that nobody vouches for.
        """
        ...

    def follow(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a number above `after`, then what comes. Changes nothing.

        No event is left out or given twice, also when the connection breaks on the way. Ends with
        the session or with the gateway.
        """
        ...

    async def resume(self, session_id: str) -> bool:
        """Let a turn go on that was paused, or waits for somebody; whether it was paused."""
        ...

    async def cancel(self, session_id: str) -> bool:
        """Cancel the running turn; return whether there was one, when it is closed."""
        ...

    async def retry(self, session_id: str, *, idempotency_key: str) -> int:
        """Ask the newest turn again, which failed; return the event that begins it."""
        ...

    async def undo(self, session_id: str) -> str:
        """Take back the files of the last turn that changed some; return what was, in words."""
        ...

    async def decide(
        self,
        session_id: str,
        call_id: str,
        decision: Decision,
        *,
        arguments_hash: str = "",
        answer: str = "",
    ) -> None:
        """Answer the approval of a call, as whoever runs the gateway.

        `arguments_hash` is that of what was shown; empty = it is not compared. `answer` is what was
        typed to an inquiry.

        Raises:
            UnknownApprovalError: No call of this id waits.
            ApprovalClosedError: It has expired, or was answered otherwise.
        """
        ...

    async def reset(self, session_id: str) -> None:
        """End the session."""
        ...

    async def share(self, session_id: str, principal: str, *, is_withdrawn: bool) -> Sequence[str]:
        """Give a principal the session, or take it back; return the names of those who have it."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session and all that belongs to it."""
        ...

    async def status(self, session_id: str) -> Status:
        """Return what is known of the session now."""
        ...

    async def sessions(self, *, after: str, limit: int) -> Sequence[SessionSummary]:
        """Return up to `limit` sessions with an id below `after` ("" = all), newest first."""
        ...
