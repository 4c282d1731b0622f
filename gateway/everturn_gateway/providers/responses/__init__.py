"""OpenAI's Responses API, and whoever speaks it.

- `adapter`: one model behind it
- `reading`: a reply out of the events of its stream
- `wire`: a request as bytes
"""

from __future__ import annotations

from everturn_gateway.providers.responses.adapter import Responses

__all__ = ["Responses"]
