"""The body of the report on usage."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from everturn_actors.model import Usage
from everturn_gateway.http.schemas.base import Body
from everturn_gateway.http.schemas.sessions import UsageBody
from everturn_gateway.usage import NANODOLLARS, DailyLimit, Tally, UsageRow, total

Day: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-11-22"]})
]

GroupedBy: TypeAlias = Literal["session", "schedule", "principal"]


class TallyBody(Body):
    """Model calls that were answered, and what they used."""

    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="The part of `input_tokens` read from a cache.")
    cache_written_tokens: int = Field(
        description="The part of `input_tokens` written to a cache, where that is told."
    )
    cost_usd: float = Field(description="What the calls whose cost is known cost, in US dollars.")
    unpriced_calls: int = Field(description="Calls whose cost is not known.")
    saved_usd: float = Field(
        description="What caches saved: so much more it would have cost without any."
    )

    @staticmethod
    def of(tally: Tally) -> TallyBody:
        """Return the body of `tally`."""
        return TallyBody(
            calls=tally.calls,
            input_tokens=tally.input_tokens,
            output_tokens=tally.output_tokens,
            cached_tokens=tally.cached_tokens,
            cache_written_tokens=tally.cache_written_tokens,
            cost_usd=tally.cost_nanodollars / NANODOLLARS,
            unpriced_calls=tally.unpriced_calls,
            saved_usd=tally.saved_nanodollars / NANODOLLARS,
        )


class UsageRowBody(TallyBody):
    """What one agent used of one model on one day."""

    day: Day = Field(description="By UTC.")
    agent: str
    model: str = Field(
        description="As provider/name; what an MCP server used says so behind it.",
        examples=["openai/gpt-5-mini"],
    )

    @staticmethod
    def row(row: UsageRow) -> UsageRowBody:
        """Return the body of `row`."""
        tally = TallyBody.of(row.tally).model_dump()
        return UsageRowBody(day=row.day.isoformat(), agent=row.agent, model=row.model, **tally)


class LimitBody(Body):
    """What an agent may use from midnight to midnight, UTC, and what it used today."""

    agent: str
    limit_usd: float | None = Field(description="null = any amount.")
    limit_tokens: int | None = Field(description="In and out together; null = any amount.")
    used_usd: float
    used_tokens: int

    @staticmethod
    def of(agent: str, limit: DailyLimit, used: Tally) -> LimitBody:
        """Return the body of a limit, of which `used` is used."""
        return LimitBody(
            agent=agent,
            limit_usd=limit.cost_usd,
            limit_tokens=limit.tokens,
            used_usd=used.cost_nanodollars / NANODOLLARS,
            used_tokens=used.tokens,
        )


class UsageReport(Body):
    """What agents used of models, by day; days without calls have no row."""

    rows: tuple[UsageRowBody, ...] = Field(description="Oldest day first.")
    total: TallyBody
    limits: tuple[LimitBody, ...] = Field(
        default=(), description="Of agents that have one, by name; for who operates the gateway."
    )

    @staticmethod
    def of(rows: tuple[UsageRow, ...], limits: tuple[LimitBody, ...] = ()) -> UsageReport:
        """Return the body of `rows`."""
        return UsageReport(
            rows=tuple(map(UsageRowBody.row, rows)),
            total=TallyBody.of(total(row.tally for row in rows)),
            limits=limits,
        )


class UsageGroupBody(UsageBody):
    """What one session, job or principal used."""

    name: str = Field(description="Id of the session or the job, or name of the principal.")
    title: str = Field(default="", description="Of a session.")
    agent: str = Field(default="", description="Of a session or a job.")
    sessions: int = Field(default=0, description="How many were counted, of a job.")

    @staticmethod
    def group(
        usage: Usage | Tally, *, name: str, title: str = "", agent: str = "", sessions: int = 0
    ) -> UsageGroupBody:
        """Return the body of what was used."""
        return UsageGroupBody(
            name=name,
            title=title,
            agent=agent,
            sessions=sessions,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            cost_usd=usage.cost_nanodollars / NANODOLLARS,
        )


class UsageGroups(Body):
    """What sessions, jobs or principals used, those that cost most first."""

    by: GroupedBy
    groups: tuple[UsageGroupBody, ...]
    is_partial: bool = Field(
        description="Whether more sessions were used in that time than are looked at: those that"
        " were used last count."
    )
