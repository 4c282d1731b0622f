"""Claude, by Anthropic's own Messages API."""

from __future__ import annotations

from everturn_gateway.providers.anthropic.adapter import Anthropic

__all__ = ["Anthropic"]
