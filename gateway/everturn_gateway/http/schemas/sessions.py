"""What requests and answers hold: checked on the way in, described in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from everturn_actors.gaps import Gap, GapCause
from everturn_actors.model import (
    Approval,
    Decision,
    OpenTurn,
    Outage,
    Outcome,
    SessionStatus,
    ToolCall,
    Usage,
)
from everturn_actors.ports import SessionSummary
from everturn_actors.service import TurnResult
from everturn_actors.state.serialization import utc_text
from everturn_actors.state.session_state import SessionState
from everturn_actors.supervisor import ChildStatus
from everturn_gateway.errors import Fault, printable
from everturn_gateway.http.ports import AgentView, ReloadView
from everturn_gateway.http.uploads import AttachmentBody, Attachments
from everturn_gateway.usage import NANODOLLARS

Instant: TypeAlias = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "format": "date-time", "examples": ["2026-11-21T22:49:56.123456Z"]}
    ),
]
RETRY_FOR_MAX_S = 7 * 86_400  # of a wait for a model that a client asks for
NOT_BLANK = r"[^\s]"  # the pattern of a text that says something
MessageId: TypeAlias = Annotated[str, Field(pattern=r"^m[0-9]+$", examples=["m7"])]
TurnId: TypeAlias = Annotated[str, Field(pattern=r"^t[0-9]+$", examples=["t2"])]


class Body(BaseModel):
    """Base of all bodies: no unknown fields, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def answer(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return `body` as a JSON answer."""
    return Response(
        body.model_dump_json(), status_code=status, headers=headers, media_type="application/json"
    )


# --- requests ---


class NewSession(Body):
    """Begins a session, or goes on with the one of a conversation."""

    agent: str = Field(
        min_length=1, max_length=128, description="Name of the agent.", examples=["assistant"]
    )
    chat: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="Your own name of the conversation. Its present session goes on; without a"
        " name every call begins a conversation of its own.",
    )
    channel: Literal["http", "terminal"] = Field(
        default="http",
        description="Whose conversations `chat` names: those of HTTP clients, or those of the"
        " command line.",
    )


def _whole(value: object) -> object:
    """Return a whole number as an int, however it is written: to JSON, 60.0 is an integer too.

    Source: JSON Schema 2020-12, Validation, section 6.1.1 (read 2026-11-23).
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


class NewMessage(Body):
    """A message to the agent."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"content": {"minLength": 1, "pattern": NOT_BLANK}}},
                {"properties": {"attachments": {"minItems": 1}}, "required": ["attachments"]},
            ]
        }
    )

    attachments: Attachments = ()  # before the text, which may be empty where there are some
    content: str = Field(
        description="The text; at most 1 MiB in UTF-8, and more than blanks where no file comes"
        " with it.",
        examples=["Good morning!"],
    )
    retry_for_seconds: (
        Annotated[int, Field(strict=True, ge=0, le=RETRY_FOR_MAX_S), BeforeValidator(_whole)] | None
    ) = Field(
        default=None,
        description="For how long an outage of the model is waited out before the turn fails, where"
        " that should be less than the agent's `spec.model.retry_for_seconds`; 0 = not at all.",
    )

    @field_validator("content")
    @classmethod
    def _says_something(cls, content: str, info: ValidationInfo) -> str:
        if not content.strip() and not info.data.get("attachments"):
            kind, why = "blank", "must be more than blanks"
            raise PydanticCustomError(kind, why)
        if not content.isascii():
            try:
                content.encode()
            except UnicodeEncodeError as error:
                kind, why = "not_unicode", "must be valid Unicode text"
                raise PydanticCustomError(kind, why) from error
        return content


# --- sessions ---


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
    since: Instant
    failed_at: Instant = Field(description="When the newest of them failed.")
    retry_at: Instant = Field(description="When it is called again.")
    give_up_at: Instant = Field(description="When it is called for the last time.")
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
    started_at: Instant
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
    expires_at: Instant

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
        )


def approval_bodies(state: SessionState) -> tuple[ApprovalBody, ...]:
    """Return the calls of a session that wait for a person, in the order of asking."""
    step = state.open_turn.step if state.open_turn else None
    if step is None or step.reply is None:
        return ()
    calls = {call.call_id: call for call in step.reply.calls}
    return tuple(ApprovalBody.of(each, calls[each.call_id]) for each in state.open_approvals)


class DecisionBody(Body):
    """A person's word about a call that waits."""

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


class DecidedBody(Body):
    """The word is durable."""

    call_id: str
    decision: Decision


class SessionRow(Body):
    """One session in the list."""

    id: str
    agent: str
    channel: str
    chat: str
    status: SessionStatus
    created_at: Instant
    updated_at: Instant
    principal: str = Field(
        default="",
        description="Who began it; empty: a chat channel, or whoever runs the gateway.",
    )
    shared_with: tuple[str, ...] = Field(default=(), description="Who was given it besides.")

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
            ended_reason=state.ended_reason,
            turns=state.turns,
            messages=state.logged_messages,
            waiting=len(state.waiting),
            open_turn=OpenTurnBody.of(state.open_turn, waiting_for),
            approvals=approval_bodies(state),
            usage=UsageBody.of(state.usage),
            last_event=state.last_seq,
        )


class ShareList(Body):
    """Who was given a session."""

    session_id: str
    shared_with: tuple[str, ...] = Field(description="Names of principals, sorted.")


class SessionList(Body):
    """A page of sessions, newest first."""

    sessions: tuple[SessionRow, ...]
    next: str | None = Field(description="`after` of the next page; null on the last one.")


# --- messages and turns ---


class ToolCallBody(Body):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: str = Field(description="JSON text of an object, as the model wrote it.")

    @staticmethod
    def of(call: ToolCall) -> ToolCallBody:
        """Return the body of `call`."""
        return ToolCallBody(id=call.call_id, name=call.name, arguments=call.arguments)


class MessageBody(Body):
    """One message of a session's history."""

    message_id: MessageId
    turn_id: TurnId | None = Field(
        description="Null while the message waits for its turn, where it was dropped, and for what"
        " was said without a turn."
    )
    role: Literal["user", "assistant", "tool"]
    content: str
    created_at: Instant
    sender: str = ""
    attachments: tuple[AttachmentBody, ...] = ()
    tool_calls: tuple[ToolCallBody, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    usage: UsageBody | None = None


class GapBody(Body):
    """A run of events that the log no longer holds, and with them their messages."""

    first: int = Field(description="Number of the first missing event.")
    last: int = Field(description="Number of the last one.")
    cause: GapCause = Field(
        description="`discarded` on purpose (compaction), `lost` by damage, or not known which."
    )
    text: str = Field(description="The same in words.")

    @staticmethod
    def of(gap: Gap) -> GapBody:
        """Return the body of `gap`."""
        return GapBody(first=gap.first, last=gap.last, cause=gap.cause, text=gap.text)


class MessageList(Body):
    """A page of messages, oldest first."""

    messages: tuple[MessageBody, ...]
    next: MessageId | None = Field(description="`after` of the next page; null on the last one.")
    gaps: tuple[GapBody, ...] = Field(
        default=(), description="What is missing before, between or after these messages."
    )


class ReplyBody(Body):
    """How a turn was answered."""

    session_id: str
    message_id: MessageId
    turn_id: TurnId
    role: Literal["assistant"] = "assistant"
    content: str
    usage: UsageBody
    outcome: Outcome

    @staticmethod
    def of(result: TurnResult) -> ReplyBody:
        """Return the body of `result`."""
        return ReplyBody(
            session_id=result.session_id,
            message_id=f"m{result.message_seq}",
            turn_id=f"t{result.turn}",
            content=result.text,
            usage=UsageBody.of(result.usage),
            outcome=result.outcome,
        )


class AcceptedBody(Body):
    """A message that was accepted, and is answered later."""

    session_id: str
    message_id: MessageId
    events: str = Field(description="Path of the events that follow the message.")


class RetriedBody(Body):
    """A turn that is asked again."""

    session_id: str
    event: int = Field(description="The event that begins it.")
    events: str = Field(description="Path of the events that follow it.")


class CancelledBody(Body):
    """What a cancellation did."""

    cancelled: bool = Field(description="Whether a turn was running.")


class ResumedBody(Body):
    """What the wish to go on did."""

    resumed: bool = Field(description="Whether a turn was paused.")


# --- agents and administration ---


class ModelBody(Body):
    """Which model answers."""

    provider: str
    name: str


class AgentBody(Body):
    """One agent."""

    name: str
    description: str
    version: str
    model: ModelBody
    on_disconnect: Literal["pause", "continue"]
    inactive: tuple[str, ...] = Field(description="Fields that are set and have no effect yet.")

    @staticmethod
    def of(agent: AgentView) -> AgentBody:
        """Return the body of `agent`."""
        spec = agent.spec
        return AgentBody(
            name=spec.name,
            description=spec.description,
            version=spec.version,
            model=ModelBody(provider=spec.model.provider, name=spec.model.name),
            on_disconnect=spec.session.on_disconnect,
            inactive=agent.inactive,
        )


class AgentDetailBody(AgentBody):
    """One agent, with its tools as they are now."""

    tools: tuple[str, ...] = Field(
        description="By the names that its model calls; those of MCP servers since its first turn."
    )
    tool_faults: tuple[str, ...] = Field(
        description="What is wrong with its tools: MCP servers that are down, tools that others"
        " hide; one line each."
    )


class AgentList(Body):
    """All agents, by name."""

    agents: tuple[AgentBody, ...]


class AgentSpecBody(Body):
    """What stands in an agent's `agent.yaml`."""

    name: str
    document: dict[str, Any] = Field(
        description="The file's data; variables are not expanded, literal secrets are masked."
    )
    inactive: tuple[str, ...] = Field(description="Fields that are set and have no effect yet.")


class FaultBody(Body):
    """One thing that is wrong in a file."""

    file: str
    line: int = Field(description="From 1; 0 where the fault belongs to the whole file.")
    field: str
    message: str

    @staticmethod
    def of(fault: Fault) -> FaultBody:
        """Return the body of `fault`."""
        return FaultBody(
            file=fault.shown_file,
            line=fault.line,
            field=printable(fault.field),
            message=printable(fault.message),
        )


class AdminAgentBody(AgentBody):
    """One agent, for who runs the gateway."""

    folder: str


class AdminAgentList(Body):
    """All agents, and what is wrong in their folder."""

    agents: tuple[AdminAgentBody, ...]
    faults: tuple[FaultBody, ...]


class ReloadBody(Body):
    """What a reload changed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    faults: tuple[FaultBody, ...]

    @staticmethod
    def of(report: ReloadView) -> ReloadBody:
        """Return the body of `report`."""
        return ReloadBody(
            added=report.added,
            changed=report.changed,
            removed=report.removed,
            faults=tuple(map(FaultBody.of, report.faults)),
        )


# --- health ---


class StatusBody(Body):
    """Whether the gateway lives."""

    status: Literal["ok"]


class TaskBody(Body):
    """A long task of the gateway that should run and does not."""

    name: str
    state: Literal["backing_off", "failed"] = Field(
        description="backing_off: it is started again; failed: it stays down until a restart."
    )
    since: Instant
    restarts: int
    failures: int = Field(description="In a row.")
    error: str = Field(description="Why it failed the last time.")
    needed: bool = Field(description="Whether no message can be taken without it.")

    @staticmethod
    def of(status: ChildStatus) -> TaskBody:
        """Return the body of a task that is down."""
        error = status.error
        return TaskBody(
            name=status.name,
            state="failed" if status.state == "failed" else "backing_off",
            since=utc_text(status.since),
            restarts=status.restarts,
            failures=status.failures,
            error=f"{error.kind}: {error.text}".removesuffix(": ") if error else "",
            needed=status.is_needed,
        )


class ReadyBody(Body):
    """That the gateway takes messages, and what of it does not work meanwhile."""

    status: Literal["ready"]
    tasks: tuple[TaskBody, ...] = Field(description="Long tasks that are down.")
    restarts: dict[str, int] = Field(
        description="How often parts that failed were started again since the gateway began, those"
        " that run now too; parts that never were are left out."
    )
    blocked_chats: dict[str, int] = Field(
        description="By channel, in how many chats nothing can be taken for a while; see "
        "/api/v1/channels."
    )
    quarantined_sessions: int = Field(
        description="Sessions that failed again and again, and wait for somebody to cancel their "
        "turn, reset or delete them."
    )


class VersionBody(Body):
    """Which program answers."""

    name: Literal["everturn"] = "everturn"
    version: str
    started_at: Instant


# --- errors ---


class FieldErrorBody(BaseModel):
    """One fault of the input."""

    detail: str
    pointer: str | None = Field(default=None, description="Place in the body: `#/content`.")
    parameter: str | None = Field(
        default=None, description="Or the parameter, with its place: `query.limit`."
    )


class ProblemBody(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(examples=["urn:everturn:problem:unknown-session"])
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldErrorBody] | None = None


class OpenAIErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorBody(BaseModel):
    """An error, as OpenAI's clients read it."""

    error: OpenAIErrorDetail
