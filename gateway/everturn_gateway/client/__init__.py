"""Speaks to a gateway in another process, over HTTP: the terminal's client, and questions to it."""

from everturn_gateway.client.agents import ToolsNow, ask_tools
from everturn_gateway.client.channels import ask_channels
from everturn_gateway.client.http_client import HttpClient, open_client, open_http_client
from everturn_gateway.client.readiness import Readiness, TaskDown, ask_readiness

__all__ = [
    "HttpClient",
    "Readiness",
    "TaskDown",
    "ToolsNow",
    "ask_channels",
    "ask_readiness",
    "ask_tools",
    "open_client",
    "open_http_client",
]
