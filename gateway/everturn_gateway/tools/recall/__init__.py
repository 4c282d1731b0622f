"""`recall_context`: what is hidden from the model can be read back by it."""

from __future__ import annotations

from everturn_gateway.tools.recall.pages import PAGE_CHARACTERS
from everturn_gateway.tools.recall.tool import RecallContext

__all__ = ["PAGE_CHARACTERS", "RecallContext"]
