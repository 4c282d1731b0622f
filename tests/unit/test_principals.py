"""What a principal may, as values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from support.tables import table

from everturn_gateway.principals import SCOPES, Principal, Scope, TokenRecord, is_principal_name

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@table(
    ("scope", "granted"),
    [
        ("read", {"read"}),
        ("talk", {"read", "talk"}),
        ("approve", {"read", "approve"}),
        ("operate", {"read", "talk", "operate"}),
        ("admin", set(SCOPES)),
    ],
)
def test_scopes_include_what_they_need_and_no_more(scope: Scope, granted: set[Scope]) -> None:
    """Who operates does not thereby answer questions of tools; who administers does all."""
    alice = Principal(name="alice", scopes=frozenset({scope}))
    assert {each for each in SCOPES if alice.may(each)} == granted


def test_a_session_is_seen_by_whom_it_belongs_to_and_by_operators_of_its_agent() -> None:
    """Ownership and gifts count only among the agents that a principal knows."""
    talks, operates = frozenset[Scope]({"talk"}), frozenset[Scope]({"operate"})
    alice = Principal(name="alice", scopes=talks, agents=frozenset({"helper"}))
    assert alice.sees(agent="helper", began_by="alice", shared_with=())
    assert alice.sees(agent="helper", began_by="bob", shared_with=("carol", "alice"))
    assert not alice.sees(agent="helper", began_by="bob", shared_with=())
    assert not alice.sees(agent="helper", began_by="", shared_with=())
    assert not alice.sees(agent="other", began_by="alice", shared_with=("alice",))
    operator = Principal(name="ops", scopes=operates, agents=frozenset({"helper"}))
    assert operator.sees(agent="helper", began_by="", shared_with=())
    assert not operator.sees(agent="other", began_by="", shared_with=())


@table(
    "name",
    ["", "Alice", "1", "-a", "a b", "a/b", "a\n", "ä", "a" * 64, "local", "api_token", "a:b"],
)
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    """No name is a platform's id, a path, a line break, or one of the gateway's own."""
    assert not is_principal_name(name)


def test_a_token_expires_at_its_instant() -> None:
    """One that expires at noon is refused at noon, and its principal has what it was given."""
    token = TokenRecord(
        name="ci", digest="0" * 64, scopes=("talk",), created_at=NOON, expires_at=NOON
    )
    assert token.is_expired(NOON)
    assert not token.is_expired(NOON - timedelta(microseconds=1))
    assert token.principal == Principal(name="ci", scopes=frozenset({"talk"}))
    assert "0" * 64 not in repr(token)
