"""What the site has beside the pages of this folder: pages of the project, and the decisions.

mkdocs calls these functions by their names. Source: https://www.mkdocs.org/user-guide/configuration/#hooks
and https://www.mkdocs.org/dev-guide/plugins/#events, read 2026-11-26.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
OUTSIDE: Final = {
    "agents/README.md": "project/agents.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
}
"Files of the project that are pages of the site, by their paths."
_LINK: Final = re.compile(r"(\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List all decisions, the newest last, at the end of the explanation."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    explanation = next(each["Explanation"] for each in config.nav[1:] if "Explanation" in each)
    explanation.append({"Decisions": [f"decisions/{each.name}" for each in decisions]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project."""
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave the folder lead to a page of the site, or be the name of a file."""
    del config
    known = {source: path for path, source in OUTSIDE.items()}
    here = (ROOT / known.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent
    depth = page.file.src_uri.count("/")

    def led(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = (here / target).resolve()
        if not path.is_relative_to(ROOT):
            return found[0]
        source = path.relative_to(ROOT).as_posix()
        wanted = OUTSIDE.get(source, source.removeprefix("docs/"))
        if files.get_file_from_path(wanted) is not None:
            return f"{text}({'../' * depth}{wanted}{anchor})"
        return f"{text[1:-1]} (`{source}`)" if path.exists() else found[0]

    return _LINK.sub(led, markdown)
