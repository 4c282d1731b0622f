"""The body of the report on usage."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema

from everturn_gateway.http.schemas.base import Body
from everturn_gateway.usage import NANODOLLARS, Tally, UsageRow, total

Day: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-11-22"]})
]


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


class UsageReport(Body):
    """What agents used of models, by day; days without calls have no row."""

    rows: tuple[UsageRowBody, ...] = Field(description="Oldest day first.")
    total: TallyBody

    @staticmethod
    def of(rows: tuple[UsageRow, ...]) -> UsageReport:
        """Return the body of `rows`."""
        return UsageReport(
            rows=tuple(map(UsageRowBody.row, rows)),
            total=TallyBody.of(total(row.tally for row in rows)),
        )
