"""The HTTP surface: routes over the entry point, access, limits, and the server that listens."""

from __future__ import annotations

from everturn_gateway.http.application import create_app
from everturn_gateway.http.server import serve_http

__all__ = ["create_app", "serve_http"]
