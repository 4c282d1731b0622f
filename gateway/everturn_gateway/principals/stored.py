"""The tokens of principals as they are kept.

    principals/tokens.json   what was created and revoked; changed by the command line
    principals/used.json     when each token was used last; written by the gateway alone, a hint

So no gateway has to run for a token to be made or revoked, and none has to be told.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

import orjson

from everturn_actors.documents import Document, Form
from everturn_actors.errors import JournalError
from everturn_actors.ports import KeyedStore
from everturn_actors.state.serialization import utc_text
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals.values import SCOPES, Scope, TokenRecord

logger = logging.getLogger(__name__)

TOKENS_KEY: Final = "principals/tokens.json"
USED_KEY: Final = "principals/used.json"
TOKENS_MAX: Final = 1000  # people and programs of one gateway, those revoked included

_VERSION: Final = 1
_DIGEST_DIGITS: Final = 64

_Tokens: TypeAlias = tuple[TokenRecord, ...]
_Used: TypeAlias = Mapping[str, datetime]


class TokenError(GatewayError):
    """A token could not be made, found or revoked."""


class StoredTokens:
    """All tokens, and when they were used last."""

    def __init__(self, store: KeyedStore) -> None:
        """Read nothing yet."""
        self._tokens = Document(store, TOKENS_KEY, _TOKENS)
        self._used = Document(store, USED_KEY, _USED)

    async def all(self) -> _Tokens:
        """Return all records by name, revoked ones too; the same object where nothing changed.

        Raises:
            TokenError: They cannot be read, or are damaged; the text says where.
        """
        with _told():
            return await self._tokens.read()

    async def add(self, record: TokenRecord) -> None:
        """Keep a new token, durably; a revoked or expired one of the same name makes room.

        Raises:
            TokenError: There is a token of this name that is still valid, or there are too many,
                or they cannot be read or written.
        """

        def add(tokens: _Tokens) -> _Tokens:
            before = _find(tokens, record.name)
            if before is not None and before.is_valid(record.created_at):
                msg = (
                    f"there is a token {record.name!r} already; `everturn token revoke"
                    f" {record.name}` ends it, and then another can be made"
                )
                raise TokenError(msg)
            others = tuple(each for each in tokens if each.name != record.name)
            if len(others) >= TOKENS_MAX:
                msg = f"there are {TOKENS_MAX} tokens, which is as many as may be"
                raise TokenError(msg)
            return (*others, record)

        with _told():
            await self._tokens.change(add)

    async def revoke(self, name: str, now: datetime) -> TokenRecord | None:
        """Let a token open nothing from now on, durably; return it, None where there was none.

        Raises:
            TokenError: They cannot be read or written.
        """
        revoked: TokenRecord | None = None

        def revoke(tokens: _Tokens) -> _Tokens:
            nonlocal revoked
            before = _find(tokens, name)
            if before is None or before.revoked_at is not None:
                revoked = None
                return tokens
            revoked = ended = replace(before, digest="", revoked_at=now)
            return tuple(ended if each is before else each for each in tokens)

        with _told():
            await self._tokens.change(revoke)
        return revoked

    async def used(self) -> dict[str, datetime]:
        """Return when each token was used last, by name, UTC; what cannot be read is not known."""
        try:
            return dict(await self._used.read())
        except JournalError as error:
            logger.warning(
                "it is not known when tokens were used last", extra={"reason": str(error)}
            )
            return {}

    async def save_used(self, used: _Used) -> None:
        """Keep when each token was used last.

        Raises:
            JournalWriteError: It could not be written.
        """
        await self._used.write(used)


def _find(tokens: _Tokens, name: str) -> TokenRecord | None:
    return next((each for each in tokens if each.name == name), None)


@contextmanager
def _told() -> Generator[None]:
    """Tell what cannot be read or written as an error of tokens."""
    try:
        yield
    except JournalError as error:
        raise TokenError(str(error)) from error


# --- how they are written down ---


def _encoded(tokens: _Tokens) -> bytes:
    records = [
        {
            "name": each.name,
            "digest": each.digest,
            "scopes": each.scopes,
            "agents": each.agents,
            "daily_cost_usd": each.daily_cost_usd,
            "requests_per_minute": each.requests_per_minute,
            "created_at": utc_text(each.created_at),
            "expires_at": utc_text(each.expires_at) if each.expires_at else None,
            "revoked_at": utc_text(each.revoked_at) if each.revoked_at else None,
        }
        for each in sorted(tokens, key=lambda token: token.name)
    ]
    whole = {"version": _VERSION, "tokens": records}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def _record_from(data: Mapping[str, Any]) -> TokenRecord:
    """Return one record.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is none.
    """
    scopes = tuple(data["scopes"])
    if not scopes or not set(scopes) <= set(SCOPES):
        msg = f"its scopes {scopes!r} are none of this version's"
        raise ValueError(msg)
    digest, revoked_at = str(data["digest"]), _optional(data["revoked_at"])
    if revoked_at is None and len(digest) != _DIGEST_DIGITS:
        msg = f"the digest of {data['name']!r} is none"
        raise ValueError(msg)
    cost, requests = data["daily_cost_usd"], data["requests_per_minute"]
    return TokenRecord(
        name=str(data["name"]),
        digest=digest,
        scopes=cast("tuple[Scope, ...]", scopes),
        agents=tuple(map(str, data["agents"])),
        daily_cost_usd=None if cost is None else float(cost),
        requests_per_minute=None if requests is None else int(requests),
        created_at=_instant(data["created_at"]),
        expires_at=_optional(data["expires_at"]),
        revoked_at=revoked_at,
    )


def _optional(text: str | None) -> datetime | None:
    return None if text is None else _instant(text)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _decoded(data: bytes) -> _Tokens:
    whole = orjson.loads(data)
    if whole["version"] != _VERSION:
        why = f"it is of version {whole['version']!r}, and this program reads {_VERSION}"
        raise ValueError(why)
    return tuple(map(_record_from, whole["tokens"]))


def _used_encoded(used: _Used) -> bytes:
    told = {name: utc_text(instant) for name, instant in sorted(used.items())}
    return orjson.dumps({"version": _VERSION, "used": told}, option=orjson.OPT_INDENT_2) + b"\n"


def _used_decoded(data: bytes) -> _Used:
    held: Mapping[str, str] = orjson.loads(data)["used"]
    return {name: _instant(text) for name, text in held.items()}


_TOKENS: Final = Form[_Tokens](
    encode=_encoded, decode=_decoded, empty=(), remedy="no token of it holds until it is mended"
)
_USED: Final = Form[_Used](encode=_used_encoded, decode=_used_decoded, empty={})
