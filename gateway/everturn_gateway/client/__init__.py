"""Speaks to a gateway in another process, over HTTP: the terminal's door, and questions to it."""

from everturn_gateway.client.channels import ask_channels
from everturn_gateway.client.door import HttpDoor, open_client, open_http_door
from everturn_gateway.client.readiness import Readiness, TaskDown, ask_readiness

__all__ = [
    "HttpDoor",
    "Readiness",
    "TaskDown",
    "ask_channels",
    "ask_readiness",
    "open_client",
    "open_http_door",
]
