"""The shell: the sandbox that commands run in, and the tool that runs them.

- `bash`: the tool `bash`: what the model is told of it, and what becomes of a call
- `commands`: one command of an agent, from its text to the result that the model reads
- `output`: what a command printed: kept within bounds, and as text
- `placing`: where commands of an agent run, for whoever judges them
- `plugin`: the plug-in `bash`
- `running`: runs one command to its end, within a deadline and within bounds, and leaves nothing
  behind
- `settings`: how far the commands of a tool reach, as its owner wrote it down
- `trees`: ends a command with everything that it started
- `confinement/`: what a command sees, may do and may use up: the sandbox, or another user
"""

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
