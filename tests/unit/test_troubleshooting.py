"""The page of messages: each is one that the program has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (`.+?`) \| ", re.MULTILINE)
_JOINT = re.compile(r"""(["'])\s*\n\s*f?\1""")


def test_each_message_of_the_page_is_one_of_the_program() -> None:
    """Whoever looks for what stands on the screen has to find it there, word by word."""
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("actors", "channels", "gateway")
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    known = _JOINT.sub("", sources)
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    wanted = [
        piece.strip(" ;,:()'")
        for row in _ROW.findall(page)
        for message in row.split("`")[1::2]
        for piece in message.split("…")
    ]

    assert len(wanted) > 30
    assert [each for each in wanted if each not in known] == []
