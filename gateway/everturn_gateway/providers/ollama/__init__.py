"""Models that Ollama runs, by its own API."""

from __future__ import annotations

from everturn_gateway.providers.ollama.adapter import Ollama, keep_alive_of

__all__ = ["Ollama", "keep_alive_of"]
