"""`everturn seat`: what one node does for all that share the store."""

from __future__ import annotations

from typing import Annotated

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import Json, command
from everturn_gateway.commands.shared.options import Options

seat_app = typer.Typer(help="Show and move what one gateway does for all that share the store.")


@command(seat_app, "list")
def list_seats(options: Options, *, as_json: Json = False) -> int:
    """List the seats, which node has each, and which one should."""
    return commands.seats.list_seats(options, as_json=as_json)


@command(seat_app, "move")
def move_seat(
    options: Options,
    seat: Annotated[
        str, typer.Argument(help="agent:NAME, channel:NAME or scheduler.", show_default=False)
    ],
    node: Annotated[str, typer.Argument(help="Which node gets it.", show_default=False)],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Its folder was copied there, or may be missing.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Let a node have a seat from now on, before all others."""
    return commands.seats.move_seat(options, seat, node, yes=yes, as_json=as_json)
