"""The one client of the HTTP API: to a gateway in another process, or to one in this."""

from everturn_gateway.client.agents import ToolsNow, ask_tools
from everturn_gateway.client.api import Api, open_api, open_api_here, open_http
from everturn_gateway.client.channels import ask_channels
from everturn_gateway.client.readiness import Readiness, TaskDown, ask_readiness
from everturn_gateway.client.sessions import SessionClient

__all__ = [
    "Api",
    "Readiness",
    "SessionClient",
    "TaskDown",
    "ToolsNow",
    "ask_channels",
    "ask_readiness",
    "ask_tools",
    "open_api",
    "open_api_here",
    "open_http",
]
