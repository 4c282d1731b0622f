"""`everturn agent`, `everturn model` and `everturn local`."""

from __future__ import annotations

from typing import Annotated

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import (
    BaseUrl,
    Json,
    KeepIn,
    ModelName,
    Provider,
    TestFirst,
    command,
)
from everturn_gateway.commands.shared.options import Options

agent_app = typer.Typer(help="List, show, check and create agents.", no_args_is_help=True)
model_app = typer.Typer(
    help="The models of agents, and what was learnt about them.", no_args_is_help=True
)
local_app = typer.Typer(help="The small model that runs on this machine.", no_args_is_help=True)


@command(agent_app, "list")
def list_agents(options: Options, *, as_json: Json = False) -> int:
    """List the agents, and what is wrong with those that cannot be loaded."""
    return commands.agents.list_agents(options, as_json=as_json)


@command(agent_app, "show")
def show_agent(
    options: Options,
    name: Annotated[str, typer.Argument(help="Which agent.")],
    *,
    as_json: Json = False,
) -> int:
    """Show one agent, and which of its settings have no effect."""
    return commands.agents.show_agent(options, name, as_json=as_json)


@command(agent_app, "validate")
def validate_agents(
    options: Options,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names, or folders. All agents where none is given.")
    ] = None,
    *,
    as_json: Json = False,
) -> int:
    """Check agents; every fault is printed with its file, line and field."""
    return commands.agents.validate(options, names or [], as_json=as_json)


@command(agent_app, "files")
def agent_files(
    options: Options,
    name: Annotated[str, typer.Argument(help="Which agent.")],
    *,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Take the mark off a file, or all files in a folder; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """List the files of an agent's workspace that hold text from outside, and which."""
    return commands.agents.list_files(options, name, trust=trust or [], as_json=as_json)


@command(agent_app, "checkpoints")
def agent_checkpoints(
    options: Options,
    name: Annotated[str, typer.Argument(help="Which agent.")],
    *,
    show: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Show what one of them changed.")
    ] = None,
    undo: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Take it back; files changed since are left."),
    ] = None,
    as_json: Json = False,
) -> int:
    """List the turns that changed files of an agent's workspace, show one, or take one back."""
    return commands.checkpoints.checkpoints(options, name, show=show, undo=undo, as_json=as_json)


@command(agent_app, "create")
def create_agent(
    options: Options,
    name: Annotated[str, typer.Argument(help="Letters, digits and hyphens.")],
    *,
    provider: Provider = "builtin",
    model: ModelName = "",
    as_json: Json = False,
) -> int:
    """Create the folder of a new agent. Overwrites nothing."""
    return commands.scaffold.create_agent(
        options, name, provider=provider, model=model, as_json=as_json
    )


@command(agent_app, "schema")
def agent_schema() -> int:
    """Print the JSON Schema of agent.yaml."""
    return commands.agents.schema()


@command(model_app, "list")
def list_models(options: Options, *, as_json: Json = False) -> int:
    """List the models that agents used, and what was learnt about them."""
    return commands.model.list_models(options, as_json=as_json)


@command(model_app, "show")
def show_model(
    options: Options,
    name: Annotated[str, typer.Argument(help="As `model list` shows it.", show_default=False)],
    *,
    as_json: Json = False,
) -> int:
    """Show what was learnt about a model, and from what."""
    return commands.model.show_model(options, name, as_json=as_json)


@command(model_app, "use")
def use_model(
    options: Options,
    name: Annotated[str, typer.Argument(help="The model, or PROVIDER/MODEL.", show_default=False)],
    *,
    agent: Annotated[str, typer.Option(help="Which agent; by default the only one.")] = "",
    base_url: BaseUrl = "",
    key_file: Annotated[
        str, typer.Option(metavar="FILE", help="Holds the key; - reads it from stdin.")
    ] = "",
    keep: KeepIn = "",
    test: TestFirst = True,
    as_json: Json = False,
) -> int:
    """Have an agent use another model, by default of the provider that it uses now."""
    answers = commands.setup.Answers(
        agent=agent, base_url=base_url, model=name, key_file=key_file, keep=keep, test=test
    )
    return commands.setup.use_model(options, answers, as_json=as_json)


@command(model_app, "test")
def try_model(
    options: Options,
    agent: Annotated[str, typer.Argument(help="By default all.", show_default=False)] = "",
    *,
    as_json: Json = False,
) -> int:
    """Ask the models of agents for a word; tell how long it took and what it cost.

    The exit code is 1 where one gives no answer.
    """
    return commands.setup.test_models(options, agent, as_json=as_json)


@command(model_app, "forget")
def forget_model(
    options: Options,
    name: Annotated[
        str, typer.Argument(help="As `model list` shows it; by default all.", show_default=False)
    ] = "",
    *,
    endpoint: Annotated[
        str, typer.Option(help="Only at this address, where agents name one: host:8000/v1.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Forget the limits that models named when they refused requests, and that they refused tools.

    The exit code is 1 where there was nothing to forget.
    """
    return commands.model.forget(options, name, endpoint, as_json=as_json)


@command(local_app, "pull")
def pull(
    options: Options,
    name: Annotated[
        str, typer.Argument(help="smollm2-135m-instruct answers; whisper-base hears voice notes.")
    ] = "smollm2-135m-instruct",
    *,
    as_json: Json = False,
) -> int:
    """Fetch the weights of a model that runs on this machine."""
    return commands.local.pull(options, name, as_json=as_json)
