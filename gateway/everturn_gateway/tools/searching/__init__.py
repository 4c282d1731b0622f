"""Tools that are found by a search instead of standing in every request.

What a search finds is its result, a message like any other, and a found tool is called through one
tool that never changes. So the head of the requests - the prompt and the tools - stays as it is,
byte for byte, whatever is found, and the log alone tells what the model knows.
"""

from __future__ import annotations

from everturn_gateway.tools.searching.provider import SearchingProvider
from everturn_gateway.tools.searching.search import ToolSearch
from everturn_gateway.tools.searching.settings import ToolSearchConfig

__all__ = ["SearchingProvider", "ToolSearch", "ToolSearchConfig"]
