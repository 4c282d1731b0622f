"""What the commands do. Each module is loaded when the command line first asks for it.

So `commands.sessions` costs nothing until a command of `everturn sessions` is called, and `--help`
never pays for the gateway.

- `agents`: `everturn agent`: list, show, validate, schema
- `channel`: `everturn channel`: the status of the channels, and whether they are set up as they
  must be
- `chat`: `everturn chat` and `everturn attach`
- `checkpoints`: `everturn agent checkpoints`: what turns changed in a workspace, and taking it back
- `clients`: how a command gets to the conversations: through the running gateway, or by opening one
- `doctor`: `everturn doctor`: is everything in order, and what to do where it is not
- `exporting`: `everturn export`: sessions as files in a folder, for who takes them elsewhere
- `local`: `everturn local pull`: the weights of models that run on this machine
- `maintenance`: `everturn clean` and `everturn erase`
- `model`: `everturn model`: what was learnt about models, and how it is forgotten
- `move`: `everturn move`: all that a gateway keeps, from the folder to a database or back
- `own_gateway`: the gateway that a command opens for itself, where none runs
- `own_channels`: `everturn channel new` and `channel test`: a channel of one's own, begun and tried
- `pair`: `everturn pair`: who asked to talk to an agent, and who may
- `peers`: `everturn mcp` and `everturn acp`: agents for a program that starts the command
- `pid`: `everturn pid`: which process serves the workspace, for whoever signals that one alone
- `run`: `everturn run`: one message, one answer
- `scaffold`: `everturn init` and `everturn agent create`: files to start from
- `sessions`: `everturn sessions`: list, search, show, export, retry, share, delete
- `token`: `everturn token`: the tokens of people and programs
- `usage`: `everturn usage`: what agents used of models
- `cluster/`: `everturn nodes` and `everturn seat`: gateways that share the store
- `context/`: `everturn context`
- `first_steps/`: `everturn setup`: from nothing to an answer of a real model
- `installation/`: `everturn help`, `docs` and `upgrade`: what comes with the program
- `jobs/`: `everturn schedule`
- `moving_in/`: `everturn import`: what other programs keep of agents, read, planned, and written as
  ours
- `servers/`: `everturn mcp login`, `logout` and `list`: the MCP servers of agents, and who is
  logged in
- `serving/`: `everturn serve`
- `shared/`: what commands share: options, settings, errors, and how they print and ask
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Final

from everturn_gateway.gc_tuning import loading

if TYPE_CHECKING:  # for whoever checks types; at run time `__getattr__` is what finds them
    from everturn_gateway.commands import (
        agents,
        channel,
        chat,
        checkpoints,
        doctor,
        exporting,
        local,
        maintenance,
        model,
        move,
        own_channels,
        own_gateway,
        pair,
        peers,
        pid,
        run,
        scaffold,
        sessions,
        token,
        usage,
    )
    from everturn_gateway.commands.cluster import nodes, seats
    from everturn_gateway.commands.context import context as transcripts
    from everturn_gateway.commands.context import live as live_context
    from everturn_gateway.commands.first_steps import bots, checking, services, setup
    from everturn_gateway.commands.installation import documentation, site, upgrade
    from everturn_gateway.commands.jobs import schedule
    from everturn_gateway.commands.moving_in import moving as imports
    from everturn_gateway.commands.servers import logins
    from everturn_gateway.commands.serving import serve

__all__ = [
    "agents",
    "bots",
    "channel",
    "chat",
    "checking",
    "checkpoints",
    "doctor",
    "documentation",
    "exporting",
    "imports",
    "live_context",
    "local",
    "logins",
    "maintenance",
    "model",
    "move",
    "nodes",
    "own_channels",
    "own_gateway",
    "pair",
    "peers",
    "pid",
    "run",
    "scaffold",
    "schedule",
    "seats",
    "serve",
    "services",
    "sessions",
    "setup",
    "site",
    "token",
    "transcripts",
    "upgrade",
    "usage",
]

_ELSEWHERE: Final = {
    "nodes": "cluster.nodes",
    "seats": "cluster.seats",
    "transcripts": "context.context",
    "live_context": "context.live",
    "schedule": "jobs.schedule",
    "imports": "moving_in.moving",
    "logins": "servers.logins",
    "documentation": "installation.documentation",
    "site": "installation.site",
    "upgrade": "installation.upgrade",
    "serve": "serving.serve",
    "setup": "first_steps.setup",
    "checking": "first_steps.checking",
    "bots": "first_steps.bots",
    "services": "first_steps.services",
}


def __getattr__(name: str) -> ModuleType:
    """Load a module of commands."""
    path = f"{__name__}.{_ELSEWHERE.get(name, name)}"
    try:
        # Some are loaded in the middle of a command, and the whole gateway with them.
        with nullcontext() if path in sys.modules else loading():
            return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None
