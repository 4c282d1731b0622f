"""The tokens of principals on disk: two private files in one folder of the gateway's state.

    tokens.json   what was created and revoked; written by the command line, under a lock
    used.json     when each token was used last; written by the gateway alone, a hint

So no gateway has to run for a token to be made or revoked, and none has to be told. Blocking: not
for the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import orjson

from everturn_actors.state.serialization import utc_text
from everturn_channels.files import Stamp, locked, read_kept, replace_kept, stamp_of
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals.values import SCOPES, Scope, TokenRecord

logger = logging.getLogger(__name__)

FOLDER: Final = "principals"  # in the workspace
TOKENS_MAX: Final = 1000  # people and programs of one gateway, those revoked included
LOCK_WAIT_S: Final = 5.0  # a change takes milliseconds

_TOKENS: Final = "tokens.json"
_USED: Final = "used.json"
_LOCK: Final = "lock"
_VERSION: Final = 1
_DIGEST_DIGITS: Final = 64


class TokenError(GatewayError):
    """A token could not be made, found or revoked."""


def read_tokens(folder: Path) -> tuple[TokenRecord, ...]:
    """Return all records by name, revoked ones too; none where there is no file.

    Raises:
        TokenError: The file cannot be read, or is damaged; the text names it.
    """
    path = folder / _TOKENS
    try:
        data = read_kept(path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise TokenError(msg) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if data is None:
        return ()
    try:
        whole = orjson.loads(data)
        if whole["version"] != _VERSION:
            why = f"it is of version {whole['version']!r}, and this program reads {_VERSION}"
            raise _damaged(path, why)
        return tuple(map(_record_from, whole["tokens"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damaged(path, f"it does not hold what it should: {error!r}") from error


def tokens_stamp(folder: Path) -> Stamp:
    """Return what changes with the file of tokens."""
    return stamp_of(folder / _TOKENS)


def add_token(folder: Path, record: TokenRecord) -> None:
    """Keep a new token, durably; a revoked or expired one of the same name makes room.

    Raises:
        TokenError: There is a token of this name that is still valid, or there are too many, or a
            file cannot be read or written.
    """

    def add(tokens: tuple[TokenRecord, ...]) -> tuple[TokenRecord, ...]:
        before = _find(tokens, record.name)
        if before is not None and before.is_valid(record.created_at):
            msg = (
                f"there is a token {record.name!r} already; `everturn token revoke {record.name}`"
                " ends it, and then another can be made"
            )
            raise TokenError(msg)
        others = tuple(each for each in tokens if each.name != record.name)
        if len(others) >= TOKENS_MAX:
            msg = f"there are {TOKENS_MAX} tokens, which is as many as may be"
            raise TokenError(msg)
        return (*others, record)

    _change(folder, add)


def revoke_token(folder: Path, name: str, now: datetime) -> TokenRecord | None:
    """Let a token open nothing from now on, durably; return it, None where there was none.

    Raises:
        TokenError: A file cannot be read or written.
    """
    revoked: list[TokenRecord] = []

    def revoke(tokens: tuple[TokenRecord, ...]) -> tuple[TokenRecord, ...]:
        before = _find(tokens, name)
        if before is None or before.revoked_at is not None:
            return tokens
        revoked.append(replace(before, digest="", revoked_at=now))
        return tuple(revoked[0] if each is before else each for each in tokens)

    if folder.is_dir():
        _change(folder, revoke)
    return revoked[0] if revoked else None


def read_used(folder: Path) -> dict[str, datetime]:
    """Return when each token was used last, by name, UTC; what cannot be read is not known."""
    path = folder / _USED
    try:
        data = read_kept(path)
        held: Mapping[str, str] = orjson.loads(data)["used"] if data else {}
        return {name: _instant(text) for name, text in held.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning(
            "it is not known when tokens were used last",
            extra={"path": str(path), "reason": f"{type(error).__name__}: {error}"},
        )
        return {}


def write_used(folder: Path, used: Mapping[str, datetime]) -> None:
    """Keep when each token was used last.

    Raises:
        OSError: It could not be written.
    """
    told = {name: utc_text(instant) for name, instant in sorted(used.items())}
    data = orjson.dumps({"version": _VERSION, "used": told}, option=orjson.OPT_INDENT_2)
    replace_kept(folder / _USED, data + b"\n")


def private_paths(folder: Path) -> tuple[tuple[Path, int], ...]:
    """Return the files and the folder with the rights that they should have."""
    return ((folder, 0o700), (folder / _TOKENS, 0o600), (folder / _USED, 0o600))


# --- inside ---


def _find(tokens: tuple[TokenRecord, ...], name: str) -> TokenRecord | None:
    return next((each for each in tokens if each.name == name), None)


def _change(
    folder: Path, change: Callable[[tuple[TokenRecord, ...]], tuple[TokenRecord, ...]]
) -> None:
    with locked(folder / _LOCK, wait_s=LOCK_WAIT_S, by="everturn token", error=TokenError):
        before = read_tokens(folder)
        after = change(before)
        if after == before:
            return
        path = folder / _TOKENS
        try:
            replace_kept(path, _encoded(after))
        except OSError as error:
            msg = f"{path} cannot be written: {error.strerror or error}"
            raise TokenError(msg) from error


def _encoded(tokens: tuple[TokenRecord, ...]) -> bytes:
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


def _damaged(path: Path, why: str) -> TokenError:
    return TokenError(f"{path} is damaged: {why}; no token of it holds until it is mended")
