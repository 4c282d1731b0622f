"""What sessions say, on its way to people: nothing is lost, nothing is repeated unsaid."""

from __future__ import annotations

from everturn_channels.delivery.deliverer import Deliverer
from everturn_channels.delivery.tally import Tally

__all__ = ["Deliverer", "Tally"]
