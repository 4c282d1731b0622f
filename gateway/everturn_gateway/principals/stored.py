"""The tokens of principals as they are kept.

    principals/tokens.json   what was created and revoked; changed by the command line
    principals/used.json     when each token was used last; written by the gateway alone, a hint

So no gateway has to run for a token to be made or revoked, and none has to be told.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from everturn_actors.codec import Timestamp
from everturn_actors.documents import Document, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import KeyedStore
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals.values import TokenRecord

logger = logging.getLogger(__name__)

TOKENS_KEY: Final = "principals/tokens.json"
USED_KEY: Final = "principals/used.json"
TOKENS_MAX: Final = 1000  # people and programs of one gateway, those revoked included

_DIGEST_DIGITS: Final = 64

_Tokens: TypeAlias = tuple[TokenRecord, ...]
_Used: TypeAlias = dict[str, Timestamp]


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
        with _translated():
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
            return tuple(sorted((*others, record), key=lambda each: each.name))

        with _translated():
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

        with _translated():
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
def _translated() -> Generator[None]:
    """Raise what cannot be read or written as an error of tokens."""
    try:
        yield
    except JournalError as error:
        raise TokenError(str(error)) from error


# --- how they are written down ---


def _checked(tokens: _Tokens) -> _Tokens:
    for each in tokens:
        if each.revoked_at is None and len(each.digest) != _DIGEST_DIGITS:
            msg = f"the digest of {each.name!r} is none"
            raise ValueError(msg)
    return tokens


_TOKENS: Final = form_of(
    "tokens",
    _Tokens,
    _Tokens(),
    check=_checked,
    remedy="no token of it holds until it is mended",
)
_USED: Final = form_of("used", _Used, _Used())
