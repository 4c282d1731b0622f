"""The composition root: the one place that knows every part, and puts them together.

`gateway` is what an open gateway is, `composition` opens one, `additions` what a program adds to it
as objects, `journal_check` what `doctor` asks of the journals.

- `additions`: what a program that embeds a gateway adds to it as objects, beside what files name
- `cluster`: this gateway among those that share its store: what it holds, and what runs while it
  does
- `composition`: opens the parts of a gateway one upon the other, and closes them in the opposite
  order
- `gateway`: an open gateway, and what is made of its configuration before it opens
- `idle`: what a gateway does when nothing is at work: memory goes back, and garbage is looked for
- `journal_check`: the journals of a workspace, looked at and set right; what `doctor` asks for
- `moving`: moves all that a gateway keeps from one store to another; `everturn move`
- `other_rows`: rows of the sessions that other nodes work on, as new as a list needs them
- `search`: opens the index of what was said, and tells it what sessions append
- `speaking`: what agents hear and speak with, opened where somebody does
- `storage`: opens the store of a gateway, for the gateway itself and for commands beside it
- `upgrading`: what an upgrade changes in a workspace: the plan, and the change with its backup
"""

from __future__ import annotations

from everturn_gateway.app.additions import NO_ADDITIONS, Additions, OpenStore, open_in_memory
from everturn_gateway.app.composition import open_gateway
from everturn_gateway.app.gateway import (
    SPENDING_FOLDER,
    USAGE_FOLDER,
    Gateway,
    make_meter,
    make_price_meter,
    make_spending,
    payer_in,
    version,
)
from everturn_gateway.app.journal_check import can_be_examined, check_journals
from everturn_gateway.app.storage import look_at_nodes, open_keyed

__all__ = [
    "NO_ADDITIONS",
    "SPENDING_FOLDER",
    "USAGE_FOLDER",
    "Additions",
    "Gateway",
    "OpenStore",
    "can_be_examined",
    "check_journals",
    "look_at_nodes",
    "make_meter",
    "make_price_meter",
    "make_spending",
    "open_gateway",
    "open_in_memory",
    "open_keyed",
    "payer_in",
    "version",
]
