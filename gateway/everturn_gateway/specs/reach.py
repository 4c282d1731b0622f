"""What an agent's workspace must not hold: whatever makes the rules that the agent works by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from everturn_gateway.errors import Fault
from everturn_gateway.specs.prompts import FILES, is_path
from everturn_gateway.specs.settings.document import SpecSettings
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.factory import FILES_FOLDER
from everturn_gateway.yaml_files import Document, resolved

_RULES = ("tools", "directives", "policy.yaml", "policy.local.yaml", "agent.yaml")
"Beside `agent.yaml`: what an agent that could write it would allow itself things with."


def workspace_faults(
    document: Document, spec: SpecSettings, config: ToolConfig, *, folder: Path, state: Path | None
) -> Iterator[Fault]:
    """Yield a fault where an agent could write its own rules, another agent's, or the gateway's.

    Resolves paths: not for the event loop.

    Args:
        document: Its `agent.yaml`, for the place.
        spec: The values in it.
        config: What was read of its tools and skills.
        folder: The agent's folder.
        state: The gateway's workspace; None = there is none.

    Raises:
        OSError: The agent's folder or its workspace leads nowhere.
    """
    if state is not None:
        own = resolved(state) / FILES_FOLDER / document.data["metadata"]["name"]
        files = resolved(folder / spec.workspace) if spec.workspace else own
    elif spec.workspace:
        files = resolved(folder / spec.workspace)
    else:
        return
    holds = next(_held(files, spec, config, folder=resolved(folder), state=state), "")
    if holds:
        message = (
            f"{files} {holds}, which no agent may change; name a folder with nothing else in it"
        )
        yield document.fault(("spec", "workspace" if spec.workspace else "skills_dir"), message)


def _held(
    files: Path, spec: SpecSettings, config: ToolConfig, *, folder: Path, state: Path | None
) -> Iterator[str]:
    """Yield what the workspace holds, or lies in, that it must not."""
    agents = folder.parent
    if folder.is_relative_to(files) or agents.is_relative_to(files):
        yield "holds the agent's own rules"
    if files.is_relative_to(agents) and not files.is_relative_to(folder):
        yield "is in another agent's folder"
    if state is not None:
        gateway = resolved(state)
        inside = files.is_relative_to(gateway) and not files.is_relative_to(gateway / FILES_FOLDER)
        if gateway.is_relative_to(files) or inside:
            yield "holds the gateway's own workspace, or lies in it"
    for rule in _rules(spec, config, folder):
        try:
            path = resolved(rule)
        except OSError:  # whoever reads it says so
            continue
        if path.is_relative_to(files) or files.is_relative_to(path):
            yield f"holds or lies in {rule}"


def _rules(spec: SpecSettings, config: ToolConfig, folder: Path) -> Iterator[Path]:
    """Yield the files and folders that tell the agent what to do, or do it."""
    yield from (folder / name for name in _RULES)
    yield folder / spec.skills_dir
    for field, file in FILES.items():
        value: str | None = getattr(spec, field)
        if value is None:
            yield folder / file
        elif is_path(value, folder):
            yield folder / value
    for each in config.cli:
        yield from (path for word in each.program.command[:1] if (path := folder / word).exists())
    for server in config.mcp:
        if "/" in server.command:
            yield folder / server.command
