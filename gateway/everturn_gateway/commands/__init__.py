"""What the commands do. Each module is loaded when the command line first asks for it.

So `commands.sessions` costs nothing until a command of `everturn sessions` is called, and `--help`
never pays for the gateway.
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
        checkpoints,
        doctor,
        exporting,
        local,
        model,
        move,
        nodes,
        own_gateway,
        pair,
        peers,
        pid,
        run,
        scaffold,
        sessions,
        talk,
        token,
        upkeep,
        usage,
    )
    from everturn_gateway.commands.context import context as transcripts
    from everturn_gateway.commands.context import live as live_context
    from everturn_gateway.commands.first_steps import bots, checking, services, setup
    from everturn_gateway.commands.jobs import schedule
    from everturn_gateway.commands.servers import logins
    from everturn_gateway.commands.serving import serve

__all__ = [
    "agents",
    "bots",
    "channel",
    "checking",
    "checkpoints",
    "doctor",
    "exporting",
    "live_context",
    "local",
    "logins",
    "model",
    "move",
    "nodes",
    "own_gateway",
    "pair",
    "peers",
    "pid",
    "run",
    "scaffold",
    "schedule",
    "serve",
    "services",
    "sessions",
    "setup",
    "talk",
    "token",
    "transcripts",
    "upkeep",
    "usage",
]

_ELSEWHERE: Final = {
    "transcripts": "context.context",
    "live_context": "context.live",
    "schedule": "jobs.schedule",
    "logins": "servers.logins",
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
