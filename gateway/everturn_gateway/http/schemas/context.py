"""What requests and answers about a session's context hold; the shape is that of `reports`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from everturn_actors.context.past.explain import Role, Verdict
from everturn_actors.context.report import ContextReport, Level
from everturn_actors.context.summaries import FOCUS_CHARACTERS
from everturn_actors.model import Disposition, SummarySource
from everturn_actors.service import Compacted
from everturn_actors.state.reports import report_record
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.http.schemas.messages import ToolCallBody

_Seq: TypeAlias = Annotated[int, Field(description="Number of an event.")]


class ReportedBody(Body):
    """What a provider reported for one request."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="Of the input, read from the provider's cache.")
    cache_written_tokens: int = Field(description="Of the input, written to its cache.")
    cost_nanodollars: int = Field(description="Billionths of a US dollar; 0 = no price known.")


class CompactRequest(Body):
    """What to have summarised."""

    focus: str = Field(
        default="",
        max_length=FOCUS_CHARACTERS,
        description="What the summary should keep above all.",
        examples=["the prices that were agreed"],
    )


class RegionsBody(Body):
    """Tokens of each part of the window; together they are the window, if the request fits."""

    system: int
    summary: int = Field(description="What stands for messages that are not shown, notices too.")
    history: int
    turn: int = Field(description="The running turn.")
    tools: int
    reserve: int = Field(description="Kept free for the reply.")
    margin: int = Field(description="Kept free because the numbers are estimates.")
    free: int


class ReceiptBody(Body):
    """The summary that stands for the oldest messages."""

    messages: int
    last_turn: int = Field(description="The newest turn it tells of.")
    source: SummarySource


class ContextBody(Body):
    """What a session's next request would hold, and what is hidden from it."""

    policy: str
    model: str
    window_tokens: int | None = Field(description="Null where it is not known.")
    used_tokens: int = Field(description="The predicted prompt, and `reserve`.")
    percent: int = Field(description="Of the window.")
    level: Level = Field(description="Yellow from 70 % on, red from 90 %.")
    regions: RegionsBody
    shown_messages: int
    hidden_messages: int = Field(description="Since the session began.")
    by_disposition: dict[Disposition, int] = Field(
        description="Messages that are not as they were said."
    )
    summary: ReceiptBody | None
    predicted_tokens: int
    reported: ReportedBody = Field(description="For the last request.")
    scale: float = Field(description="Tokens of the model for one estimated token.")
    reports: int = Field(description="How many reports of the provider `scale` was learnt from.")
    prefix: str = Field(description="Hash of the request.")
    cache_misses: int = Field(
        description="Requests that did not begin with the one before, without a reduction."
    )
    failures: int = Field(description="Summaries in a row that no model could write.")
    retry_at: Timestamp | None = Field(description="No model is asked for a summary before.")
    budget: str = Field(description="The arithmetic of the window.")
    next: tuple[str, ...] = Field(description="What will happen next, and when.")
    notes: tuple[str, ...] = Field(
        description="What was learnt of the model when it refused a request, and what follows."
    )

    @staticmethod
    def of(report: ContextReport) -> ContextBody:
        """Return the body of `report`."""
        return ContextBody.model_validate(report_record(report))


class ExplainedBody(Body):
    """One message of the session, and what a request had of it."""

    seq: _Seq
    role: Role
    disposition: Disposition
    stage: str = Field(description="What did it; empty where nothing was done.")
    tokens_before: int
    tokens_after: int = Field(description="0 where the request does not show it.")
    by_seq: int = Field(description="The event that did it; 0: none, or for this request alone.")
    begins: str = Field(description="Its first words.")


class SentMessageBody(Body):
    """One message of a request."""

    seq: int = Field(description="The event it came from; 0 where the gateway put it in.")
    role: Role
    content: str
    sender: str = ""
    name: str = ""
    tool_calls: tuple[ToolCallBody, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    opaque: str = Field(
        default="",
        description="What went in place of the content: its provider gave it, and gets it back.",
    )


class ToolDefinitionBody(Body):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, object]


class SentRequestBody(Body):
    """A request to a model."""

    model: str
    system: str
    messages: tuple[SentMessageBody, ...]
    tools: tuple[ToolDefinitionBody, ...]
    max_output_tokens: int | None
    temperature: float | None


class _PastRequest(Body):
    turn: int
    step: int
    started_seq: _Seq
    replied_seq: int = Field(description="The event with its answer; 0 where there is none.")
    policy: str
    model: str = Field(description="The one that was asked then.")
    verdict: Verdict = Field(description="Whether it is the request that was sent.")
    why: str
    sent_prefix: str = Field(description="Hash of the request that was sent.")
    prefix: str = Field(description="Hash of the request made again.")
    estimated_tokens: int
    reported: ReportedBody


class ExplanationBody(_PastRequest):
    """A past request, made again from the log, and why it looks as it does."""

    messages: tuple[ExplainedBody, ...] = Field(description="Of the session, up to then.")
    request: SentRequestBody = Field(description="Made again with today's agent.")


class RequestPartBody(_PastRequest):
    """With `part=request`: the request alone."""

    request: SentRequestBody = Field(description="Made again with today's agent.")


class DispositionBody(Body):
    """What a request had of a message."""

    disposition: Disposition
    stage: str = Field(description="What did it; empty where nothing was done.")
    tokens: int = Field(description="0 where the request does not show it.")
    by_seq: int = Field(description="The event that did it; 0: none, or for this request alone.")


class ComparedBody(Body):
    """One message of the session, and what the request and the other one had of it."""

    seq: _Seq
    role: Role
    tokens: int = Field(description="As the log keeps it.")
    begins: str = Field(description="Its first words.")
    now: DispositionBody | None = Field(description="Null: it was said after this request.")
    was: DispositionBody | None = Field(
        description="In the request `than`. Null: it was said after that one, or none was named."
    )


class StretchBody(Body):
    """Neighbouring messages of which the same became."""

    seq: _Seq
    disposition: Disposition
    messages: int
    tokens_before: int
    tokens_after: int


class DispositionsBody(_PastRequest):
    """With `part=dispositions`, `than` or `since`: what became of messages, without the request."""

    than: int | None = Field(description="The other request, by the number that names it.")
    by_disposition: dict[Disposition, int] = Field(description="Of all messages up to then.")
    stretches: tuple[StretchBody, ...] = Field(
        description="All messages up to then in their order, neighbours of one disposition joined;"
        " beyond 400 messages those that are near each other, too."
    )
    messages: tuple[ComparedBody, ...] = Field(
        description="Oldest first; with `than` only those that the two have otherwise."
    )


class RequestRow(Body):
    """One request of a session to its model, as the log tells of it."""

    turn: int
    step: int
    started_seq: _Seq
    replied_seq: int = Field(description="The event with its answer; 0 where there is none.")
    at: Timestamp = Field(description="When it was made.")
    model: str
    fallback: str = Field(description="The model that answered in its place; empty: none.")
    estimated_tokens: int = Field(description="Before what was learnt of the model; 0: not kept.")
    reported: ReportedBody
    cost_usd: float
    seconds: float | None = Field(description="To the end of its answer; null: there is none.")
    tries: int = Field(description="How often the model was asked, as far as calls failed.")
    reductions: int = Field(
        description="How often something was hidden or summarised since the request before it."
    )
    is_cache_miss: bool = Field(description="Whether it did not begin with the one before it.")


class RequestList(Body):
    """A page of a session's requests, newest first."""

    requests: tuple[RequestRow, ...]
    next: int | None = Field(description="`before` of the page with older ones.")


class CompactedBody(Body):
    """What became of the request for a summary."""

    done: bool
    messages: int = Field(description="How many messages the summary stands for.")
    tokens_before: int = Field(description="What the next prompt would have cost.")
    tokens_after: int
    source: SummarySource
    text: str = Field(description="Why nothing was done, or what went wrong on the way.")

    @staticmethod
    def of(compacted: Compacted) -> CompactedBody:
        """Return the body of `compacted`."""
        return CompactedBody(
            done=compacted.done,
            messages=compacted.messages,
            tokens_before=compacted.tokens_before,
            tokens_after=compacted.tokens_after,
            source=compacted.source,
            text=compacted.text,
        )


class CompactingBody(Body):
    """A summary was asked for; whether one is made, the session's events tell."""

    session_id: str
    events: str = Field(description="Path of the events that follow; `summarised` is the end.")
    state: Literal["accepted"] = "accepted"
