"""What a start loads: the less, the sooner a gateway is there, and the smaller while it waits."""

from __future__ import annotations

import subprocess
import sys

LATER = {
    "aiohttp": "the first call of a model",
    "fastapi": "the first request of the API",
    "html": "pages of errors, and text that goes into HTML",
    "httpx2": "the first webhook, or a page that is fetched",
    "mcp": "the first server or client of MCP",
    "opentelemetry": "traces that are sent",
    "prometheus_client": "the first scrape",
    "rich": "what is printed for people",
    "tree_sitter": "the first command that is judged",
    "everturn_gateway.http.application": "the first request of the API",
    "everturn_gateway.tools.policy.gate": "an agent that has tools",
    "everturn_gateway.tools.policy.commands": "as above",
    "everturn_gateway.tools.web.plugin": "an agent that has the tool",
}


def test_a_start_loads_nothing_that_comes_later() -> None:
    """A line that imports one of these at its module's head costs every start."""
    code = "import sys, everturn_gateway.commands.serving.serve; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "everturn_gateway.commands.serving.serve" in loaded
    assert LATER.keys().isdisjoint(loaded)
