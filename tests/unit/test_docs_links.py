"""Links between the pages lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
_CODE: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`|^ {4}.*?$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead into this repository."""
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links, as GitHub does it."""
    found: set[str] = set()
    for heading in _HEADING.findall(page.read_text()):
        bare = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", bare).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """A reader who follows a link arrives, also at the heading that it names."""
    missing: list[str] = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            missing.append(target)

    assert not missing
