"""What a person can type. Reads the command line, then imports the command that is called.

Nothing heavy is imported here, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from typer.exceptions import TyperException

from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_INTERRUPTED, explain, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.logs import LogFormat

NAME = "everturn"
_COMPLETE_VARIABLE = "_EVERTURN_COMPLETE"
_DEBUG_VARIABLE = "EVERTURN_DEBUG"

app = typer.Typer(
    name=NAME,
    help="A durable gateway between people and language-model agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer(help="List, show, retry and delete sessions.", no_args_is_help=True)
agent_app = typer.Typer(help="List, show, check and create agents.", no_args_is_help=True)
context_app = typer.Typer(help="See what a model is shown.", no_args_is_help=True)
channel_app = typer.Typer(help="The chat platforms that the gateway is on.", no_args_is_help=True)
pair_app = typer.Typer(help="Let people in who asked a bot for it.", no_args_is_help=True)
token_app = typer.Typer(help="Who may ask over HTTP, and what.", no_args_is_help=True)
schedule_app = typer.Typer(help="What agents do by the clock.", no_args_is_help=True)
model_app = typer.Typer(help="What was learnt about models.", no_args_is_help=True)
local_app = typer.Typer(help="The small model that runs on this machine.", no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(agent_app, name="agent")
app.add_typer(context_app, name="context")
app.add_typer(channel_app, name="channel")
app.add_typer(pair_app, name="pair")
app.add_typer(token_app, name="token")
app.add_typer(schedule_app, name="schedule")
app.add_typer(model_app, name="model")
app.add_typer(local_app, name="local")

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration.", show_default="./everturn.yaml"),
]
Workspace: TypeAlias = Annotated[
    Path | None, typer.Option("--workspace", help="Instead of the configuration's workspace.")
]
AgentsDir: TypeAlias = Annotated[
    Path | None, typer.Option("--agents-dir", help="Instead of the configuration's agents folder.")
]
AgentName: TypeAlias = Annotated[
    str, typer.Argument(help="Which agent; needed where there are several.", show_default=False)
]
Session: TypeAlias = Annotated[
    str, typer.Option("--session", "-s", help="Go on in this session.", metavar="ID")
]
JobId: TypeAlias = Annotated[str, typer.Argument(metavar="JOB", show_default=False)]
SessionId: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION", show_default=False)]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]
Provider: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Who runs the model: builtin, local, openai, anthropic, gemini, openrouter, ollama."
    ),
]
ModelName: TypeAlias = Annotated[
    str, typer.Option("--model", help="The model's name.", show_default="by the provider")
]


class Shell(StrEnum):
    """Shells that completion works in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. Errors are told on stderr, without a traceback."""
    try:
        command = typer.main.get_command(app)
        code = command.main(
            list(arguments),
            prog_name=NAME,
            complete_var=_COMPLETE_VARIABLE,
            standalone_mode=False,
        )
        sys.stdout.flush()
    except TyperException as error:
        return _usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has what it wanted. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the outermost boundary: a person gets no traceback
        return explain(error)
    return code if isinstance(code, int) else 0


def _usage(error: TyperException) -> int:
    message = error.format_message()
    if message:
        say(f"{message[0].lower()}{message[1:]} (`{NAME} --help` lists everything)")
    return error.exit_code


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)


@app.callback(invoke_without_command=True)
def root(
    *,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar=_DEBUG_VARIABLE, help="Show tracebacks and more log lines."),
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A durable gateway between people and language-model agents."""
    crash_log.debug = debug
    if version:
        show_version()
        raise typer.Exit


@app.command("version")
def show_version() -> None:
    """Print the version."""
    from importlib.metadata import version  # noqa: PLC0415 - see the module's docstring

    typer.echo(f"{NAME} {version(NAME)}")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where.", metavar="DIR")] = Path(),
    *,
    agent: Annotated[str, typer.Option(help="Name of the first agent.")] = "",
    provider: Provider = "",
    model: ModelName = "",
    yes: Yes = False,
) -> None:
    """Set up a folder: a configuration and a first agent. Overwrites nothing."""
    from everturn_gateway.commands import scaffold  # noqa: PLC0415 - as above

    _end(scaffold.init(folder, agent=agent, provider=provider, model=model, ask=not yes))


@app.command()
def serve(
    *,
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="Listen on this address.")] = None,
    port: Annotated[int | None, typer.Option(help="Listen on this port; 0 = a free one.")] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Log lines for people, or one JSON object a line.")
    ] = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Run the gateway until it is told to stop."""
    from everturn_gateway.commands.serving import serve as command  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(command.serve(options, host=host, port=port, log_format=log_format))


@app.command()
def chat(
    agent: AgentName = "",
    *,
    session: Session = "",
    new: Annotated[bool, typer.Option("--new", help="Start a new session.")] = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Talk to an agent, through the running gateway where there is one."""
    from everturn_gateway.commands import talk  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(talk.chat(options, agent=agent, session_id=session, new=new))


@app.command("run")
def run_prompt(
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
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Send one message and print the answer.

    The exit code is 0 when it was answered, 1 when it was not, 2 for bad input, 130 for Ctrl-C.
    """
    from everturn_gateway.commands import run as command  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(
        command.run(
            options,
            prompt,
            agent=agent,
            session_id=session,
            as_json=as_json,
            timeout_s=timeout,
            attach=attach or (),
        )
    )


@app.command()
def attach(
    session: SessionId,
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look on.")] = False,
    last: Annotated[int, typer.Option(help="Begin with so many past messages.", min=0)] = 10,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Follow a session live, and speak in it."""
    from everturn_gateway.commands import talk  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(talk.attach(options, session, read_only=read_only, last=last))


@app.command("approve")
def approve_call(
    session: SessionId,
    call: Annotated[str, typer.Argument(help="The call; by default the oldest that waits.")] = "",
    *,
    always: Annotated[bool, typer.Option("--always", help="Allow it from now on too.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Do not let it run.")] = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Let a call run that waits for a person, or not."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    if always and deny:
        msg = "--always and --deny exclude each other"
        raise typer.BadParameter(msg)
    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.answer_approval(options, session, call, always=always, deny=deny))


@sessions_app.command("list")
def list_sessions(
    *,
    limit: Annotated[int, typer.Option(help="How many, newest first.", min=1)] = 50,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List sessions, newest first."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.list_sessions(options, limit=limit, as_json=as_json))


@sessions_app.command("show")
def show_session(
    session: SessionId,
    *,
    last: Annotated[int, typer.Option(help="Show so many messages.", min=0)] = 20,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show how a session stands, and its last messages."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.show_session(options, session, last=last, as_json=as_json))


@sessions_app.command("retry")
def retry_session(
    session: SessionId,
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Ask the newest turn of a session again, which failed, and print the answer."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.retry_session(options, session))


@sessions_app.command("delete")
def delete_session(
    session: SessionId,
    *,
    yes: Yes = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Remove a session and all that is stored of it."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.delete_session(options, session, ask=not yes))


@sessions_app.command("share")
def share_session(
    session: SessionId,
    name: Annotated[str, typer.Argument(help="Of a principal.", show_default=False)],
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take it back.")] = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Give a session to a principal to see and to talk in, or take it back."""
    from everturn_gateway.commands import sessions  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(sessions.share_session(options, session, name, is_withdrawn=withdraw))


@agent_app.command("list")
def list_agents(
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List the agents, and what is wrong with those that cannot be loaded."""
    from everturn_gateway.commands import agents  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(agents.list_agents(options, as_json=as_json))


@agent_app.command("show")
def show_agent(
    name: Annotated[str, typer.Argument(help="Which agent.")],
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show one agent, and which of its settings have no effect yet."""
    from everturn_gateway.commands import agents  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(agents.show_agent(options, name, as_json=as_json))


@agent_app.command("validate")
def validate_agents(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names, or folders. All agents where none is given."),
    ] = None,
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Check agents; every fault is printed with its file, line and field."""
    from everturn_gateway.commands import agents  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(agents.validate(options, names or []))


@agent_app.command("create")
def create_agent(
    name: Annotated[str, typer.Argument(help="Letters, digits and hyphens.")],
    *,
    provider: Provider = "builtin",
    model: ModelName = "",
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Create the folder of a new agent. Overwrites nothing."""
    from everturn_gateway.commands import scaffold  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(scaffold.create_agent(options, name, provider=provider, model=model))


@agent_app.command("schema")
def agent_schema() -> None:
    """Print the JSON Schema of agent.yaml."""
    from everturn_gateway.commands import agents  # noqa: PLC0415 - as above

    _end(agents.schema())


@app.command()
def usage(
    *,
    days: Annotated[
        int, typer.Option(help="How many days, today (UTC) included.", min=1, max=366)
    ] = 7,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Of this agent alone.")] = "",
    principal: Annotated[
        str, typer.Option(help="What the sessions used that this principal began.")
    ] = "",
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show what agents used of models, and what it cost, by day."""
    from everturn_gateway.commands import usage as command  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(command.show_usage(options, days=days, agent=agent, as_json=as_json, principal=principal))


@app.command()
def doctor(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Set right what can be.")] = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Check configuration, agents, keys, permissions, disk space and journals."""
    from everturn_gateway.commands import doctor as command  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(command.doctor(options, repair=repair))


@context_app.command("apply")
def apply_context(
    *,
    policy: Annotated[str, typer.Option("--policy", "-p", help="By which policy.")] = "",
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
) -> None:
    """Read a transcript from stdin; print the request that a policy makes of it, and a report.

    The transcript is a JSON list of OpenAI-style messages. No model or workspace is needed.
    """
    from everturn_gateway.commands.context import context  # noqa: PLC0415 - as above

    options = context.ApplyOptions(
        policy=policy,
        compare=compare,
        window_tokens=window,
        output_tokens=max_output,
        system=system,
        tools=tools,
        turn_start=turn_start,
        settings=settings or (),
    )
    _end(context.apply(options))


@context_app.command("show")
def show_context(
    session: SessionId,
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show what a session's next request would hold, what is hidden, and what comes next."""
    from everturn_gateway.commands.context import live as live_context  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(live_context.show(options, session, as_json=as_json))


@context_app.command("explain")
def explain_context(
    session: SessionId,
    seq: Annotated[int, typer.Argument(metavar="SEQ", help="Number of an event of a turn.", min=1)],
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Explain a past request: what it showed of each message, and what hid the others.

    It is the request that was sent at an event, or next after it in its turn.
    """
    from everturn_gateway.commands.context import live as live_context  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(live_context.explain(options, session, seq, as_json=as_json))


@app.command("compact")
def compact_session(
    session: SessionId,
    *,
    focus: Annotated[str, typer.Option(help="What the summary should keep above all.")] = "",
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Have older turns of a session summarised now."""
    from everturn_gateway.commands.context import live as live_context  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(live_context.compact(options, session, focus=focus, as_json=as_json))


@channel_app.command("list")
def list_channels(
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List the channels, and how they fare where a gateway runs."""
    from everturn_gateway.commands import channel  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(channel.list_channels(options, as_json=as_json))


@channel_app.command("check")
def check_channels(
    name: Annotated[
        str, typer.Argument(help="Which channel; by default all.", show_default=False)
    ] = "",
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Log in on the channels and say what is wrong; sends nothing to anybody.

    The exit code is 0 when all is well, 1 for a problem, 2 for a fault in the configuration.
    """
    from everturn_gateway.commands import channel  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(channel.check_channels(options, name))


@model_app.command("list")
def list_models(
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List the models that agents used, and what was learnt about them."""
    from everturn_gateway.commands import model  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(model.list_models(options, as_json=as_json))


@model_app.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="As `model list` shows it.", show_default=False)],
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show what was learnt about a model, and from what."""
    from everturn_gateway.commands import model  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(model.show_model(options, name, as_json=as_json))


@model_app.command("forget")
def forget_model(
    name: Annotated[
        str, typer.Argument(help="As `model list` shows it; by default all.", show_default=False)
    ] = "",
    *,
    endpoint: Annotated[
        str, typer.Option(help="Only at this address, where agents name one: host:8000/v1.")
    ] = "",
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Forget the limits that models named when they refused requests, and that they refused tools.

    The exit code is 1 where there was nothing to forget.
    """
    from everturn_gateway.commands import model  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(model.forget(options, name, endpoint))


@pair_app.command("list")
def list_pairs(
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List who asked to be let in, and who was."""
    from everturn_gateway.commands import pair  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(pair.list_pairs(options, as_json=as_json))


@pair_app.command("approve")
def approve_pair(
    code: Annotated[str, typer.Argument(help="That the bot gave them.", show_default=False)],
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Let somebody talk to the bot that gave them this code."""
    from everturn_gateway.commands import pair  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(pair.approve_pair(options, code))


@pair_app.command("remove")
def remove_pair(
    channel: Annotated[str, typer.Argument(help="As `pair list` shows it.", show_default=False)],
    sender: Annotated[str, typer.Argument(help="As `pair list` shows it.", show_default=False)],
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Take back that somebody was let in."""
    from everturn_gateway.commands import pair  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(pair.remove_pair(options, channel, sender))


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Of the principal.", show_default=False)],
    *,
    scope: Annotated[
        list[str],
        typer.Option(help="read, talk, approve, operate or admin; may be repeated."),
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
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Make a token for a person or a program, and print it, this once."""
    from everturn_gateway.commands import token  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    wanted = token.NewToken(
        name=name,
        scopes=scope,
        agents=agent or (),
        daily_cost_usd=daily_cost,
        requests_per_minute=requests_per_minute,
        expires=expires,
    )
    _end(token.create(options, wanted, as_json=as_json))


@token_app.command("list")
def list_tokens(
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List the tokens: what each opens, until when, and when it was used last."""
    from everturn_gateway.commands import token  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(token.list_tokens(options, as_json=as_json))


@token_app.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(help="As `token list` shows it.", show_default=False)],
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Let a token open nothing any more, at once."""
    from everturn_gateway.commands import token  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(token.revoke(options, name))


@schedule_app.command("list")
def list_jobs(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Those too of which nothing is to come.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """List scheduled jobs, and what is wrong with definitions."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.list_jobs(options, everything=everything, as_json=as_json))


@schedule_app.command("show")
def show_job(
    job: JobId,
    *,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Show a job, when it is due next, and how it came out lately."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.show_job(options, job, as_json=as_json))


@schedule_app.command("add")
def add_job(
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Whose job it is.")] = "",
    job_id: Annotated[
        str | None, typer.Option("--id", help="What it is called.", show_default="made up")
    ] = None,
    label: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Once, like 2026-12-01T08:30.", metavar="INSTANT")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Again and again, like 15m, 6h or 90.", metavar="SPAN")
    ] = None,
    cron: Annotated[
        str | None, typer.Option(help="By the clock, like '30 8 * * mon-fri'.", metavar="FIELDS")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="The zone of the clock, like Europe/Berlin.", metavar="ZONE")
    ] = None,
    message: Annotated[str | None, typer.Option(help="Say this text as it stands.")] = None,
    task: Annotated[str | None, typer.Option(help="Let the agent do this.")] = None,
    to: Annotated[str, typer.Option(help="Tell this chat.", metavar="CHANNEL:CHAT[:TOPIC]")] = "",
    to_session: Annotated[str, typer.Option(help="Tell this session.", metavar="ID")] = "",
    to_webhook: Annotated[str, typer.Option(help="Send it to this address.", metavar="URL")] = "",
    isolated: Annotated[
        bool, typer.Option("--isolated", help="Do the task in a session of its own.")
    ] = False,
    misfire: Annotated[
        str | None,
        typer.Option(
            help="What becomes of what came due while nothing ran: run_once, skip, run_all."
        ),
    ] = None,
    grace_seconds: Annotated[
        int | None, typer.Option(help="Later than this it does not run.", metavar="SECONDS")
    ] = None,
    jitter_seconds: Annotated[
        int | None, typer.Option(help="Run it up to so much later.", metavar="SECONDS")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Nothing runs before.", metavar="INSTANT")
    ] = None,
    end: Annotated[str | None, typer.Option(help="Nothing runs after.", metavar="INSTANT")] = None,
    max_runs: Annotated[
        int | None, typer.Option(help="It is over after so many runs.", metavar="COUNT")
    ] = None,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Make a job: one of --at, --every and --cron, and one of --message and --task."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    given = {
        "id": job_id,
        "label": label,
        "at": at,
        "every": every,
        "cron": cron,
        "timezone": timezone,
        "message": message,
        "task": task,
        "session": "isolated" if isolated else None,
        "misfire": misfire,
        "grace_seconds": grace_seconds,
        "jitter_seconds": jitter_seconds,
        "start": start,
        "end": end,
        "max_runs": max_runs,
    }
    new = schedule.NewJob(
        agent=agent,
        fields={name: value for name, value in given.items() if value is not None},
        to=to,
        to_session=to_session,
        to_webhook=to_webhook,
    )
    _end(schedule.add_job(options, new, as_json=as_json))


@schedule_app.command("cancel")
def cancel_job(
    job: JobId,
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Call a job off; what runs of it is finished."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.cancel_job(options, job))


@schedule_app.command("pause")
def pause_job(
    job: JobId,
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Let nothing of a job run until it is resumed."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.pause_job(options, job))


@schedule_app.command("resume")
def resume_job(
    job: JobId,
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Let a paused job go on with what comes due from now on."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.resume_job(options, job))


@schedule_app.command("run")
def run_job(
    job: JobId,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Say how it came out, or that it was begun.")
    ] = True,
    timeout: Annotated[
        float | None, typer.Option(help="Wait for so many seconds at most.", min=0.001)
    ] = None,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Run a job once, now, beside its own times.

    The exit code is 0 when it is done, 1 when it failed or is not done in time, 2 for bad input.
    """
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.run_job(options, job, waits=wait, timeout_s=timeout, as_json=as_json))


@schedule_app.command("next")
def next_times(
    job: JobId,
    *,
    count: Annotated[int, typer.Option(help="How many.", min=1, max=100)] = 5,
    as_json: Json = False,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Tell when a job is due next."""
    from everturn_gateway.commands.jobs import schedule  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(schedule.next_times(options, job, count=count, as_json=as_json))


@local_app.command("pull")
def pull(
    *,
    config: Config = None,
    workspace: Workspace = None,
    agents_dir: AgentsDir = None,
) -> None:
    """Fetch the weights of the local model."""
    from everturn_gateway.commands import local  # noqa: PLC0415 - as above

    options = Options(config=config, workspace=workspace, agents_dir=agents_dir)
    _end(local.pull(options))


@app.command()
def completions(shell: Annotated[Shell, typer.Argument(help="For which shell.")]) -> None:
    """Print what makes a shell complete the commands: eval "$(everturn completions bash)"."""
    os.environ[_COMPLETE_VARIABLE] = f"source_{shell.value}"
    complete: Callable[..., object] = typer.main.get_command(app).main
    complete([], prog_name=NAME, complete_var=_COMPLETE_VARIABLE)
