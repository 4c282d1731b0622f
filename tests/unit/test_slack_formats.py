"""What people write in Slack as text, and replies as Slack shows them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.tables import table

from everturn_channels.slack.checking import EVENTS, SCOPES
from everturn_channels.slack.checking import manifest as made
from everturn_channels.slack.formats import markup
from everturn_channels.slack.formats.text import readable

NAMES = {"U1": "Ann"}


@table(
    ("written", "read"),
    [
        ("<@U0> hi", "hi"),
        ("hi <@U0>", "hi"),
        ("<@U0|bot>: ask <@U0> again", "ask @U0 again"),
        ("<@U1> and <@U2|bea> and <@U3>", "@Ann and @bea and @U3"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<https://e.org?a=1&amp;b=2>", "https://e.org?a=1&b=2"),
        ("<https://e.org|https://e.org>", "https://e.org"),
        ("<mailto:a@b.org|a@b.org>", "a@b.org"),
        ("<#C1|general> <#C2>", "#general #C2"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|Monday>", "@here @team Monday"),
        ("1 &lt; 2 > 1 <", "1 < 2 > 1 <"),
    ],
)
def test_what_people_write_is_read_as_they_see_it(written: str, read: str) -> None:
    """Names instead of ids, links as Markdown, and no escapes."""
    assert " ".join(readable(written, NAMES, "U0").split()) == read


def blocks_of(payload: str, *, is_repeat: bool = False) -> list[dict[str, str]]:
    """Return the blocks of a message."""
    fields = json.dumps(markup.fields_of(payload, is_repeat=is_repeat))
    blocks: list[dict[str, str]] = json.loads(fields)["blocks"]
    return blocks


def test_tables_are_code_and_nobody_is_called() -> None:
    """A markdown block shows no tables; a model may have been told to call everybody."""
    text = "| a | b `c` |\n|---|--:|\n| 1 | two |\n\n<!channel> <@U0123> <!DOCTYPE html> & <b>"
    (payload,) = markup.render(text)
    (block,) = blocks_of(payload)
    again = markup.as_plain(markup.fields_of(payload))["blocks"]

    assert block["text"] == (
        "```\na | b `c`\n--+------\n1 | two\n```\n\n<\u2060!channel> <\u2060@U0123>"
        " <!DOCTYPE html> & <b>"
    )
    assert "<!channel>" in json.dumps(again)
    assert markup.fields_of(payload)["text"].endswith("&amp; &lt;b&gt;")  # type: ignore[attr-defined]


_PIECES = st.sampled_from(
    [
        "word ",
        "**bold** ",
        "`a|b` ",
        "\n| a | b |\n|:--|--:|\n| x | ``` |\n| 1 | 2 | 3 |\n\n",
        "\n> | a |\n> |---|\n> | q |\n\n",
        "- item\n",
        "\n```py\n| a | b |\n|---|---|\n```\n",
        "🔥é" * 30,
        "<!here> & \x00\ud800",
        "\n\n",
    ]
)


@examples(25)
@given(st.lists(_PIECES, max_size=40).map("".join), st.integers(1, 60))
def test_every_piece_fits_and_no_word_is_lost(text: str, times: int) -> None:
    """Slack refuses what is too large, as a whole."""
    source = f"begin {text * times} end"
    found: list[str] = []
    for payload in markup.render(source):
        (block,) = blocks_of(payload, is_repeat=True)
        assert len(block["text"].encode("utf-16-le")) // 2 <= 12_000
        found += re.findall(r"\w+", markup.payload_of(payload).text)
    wanted = re.findall(r"\w+", source.replace("\ud800", "\ufffd"))

    assert set(wanted) == set(found)
    assert (found[0], found[-1]) == ("begin", "end")


def test_the_manifest_of_the_page_asks_for_what_the_bot_needs() -> None:
    """People copy it; what it left out would be missed weeks later."""
    page = (Path(__file__).parents[2] / "docs/slack.md").read_text()
    manifest = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])

    assert manifest == yaml.safe_load(made("my-bot"))
    assert manifest["oauth_config"]["scopes"]["bot"] == list(SCOPES)
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == list(EVENTS)


def test_a_table_without_measure_stays_as_it_was_written() -> None:
    """A hostile one would take all memory; one in a list or in code is no other one."""
    bomb = f"a|b\n-|-\n{'|' * 5_000}\n" + "1|2\n" * 500
    nested = "- item\n\n  a|b|\n  -|-|\n  1|2|3|\n\n```\na|b\n-|-\n```\n\n    a|b\n    -|-"
    (payload,) = markup.render(bomb)
    (shown,) = markup.render(nested)

    assert markup.payload_of(payload).text == bomb.strip()
    assert markup.payload_of(shown).text == nested.replace(
        "  a|b|\n  -|-|\n  1|2|3|", "  ```\n  a | b |\n  --+---+--\n  1 | 2 | 3\n  ```"
    )
