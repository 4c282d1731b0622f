"""The tools that come with the gateway, and which agent is offered which."""

from __future__ import annotations

from everturn_gateway.tools.offers import offers_recall, tools_for
from everturn_gateway.tools.recall import RecallContext

__all__ = ["RecallContext", "offers_recall", "tools_for"]
