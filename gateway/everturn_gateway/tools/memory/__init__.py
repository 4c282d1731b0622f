"""Tools for notes that outlast a conversation."""

from __future__ import annotations

from everturn_gateway.tools.memory.tools import memory_directive, memory_tools

__all__ = ["memory_directive", "memory_tools"]
