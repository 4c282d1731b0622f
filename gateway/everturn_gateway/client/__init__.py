"""The terminal's door to a gateway in another process, over HTTP."""

from everturn_gateway.client.door import HttpDoor, open_client, open_http_door

__all__ = ["HttpDoor", "open_client", "open_http_door"]
