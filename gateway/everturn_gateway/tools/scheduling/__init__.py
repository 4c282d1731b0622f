"""`schedule`: messages and tasks for later, in the conversation that asked for them."""

from __future__ import annotations

from everturn_gateway.tools.scheduling.tool import ScheduleTool

__all__ = ["ScheduleTool"]
