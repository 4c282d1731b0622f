"""Models that Ollama runs, by its own API."""

from __future__ import annotations

from everturn_gateway.providers.ollama.adapter import Ollama

__all__ = ["Ollama"]
