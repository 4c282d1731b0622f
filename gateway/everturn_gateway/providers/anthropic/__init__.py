"""Claude, by Anthropic's own Messages API.

- `adapter`: streaming replies of Claude, by Anthropic's Messages API, and of whoever speaks it
- `capabilities`: what each Claude takes, by its name; the rest is found out
- `reading`: one model reply out of the events of Anthropic's stream
- `wire`: a request as the bytes of a body of Anthropic's Messages API
"""

from __future__ import annotations

from everturn_gateway.providers.anthropic.adapter import Anthropic

__all__ = ["Anthropic"]
