"""`everturn token`: the tokens of people and programs. Works with and without a gateway."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from everturn_actors.state.serialization import utc_text
from everturn_gateway.app import open_keyed
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.moments import minute_text
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json, print_line
from everturn_gateway.commands.shared.settings import load, make_private, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals import (
    SCOPES,
    Scope,
    StoredTokens,
    TokenRecord,
    digest_of,
    is_principal_name,
    new_token,
)

_SPAN: Final = re.compile(r"([0-9]{1,6})([mhdw])", re.ASCII)
_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LATEST: Final = timedelta(days=36_525)  # a hundred years


class NewToken(Struct, frozen=True, kw_only=True):
    """What was asked for, as it was typed."""

    name: str
    scopes: Sequence[str]
    agents: Sequence[str] = ()
    daily_cost_usd: float | None = None
    requests_per_minute: int | None = None
    expires: str = ""


def create(options: Options, wanted: NewToken, *, as_json: bool) -> int:
    """Make a token and print it, this once; return the exit code.

    Raises:
        GatewayError: Something of it makes no sense.
        TokenError: There is one of this name, or it cannot be written.
    """
    config, now = load(options), SystemClock().now()
    if wanted.agents and "admin" in wanted.scopes:
        msg = "--agent: the scope admin is for all agents at once; leave one of the two out"
        raise GatewayError(msg)
    token = new_token()
    crash_log.secrets.add(token)
    record = TokenRecord(
        name=_checked_name(wanted.name),
        digest=digest_of(token),
        scopes=_checked_scopes(wanted.scopes),
        agents=tuple(dict.fromkeys(wanted.agents)),
        daily_cost_usd=wanted.daily_cost_usd,
        requests_per_minute=wanted.requests_per_minute,
        created_at=now,
        expires_at=expiry(wanted.expires, now),
    )
    make_private(config.workspace)

    async def add() -> None:
        async with open_keyed(config, is_change=True) as keyed:
            await StoredTokens(keyed).add(record)

    run_async(add)
    for agent in record.agents:
        if not (config.agents_dir / agent).is_dir():
            say(f"there is no agent {agent!r} in {config.agents_dir} yet")
    if as_json:
        print_json({**_document(record, now), "token": token})
    else:
        sys.stdout.write(f"{token}\n")
        sys.stdout.flush()
        say(f"shown this once: {_told(record)}")
    return EXIT_OK


def list_tokens(options: Options, *, as_json: bool) -> int:
    """Print all tokens, those that are over too; return the exit code.

    Raises:
        TokenError: They cannot be read.
    """
    config, now = load(options), SystemClock().now()
    tokens, used = run_async(partial(_stored, config))
    if as_json:
        print_json([_document(each, now, used.get(each.name)) for each in tokens])
    elif tokens:
        print_table(
            ("name", "scopes", "agents", "limits", "created", "expires", "last used", "state"),
            [_row(each, now, used.get(each.name)) for each in tokens],
        )
    else:
        sys.stdout.write("no tokens; `everturn token create NAME --scope talk` makes one\n")
    return EXIT_OK


def revoke(options: Options, name: str, *, as_json: bool = False) -> int:
    """Let a token open nothing any more; return the exit code, 1 where there was none.

    Raises:
        TokenError: They cannot be read or written.
    """
    config = load(options)

    async def end() -> TokenRecord | None:
        async with open_keyed(config, is_change=True) as keyed:
            return await StoredTokens(keyed).revoke(name, SystemClock().now())

    record = run_async(end)
    if record is None:
        print_line(f"there is no token {name!r} that could be revoked")
        return EXIT_FAILED
    print_done(f"revoked: {name}", {"name": name, "state": "revoked"}, as_json=as_json)
    return EXIT_OK


async def _stored(config: Config) -> tuple[Sequence[TokenRecord], Mapping[str, datetime]]:
    """Return all tokens, and when they were used last.

    Raises:
        TokenError: They cannot be read.
    """
    async with open_keyed(config, is_change=False) as keyed:
        stored = StoredTokens(keyed)
        return await stored.all(), await stored.used()


def expiry(text: str, now: datetime) -> datetime | None:
    """Return when a token expires: after a span like `90d`, or at a date; None for an empty text.

    Raises:
        GatewayError: It is neither, or not in the future.
    """
    if not text:
        return None
    if span := _SPAN.fullmatch(text.strip().lower()):
        at = now + min(timedelta(seconds=int(span[1]) * _UNITS_S[span[2]]), _LATEST)
    else:
        try:
            at = datetime.fromisoformat(text.strip())
        except ValueError as error:
            msg = (
                f"--expires: {text!r} is neither a span nor a date;"
                " write 12h, 90d, 2027-01-31 or 2027-01-31T18:00+01:00"
            )
            raise GatewayError(msg) from error
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if at <= now:
        msg = f"--expires: {text!r} is over already"
        raise GatewayError(msg)
    return at


def state_of(record: TokenRecord, now: datetime) -> str:
    """Return whether a token opens anything, in a word."""
    if record.revoked_at is not None:
        return "revoked"
    return "expired" if record.is_expired(now) else "valid"


def _checked_name(name: str) -> str:
    if is_principal_name(name):
        return name
    msg = (
        f"{name!r} cannot be the name of a principal: up to 63 small letters, digits, `.`, `_` and"
        " `-`, a letter first, and none of the gateway's own, such as local or api_token"
    )
    raise GatewayError(msg)


def _checked_scopes(given: Sequence[str]) -> tuple[Scope, ...]:
    found: tuple[Scope, ...] = tuple(scope for scope in SCOPES if given.count(scope))
    unknown = sorted(each for each in given if each not in SCOPES)
    if unknown or not found:
        what = f"there is no scope {unknown[0]!r}" if unknown else "which scope?"
        msg = f"--scope: {what}; there are: {', '.join(SCOPES)}"
        raise GatewayError(msg)
    return found


def _document(
    record: TokenRecord, now: datetime, used_at: datetime | None = None
) -> dict[str, object]:
    return {
        "name": record.name,
        "state": state_of(record, now),
        "scopes": record.scopes,
        "agents": record.agents,
        "daily_cost_usd": record.daily_cost_usd,
        "requests_per_minute": record.requests_per_minute,
        "created_at": utc_text(record.created_at),
        "expires_at": utc_text(record.expires_at) if record.expires_at else None,
        "revoked_at": utc_text(record.revoked_at) if record.revoked_at else None,
        "last_used_at": utc_text(used_at) if used_at else None,
    }


def _row(record: TokenRecord, now: datetime, used_at: datetime | None) -> tuple[str, ...]:
    return (
        record.name,
        ", ".join(record.scopes),
        ", ".join(record.agents) or "all",
        ", ".join(_limits(record)) or "none",
        minute_text(record.created_at),
        minute_text(record.expires_at) if record.expires_at else "never",
        minute_text(used_at) if used_at else "never",
        state_of(record, now),
    )


def _limits(record: TokenRecord) -> list[str]:
    found: list[str] = []
    if record.daily_cost_usd is not None:
        found.append(f"${record.daily_cost_usd:g} a day")
    if record.requests_per_minute is not None:
        found.append(f"{record.requests_per_minute} requests a minute")
    return found


def _told(record: TokenRecord) -> str:
    """Return what a new token is for, in a sentence without its end."""
    agents = f" with {', '.join(record.agents)}" if record.agents else ""
    limits = f", up to {' and '.join(_limits(record))}" if _limits(record) else ""
    until = f", until {minute_text(record.expires_at)}" if record.expires_at else ""
    return f"{record.name} may {', '.join(record.scopes)}{agents}{limits}{until}"
