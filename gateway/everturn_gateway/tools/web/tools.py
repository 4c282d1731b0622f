"""The web tools of one agent."""

from __future__ import annotations

from everturn_actors.ports import Tool
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.quoting import PAGE_TOKENS
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.tools.web.fetch_tool import WebFetch
from everturn_gateway.tools.web.reaching import Reaching, Resolve, resolve
from everturn_gateway.tools.web.search_apis import SearchSettings
from everturn_gateway.tools.web.search_tool import WebSearch


def web_tools(
    environment: ToolEnvironment,
    *,
    fetch: bool,
    search: SearchSettings | None,
    allow_private: tuple[str, ...] = (),
    page_tokens: int = PAGE_TOKENS,
    find: Resolve = resolve,
) -> tuple[Tool, ...]:
    """Return the web tools of one agent.

    Args:
        environment: Where they work.
        fetch: Whether `web_fetch` is among them.
        search: Who searches; None = `web_search` is not among them.
        allow_private: Hosts and networks beyond the public Internet that may be fetched.
        page_tokens: How much of a page is answered at once, in estimated tokens.
        find: Looks names up.

    Raises:
        ToolSettingsError: The settings make no sense; the text names the field below the tool.
    """
    tools: list[Tool] = []
    if fetch:
        reaching = Reaching(read_allowed(allow_private), find)
        tools.append(WebFetch(reaching, environment.environ, page_tokens=page_tokens))
    if search is not None:
        tools.append(WebSearch(search, environment.environ, environment.secrets))
    return tuple(tools)
