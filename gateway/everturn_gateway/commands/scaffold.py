"""`everturn init` and `everturn agent create`: files to start from. Overwrites nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from everturn_actors.spec import ModelSpec
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import DEFAULT_AGENT, Options
from everturn_gateway.commands.shared.printing import recorded
from everturn_gateway.commands.shared.questions import can_ask
from everturn_gateway.commands.shared.settings import load
from everturn_gateway.config.env_file import ENV_NAME
from everturn_gateway.errors import GatewayError
from everturn_gateway.folders import create_file
from everturn_gateway.plugins import installed
from everturn_gateway.private_environ import process_environ

CONFIG_NAME = "everturn.yaml"
AGENTS_FOLDER = "agents"
WORKSPACE_FOLDER = ".everturn"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?")

_CONFIG: Final = f"""\
# The configuration of this gateway. Relative paths start at this file.
workspace: {WORKSPACE_FOLDER}
agents_dir: {AGENTS_FOLDER}
server:
  host: 127.0.0.1
  port: 8080
  # Needed to listen beyond this machine.
  api_token: "${{EVERTURN_API_TOKEN:-}}"
  admin_token: "${{EVERTURN_ADMIN_TOKEN:-}}"
"""

_AGENT: Final = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata:
  name: {name}
  description: A helpful assistant.
spec:
  model:
    provider: {provider}
    name: {model}
{address}{limits}  soul: ./SOUL.md
  system_prompt: ./SYSTEM_PROMPT.md
{history}"""

# The local model is small and reads slowly; without these it would be sent far too much.
_LOCAL_LIMITS: Final = """\
    max_input_tokens: 4096
    max_output_tokens: 512
"""
_LOCAL_HISTORY: Final = """\
  session:
    context:
      max_history_tokens: 1500
"""

_SOUL: Final = """\
You are {{agent.name}}: friendly, honest and to the point. You say when you do not know something.
"""

_SYSTEM_PROMPT: Final = """\
Help the person you talk to. Answer in their language, short first; give details when asked.

Today is {{date}}.
"""


def init(
    folder: Path, *, agent: str, provider: str, model: str, ask: bool, as_json: bool = False
) -> int:
    """Set up `folder`; return the exit code.

    Args:
        folder: Is created where it is missing.
        agent: Name of the first agent; empty = ask, or `assistant`.
        provider: Who runs its model; empty = ask, or `builtin`.
        model: The model's name; empty = the provider's usual one.
        ask: Ask a person at the terminal for what is not given.
        as_json: Print what was written as JSON.
    """
    with recorded(as_json=as_json) as record:
        if ask and can_ask():
            agent = agent or typer.prompt("Name of the first agent", default=DEFAULT_AGENT)
            provider = provider or typer.prompt(
                f"Who runs its model ({provider_names()})", default="builtin"
            )
        agent, chosen = check_name(agent or DEFAULT_AGENT), _model(provider or "builtin", model)
        written = write_config(folder)
        written += write_agent(folder / AGENTS_FOLDER / agent, agent, chosen)
        record.update(written_record(folder, agent, chosen, written))
        _next_steps(folder, chosen)
    return EXIT_OK


def written_record(
    folder: Path, agent: str, model: ModelSpec, written: Sequence[Path]
) -> dict[str, object]:
    """Return what was set up, as JSON tells it.

    Args:
        folder: Of the configuration.
        agent: Which agent has the model.
        model: The model.
        written: Files that were not there before.
    """
    return {
        "config": str((folder / CONFIG_NAME).absolute()),
        "agent": agent,
        "model": {"provider": model.provider, "name": model.name},
        "base_url": model.base_url or None,
        "written": [str(path.absolute()) for path in written],
    }


def write_config(folder: Path) -> list[Path]:
    """Write a configuration, and what git leaves alone; what is there stays.

    Returns:
        The files that were written.

    Raises:
        GatewayError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    written = _write(folder / CONFIG_NAME, _CONFIG)
    return written + _ignore(folder / ".gitignore", (f"{WORKSPACE_FOLDER}/", ENV_NAME))


def create_agent(
    options: Options, name: str, *, provider: str, model: str, as_json: bool = False
) -> int:
    """Create the folder of a new agent; return the exit code.

    Raises:
        GatewayError: The name or the provider is not valid, or the agent exists.
    """
    config = load(options)
    chosen = _model(provider, model)
    folder = config.agents_dir / check_name(name)
    if folder.exists():
        msg = f"{folder} exists already; nothing was written"
        raise GatewayError(msg)
    with recorded(as_json=as_json) as record:
        written = write_agent(folder, name, chosen)
        place = config.path.parent if config.path else config.agents_dir.parent
        record.update(written_record(place, name, chosen, written))
        sys.stdout.write(f"\nTalk to it:\n  everturn chat {name}{options.again()}\n")
        _tell_key(chosen)
    return EXIT_OK


def check_name(name: str) -> str:
    """Return the name of an agent.

    Raises:
        GatewayError: It cannot be one.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!r} is no name for an agent: letters, digits and hyphens, at most 64"
        raise GatewayError(msg)
    return name


def provider_names() -> str:
    """Return who can run models, for people."""
    return ", ".join(installed().providers.names)


def _model(provider: str, model: str) -> ModelSpec:
    plugin = installed().providers.get(provider)
    if plugin is None:
        fault = installed().providers.fault(provider)
        msg = f"there is no provider {provider!r}; there are: {provider_names()}"
        raise GatewayError(str(fault) if fault else msg)
    name = model or plugin.usual_model
    if not name:
        msg = f"name the model of {provider} with --model"
        raise GatewayError(msg)
    return ModelSpec(provider=provider, name=check_model(name))


def check_model(name: str) -> str:
    """Return the name of a model.

    Raises:
        GatewayError: It cannot be one.
    """
    if not name.isprintable() or any(c in name for c in "\"'#{}[]&*!|>%@`"):
        msg = f"{name!r} is no name of a model"
        raise GatewayError(msg)
    return name


def write_agent(folder: Path, name: str, model: ModelSpec) -> list[Path]:
    """Write the folder of a new agent; what is there stays.

    Returns:
        The files that were written.

    Raises:
        GatewayError: It cannot be written.
    """
    is_local = model.provider == "local"
    text = _AGENT.format(
        name=name,
        provider=model.provider,
        model=json.dumps(model.name) if ":" in model.name else model.name,
        address=f"    base_url: {json.dumps(model.base_url)}\n" if model.base_url else "",
        limits=_LOCAL_LIMITS if is_local else "",
        history=_LOCAL_HISTORY if is_local else "",
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    files = {"agent.yaml": text, "SOUL.md": _SOUL, "SYSTEM_PROMPT.md": _SYSTEM_PROMPT}
    return [path for each, text in files.items() for path in _write(folder / each, text)]


def _write(path: Path, text: str) -> list[Path]:
    """Create `path`, whole or not at all, and return it; one that exists is left as it is."""
    try:
        create_file(path, text.encode(), mode=0o666)
    except FileExistsError:
        sys.stdout.write(f"kept     {path}\n")
        return []
    except OSError as error:
        raise _unwritable(path, error) from error
    sys.stdout.write(f"created  {path}\n")
    return [path]


def _ignore(path: Path, entries: Sequence[str]) -> list[Path]:
    """Make git leave alone what people said, and keys."""
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        missing = [entry for entry in entries if entry not in old.splitlines()]
        if not missing:
            return []
        begin = "" if not old or old.endswith("\n") else "\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(begin + "".join(f"{entry}\n" for entry in missing))
    except (OSError, UnicodeDecodeError) as error:
        raise _unwritable(path, error) from error
    sys.stdout.write(f"{'extended' if old else 'created '} {path}\n")
    return [path]


def _unwritable(path: Path, error: OSError | UnicodeDecodeError) -> GatewayError:
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    return GatewayError(f"{path} cannot be written: {why or error}")


def _next_steps(folder: Path, model: ModelSpec) -> None:
    here = folder.resolve() == Path.cwd()
    go_there = "" if here else f"  cd {folder}\n"
    sys.stdout.write(
        f"\nNext:\n{go_there}  everturn chat     talk to the agent here\n"
        "  everturn serve    run the gateway, with its HTTP API\n"
        "  everturn doctor   check that everything is in order\n"
    )
    _tell_key(model)


def _tell_key(model: ModelSpec) -> None:
    plugin = installed().providers.get(model.provider)
    variable = plugin.needed_key(model) if plugin else ""
    if variable and not process_environ().get(variable):
        sys.stdout.write(
            f"\nThe model needs a key: set {variable} in the environment or in {ENV_NAME}, or let"
            " `everturn setup` ask for it.\n"
        )
    if model.provider == "local":
        sys.stdout.write("\nThe model needs its weights: everturn local pull\n")
