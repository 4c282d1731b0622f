"""Asks a running gateway what it learnt about models, and has it forget."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from everturn_actors.context.estimation.calibration import Hint, ModelStatistics
from everturn_gateway.client.answers import Json, value_of
from everturn_gateway.client.api import ask_once
from everturn_gateway.model_statistics import KnownModel

_MODELS: Final = "/api/v1/admin/models"


async def ask_models(url: str, *, token: str) -> tuple[KnownModel, ...]:
    """Return what the gateway at `url` learnt about models.

    Args:
        url: Where it listens.
        token: Its admin token, or where it has none its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request.
        ClientError: It cannot be reached, or its answer is not understood.
    """
    return value_of(_models, await ask_once(url, "GET", _MODELS, token=token))


async def forget_models(
    url: str, *, token: str, model: str, endpoint: str
) -> tuple[KnownModel, ...]:
    """Have the gateway at `url` forget what refusals taught; return what that was.

    Args:
        url: Where it listens.
        token: As for `ask_models`.
        model: The model; empty = all.
        endpoint: Its address; empty = at all addresses.

    Raises:
        CoreError: It refuses the request.
        ClientError: It cannot be reached, or its answer is not understood.
    """
    params = {"model": model, "endpoint": endpoint}
    return value_of(_models, await ask_once(url, "DELETE", _MODELS, token=token, params=params))


def _models(data: Json) -> tuple[KnownModel, ...]:
    return tuple(map(_model, data["models"]))


def _model(data: Json) -> KnownModel:
    statistics = ModelStatistics(
        scale=data["scale"],
        reports=data["reports"],
        window_tokens=data["window_tokens"],
        proven_tokens=data["proven_tokens"],
        limit=_hint(data["limit"]),
        no_tools=_hint(data["no_tools"]),
    )
    return KnownModel(label=data["model"], statistics=statistics, observed_at=data["observed_at"])


def _hint(data: Json | None) -> Hint | None:
    if data is None:
        return None
    return Hint(
        tokens=data["tokens"],
        said=data["said"],
        observed_at=datetime.fromisoformat(data["observed_at"]),
        expires_at=datetime.fromisoformat(data["expires_at"]),
        times=data["times"],
        is_over=not data["in_force"],
    )
