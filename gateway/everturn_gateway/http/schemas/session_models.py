"""Which model answers in a session, as JSON."""

from __future__ import annotations

from pydantic import Field

from everturn_actors.model import ChosenModel
from everturn_channels.models import AgentModels, ModelChoice
from everturn_gateway.http.schemas.base import Body


class ChosenModelBody(Body):
    """Which model is to answer."""

    model: str = Field(
        max_length=300,
        description="`provider/name`, or a name of the agent's provider; empty: the agent's own.",
        examples=["openai/gpt-5-mini"],
    )


class ModelChoiceBody(Body):
    """A model that may be chosen."""

    model: str = Field(description="`provider/name`.")
    window_tokens: int | None = Field(description="null: nobody knows before it was asked.")
    input_usd: float | None = Field(description="For a million tokens; null: not known.")
    output_usd: float | None = Field(description="For a million tokens; null: not known.")

    @classmethod
    def of(cls, choice: ModelChoice) -> ModelChoiceBody:
        """Return the body of a choice."""
        cost_in, cost_out = choice.price if choice.price is not None else (None, None)
        return cls(
            model=choice.label,
            window_tokens=choice.window_tokens,
            input_usd=cost_in,
            output_usd=cost_out,
        )


class SessionModelBody(Body):
    """Which model answers in a session, and which others there are."""

    model: ModelChoiceBody
    is_chosen: bool = Field(description="Whether it was chosen for this session.")
    own: ModelChoiceBody = Field(description="The agent's own.")
    others: tuple[ModelChoiceBody, ...]

    @classmethod
    def of(cls, models: AgentModels, chosen: ChosenModel | None) -> SessionModelBody:
        """Return the body of a session's model."""
        return cls(
            model=ModelChoiceBody.of(models.find(chosen)),
            is_chosen=chosen is not None,
            own=ModelChoiceBody.of(models.own),
            others=tuple(map(ModelChoiceBody.of, models.others)),
        )
