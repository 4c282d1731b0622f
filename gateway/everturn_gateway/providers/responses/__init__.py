"""OpenAI's Responses API, and whoever speaks it.

- `adapter`: one model behind it
- `question`: what a request would cost, also for who is asked by chat completions
- `reading`: a reply out of the events of its stream
- `wire`: a request as bytes
"""

from __future__ import annotations

from everturn_gateway.providers.responses.adapter import Responses
from everturn_gateway.providers.responses.question import openai_question

__all__ = ["Responses", "openai_question"]
