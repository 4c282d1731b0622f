"""What is kept of a command's output."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_gateway.tools.shell.output import HeadAndTail


def _kept(data: bytes, limit_bytes: int = 1000) -> str:
    output = HeadAndTail(limit_bytes)
    output.add(data)
    return output.text()[0]


@table(
    ("printed", "read"),
    [
        pytest.param(b"a\x1b[31mred\x1b[0m b", "ared b", id="colours"),
        pytest.param(b"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y", "xy", id="titles and links"),
        pytest.param(b"\x1bP1$r\x1b\\x\x1b(By\x1b7", "xy", id="other sequences"),
        pytest.param(b"\x1b]never ended", "never ended", id="a sequence that never ends"),
        pytest.param(b"a\x00b\x07c\x08\x7f", "abc", id="control characters"),
        pytest.param("a\x9bb".encode(), "ab", id="controls of eight bits"),
        pytest.param(b"a\r\nb\rc\n\td", "a\nb\nc\n\td", id="line ends"),
        pytest.param(b"caf\xe9 \xff", "caf\ufffd \ufffd", id="not UTF-8"),
        pytest.param("Grüße 🙂".encode(), "Grüße 🙂", id="UTF-8"),
    ],
)
def test_output_becomes_text_without_what_only_a_terminal_understands(
    printed: bytes, read: str
) -> None:
    """NUL bytes break journals, escape sequences cost tokens and can lie to people."""
    assert _kept(printed) == read


def test_a_gap_says_how_much_it_leaves_out() -> None:
    """A model that sees a shortened output has to know that there was more."""
    output = HeadAndTail(10)
    output.add(b"0123456789" * 10)
    text, left_out_bytes = output.text()

    assert text == "01234\n\n[... 90 bytes are left out here ...]\n\n56789"
    assert left_out_bytes == 90


def test_a_gap_does_not_cut_a_character_in_two() -> None:
    """Half a character would look like damage that is not there."""
    text = _kept("é".encode() * 50, 10)

    assert text.startswith("éé\n")
    assert text.endswith("\néé")
    assert "[... 92 bytes" in text
