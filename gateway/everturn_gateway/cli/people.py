"""`everturn channel`, `everturn pair` and `everturn token`: where people are, and who may ask."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import Json, command
from everturn_gateway.commands.shared.options import Options

channel_app = typer.Typer(help="The chat platforms that the gateway is on.", no_args_is_help=True)
pair_app = typer.Typer(help="Let people in who asked a bot for it.", no_args_is_help=True)
token_app = typer.Typer(help="Who may ask over HTTP, and what.", no_args_is_help=True)


@command(channel_app, "list")
def list_channels(options: Options, *, as_json: Json = False) -> int:
    """List the channels, and their status where a gateway runs."""
    return commands.channel.list_channels(options, as_json=as_json)


@command(channel_app, "check")
def check_channels(
    options: Options,
    name: Annotated[
        str, typer.Argument(help="Which channel; by default all.", show_default=False)
    ] = "",
    *,
    as_json: Json = False,
) -> int:
    """Log in on the channels and say what is wrong; sends nothing to anybody.

    The exit code is 0 when all is well, 1 for a problem, 2 for a fault in the configuration.
    """
    return commands.channel.check_channels(options, name, as_json=as_json)


@command(channel_app, "login")
def log_in(
    options: Options,
    name: Annotated[str, typer.Argument(help="Of a channel of your own.", show_default=False)],
    *,
    as_json: Json = False,
) -> int:
    """Show what a channel of your own asks of you, a QR code say, until it is logged in."""
    return commands.own_channels.log_in(options, name, as_json=as_json)


@command(channel_app, "new")
def new_channel(
    name: Annotated[str, typer.Argument(help="Of the channel.", show_default=False)],
    *,
    folder: Annotated[
        Path, typer.Option(help="Where its own folder comes.", show_default="here")
    ] = Path(),
    as_json: Json = False,
) -> int:
    """Write a channel of your own that works: a program, the kit that it stands on, and a test."""
    return commands.own_channels.new_channel(name, folder, as_json=as_json)


@command(channel_app, "test")
def try_channel(
    options: Options,
    name: Annotated[str, typer.Argument(help="Of a channel of your own.", show_default=False)],
    *,
    say: Annotated[
        str,
        typer.Option(
            help="A command that writes to the bot twice, as a person does; no shell reads it.",
            show_default="you write to it",
        ),
    ] = "",
    wait: Annotated[
        float,
        typer.Option(help="Seconds for a message to come, or to come again.", min=0, max=3600),
    ] = 60.0,
    as_json: Json = False,
) -> int:
    """Play the gateway to a channel of your own, and say which rules of the protocol it breaks.

    The exit code is 0 when it breaks none, 1 when it does, 2 for a fault in the configuration.
    """
    return commands.own_channels.try_channel(options, name, say=say, wait_s=wait, as_json=as_json)


@command(pair_app, "list")
def list_pairs(options: Options, *, as_json: Json = False) -> int:
    """List who asked to be let in, and who was."""
    return commands.pair.list_pairs(options, as_json=as_json)


@command(pair_app, "approve")
def approve_pair(
    options: Options,
    code: Annotated[str, typer.Argument(help="That the bot gave them.", show_default=False)],
    *,
    owner: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="They are an owner of the agents, by this name.",
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
) -> int:
    """Let somebody talk to the bot that gave them this code."""
    return commands.pair.approve_pair(options, code, owner=owner, as_json=as_json)


@command(pair_app, "remove")
def remove_pair(
    options: Options,
    channel: Annotated[str, typer.Argument(help="As `pair list` shows it.", show_default=False)],
    sender: Annotated[str, typer.Argument(help="As `pair list` shows it.", show_default=False)],
    *,
    as_json: Json = False,
) -> int:
    """Take back that somebody was let in."""
    return commands.pair.remove_pair(options, channel, sender, as_json=as_json)


@command(token_app, "create")
def create_token(
    options: Options,
    name: Annotated[str, typer.Argument(help="Of the principal.", show_default=False)],
    *,
    scope: Annotated[
        list[str], typer.Option(help="read, talk, approve, operate or admin; may be repeated.")
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(help="The only agent it gets to know; may be repeated.", show_default="all"),
    ] = None,
    daily_cost: Annotated[
        float | None,
        typer.Option(
            help="What its sessions may cost a day (UTC), in dollars.",
            min=0,
            show_default="any amount",
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(help="Requests a minute.", min=1, show_default="any number")
    ] = None,
    expires: Annotated[
        str, typer.Option(help="12h, 90d, 2027-01-31.", metavar="WHEN", show_default="never")
    ] = "",
    as_json: Json = False,
) -> int:
    """Make a token for a person or a program, and print it, this once."""
    wanted = commands.token.NewToken(
        name=name,
        scopes=scope,
        agents=agent or (),
        daily_cost_usd=daily_cost,
        requests_per_minute=requests_per_minute,
        expires=expires,
    )
    return commands.token.create(options, wanted, as_json=as_json)


@command(token_app, "list")
def list_tokens(options: Options, *, as_json: Json = False) -> int:
    """List the tokens: what each opens, until when, and when it was used last."""
    return commands.token.list_tokens(options, as_json=as_json)


@command(token_app, "revoke")
def revoke_token(
    options: Options,
    name: Annotated[str, typer.Argument(help="As `token list` shows it.", show_default=False)],
    *,
    as_json: Json = False,
) -> int:
    """Let a token open nothing any more, at once."""
    return commands.token.revoke(options, name, as_json=as_json)
