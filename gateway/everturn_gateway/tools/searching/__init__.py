"""Tools that are found by a search instead of standing in every request.

What a search finds is its result, a message like any other, and a found tool is called through one
tool that never changes. So the head of the requests - the prompt and the tools - stays as it is,
byte for byte, whatever is found, and the log alone tells what the model knows.

- `provider`: between a session and its model: found tools are called through `use_tool`
- `ranking`: which tools fit what a model looks for, the best first
- `search`: the tools `search_tools` and `use_tool`, and which of an agent's others they stand for
- `settings`: when the tools of an agent are searched, as its owner wrote it down
"""

from __future__ import annotations

from everturn_gateway.tools.searching.provider import SearchingProvider
from everturn_gateway.tools.searching.search import ToolSearch
from everturn_gateway.tools.searching.settings import ToolSearchConfig

__all__ = ["SearchingProvider", "ToolSearch", "ToolSearchConfig"]
