"""How a command is declared: options that several take, and those that every command takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import typer
import typer.core

from everturn_gateway.commands.shared.options import Options
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    from everturn_gateway import plugins
else:
    plugins = late("everturn_gateway.plugins")

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
    typer.Option(help="Who runs the model: {providers}."),
]
ModelName: TypeAlias = Annotated[
    str, typer.Option("--model", help="The model's name.", show_default="by the provider")
]
TestFirst: TypeAlias = Annotated[
    bool, typer.Option("--test/--no-test", help="Whether the model is asked for a word first.")
]
KeepIn: TypeAlias = Annotated[
    Literal["", "file", "keyring"],
    typer.Option(
        "--keep",
        metavar="PLACE",
        help="Where the key is kept: file, beside the configuration, or keyring, the system's.",
        show_default=False,
    ),
]
BaseUrl: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Address of a server that speaks OpenAI's API.")
]

_OPTIONS: Final = "options"
_CONTEXT: Final = "context"
_PLACES: Final = {
    "config": typer.Option(
        "--config", "-c", help="The configuration.", show_default="./everturn.yaml"
    ),
    "workspace": typer.Option("--workspace", help="Instead of the configuration's workspace."),
    "agents_dir": typer.Option(
        "--agents-dir", help="Instead of the configuration's agents folder."
    ),
}


class _Command(typer.core.TyperCommand):
    """A command whose options name plug-ins in their help: `{providers}`, `{policies}`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Write the help, with what is installed now."""
        for option in self.params:
            if isinstance(option, typer.core.TyperOption) and "{" in (option.help or ""):
                option.help = _named(option.help or "")
        super().format_help(ctx, formatter)


def _named(text: str) -> str:
    names = plugins.installed()  # loaded here: all other help does without
    return text.format(
        providers=", ".join(names.providers.names), policies=", ".join(names.policies.names)
    )


CommandT = TypeVar("CommandT", bound=Callable[..., int])


def command(
    group: typer.Typer, name: str | None = None, *, is_default: bool = False
) -> Callable[[CommandT], CommandT]:
    """Declare a command by a function that does it and returns the exit code.

    A function whose first parameter is called `options` is told there where its configuration is:
    on the command line those are `--config`, `--workspace` and `--agents-dir`, behind the
    command's own options.

        @command(sessions_app, "list")
        def list_sessions(options: Options, *, as_json: Json = False) -> int:
            "List sessions, newest first."
            return commands.sessions.list_sessions(options, as_json=as_json)

    Args:
        group: What it stands under.
        name: As it is typed; by default the function's.
        is_default: It is the group itself, and runs where none of its commands is named.
    """

    def declare(function: CommandT) -> CommandT:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())
        is_placed = bool(own) and own[0].name == _OPTIONS

        def run(**given: Any) -> None:  # noqa: ANN401 - what typer has checked by the signature
            if is_default and given.pop(_CONTEXT).invoked_subcommand is not None:
                return
            if is_placed:
                given[_OPTIONS] = Options(**{each: given.pop(each) for each in _PLACES})
            code = function(**given)
            if code:
                raise typer.Exit(code)

        if is_placed:
            own = [*own[1:], *map(_place, _PLACES)]
        if is_default:
            own.append(_parameter(_CONTEXT, typer.Context, inspect.Parameter.empty))
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        # What typer reads: it makes the options of a command from its signature.
        vars(run)["__signature__"] = signature.replace(parameters=own, return_annotation=None)
        run.__annotations__ = {each.name: each.annotation for each in own}
        if is_default:
            group.callback(invoke_without_command=True)(run)
        else:
            group.command(name, cls=_Command)(run)
        return function

    return declare


def _place(name: str) -> inspect.Parameter:
    return _parameter(name, Annotated[Path | None, _PLACES[name]], None)


def _parameter(name: str, kind: object, default: object) -> inspect.Parameter:
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=default, annotation=kind)
