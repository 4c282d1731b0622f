"""`everturn sessions` and `everturn context`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import Json, SessionId, Yes, command
from everturn_gateway.commands.shared.options import Options

sessions_app = typer.Typer(
    help="List, show, export, retry and delete sessions.", no_args_is_help=True
)
context_app = typer.Typer(help="See what a model is shown.", no_args_is_help=True)


@command(sessions_app, "list")
def list_sessions(
    options: Options,
    *,
    limit: Annotated[int, typer.Option(help="How many, newest first.", min=1)] = 50,
    as_json: Json = False,
) -> int:
    """List sessions, newest first."""
    return commands.sessions.list_sessions(options, limit=limit, as_json=as_json)


@command(sessions_app, "show")
def show_session(
    options: Options,
    session: SessionId,
    *,
    last: Annotated[int, typer.Option(help="Show so many messages.", min=0)] = 20,
    as_json: Json = False,
) -> int:
    """Show how a session stands, and its last messages."""
    return commands.sessions.show_session(options, session, last=last, as_json=as_json)


@command(sessions_app, "export")
def export_session(
    options: Options,
    session: SessionId,
    *,
    form: Annotated[
        Literal["markdown", "jsonl", "openai"],
        typer.Option("--format", help="For people, the events as they are, or OpenAI's messages."),
    ] = "markdown",
) -> int:
    """Write a session to the standard output, from its first event to its last."""
    return commands.sessions.export_session(options, session, form=form)


@command(sessions_app, "search")
def search_sessions(
    options: Options,
    words: Annotated[list[str], typer.Argument(help="A question or words.", show_default=False)],
    *,
    agent: Annotated[str, typer.Option(help="Only sessions with this agent.")] = "",
    channel: Annotated[str, typer.Option(help="Only those of this channel.")] = "",
    session: Annotated[str, typer.Option(help="Only this session.")] = "",
    sender: Annotated[str, typer.Option(help="Only messages of people called so.")] = "",
    since: Annotated[str, typer.Option(help="Only from this day on: 2026-05-01.")] = "",
    until: Annotated[str, typer.Option(help="Only to this day.")] = "",
    limit: Annotated[int, typer.Option(help="How many, the best first.", min=1, max=100)] = 20,
    as_json: Json = False,
) -> int:
    """Find what was said in all sessions: any of the words, the best match first."""
    wanted: dict[str, str | int] = {
        "agent": agent,
        "channel": channel,
        "session": session,
        "sender": sender,
        "since": since,
        "until": until,
        "limit": limit,
    }
    return commands.sessions.search_sessions(options, " ".join(words), wanted, as_json=as_json)


@command(sessions_app, "retry")
def retry_session(options: Options, session: SessionId, *, as_json: Json = False) -> int:
    """Ask the newest turn of a session again, which failed, and print the answer."""
    return commands.sessions.retry_session(options, session, as_json=as_json)


@command(sessions_app, "delete")
def delete_session(
    options: Options, session: SessionId, *, yes: Yes = False, as_json: Json = False
) -> int:
    """Remove a session and all that is stored of it."""
    return commands.sessions.delete_session(options, session, ask=not yes, as_json=as_json)


@command(sessions_app, "share")
def share_session(
    options: Options,
    session: SessionId,
    name: Annotated[str, typer.Argument(help="Of a principal.", show_default=False)],
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take it back.")] = False,
    as_json: Json = False,
) -> int:
    """Give a session to a principal to see and to talk in, or take it back."""
    return commands.sessions.share_session(
        options, session, name, is_withdrawn=withdraw, as_json=as_json
    )


@command(context_app, "apply")
def apply_context(
    *,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="By which policy: {policies}.")
    ] = "",
    compare: Annotated[bool, typer.Option("--compare", help="Print a table of all.")] = False,
    window: Annotated[
        int | None, typer.Option(help="The model's window, in tokens.", min=1)
    ] = None,
    max_output: Annotated[
        int | None, typer.Option("--max-output", help="Tokens kept free for the reply.", min=0)
    ] = None,
    system: Annotated[Path | None, typer.Option(help="A file with the system prompt.")] = None,
    tools: Annotated[Path | None, typer.Option(help="A JSON file with the tools.")] = None,
    turn_start: Annotated[
        int | None,
        typer.Option("--turn-start", help="Index of the running turn's first message.", min=0),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A number of the policy.", metavar="NAME=VALUE"),
    ] = None,
) -> int:
    """Read a transcript from stdin; print the request that a policy makes of it, and a report.

    The transcript is a JSON list of OpenAI-style messages. No model or workspace is needed.
    """
    options = commands.transcripts.ApplyOptions(
        policy=policy,
        compare=compare,
        window_tokens=window,
        output_tokens=max_output,
        system=system,
        tools=tools,
        turn_start=turn_start,
        settings=settings or (),
    )
    return commands.transcripts.apply(options)


@command(context_app, "show")
def show_context(options: Options, session: SessionId, *, as_json: Json = False) -> int:
    """Show what a session's next request would hold, what is hidden, and what comes next."""
    return commands.live_context.show(options, session, as_json=as_json)


@command(context_app, "explain")
def explain_context(
    options: Options,
    session: SessionId,
    seq: Annotated[int, typer.Argument(metavar="SEQ", help="Number of an event of a turn.", min=1)],
    *,
    as_json: Json = False,
) -> int:
    """Explain a past request: what it showed of each message, and what hid the others.

    It is the request that was sent at an event, or next after it in its turn.
    """
    return commands.live_context.explain(options, session, seq, as_json=as_json)
