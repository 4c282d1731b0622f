"""Who may ask what of the gateway: principals, their scopes, their tokens, their limits.

- `limits`: how often somebody may do something: leaky buckets in bounded memory
- `logins`: logins of browsers: whoever showed a token is known by a cookie for some hours
- `registry`: the tokens as a running gateway knows them: what the file says now, and who used which
  when
- `stored`: the tokens of principals as they are kept
- `tokens`: the text of a token: made once, shown once, and kept as its digest alone
- `values`: who asks, and what of the gateway is open to them
"""

from __future__ import annotations

from everturn_gateway.principals.limits import RateLimiter
from everturn_gateway.principals.logins import Login, Logins
from everturn_gateway.principals.registry import LOOK_EVERY_S, TokenRegistry, open_tokens
from everturn_gateway.principals.stored import (
    TOKENS_KEY,
    USED_KEY,
    StoredTokens,
    TokenError,
)
from everturn_gateway.principals.tokens import PREFIX, digest_of, is_token, new_token
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
    "LOOK_EVERY_S",
    "NAME_PATTERN",
    "PREFIX",
    "RESERVED_NAMES",
    "SCOPES",
    "TOKENS_KEY",
    "USED_KEY",
    "Login",
    "Logins",
    "Principal",
    "RateLimiter",
    "Scope",
    "StoredTokens",
    "TokenError",
    "TokenRecord",
    "TokenRegistry",
    "digest_of",
    "is_principal_name",
    "is_token",
    "new_token",
    "open_tokens",
    "with_included",
]
