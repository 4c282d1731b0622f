"""The tools that come with the gateway, and which agent is offered which."""

from __future__ import annotations

from everturn_gateway.tools.recall import RecallContext
from everturn_gateway.tools.recall.selection import is_recall_offered, tools_for

__all__ = ["RecallContext", "is_recall_offered", "tools_for"]
