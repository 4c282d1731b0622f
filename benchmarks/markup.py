"""Real documents on their way to people, on each platform: whether words are lost, or refused.

.venv/bin/python benchmarks/markup.py [FOLDER ...] [--documents 1000] [--channel NAME ...]
    [--show 5] [--seed 1]

The documents are the descriptions of installed packages and whatever `*.md` lies below this folder
and those named, each once; of more than wanted a part is taken by chance. Each is laid out and sent
by the channel to the loopback platform of the tests, which refuses what the real one would:
entities out of bounds, messages that are too long. What people see there, addresses of links
included, is then compared with the document as CommonMark with tables has it: each word as often as
it stands there, and each address once. What no platform shows is not counted: titles of links, the
address of an image that is itself a link, and `mailto:` before an address of a mail.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import random
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from channel_kills import prepare
from channel_worlds import WORLDS, Seen, World
from harness import ROOT, show
from markdown_it import MarkdownIt
from markdown_it.token import Token

from everturn.testing import RecordingHandler
from everturn.testing._channel_inbound import serve_on
from everturn_channels.adapter import Adapter, Outbound
from everturn_channels.errors import SendError
from everturn_gateway.channels.adapters import make_adapter
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import load_config

CHARACTERS = range(200, 200_000)
PLATFORMS = ("telegram", "discord", "slack", "matrix", "whatsapp", "email")
WORD = re.compile(r"\w+")
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PARSER.disable(["html_block", "html_inline"])  # what is written as HTML is text everywhere
DISCORD = MarkdownIt("commonmark").enable(["strikethrough"])  # knows neither tables nor references
DISCORD.disable(["html_block", "html_inline", "reference", "lheading"])


# --- documents -----------------------------------------------------------------------------------


def documents(folders: Iterable[Path], most: int, seed: int) -> Sequence[tuple[str, str]]:
    """Return documents with their names, each text once."""
    found: dict[str, str] = {}
    for name, text in (*_descriptions(), *_files(folders)):
        if len(text) in CHARACTERS:
            found.setdefault(text, name)
    chosen = [(name, text) for text, name in found.items()]
    random.Random(seed).shuffle(chosen)  # noqa: S311 - no secret
    return chosen[:most]


def _descriptions() -> Iterator[tuple[str, str]]:
    for package in importlib.metadata.distributions():
        about = package.metadata
        if "markdown" in str(about.get("Description-Content-Type")):
            yield package.name, str(about.get("Description") or about.get_payload())  # type: ignore[attr-defined]


def _files(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.md")):
            try:
                yield str(path), path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue  # no document


# --- words ---------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """The text of HTML, and the addresses of its links."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts += [value or "" for name, value in attrs if name == "href"]
        self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(" " if tag not in {"em", "strong", "s", "code"} else "")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def of_html(html: str) -> str:
    """Return the text of a piece of HTML."""
    page = _Page()
    page.feed(html)
    page.close()
    return "".join(page.parts)


def of_markdown(text: str, parser: MarkdownIt = PARSER) -> tuple[str, Sequence[str]]:
    """Return the text of a document, and the addresses of its links and images."""
    addresses: list[str] = []
    return "\n".join(_texts(parser.parse(text), addresses)), addresses


def _texts(tokens: Sequence[Token], addresses: list[str]) -> Iterator[str]:
    for token in tokens:
        if token.children is not None and token.type == "inline":
            yield _inline(token.children, addresses)
        elif token.type in {"fence", "code_block"}:
            yield token.content


def _inline(tokens: Sequence[Token], addresses: list[str]) -> str:
    parts: list[str] = []
    depth = 0
    for token in tokens:
        match token.type:
            case "link_open":
                depth += 1
                addresses += [] if token.markup == "autolink" else [str(token.attrGet("href"))]
                parts.append(" ")
            case "link_close":
                depth -= 1
                parts.append(" ")
            case "image":
                parts.append(_inline(token.children or (), addresses))
                addresses += [] if depth else [str(token.attrGet("src"))]
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case _:
                parts.append(token.content)
    return "".join(parts)


def of_seen(seen: Seen) -> str:
    """Return the text of a message as people see it, and the addresses in it."""
    how, text = seen
    match how:
        case "markdown" | "discord":
            said, addresses = of_markdown(text, PARSER if how == "markdown" else DISCORD)
            return "\n".join((said, *addresses))
        case "html":
            return of_html(text)
        case _:
            return text


def words(text: str) -> Counter[str]:
    """Return the words of a text; addresses have theirs decoded."""
    return Counter(WORD.findall(unquote(text.replace("\u200b", "").replace("\u2060", ""))))


def lost(document: str, seen: Sequence[Seen]) -> Sequence[str]:
    """Return the words of a document that people do not see."""
    shown = "\n".join(map(of_seen, seen))
    text, addresses = of_markdown(document)
    wanted = words(_without_formulas(text))
    seen_words = words(shown)
    missing = [word for word in wanted if seen_words[word] < wanted[word]]
    # A word that is longer than a line may have been cut in two.
    joined = "".join(WORD.findall(unquote(shown)))
    led = words("\n".join(addresses)).keys() - seen_words.keys() - {"mailto"}
    return [
        *(word for word in missing if joined.count(word) < wanted[word]),
        *(word for word in led if word not in joined),
    ]


def _without_formulas(text: str) -> str:
    """Return a text without TeX, of which Telegram gets the signs that it stands for."""
    return re.sub(r"\$\$.+?\$\$|\$[^$\n]+\$|\\[a-zA-Z]+", " ", text, flags=re.DOTALL)


# --- sending -------------------------------------------------------------------------------------


class Tally:
    """What became of the documents on one platform."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages = 0
        self.faults: list[tuple[str, str]] = []
        "Documents of which something was lost or refused, and what."
        self.lost = self.refused = 0
        self.slowest_ms = 0.0

    async def send(self, adapter: Adapter, world: World, chat: str, name: str, text: str) -> None:
        """Lay a document out, send it in a chat of its own, and compare."""
        await world.write(chat, 0)  # WhatsApp takes answers alone
        began = time.thread_time()
        payloads = adapter.render(text)
        self.slowest_ms = max(self.slowest_ms, (time.thread_time() - began) * 1000)
        self.messages += len(payloads)
        for number, payload in enumerate(payloads):
            nonce = f"{self.messages}-{number}"
            try:
                await adapter.send(Outbound(chat_id=chat, payload=payload, nonce=nonce))
            except SendError as error:
                self.refused += 1
                self.faults.append((name, f"refused: {error}"))
        missing = lost(text, world.seen(chat))
        if missing:
            self.lost += len(missing)
            self.faults.append((name, f"lost: {' '.join(missing[:12])}"))


async def try_platform(name: str, chosen: Sequence[tuple[str, str]]) -> Tally:
    """Send all documents on one platform."""
    tally = Tally(name)
    async with WORLDS[name](len(chosen)) as world:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            (home / "agents" / "bench").mkdir(parents=True)
            prepare(home, "http://127.0.0.1:9/v1", world)
            config = load_config(home / "everturn.yaml", environ={"OPENAI_API_KEY": "bench"})
            adapter = await make_adapter(config.channels[0], SystemClock())
            async with serve_on(adapter, RecordingHandler(), _until_ready):
                for chat, document in zip(world.chats, chosen, strict=True):
                    await tally.send(adapter, world, chat, *document)
    return tally


async def _until_ready(handler: RecordingHandler) -> None:
    await handler.until_connected()


async def compare(arguments: argparse.Namespace) -> None:
    """Print the table, and what is wrong."""
    warnings.simplefilter("ignore", DeprecationWarning)  # of the pretended mail server
    folders = [ROOT, *arguments.folder]
    chosen = documents(folders, arguments.documents, arguments.seed)
    rows: list[list[object]] = []
    for name in arguments.channel:
        tally = await try_platform(name, chosen)
        rows.append([name, tally.messages, tally.refused, tally.lost, tally.slowest_ms])
        for document, what in tally.faults[: arguments.show]:
            print(f"{name}: {document}: {what}")
    characters = sum(len(text) for _, text in chosen)
    columns = ("channel", "messages", "refused", "words lost", "slowest ms of CPU")
    show(f"{len(chosen):,} documents, {characters:,} characters", columns, rows)


def main() -> None:
    """Read the arguments, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="*", type=Path)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--channel", nargs="+", choices=PLATFORMS, default=PLATFORMS)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
