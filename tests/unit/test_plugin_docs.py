"""What docs/plugins.md says of plug-ins is what they say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

from everturn_gateway.plugins import installed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")


def test_the_table_is_made_of_the_values() -> None:
    """One that is added, renamed or described anew has to stand there."""
    rows = [
        f"| `{group.name}` | `{plugin.name}` | {plugin.summary} | "
        + (f"`{plugin.extra}` |" if plugin.extra else "|")
        for group in installed().groups()
        for plugin in group.all()
        if group.is_own(plugin.name)
    ]

    assert len(rows) > 10
    assert re.findall(r"^\| `everturn\.\w+` \| `\w+` \| .*\|$", PAGE, re.MULTILINE) == rows


def test_the_pages_that_plug_ins_name_are_there() -> None:
    """`doctor` sends people to them."""
    docs = {plugin.docs for group in installed().groups() for plugin in group.all()}

    assert [page for page in docs if not (ROOT / page).is_file()] == []
