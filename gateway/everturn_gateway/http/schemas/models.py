"""What is told over HTTP of the models that a gateway has used."""

from __future__ import annotations

from pydantic import Field

from everturn_actors.context.estimation.calibration import Hint
from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.model_statistics import KnownModel


class HintBody(Body):
    """What one refusal taught."""

    tokens: int = Field(description="The limit that was named; 0: it was about something else.")
    said: str = Field(description="The provider's own words, shortened.")
    observed_at: Timestamp
    expires_at: Timestamp = Field(description="Then it is tried again.")
    times: int = Field(description="How often in a row it was said.")
    in_force: bool

    @staticmethod
    def of(hint: Hint | None) -> HintBody | None:
        """Return the body of `hint`."""
        if hint is None:
            return None
        return HintBody(
            tokens=hint.tokens,
            said=hint.said,
            observed_at=utc_text(hint.observed_at),
            expires_at=utc_text(hint.expires_at),
            times=hint.times,
            in_force=not hint.is_over,
        )


class KnownModelBody(Body):
    """What is known of one model at one address."""

    model: str = Field(examples=["openai/gpt-5", "openai/qwen3 at host:8000/v1"])
    scale: float = Field(description="Its tokens for one estimated token.")
    reports: int = Field(description="How many reports `scale` was learnt from.")
    window_tokens: int | None = Field(description="As its server told it; null: it did not.")
    proven_tokens: int = Field(description="The largest prompt that it took.")
    limit: HintBody | None = Field(description="The limit it named when it refused a request.")
    no_tools: HintBody | None = Field(description="That it refused tools.")
    observed_at: str

    @staticmethod
    def of(known: KnownModel) -> KnownModelBody:
        """Return the body of `known`."""
        statistics = known.statistics
        return KnownModelBody(
            model=known.label,
            scale=round(statistics.scale, 3),
            reports=statistics.reports,
            window_tokens=statistics.window_tokens,
            proven_tokens=statistics.proven_tokens,
            limit=HintBody.of(statistics.limit),
            no_tools=HintBody.of(statistics.no_tools),
            observed_at=known.observed_at,
        )


class KnownModelList(Body):
    """Models, by name."""

    models: tuple[KnownModelBody, ...]
