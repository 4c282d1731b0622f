"""`links` in everturn.yaml: who is one person in several places."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import table

from everturn_gateway.config.links import Links
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError

CHANNELS = 'channels:\n  telegram: {bot_token: "123456:ABC-DEF_ghi"}\n'


def test_chats_and_principals_are_linked(tmp_path: Path) -> None:
    """One chat needs no list; what has no effect is said."""
    file = tmp_path / "everturn.yaml"
    file.write_text(
        f"{CHANNELS}links:\n  ann: {{telegram: [7, 9], principal: ann}}\n  bob: {{discord: '8'}}\n"
    )
    config = load_config(file, environ={})

    assert config.links == Links(
        people={
            "ann": (("telegram", "7"), ("telegram", "9"), ("principal", "ann")),
            "bob": (("discord", "8"),),
        }
    )
    assert [note for note in config.notes if "discord" in note]
    assert [note for note in config.notes if "one place alone" in note]


@table(
    ("text", "told"),
    (
        ("ann: {telegram: 7}\n  bob: {telegram: 7}", "is one of ann too"),
        ("ann: {telegram: '*'}", "the id of one private chat"),
        ("Ann B: {telegram: 7}", "lower-case letters"),
        ("ann: {telegram: []}", "needs 1 or more, and has 0"),
    ),
)
def test_mistakes_name_their_line(text: str, told: str, tmp_path: Path) -> None:
    """A link that is wrong would show one person what another said."""
    file = tmp_path / "everturn.yaml"
    file.write_text(f"{CHANNELS}links:\n  {text}\n")
    with pytest.raises(ConfigError, match=told) as found:
        load_config(file, environ={})

    assert "everturn.yaml:" in str(found.value)
