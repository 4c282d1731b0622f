"""What each process would find out again about types and routes, found out before it is forked.

Models of configurations, agents and requests make their validators with their first value, and
FastAPI reads ninety routes with the first request: half of what a short-lived gateway computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import httpx2
from pydantic import BaseModel
from support.remembered_certificates import remember_certificates
from support.remembered_routes import remember_routes

from everturn_gateway.config.settings import Config
from everturn_gateway.http.asgi import create_app

_CONFIG = Config(workspace=Path("workspace"), agents_dir=Path("agents"))


def warm_models() -> None:
    """Make the validators of all models that are imported, and read the routes of the API."""
    remember_routes()
    remember_certificates()
    httpx2.AsyncClient()  # reads them
    # Nothing is asked of the gateway: its routes are only read.
    create_app(mock.MagicMock(config=_CONFIG, version="")).api()
    for model in {*_below(BaseModel)}:
        model.model_rebuild(raise_errors=False)


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)
