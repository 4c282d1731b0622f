"""What the site has beside the pages of this folder: other pages, decisions, and diagrams.

mkdocs calls these functions by their names. Source: https://www.mkdocs.org/user-guide/configuration/#hooks
and https://www.mkdocs.org/dev-guide/plugins/#events, read 2026-11-26.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.exceptions import PluginError
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
DIAGRAMS: Final = ("mermaid.min.js", "mermaid.LICENSE.txt")
"What draws them, where `diagrams.py` puts it: into the environment that makes the site."
_SCRIPTS: Final = "assets/javascripts"
_THEME_SCRIPT: Final = re.compile(r"<script src=\"([^\"]*)assets/javascripts/bundle\.")
_LINK: Final = re.compile(r"(\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List all decisions, the newest last, at the end of the explanation."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    explanation = next(each["Explanation"] for each in config.nav[1:] if "Explanation" in each)
    explanation.append({"Decisions": [f"decisions/{each.name}" for each in decisions]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project, and what draws diagrams."""
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for name in DIAGRAMS:
        source = str(Path(sys.prefix) / name)
        files.append(File.generated(config, f"{_SCRIPTS}/{name}", abs_src_path=source))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load what draws diagrams before the theme looks for it: the theme would ask unpkg.com.

    Raises:
        PluginError: The theme's page has no place for it.
    """
    del config
    if 'class="mermaid"' not in output:
        return output
    found = _THEME_SCRIPT.search(output)
    if found is None:
        msg = f"{page.file.src_uri}: the theme's script is not where it was"
        raise PluginError(msg)
    script = f'<script src="{found[1]}{_SCRIPTS}/{DIAGRAMS[0]}"></script>'
    return output[: found.start()] + script + output[found.start() :]


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
