"""Who may ask what of the gateway: principals, their scopes, their tokens, their limits."""

from __future__ import annotations

from everturn_gateway.principals.values import (
    ADMIN_TOKEN,
    API_TOKEN,
    LOCAL,
    NAME_PATTERN,
    RESERVED_NAMES,
    SCOPES,
    Principal,
    Scope,
    TokenRecord,
    is_principal_name,
    with_included,
)

__all__ = [
    "ADMIN_TOKEN",
    "API_TOKEN",
    "LOCAL",
    "NAME_PATTERN",
    "RESERVED_NAMES",
    "SCOPES",
    "Principal",
    "Scope",
    "TokenRecord",
    "is_principal_name",
    "with_included",
]
