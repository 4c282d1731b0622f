"""The folder in which the tools of an agent work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.yaml_files import resolved


def workspace_of(environment: ToolEnvironment) -> Confined:
    """Return the agent's workspace, with paths that stay in it."""
    closed = partial(closed_in, environment)
    return Confined(environment.files, what="the workspace", closed=closed, made_by_reading=True)


def closed_in(environment: ToolEnvironment) -> Iterator[Path]:
    """Yield the folders that say what agents may do, where the workspace is one or holds them.

    They are the gateway's, the agents' and this agent's.
    """
    root, home = resolved(environment.files), resolved(environment.home)
    for folder in (resolved(environment.state), home, home.parent):
        if folder == root or root in folder.parents:
            yield folder
