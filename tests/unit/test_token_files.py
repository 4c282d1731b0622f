"""Tokens on disk: private, hashed, in force for whoever looks, and never half written."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn_gateway.commands.token import expiry
from everturn_gateway.errors import GatewayError
from everturn_gateway.principals import (
    RateLimiter,
    TokenError,
    TokenRecord,
    add_token,
    digest_of,
    is_token,
    new_token,
    read_tokens,
    read_used,
    revoke_token,
)

UNKNOWN_SCOPE = """{"version": 1, "tokens": [{"name": "a", "digest": "", "scopes": ["all"],
"agents": [], "daily_cost_usd": null, "requests_per_minute": null, "expires_at": null,
"revoked_at": null, "created_at": "2026-11-23T12:00:00Z"}]}"""
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def record(name: str = "alice", token: str = "", **more: Any) -> TokenRecord:  # noqa: ANN401 - fields
    """Return the record of a token that was made at noon."""
    plain = TokenRecord(
        name=name, digest=digest_of(token or name), scopes=("talk",), created_at=NOON
    )
    return replace(plain, **more)


def test_a_token_is_kept_hashed_for_its_owner_alone(tmp_path: Path) -> None:
    """Whoever reads a backup of the file opens nothing with it."""
    folder, token = tmp_path / "state" / "principals", new_token()
    kept = record(token=token, agents=("a", "b"), daily_cost_usd=1.5, requests_per_minute=3)
    add_token(folder, kept)

    assert is_token(token)
    assert read_tokens(folder) == (kept,)
    assert token not in (folder / "tokens.json").read_text()
    assert stat.S_IMODE((folder / "tokens.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert token not in repr(kept)
    assert digest_of(token) not in repr(kept)


def test_a_name_has_one_token_and_is_given_again_when_that_is_over(tmp_path: Path) -> None:
    """Two valid tokens of one name could not be told apart in any log."""
    add_token(tmp_path, record())
    with pytest.raises(TokenError, match="token revoke alice"):
        add_token(tmp_path, record(token="another"))  # noqa: S106 - made up
    revoked = revoke_token(tmp_path, "alice", NOON + timedelta(hours=1))
    assert revoked is not None
    assert revoked.digest == ""
    assert not revoked.is_valid(NOON)
    assert revoke_token(tmp_path, "alice", NOON) is None
    assert revoke_token(tmp_path, "bob", NOON) is None
    again = record(token="another", expires_at=NOON + timedelta(hours=2))  # noqa: S106 - made up
    add_token(tmp_path, again)
    later = record(token="third", created_at=NOON + timedelta(hours=3))  # noqa: S106 - made up
    add_token(tmp_path, later)
    assert read_tokens(tmp_path) == (later,)


@pytest.mark.parametrize(
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
def test_a_damaged_file_is_named_and_opens_nothing(tmp_path: Path, text: str) -> None:
    """What cannot be read for sure is not guessed; nothing is written over it either."""
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(TokenError, match="damaged"):
        read_tokens(tmp_path)
    with pytest.raises(TokenError, match="damaged"):
        add_token(tmp_path, record())
    assert file.read_text() == text
    (tmp_path / "used.json").write_text(text)
    assert read_used(tmp_path) == {}


def test_many_command_lines_at_once_lose_no_token(tmp_path: Path) -> None:
    """Two people who make tokens in the same second both get theirs."""
    code = (
        "import sys, pathlib, datetime as d\n"
        "from everturn_gateway.principals import *\n"
        "for n in range(5):\n"
        "    add_token(pathlib.Path(sys.argv[1]), TokenRecord(name=f'{sys.argv[2]}{n}',"
        " digest=digest_of(f'{sys.argv[2]}{n}'), scopes=('talk',),"
        " created_at=d.datetime.now(d.UTC)))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), who])  # noqa: S603 - ours
        for who in ("a", "b", "c")
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    names = {each.name for each in read_tokens(tmp_path)}
    assert names == {f"{who}{n}" for who in "abc" for n in range(5)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("90m", NOON + timedelta(minutes=90)),
        ("12h", NOON + timedelta(hours=12)),
        ("90D", NOON + timedelta(days=90)),
        ("2w", NOON + timedelta(weeks=2)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T18:00+01:00", datetime(2027, 1, 31, 17, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_a_span_or_a_date(text: str, expected: datetime | None) -> None:
    """People write either; a date without an offset is UTC, as everything that is kept."""
    assert expiry(text, NOON) == expected


@pytest.mark.parametrize("text", ["0d", "2026-11-23", "soon", "90", "90y", "-1d", "2027-13-01"])
def test_an_expiry_that_makes_no_sense_is_refused(text: str) -> None:
    """A token that was to expire and does not would be found by nobody."""
    with pytest.raises(GatewayError, match="--expires"):
        expiry(text, NOON)


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
