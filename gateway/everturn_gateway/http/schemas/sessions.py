"""Sessions: what requests and answers hold of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, StrictBool

from everturn_actors.model import (
    Approval,
    Decision,
    Inquiry,
    OpenTurn,
    Outage,
    SessionStatus,
    ToolCall,
    Usage,
)
from everturn_actors.ports import SessionSummary
from everturn_actors.session.approvals import ANSWER_CHARACTERS
from everturn_actors.state.serialization import utc_text
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import SESSION_TITLE_CHARS
from everturn_gateway.http.schemas.base import Body, Timestamp, TurnId
from everturn_gateway.session_changes import SessionOverview
from everturn_gateway.usage import NANODOLLARS


class NamedConversation(Body):
    """Of which conversation a session is."""

    chat: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="Your own name of the conversation, which goes on in this session; without a"
        " name it is a conversation of its own.",
    )
    channel: Literal["http", "terminal"] = Field(
        default="http",
        description="Whose conversations `chat` names: those of HTTP clients, or those of the"
        " command line.",
    )


class NewSession(NamedConversation):
    """Begins a session, or goes on with the present one of a conversation that is named."""

    agent: str = Field(
        min_length=1, max_length=128, description="Name of the agent.", examples=["assistant"]
    )


class UsageBody(Body):
    """Tokens as the provider reported them; zero where it did not."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="The part of `input_tokens` read from a cache.")
    cache_written_tokens: int = Field(
        default=0, description="The part of `input_tokens` written to a cache, where that is told."
    )
    cost_usd: float = Field(
        default=0, description="What it cost, in US dollars; 0 where no price is known."
    )

    @staticmethod
    def of(usage: Usage) -> UsageBody:
        """Return the body of `usage`."""
        return UsageBody(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            cost_usd=usage.cost_nanodollars / NANODOLLARS,
        )


class OutageBody(Body):
    """Calls of a model that fail one after the other."""

    attempts: int
    since: Timestamp
    failed_at: Timestamp = Field(description="When the newest of them failed.")
    retry_at: Timestamp = Field(description="When it is called again.")
    give_up_at: Timestamp = Field(description="When it is called for the last time.")
    error: str = Field(description="Why the newest call failed.")

    @staticmethod
    def of(outage: Outage | None) -> OutageBody | None:
        """Return the body of `outage`."""
        if outage is None:
            return None
        return OutageBody(
            attempts=outage.attempts,
            since=utc_text(outage.since),
            failed_at=utc_text(outage.failed_at),
            retry_at=utc_text(outage.retry_at),
            give_up_at=utc_text(outage.give_up_at),
            error=outage.error,
        )


class OpenTurnBody(Body):
    """A turn that is not finished."""

    turn_id: TurnId
    started_at: Timestamp
    steps: int = Field(description="Steps that are done.")
    waiting_for: str = Field(
        description="What its model call waits for before it is made; empty = for nothing."
    )
    outage: OutageBody | None = Field(
        description="Where its model is out of reach: until when it is waited for."
    )

    @staticmethod
    def of(turn: OpenTurn | None, waiting_for: str) -> OpenTurnBody | None:
        """Return the body of `turn`."""
        if turn is None:
            return None
        return OpenTurnBody(
            turn_id=f"t{turn.number}",
            started_at=utc_text(turn.started_at),
            steps=len(turn.steps),
            waiting_for=waiting_for,
            outage=OutageBody.of(turn.outage),
        )


class InquiryBody(Body):
    """What an agent wants to know of a person."""

    text: str
    choices: tuple[str, ...]
    takes_text: bool = Field(description="Whether an answer may be another text than a choice.")
    default: str = Field(description="What holds where nobody answers in time; empty = nothing.")

    @staticmethod
    def of(inquiry: Inquiry | None) -> InquiryBody | None:
        """Return the body of an inquiry."""
        if inquiry is None:
            return None
        return InquiryBody(
            text=inquiry.text,
            choices=inquiry.choices,
            takes_text=inquiry.takes_text,
            default=inquiry.default,
        )


class ApprovalBody(Body):
    """A call that waits for a person."""

    call_id: str
    name: str = Field(description="The tool.")
    arguments: str = Field(description="JSON text of its arguments, as the model wrote it.")
    arguments_hash: str = Field(
        description="Of arguments and files; sent back with the answer, it binds it to these."
    )
    files: tuple[str, ...] = Field(
        description="Files of the workspace that the answer is bound to: the call does not run, but"
        " is asked about anew, once one of them has changed. A folder ends with /."
    )
    reason: str = Field(description="Why it is asked.")
    pattern: str = Field(
        description="What allow_always would allow from then on; empty = it cannot be."
    )
    approvers: tuple[str, ...] = Field(
        description="Senders who may answer; empty = all. Whoever runs the gateway always may."
    )
    expires_at: Timestamp
    inquiry: InquiryBody | None = Field(
        description="What the agent wants to know: the decision is then answer, or deny; null = it"
        " is asked whether the call may run."
    )

    @staticmethod
    def of(approval: Approval, call: ToolCall) -> ApprovalBody:
        """Return the body of `approval`, which is for `call`."""
        return ApprovalBody(
            call_id=approval.call_id,
            name=call.name,
            arguments=call.arguments,
            arguments_hash=approval.arguments_hash,
            files=tuple(each.path for each in approval.files if each.is_there),
            reason=approval.reason,
            pattern=approval.pattern,
            approvers=approval.approvers,
            expires_at=utc_text(approval.expires_at),
            inquiry=InquiryBody.of(approval.inquiry),
        )


def approval_bodies(state: SessionState) -> tuple[ApprovalBody, ...]:
    """Return the calls of a session that wait for a person, in the order of asking."""
    step = state.open_turn.step if state.open_turn else None
    if step is None or step.reply is None:
        return ()
    calls = {call.call_id: call for call in step.reply.calls}
    return tuple(ApprovalBody.of(each, calls[each.call_id]) for each in state.open_approvals)


class DecisionBody(Body):
    """A person's decision about a call that waits."""

    call_id: str = Field(min_length=1, description="The call.")
    decision: Decision
    sender: str = Field(
        default="",
        max_length=255,
        description="In whose name, as the sender of a message; only whoever runs the gateway, and"
        " who has the scope admin, may name somebody. Otherwise it is the caller.",
    )
    arguments_hash: str = Field(
        default="", max_length=64, description="What they were shown; empty = not compared."
    )
    answer: str = Field(
        default="",
        max_length=ANSWER_CHARACTERS,
        description="With the decision answer: one of the choices, its number, or, where the"
        " inquiry takes it, any text.",
    )


class DecidedBody(Body):
    """The decision is durable."""

    call_id: str
    decision: Decision


class SessionRow(Body):
    """One session in the list."""

    id: str
    agent: str
    channel: str
    chat: str
    status: SessionStatus
    created_at: Timestamp
    updated_at: Timestamp
    principal: str = Field(
        default="",
        description="Who began it; empty: a chat channel, or whoever runs the gateway.",
    )
    shared_with: tuple[str, ...] = Field(default=(), description="Who was given it besides.")
    title: str = Field(
        default="",
        description="What somebody called it. In the list by activity, where nobody did, the first"
        " words of its first message.",
    )
    pinned: bool = Field(default=False, description="Whether it stands above the others.")
    archived: bool = Field(
        default=False, description="Whether the list by activity leaves it out unless asked."
    )

    @staticmethod
    def row(summary: SessionSummary) -> SessionRow:
        """Return the row of `summary`."""
        return SessionRow(
            id=summary.session_id,
            agent=summary.key.agent,
            channel=summary.key.channel,
            chat=summary.key.chat,
            status=summary.status,
            created_at=utc_text(summary.created_at),
            updated_at=utc_text(summary.updated_at),
            principal=summary.principal,
            shared_with=summary.shared_with,
            title=summary.labels.title,
            pinned=summary.labels.pinned,
            archived=summary.labels.archived,
        )


class SessionBody(SessionRow):
    """One session as it stands."""

    ended_reason: str = Field(description="Why it ended; empty while it goes on.")
    turns: int = Field(description="Turns since the session began.")
    messages: int = Field(description="Messages of all its turns, tool results included.")
    waiting: int = Field(description="Messages that wait for their turn.")
    open_turn: OpenTurnBody | None
    approvals: tuple[ApprovalBody, ...] = Field(description="Calls that wait for a person.")
    usage: UsageBody
    last_event: int = Field(description="Number of its last event.")
    branch_of: str = Field(
        description="The session with a part of which it began; empty: it began by itself."
    )

    @staticmethod
    def of(state: SessionState, waiting_for: str = "") -> SessionBody:
        """Return the body of `state`; its model call, if there is one, waits for `waiting_for`."""
        return SessionBody(
            id=state.session_id,
            agent=state.key.agent,
            channel=state.key.channel,
            chat=state.key.chat,
            status=state.status,
            created_at=utc_text(state.created_at),
            updated_at=utc_text(state.updated_at),
            principal=state.principal,
            shared_with=state.shared_with,
            title=state.labels.title,
            pinned=state.labels.pinned,
            archived=state.labels.archived,
            ended_reason=state.ended_reason,
            turns=state.turns,
            messages=state.logged_messages,
            waiting=len(state.waiting),
            open_turn=OpenTurnBody.of(state.open_turn, waiting_for),
            approvals=approval_bodies(state),
            usage=UsageBody.of(state.usage),
            last_event=state.last_seq,
            branch_of=state.branch_of,
        )


class ForkPoint(NamedConversation):
    """Where a session is forked; a conversation that is named goes on in the new one."""

    at_seq: int = Field(ge=1, le=2**53, description="The last event that the new one has too.")


class LabelsBody(Body):
    """How a session is sorted; what is left out stays as it is."""

    title: str | None = Field(
        default=None,
        max_length=SESSION_TITLE_CHARS,
        description="What it is called, one line; empty = by its first words again.",
        examples=["Trip to Lisbon"],
    )
    pinned: StrictBool | None = Field(
        default=None, description="Whether it stands above the others."
    )
    archived: StrictBool | None = Field(
        default=None, description="Whether the list by activity leaves it out unless asked."
    )


class ShareList(Body):
    """Who was given a session."""

    session_id: str
    shared_with: tuple[str, ...] = Field(description="Names of principals, sorted.")


class OverviewRow(SessionRow):
    """One session in the list by activity, with what there is to see of it at a glance."""

    preview: str = Field(description="The first words of what was said last.")
    last_event: int = Field(description="Number of its last event.")
    turns: int = Field(description="Turns since the session began.")
    running: bool = Field(description="Whether a turn runs.")
    approvals: int = Field(description="Calls that wait for a person.")
    failed: bool = Field(description="Whether the newest turn failed.")
    cost_usd: float = Field(description="What it cost; 0 where no price is known.")
    gone: bool = Field(default=False, description="Whether it was deleted; in streams alone.")

    @staticmethod
    def overview(row: SessionOverview) -> OverviewRow:
        """Return the row of `row`."""
        return OverviewRow(
            id=row.session_id,
            agent=row.key.agent,
            channel=row.key.channel,
            chat=row.key.chat,
            status=row.status,
            created_at=utc_text(row.created_at),
            updated_at=utc_text(row.updated_at),
            principal=row.principal,
            shared_with=row.shared_with,
            title=row.title,
            pinned=row.labels.pinned,
            archived=row.labels.archived,
            preview=row.preview,
            last_event=row.last_seq,
            turns=row.turns,
            running=row.is_running,
            approvals=row.approvals,
            failed=row.has_failed,
            cost_usd=row.usage.cost_nanodollars / NANODOLLARS,
            gone=row.is_gone,
        )


class OverviewList(Body):
    """A page of sessions, the one in which something happened last first."""

    sessions: tuple[OverviewRow, ...]
    next: str | None = Field(
        description="`after` of the next page; null on the last one. A page may be short, or empty,"
        " where a search has not come to its end."
    )


class WaitingApproval(ApprovalBody):
    """A call that waits for a person, and in which session."""

    session_id: str
    agent: str
    channel: str
    chat: str
    title: str


class ApprovalList(Body):
    """Every call that waits for a person."""

    approvals: tuple[WaitingApproval, ...] = Field(description="Those that expire first, first.")


class LogPage(Body):
    """Events of a session as they are in its log, oldest first."""

    events: tuple[dict[str, JsonValue], ...]
    first: int = Field(description="`before` of the page with older ones; 1 = there are none.")
    last: int = Field(description="`after` of the page with newer ones.")
    last_event: int = Field(description="Number of the last event of the session.")


class SessionList(Body):
    """A page of sessions, newest first."""

    sessions: tuple[SessionRow, ...]
    next: str | None = Field(description="`after` of the next page; null on the last one.")
