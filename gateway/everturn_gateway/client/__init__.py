"""Speaks to a gateway in another process, over HTTP: the terminal's door, and questions to it."""

from everturn_gateway.client.channels import ask_channels
from everturn_gateway.client.door import HttpDoor, open_client, open_http_door

__all__ = ["HttpDoor", "ask_channels", "open_client", "open_http_door"]
