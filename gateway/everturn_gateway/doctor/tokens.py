"""What should be looked at in the tokens of principals."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from everturn_actors.ports import KeyedStore
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config
from everturn_gateway.principals import StoredTokens, TokenRecord

_EXPIRES_SOON: Final = timedelta(days=14)
_UNUSED_AFTER: Final = timedelta(days=7)


async def token_notes(config: Config, keyed: KeyedStore) -> list[str]:
    """Return what should be looked at in the tokens of a workspace, a line each.

    Raises:
        TokenError: They cannot be read.
    """
    stored = StoredTokens(keyed)
    tokens, used, now = await stored.all(), await stored.used(), SystemClock().now()
    notes: list[str] = []
    for each in tokens:
        if each.revoked_at is not None:
            continue
        if each.is_expired(now):
            notes.append(
                f"{each.name}: expired at {_minute_of(each.expires_at)};"
                f" `everturn token revoke {each.name}` says that it should stay so"
            )
            continue
        notes += _looked_at(each, now, used.get(each.name), config)
    is_any_valid = any(each.is_valid(now) for each in tokens)
    server = config.server
    if server.require_token and not (is_any_valid or server.api_token or server.admin_token):
        notes.append(
            "everybody needs a token and there is none; `everturn token create NAME --scope admin`"
        )
    if is_any_valid and not (server.api_token or server.require_token):
        notes.append(
            "programs of this machine need no token and may do everything;"
            " server.require_token: true asks them too"
        )
    return notes


def _looked_at(
    record: TokenRecord, now: datetime, used_at: datetime | None, config: Config
) -> list[str]:
    found: list[str] = []
    if record.expires_at is not None and record.expires_at - now < _EXPIRES_SOON:
        found.append(f"{record.name}: expires at {_minute_of(record.expires_at)}")
    if record.expires_at is None and {"operate", "admin"} & set(record.scopes):
        scopes = " and ".join(record.scopes)
        found.append(f"{record.name}: never expires, and may {scopes}")
    if used_at is None and now - record.created_at > _UNUSED_AFTER:
        since = _minute_of(record.created_at)
        found.append(f"{record.name}: never used since it was made at {since}")
    found += [
        f"{record.name}: there is no agent {agent!r}"
        for agent in record.agents
        if not (config.agents_dir / agent).is_dir()
    ]
    return found


def _minute_of(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M %Z}" if moment is not None else "never"
