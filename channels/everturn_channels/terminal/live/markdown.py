"""Markdown as it streams: which part of a text can no longer change, and how it looks.

Rendering is pure: a text and the size of a terminal in, lines out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

from everturn_channels.names import clean

_TRAILING: Final = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)
_RESET: Final = "\x1b[0m"
_HIGHLIGHTED_MAX: Final = 50_000  # characters of code; lexers of more keep a terminal waiting
_COLUMNS_MIN: Final = 10
_LISTS: Final = frozenset(("bullet_list_open", "ordered_list_open"))
_THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
    }
)
"Colours of the terminal's own palette, which fit a dark one and a light one."


class Part(Struct, frozen=True, kw_only=True):
    """Markdown of which nothing changes any more."""

    source: str
    goes_on: bool = False
    "Whether it belongs to the list of the part before it: no blank line stands between them."


class Look(Struct, frozen=True, kw_only=True):
    """What a terminal can show."""

    colour: bool = True
    "Whether colours may be used."
    styles: bool = True
    "Whether escape sequences may be used at all: bold, underlined."
    encoding: str = "utf-8"


class StreamedMarkdown:
    r"""Cuts a text that grows into parts that can be shown for good, and what may still change.

    >>> streamed = StreamedMarkdown()
    >>> streamed.add("# Title\n\nFirst para")
    >>> [part.source for part in streamed.take()], streamed.rest
    (['# Title\n\n'], 'First para')
    """

    def __init__(self) -> None:
        self._parser = _parser()
        self._goes_on = False
        self.rest = ""
        "What came and was not taken: its last block may still change."

    def add(self, text: str) -> None:
        """Take what came."""
        self.rest += text

    def take(self) -> tuple[Part, ...]:
        """Return the blocks that are complete, and keep the one after them.

        A list gives its items one by one; a table or a block of code comes as a whole.
        """
        whole, newline, _ = self.rest.rpartition("\n")
        if not newline:
            return ()
        tokens = self._parser.parse(whole + newline)
        line, in_list = _complete_lines(tokens, whole.count("\n") + 1)
        if not line:
            return ()
        lines = self.rest.split("\n")
        source = "\n".join(lines[:line]) + "\n"
        if not source.strip():  # it goes with the next block, and is no gap of its own
            return ()
        self.rest = "\n".join(lines[line:])
        part = Part(source=source, goes_on=self._goes_on)
        self._goes_on = in_list
        return (part,)

    def end(self) -> tuple[Part, ...]:
        """Return all that is left: the text is over, or something else comes below it."""
        source, self.rest = self.rest, ""
        part = Part(source=source, goes_on=self._goes_on)
        self._goes_on = False
        return (part,) if source.strip() else ()


def render(source: str, *, columns: int, look: Look) -> str:
    """Return Markdown as lines for a terminal, each with its line end, words wrapped.

    Nothing of the text is hidden: HTML and definitions of links stand as they were written, and the
    address of a link beside its text.

    Args:
        source: The Markdown; control characters are taken out.
        columns: How wide a line may be.
        look: What the terminal can show.
    """
    sink = _Sink()
    sink.encoding_ = look.encoding
    console = Console(
        file=sink,
        width=max(columns, _COLUMNS_MIN),
        force_terminal=look.styles,
        no_color=not look.colour,
        color_system="auto" if look.styles else None,
        theme=_THEME,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(_Markdown(clean(source)))
    # Some blocks begin with a blank line of their own: who puts them together sets those.
    return _TRAILING.sub(_RESET if look.styles else "", sink.getvalue()).lstrip("\n")


def _complete_lines(tokens: list[Token], lines: int) -> tuple[int, bool]:
    """Return how many of the lines belong to blocks that are over, and whether that is in a list.

    A block is over when another one begins. A blank line ends what neither holds nor joins any.
    """
    blocks = [t for t in tokens if t.level == 0 and t.map and t.nesting >= 0]
    if not blocks:
        return 0, False
    last = blocks[-1]
    begin, end = last.map or (0, 0)
    if last.type not in _LISTS:
        return (end if end < lines and last.type != "code_block" else begin), False
    items = [t.map[0] for t in tokens if t.level == 1 and t.type == "list_item_open" and t.map]
    items = [line for line in items if line > begin]
    return (items[-1], True) if items else (begin, False)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable("reference")  # a definition shows nothing, and may come after its use


class _Sink(StringIO):
    """Collects text that will be written in some encoding."""

    encoding_ = "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What rich asks for, to know which lines of tables can be drawn."""
        return self.encoding_


class _Heading(Heading):
    """A heading at the left, in bold."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _CodeBlock(CodeBlock):
    """Code in the terminal's own colours, on its own background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        lexer = self.lexer_name if len(code) <= _HIGHLIGHTED_MAX else "text"
        yield Syntax(
            code,
            lexer,
            theme="ansi_dark",
            word_wrap=True,
            padding=(0, 2),
            background_color="default",
        )


class _Table(TableElement):
    """A table without an edge, which would be blank lines above and below it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for each in super().__rich_console__(console, options):
            if isinstance(each, Table):
                each.show_edge = False
            yield each


def _with_addresses(children: Sequence[Token]) -> list[Token]:
    """Return what stands in a line, with links and pictures as their words and their address."""
    shown: list[Token] = []
    begins: list[tuple[int, str]] = []  # of links that are open: where, and to what
    for child in children:
        if child.type == "link_open":
            begins.append((len(shown), str(child.attrs.get("href", ""))))
        elif child.type == "link_close" and begins:
            begin, address = begins.pop()
            if "".join(each.content for each in shown[begin:]) != address:
                shown.append(_text(f" ({address})"))
        elif child.type == "image":
            words = child.content.strip() or "picture"
            shown.append(_text(f"[{words}] ({child.attrs.get('src', '')})"))
        else:
            shown.append(child)
    return shown


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


class _Markdown(Markdown):
    """Markdown of which all is shown."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = markup
        self.parsed = _parser().parse(markup)
        for token in self.parsed:
            if token.children:
                token.children = _with_addresses(token.children)
