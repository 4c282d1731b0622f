"""The composition root: the one place that knows every part, and puts them together.

`gateway` is what an open gateway is, `composition` opens one, `additions` what a program adds to it
as objects, `journal_check` what `doctor` asks of the journals.
"""

from __future__ import annotations

from everturn_gateway.app.additions import NO_ADDITIONS, Additions, OpenStore, open_in_memory
from everturn_gateway.app.composition import open_gateway
from everturn_gateway.app.gateway import (
    MODELS_FOLDER,
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
    "MODELS_FOLDER",
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
