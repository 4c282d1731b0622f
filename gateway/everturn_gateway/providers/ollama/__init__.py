"""Models that Ollama runs, by its own API.

- `adapter`: streaming replies of models that Ollama runs, by its own API
- `lines`: lines of JSON out of bytes, however the network cut them
- `reading`: one model reply out of the lines of Ollama's stream
- `wire`: a request as the bytes of a body of Ollama's `/api/chat`
"""

from __future__ import annotations

from everturn_gateway.providers.ollama.adapter import Ollama, keep_alive_of

__all__ = ["Ollama", "keep_alive_of"]
