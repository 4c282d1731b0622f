"""Where commands of an agent run, for whoever judges them. Pure."""

from __future__ import annotations

from pathlib import Path

from everturn_gateway.tools.environment import CommandPlace, ToolEnvironment
from everturn_gateway.tools.shell.confinement.environment import DEFAULT_PATH
from everturn_gateway.tools.shell.confinement.sandbox import Confinement


def place_of(
    environment: ToolEnvironment, confinement: Confinement, folder: Path, *, is_typed: bool = False
) -> CommandPlace:
    """Return what a command would meet that begins in `folder` of the workspace.

    With `is_typed` it is a text that a running program reads.
    """
    return CommandPlace(
        root=environment.files,
        folder=folder,
        path=environment.environ.get("PATH") or DEFAULT_PATH,
        is_sealed=is_sealed(confinement),
        is_typed=is_typed,
    )


def is_sealed(confinement: Confinement) -> bool:
    """Return whether commands run in the sandbox, without network: `code:` patterns count there."""
    return confinement.sandbox == "bwrap" and not confinement.network
