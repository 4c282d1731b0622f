"""Tokens as they are kept: private, hashed, in force for whoever looks, and never half written."""

from __future__ import annotations

import stat
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore, MemoryKeyedStore
from everturn_gateway.commands.token import expiry
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals import (
    RateLimiter,
    StoredTokens,
    TokenError,
    TokenRecord,
    digest_of,
    is_token,
    new_token,
)

UNKNOWN_SCOPE = """{"version": 1, "tokens": [{"name": "a", "digest": "", "scopes": ["all"],
"agents": [], "daily_cost_usd": null, "requests_per_minute": null, "expires_at": null,
"revoked_at": null, "created_at": "2026-11-23T12:00:00Z"}]}"""
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def record(name: str = "alice", token: str = "", **more: Any) -> TokenRecord:
    """Return the record of a token that was made at noon."""
    plain = TokenRecord(
        name=name, digest=digest_of(token or name), scopes=("talk",), created_at=NOON
    )
    return replace(plain, **more)


async def test_a_token_is_kept_hashed_for_its_owner_alone(tmp_path: Path) -> None:
    """Whoever reads a backup of the file opens nothing with it."""
    folder, token = tmp_path / "state" / "principals", new_token()
    kept = record(token=token, agents=("a", "b"), daily_cost_usd=1.5, requests_per_minute=3)
    tokens = StoredTokens(FileKeyedStore(tmp_path / "state"))
    await tokens.add(kept)

    assert is_token(token)
    assert await tokens.all() == (kept,)
    assert token not in (folder / "tokens.json").read_text()
    assert stat.S_IMODE((folder / "tokens.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert token not in repr(kept)
    assert digest_of(token) not in repr(kept)


async def test_a_name_has_one_token_and_is_given_again_when_that_is_over() -> None:
    """Two valid tokens of one name could not be told apart in any log."""
    tokens = StoredTokens(MemoryKeyedStore())
    await tokens.add(record())
    with pytest.raises(TokenError, match="token revoke alice"):
        await tokens.add(record(token="another"))  # noqa: S106 - made up
    revoked = await tokens.revoke("alice", NOON + timedelta(hours=1))
    assert revoked is not None
    assert revoked.digest == ""
    assert not revoked.is_valid(NOON)
    assert await tokens.revoke("alice", NOON) is None
    assert await tokens.revoke("bob", NOON) is None
    again = record(token="another", expires_at=NOON + timedelta(hours=2))  # noqa: S106 - made up
    await tokens.add(again)
    later = record(token="third", created_at=NOON + timedelta(hours=3))  # noqa: S106 - made up
    await tokens.add(later)
    assert await tokens.all() == (later,)


@table(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "tokens": []}',
        '{"version": 1, "tokens": [{}]}',
        '{"version": 1, "tokens": [{"name": "a", "digest": "", "scopes": ["talk"]}]}',
        UNKNOWN_SCOPE,
    ],
)
async def test_damage_is_named_and_opens_nothing(text: str) -> None:
    """What cannot be read for sure is not guessed; nothing is written over it either."""
    store = MemoryKeyedStore()
    await store.put("principals/tokens.json", text.encode())
    tokens = StoredTokens(store)
    with pytest.raises(TokenError, match=r"tokens\.json is damaged"):
        await tokens.all()
    with pytest.raises(TokenError, match="damaged"):
        await tokens.add(record())
    value = await store.get("principals/tokens.json")
    assert value is not None
    assert value.data == text.encode()
    await store.put("principals/used.json", text.encode())
    assert await tokens.used() == {}


async def test_many_command_lines_at_once_lose_no_token(tmp_path: Path) -> None:
    """Two people who make tokens in the same second both get theirs."""
    code = """
import sys, anyio
from datetime import datetime, UTC
from pathlib import Path
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_gateway.principals import *

async def main():
    tokens = StoredTokens(FileKeyedStore(Path(sys.argv[1])))
    for n in range(5):
        name = f"{sys.argv[2]}{n}"
        now = datetime.now(UTC)
        scopes = ("talk",)
        await tokens.add(
            TokenRecord(name=name, digest=digest_of(name), scopes=scopes, created_at=now)
        )

anyio.run(main)
"""
    async with anyio.create_task_group() as tasks:
        for who in ("a", "b", "c"):
            command = [sys.executable, "-c", code, str(tmp_path), who]
            tasks.start_soon(anyio.run_process, command)
    names = {each.name for each in await StoredTokens(FileKeyedStore(tmp_path)).all()}
    assert names == {f"{who}{n}" for who in "abc" for n in range(5)}


@table(
    ("text", "expected"),
    [
        ("", None),
        ("90m", NOON + timedelta(minutes=90)),
        ("12h", NOON + timedelta(hours=12)),
        ("90D", NOON + timedelta(days=90)),
        ("2w", NOON + timedelta(weeks=2)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T18:00+01:00", datetime(2027, 1, 31, 17, tzinfo=UTC)),
        *((wrong, GatewayError) for wrong in ("0d", "2026-11-23", "soon", "90", "90y", "-1d")),
        ("2027-13-01", GatewayError),
    ],
)
def test_an_expiry_is_a_span_or_a_date(
    text: str, expected: datetime | type[GatewayError] | None
) -> None:
    """A date without an offset is UTC; a token that was to expire and does not is never found."""
    if isinstance(expected, type):
        with pytest.raises(expected, match="--expires"):
            expiry(text, NOON)
    else:
        assert expiry(text, NOON) == expected


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=40), st.sampled_from("abcde")), max_size=60
    ),
    st.integers(1, 6),
)
def test_no_key_gets_more_than_its_rate_and_memory_is_bounded(
    steps: list[tuple[float, str]], per_minute: int
) -> None:
    """In no minute more than a burst and a minute's worth; whoever waits as told may go on."""
    now_s = 0.0
    limiter = RateLimiter(keys_max=8, now_s=lambda: now_s)
    taken: dict[str, list[float]] = {}
    for pause_s, key in steps:
        now_s += pause_s
        wait_s = limiter.take(key, per_minute=per_minute)
        if wait_s == 0:
            taken.setdefault(key, []).append(now_s)
        else:
            assert limiter.wait_s(key, per_minute=per_minute) == wait_s
            before_s, now_s = now_s, now_s + wait_s
            assert limiter.wait_s(key, per_minute=per_minute) == 0
            now_s = before_s
    for instants in taken.values():
        for begin_s in instants:
            within = [each for each in instants if begin_s <= each < begin_s + 60 - 1e-3]
            assert len(within) <= 2 * per_minute

    for number in range(50):
        limiter.take(str(number), per_minute=per_minute)
    assert len(limiter) == 8
