"""What each process would find out again, found out before it is forked.

Models of configurations, agents and requests make their validators with their first value, and
FastAPI reads ninety routes with the first request: half of what a short-lived gateway computes.
Typer reads the signatures of the commands at each start: half of what a short command does; to look
for plug-ins takes an eighth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import typer.main
from pydantic import BaseModel
from support.remembered_certificates import remember_certificates
from support.remembered_routes import remember_routes

from everturn_gateway import cli
from everturn_gateway.cli.program import app
from everturn_gateway.config.settings import Config
from everturn_gateway.http.asgi import create_app
from everturn_gateway.plugins import installed

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


def warm_commands() -> None:
    """Read the signatures of all commands, and which plug-ins there are; for processes of one."""
    installed()
    read: Callable[[typer.Typer], Any] = typer.main.get_command
    known: dict[tuple[str | None, ...], Any] = {}
    for names in ((), *((name,) for name in cli.GROUPS), (*cli.GROUPS,)):
        cli.declare_groups(names)
        known[names] = read(app)
        for command in _commands(known[names]):
            for each in command.params:
                each.get_runtime_param()

    def get_command(of: typer.Typer) -> Any:
        return known[tuple(each.name for each in of.registered_groups)] if of is app else read(of)

    vars(typer.main)["get_command"] = get_command


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)
