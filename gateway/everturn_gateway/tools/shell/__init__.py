"""The shell: the sandbox that commands run in, and the tool that runs them."""

from __future__ import annotations

from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.sandbox import (
    Confinement,
    Limits,
    command_line,
    confine,
    sandbox_fault,
    unseen_places,
)

__all__ = [
    "Confinement",
    "Limits",
    "command_environ",
    "command_line",
    "confine",
    "sandbox_fault",
    "unseen_places",
]
