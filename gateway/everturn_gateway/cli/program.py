"""`everturn` itself: the commands that stand directly under it, and its own options."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import (
    AgentName,
    BaseUrl,
    Json,
    KeepIn,
    ModelName,
    Provider,
    Session,
    SessionId,
    TestFirst,
    Yes,
    command,
)
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.logs import LogFormat

NAME: Final = "everturn"
COMPLETE_VARIABLE: Final = "_EVERTURN_COMPLETE"
DEBUG_VARIABLE: Final = "EVERTURN_DEBUG"

app = typer.Typer(
    name=NAME,
    help="A durable gateway between people and language-model agents.",
    epilog="Nothing is set up yet? `everturn setup`, then `everturn chat`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Shell(StrEnum):
    """Shells that completion works in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


@app.callback(invoke_without_command=True)
def root(
    *,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar=DEBUG_VARIABLE, help="Show tracebacks and more log lines."),
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A durable gateway between people and language-model agents."""
    crash_log.debug = debug
    if version:
        show_version()
        raise typer.Exit


@app.command("version")
def show_version(*, as_json: Json = False) -> None:
    """Print the version."""
    import json  # see the module's docstring
    from importlib.metadata import version

    number = version(NAME)
    typer.echo(json.dumps({"version": number}) if as_json else f"{NAME} {number}")


@command(app)
def init(
    folder: Annotated[Path, typer.Argument(help="Where.", metavar="DIR")] = Path(),
    *,
    agent: Annotated[str, typer.Option(help="Name of the first agent.")] = "",
    provider: Provider = "",
    model: ModelName = "",
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Set up a folder: a configuration and a first agent. Overwrites nothing."""
    return commands.scaffold.init(
        folder, agent=agent, provider=provider, model=model, ask=not yes, as_json=as_json
    )


class Part(StrEnum):
    """What can be set up."""

    MODEL = "model"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"
    MATRIX = "matrix"
    WHATSAPP = "whatsapp"
    EMAIL = "email"
    SERVICE = "service"


@command(app)
def setup(
    options: Options,
    part: Annotated[Part, typer.Argument(help="What.", metavar="PART")] = Part.MODEL,
    *,
    agent: Annotated[str, typer.Option(help="Which agent; by default the only one.")] = "",
    provider: Provider = "",
    base_url: BaseUrl = "",
    model: Annotated[str, typer.Option("--model", help="The model's name.")] = "",
    key_file: Annotated[
        str, typer.Option(metavar="FILE", help="Holds the key or token; - reads it from stdin.")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Of a bot, such as homeserver or imap.host. May be repeated.",
        ),
    ] = None,
    keep: KeepIn = "",
    test: TestFirst = True,
    also: Annotated[
        Literal[
            "", "none", "telegram", "discord", "slack", "matrix", "whatsapp", "email", "service"
        ],
        typer.Option(help="What is set up behind the model.", metavar="PART", show_default=False),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; tell what is set up, and try it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Choose a model and its key, try it, and write them down. What no option says is asked.

    PART: model; telegram, discord, slack, matrix, whatsapp, email: a bot; service: at login.
    """
    if check:
        return commands.setup.check(options, as_json=as_json)
    if part is not Part.MODEL:
        return commands.setup.set_up(
            options,
            part.value,
            key_file=key_file,
            settings=settings or (),
            keep=keep,
            as_json=as_json,
        )
    answers = commands.setup.Answers(
        agent=agent,
        provider=provider,
        base_url=base_url,
        model=model,
        key_file=key_file,
        keep=keep,
        test=test,
        also=also,
    )
    return commands.setup.setup(options, answers, as_json=as_json)


@command(app)
def serve(
    options: Options,
    *,
    host: Annotated[str | None, typer.Option(help="Listen on this address.")] = None,
    port: Annotated[int | None, typer.Option(help="Listen on this port; 0 = a free one.")] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Log lines for people, or one JSON object a line.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="So many processes; they need a store that they share."),
    ] = 1,
    worker: Annotated[bool, typer.Option("--worker", hidden=True)] = False,
) -> int:
    """Run the gateway until it is told to stop."""
    return commands.serve.serve(
        options, host=host, port=port, log_format=log_format, workers=workers, is_worker=worker
    )


@command(app)
def chat(
    options: Options,
    agent: AgentName = "",
    *,
    session: Session = "",
    new: Annotated[bool, typer.Option("--new", help="Start a new session.")] = False,
) -> int:
    """Talk to an agent, through the running gateway where there is one."""
    return commands.chat.chat(options, agent=agent, session_id=session, new=new)


@command(app, "run")
def run_prompt(
    options: Options,
    prompt: Annotated[str, typer.Argument(help="The message; - reads it from stdin.")],
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Which agent.")] = "",
    session: Session = "",
    attach: Annotated[
        list[str] | None,
        typer.Option("--attach", metavar="FILE", help="Send this file with it; may be repeated."),
    ] = None,
    as_json: Json = False,
    timeout: Annotated[
        float | None, typer.Option(help="Give up after so many seconds.", min=0.001)
    ] = None,
) -> int:
    """Send one message and print the answer.

    The exit code is 0 when it was answered, 1 when it was not, 2 for bad input, 130 for Ctrl-C.
    """
    return commands.run.run(
        options,
        prompt,
        agent=agent,
        session_id=session,
        as_json=as_json,
        timeout_s=timeout,
        attach=attach or (),
    )


@command(app)
def attach(
    options: Options,
    session: SessionId,
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look on.")] = False,
    last: Annotated[int, typer.Option(help="Begin with so many past messages.", min=0)] = 10,
) -> int:
    """Follow a session live, and speak in it."""
    return commands.chat.attach(options, session, read_only=read_only, last=last)


@command(app, "acp")
def serve_acp(options: Options, agent: AgentName = "") -> int:
    """Let an editor that starts this command drive an agent (Agent Client Protocol)."""
    return commands.peers.acp(options, agent=agent)


@command(app, "approve")
def approve_call(
    options: Options,
    session: SessionId,
    call: Annotated[str, typer.Argument(help="The call; by default the oldest that waits.")] = "",
    *,
    always: Annotated[bool, typer.Option("--always", help="Allow it from now on too.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Do not let it run.")] = False,
    answer: Annotated[
        str, typer.Option("--answer", help="Answer what the agent asks: a number, or a text.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Let a call run that waits for a person, or not; or answer what an agent asks."""
    if always + deny + bool(answer) > 1:
        msg = "--always, --deny and --answer exclude each other"
        raise typer.BadParameter(msg)
    return commands.sessions.answer_approval(
        options,
        session,
        call,
        choice="deny" if deny else "allow_always" if always else "allow_once",
        answer=answer,
        as_json=as_json,
    )


@command(app)
def usage(
    options: Options,
    *,
    days: Annotated[
        int, typer.Option(help="How many days, today (UTC) included.", min=1, max=366)
    ] = 7,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Of this agent alone.")] = "",
    principal: Annotated[
        str, typer.Option(help="What the sessions used that this principal began.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Show what agents used of models, and what it cost, by day."""
    return commands.usage.show_usage(
        options, days=days, agent=agent, as_json=as_json, principal=principal
    )


@command(app)
def nodes(options: Options, *, as_json: Json = False) -> int:
    """List the gateways that share the store, and who of them does what."""
    return commands.nodes.list_nodes(options, as_json=as_json)


@command(app)
def doctor(
    options: Options,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Set right what can be.")] = False,
    as_json: Json = False,
) -> int:
    """Check configuration, agents, keys, permissions, disk space and journals."""
    return commands.doctor.doctor(options, repair=repair, as_json=as_json)


@command(app, "move")
def move_store(
    options: Options,
    *,
    to: Annotated[
        str,
        typer.Option(
            help="`folder`, or the address of a database; empty = EVERTURN_DATABASE_URL.",
            envvar="EVERTURN_DATABASE_URL",
        ),
    ],
    schema: Annotated[str, typer.Option(help="Of the database.")] = "everturn",
    as_json: Json = False,
) -> int:
    """Move all that is kept from the folder to a database, or back; no gateway may run."""
    return commands.move.move(options, to=to, schema=schema, as_json=as_json)


@command(app, "pid")
def show_pid(options: Options, *, as_json: Json = False) -> int:
    """Print the process id of the gateway that runs on the workspace; 1 where none does."""
    return commands.pid.show_pid(options, as_json=as_json)


@command(app, "compact")
def compact_session(
    options: Options,
    session: SessionId,
    *,
    focus: Annotated[str, typer.Option(help="What the summary should keep above all.")] = "",
    as_json: Json = False,
) -> int:
    """Have older turns of a session summarised now."""
    return commands.live_context.compact(options, session, focus=focus, as_json=as_json)


@app.command()
def completions(shell: Annotated[Shell, typer.Argument(help="For which shell.")]) -> None:
    """Print what makes a shell complete the commands: eval "$(everturn completions bash)"."""
    os.environ[COMPLETE_VARIABLE] = f"source_{shell.value}"
    complete: Callable[..., object] = typer.main.get_command(app).main
    complete([], prog_name=NAME, complete_var=COMPLETE_VARIABLE)
