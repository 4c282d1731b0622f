"""Asks a running gateway what it learnt about models, and has it forget."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import httpx2

from everturn_actors.context.estimation.calibration import Hint, ModelStatistics
from everturn_channels.errors import ClientError
from everturn_gateway.client.answers import TryAgainError, document, refuse, value_of
from everturn_gateway.client.http_client import open_client
from everturn_gateway.model_statistics import KnownModel

_ANSWER_S: Final = 10.0  # it reads nothing from disk
_MODELS: Final = "/api/v1/admin/models"


async def ask_models(url: str, *, token: str) -> tuple[KnownModel, ...]:
    """Return what the gateway at `url` learnt about models.

    Args:
        url: Where it listens.
        token: Its admin token, or where it has none its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request.
        DoorError: It cannot be reached, or its answer is not understood.
    """
    return await _ask("GET", url, token, {})


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
        DoorError: It cannot be reached, or its answer is not understood.
    """
    return await _ask("DELETE", url, token, {"model": model, "endpoint": endpoint})


async def _ask(
    method: str, url: str, token: str, params: Mapping[str, str]
) -> tuple[KnownModel, ...]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with open_client(url, headers=headers, silence_s=_ANSWER_S) as http:
            response = await http.request(method, _MODELS, params=dict(params))
            if not response.is_success:
                refuse(response, response.content)
    except (httpx2.TransportError, TryAgainError) as error:
        why = f": {error}" if str(error) else ""
        msg = f"the gateway at {url} cannot be reached{why}"
        raise ClientError(msg) from error
    return value_of(lambda data: tuple(map(_model, data["models"])), document(response.content))


def _model(data: Mapping[str, Any]) -> KnownModel:
    statistics = ModelStatistics(
        scale=data["scale"],
        reports=data["reports"],
        window_tokens=data["window_tokens"],
        proven_tokens=data["proven_tokens"],
        limit=_hint(data["limit"]),
        no_tools=_hint(data["no_tools"]),
    )
    return KnownModel(label=data["model"], statistics=statistics, learnt_at=data["learnt_at"])


def _hint(data: Mapping[str, Any] | None) -> Hint | None:
    if data is None:
        return None
    return Hint(
        tokens=data["tokens"],
        said=data["said"],
        learnt_at=datetime.fromisoformat(data["learnt_at"]),
        expires_at=datetime.fromisoformat(data["expires_at"]),
        times=data["times"],
        is_over=not data["in_force"],
    )
