"""`owners` in everturn.yaml: what is taken, and how mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import table

from everturn_channels.access.owners import Owner, find_owner
from everturn_channels.adapter import Person
from everturn_gateway.channels.answering import route_notes
from everturn_gateway.config.changes import changes, take_over
from everturn_gateway.config.settings import Config, load_config
from everturn_gateway.errors import ConfigError

CHANNELS = """\
channels:
  telegram: {bot_token: "123456:ABC-DEF_ghi"}
  discord: [{bot_token: abc}, {name: work, bot_token: abd}]
  external: [{name: matrix, command: bridge}]
"""


def load(tmp_path: Path, text: str) -> Config:
    """Load a configuration that consists of `text`."""
    file = tmp_path / "everturn.yaml"
    file.write_text(CHANNELS + text, encoding="utf-8")
    return load_config(file, environ={})


def test_owners_are_named_with_their_accounts_on_channels(tmp_path: Path) -> None:
    """And known by these alone."""
    # Numbers are written as people write them; one account needs no list.
    config = load(
        tmp_path,
        """\
owners:
  - {name: ada, accounts: {telegram: 1001, discord: ["1573994509040091151"], discord-work: 15}}
  - {name: bea, accounts: {matrix: "@bea:example.org"}, agents: [helper], notify: true}
""",
    )
    ada, bea = config.owners

    assert ada == Owner(
        name="ada",
        accounts=frozenset(
            {("telegram", "1001"), ("discord", "1573994509040091151"), ("discord-work", "15")}
        ),
    )
    assert bea.accounts == {("matrix", "@bea:example.org")}
    assert (ada.owns("other"), bea.owns("other"), bea.owns("helper")) == (True, False, True)
    assert (ada.notify, bea.notify) == (False, True)
    assert config.notes == ()

    # An id holds on its channel alone. A plug-in may call its people what it likes.
    config = load(tmp_path, "owners: [{name: ada, accounts: {telegram: 1001}}]\n")
    ada = config.owners[0]
    person = Person(id="1001", name="Ada")

    assert find_owner(config.owners, "telegram", person) is ada
    assert find_owner(config.owners, "matrix", person) is None
    assert find_owner(config.owners, "telegram-work", person) is None
    assert find_owner(config.owners, "telegram", Person(id="1001", is_bot=True)) is None
    assert find_owner(config.owners, "telegram", Person(id="", name="1001")) is None
    assert find_owner(config.owners, "telegram", Person(id="ada", name="ada")) is None


@table(
    ("owners", "field", "fault"),
    [
        ("- {accounts: {telegram: 1}}", "[0].name", "is required"),
        ("- {name: Ada B}", "[0].name", "must be lower-case letters"),
        ("- {name: a}\n  - {name: a}", "[1].name", "is the name of the owner in line"),
        ("- {name: a, accounts: {telegram: '@ada'}}", "[0].accounts.telegram", "no person's id"),
        ("- {name: a, accounts: {telegram: -100}}", "[0].accounts.telegram", "no person's id"),
        ("- {name: a, accounts: {discord: ada#1}}", "[0].accounts.discord", "no person's id"),
        ("- {name: a, accounts: {discord-work: '1*'}}", "[0].accounts.discord-work", "one person"),
        ("- {name: a, accounts: {matrix: '*'}}", "[0].accounts.matrix", "one person"),
        ("- {name: a, accounts: {matrix: ''}}", "[0].accounts.matrix", "one person"),
        ("- {name: a, accounts: {telegram: true}}", "[0].accounts.telegram", "no person's id"),
        (
            "- {name: a, accounts: {telegram: 1}}\n  - {name: b, accounts: {telegram: [2, 1]}}",
            "[1].accounts.telegram",
            "'1' is an account of a too",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, owners: str, field: str, fault: str
) -> None:
    """Who is an owner by mistake may allow anything."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"owners:\n  {owners}\n")

    said = [str(each) for each in caught.value.faults]
    assert any(f"owners{field}" in each and fault in each for each in said), said


def test_what_has_no_effect_is_said(tmp_path: Path) -> None:
    """A misspelt channel would lock its owner out without a word."""
    config = load(
        tmp_path,
        "owners:\n  - {name: ada, accounts: {telegramm: 1}, agents: [gone]}\n  - {name: bea}\n",
    )
    notes = [*config.notes, *route_notes(config, ["helper"])]

    assert any("no channel is called 'telegramm'" in note for note in notes)
    assert any("bea has no accounts" in note for note in notes)
    assert any("the owner ada has the agents 'gone'" in note for note in notes)


def test_owners_are_taken_over_while_the_gateway_runs(tmp_path: Path) -> None:
    """Who is no owner any more is none at once, not with the next restart."""
    old = load(tmp_path, "owners: [{name: ada, accounts: {telegram: 1}}]\n")
    new = load(tmp_path, "")

    assert changes(old, new).live == ("owners",)
    assert changes(old, new).restart == ()
    assert take_over(old, new).owners == ()
