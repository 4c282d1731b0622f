"""`everturn help TOPIC`: the pages of the documentation, from the installed program itself."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from everturn_gateway.commands.installation.project_files import project_file
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.printing import print_line
from everturn_gateway.errors import GatewayError

_SKIPPED: Final = ("decisions", "site", "plugin-example")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def show_help(topic: str) -> int:
    """Print a page of the documentation, or which there are; return the exit code.

    Args:
        topic: The name of a page, or words of its title or of one of its headings; empty = list
            them.

    Raises:
        GatewayError: There is no such page, or there are no pages.
    """
    pages = _pages()
    if not topic:
        width = max(map(len, pages))
        for name, each in pages.items():
            print_line(f"{name:<{width}}  {_title(each)}")
        print_line(
            "\neverturn help TOPIC shows one; everturn help COMMAND the options of a command"
        )
        return EXIT_OK
    path = pages.get(topic.casefold().replace(" ", "-"))
    if path is not None:
        print_markdown(path.read_text(encoding="utf-8"))
        return EXIT_OK
    found = [text for each in pages.values() if (text := _section(each, topic))]
    if not found:
        msg = f"there is no command, page or heading {topic!r}; `everturn help` lists the pages"
        raise GatewayError(msg)
    print_markdown("\n".join(found))
    return EXIT_OK


def _pages() -> dict[str, Path]:
    """Return the pages by their names, sorted.

    Raises:
        GatewayError: There are none.
    """
    folder = project_file("docs")
    found = {
        str(path.relative_to(folder).with_suffix("")): path
        for path in sorted(folder.rglob("*.md"))
        if path.relative_to(folder).parts[0] not in _SKIPPED
    }
    if not found:
        msg = "the documentation is not installed here"
        raise GatewayError(msg)
    return found


def _title(path: Path) -> str:
    title = _TITLE.search(path.read_text(encoding="utf-8"))
    return title[1] if title else path.stem


def _section(path: Path, words: str) -> str:
    """Return the sections of a page with these words in their heading."""
    parts = re.split(r"(?m)^(?=#{1,3} )", path.read_text(encoding="utf-8"))
    wanted = words.casefold()
    return "".join(each for each in parts if wanted in each.partition("\n")[0].casefold())


def print_markdown(text: str) -> None:
    """Print Markdown: laid out for a person at a terminal, as it is for a program."""
    if not sys.stdout.isatty():
        print_line(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    # Without it `less` shows the codes of the colours.
    os.environ.setdefault("LESS", "-FRX")
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
