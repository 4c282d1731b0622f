"""What a machine trusts is the same for every client of a process.

To read all certificates takes 50 ms of CPU, for each client of HTTP, and the tests open some
thousands, nearly none of which speaks TLS. So a context of the same sources is made once in a
process.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any

import httpcore2

_FROM_ENVIRONMENT = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@cache
def remember_certificates() -> None:
    """Let clients share what they trust, from now on in this process."""
    names: dict[str, Any] = vars(ssl)
    names["create_default_context"] = _kept(ssl.create_default_context)
    library: dict[str, Any] = vars(httpcore2)
    library["default_ssl_context"] = _kept(httpcore2.default_ssl_context)


def _kept(make: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    known: dict[tuple[object, ...], ssl.SSLContext] = {}

    def context(*purpose: ssl.Purpose, **sources: Any) -> ssl.SSLContext:
        if purpose or sources.get("purpose") or sources.get("cadata"):  # a server, or its client
            return make(*purpose, **sources)
        key = (*sorted(sources.items()), *map(os.environ.get, _FROM_ENVIRONMENT))
        if key not in known:
            known[key] = make(**sources)
        return known[key]

    return context
