"""The models of an agent, as channels are told of them."""

from __future__ import annotations

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import ChosenModel
from everturn_channels.models import AgentModels, ModelChoice

OWN = ChosenModel(provider="test", name="scripted")
LARGE = ChosenModel(provider="test", name="large")
SMALL = ChosenModel(provider="test", name="small")


async def fixed_models(agent: str) -> AgentModels:
    """Return the same models for every agent."""
    del agent
    return AgentModels(
        own=ModelChoice(model=OWN),
        others=(
            ModelChoice(model=LARGE, window_tokens=200_000, price=(2.5, 10)),
            ModelChoice(model=SMALL, window_tokens=8_000, price=(0, 0)),
        ),
    )


async def named_model(agent: str, typed: str) -> ChosenModel:
    """Return one of them by its name.

    Raises:
        InvalidInputError: There is none.
    """
    models = await fixed_models(agent)
    for each in (models.own, *models.others):
        if typed in {each.label, each.model.name}:
            return each.model
    if typed == "missing":
        return ChosenModel(provider="test", name=typed)
    msg = f"there is no model {typed!r}"
    raise InvalidInputError(msg)


async def set_no_model(agent: str, model: ChosenModel, by: str) -> None:
    """Refuse: no file is behind the agents of tests.

    Raises:
        InvalidInputError: Always.
    """
    msg = f"{agent} stands in no file: {model.label} for {by}"
    raise InvalidInputError(msg)
