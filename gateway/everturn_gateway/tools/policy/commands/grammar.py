"""What tree-sitter's grammar of bash sees in a text: every command, however it is nested.

The grammar is loaded with the first command that is judged, not with the program. A parse is
bounded by the length of the text and by a number of steps, and lets other threads run in between.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    from everturn_gateway.tools.policy.commands import bash_parser
else:
    bash_parser = late("everturn_gateway.tools.policy.commands.bash_parser")

if TYPE_CHECKING:
    from tree_sitter import Node

_STEPS_LIMIT = 4_000  # of about 0.5 ms; the worst text of 16,384 characters that we know takes 700
_CHUNK_BYTES = 4096

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")

_COMMANDS: Final = frozenset(("command", "declaration_command", "unset_command", "test_command"))
_REDIRECTIONS: Final = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))
_NO_ARGUMENTS: Final = _REDIRECTIONS | {"variable_assignment", "comment", "ERROR"}
_NO_WORDS: Final = frozenset(
    ("heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor", "pipeline", "list")
) | _COMMANDS | _REDIRECTIONS  # fmt: skip


class Spotted(Struct, frozen=True):
    """A command that stands somewhere in a text."""

    words: tuple[str, ...]
    "Its name and arguments as they are written."
    spans: tuple[tuple[int, int], ...]
    "Where they stand in the text; of `[ ... ]`, which the grammar takes apart, all of it as one."
    fed: tuple[str, ...] = ()
    "What it reads as its input, where that stands in the text itself."
    is_simple: bool = True
    "A name with arguments, not a declaration, a test or a function."


class Tree(Struct, frozen=True):
    """What the grammar makes of a text."""

    commands: tuple[Spotted, ...]
    is_whole: bool
    "Whether all of the text follows the grammar."
    has_heredoc: bool = False


def read_tree(text: str) -> Tree:
    """Parse a text. Blocking, and the first time loads a library: not for the event loop.

    The parser gets an `x` for each character beyond ASCII, which to the shell is a letter like any
    other: its scanner asks C's `isdigit` about such characters, and reads memory that is not its
    own. Source: tree-sitter-bash 0.25.1, issue 337 of its repository (2026-05-02).
    """
    source = _BEYOND_ASCII.sub("x", text).encode("ascii")
    steps = 0

    def read(at: int, _point: object) -> bytes:
        return source[at : at + _CHUNK_BYTES]

    def is_enough(_at: int, _has_error: bool) -> bool:  # noqa: FBT001 - the library's signature
        nonlocal steps
        steps += 1
        return steps > _STEPS_LIMIT

    try:
        root = bash_parser.parse(read, is_enough)
    except ValueError:  # it gave up where it was told to
        return Tree((), is_whole=False)
    commands: list[Node] = []
    redirections: list[Node] = []
    for node in _walk(root):
        if node.type in _COMMANDS:
            commands.append(node)
        elif node.type in _REDIRECTIONS:
            redirections.append(node)
    return Tree(
        _spot(commands, redirections, text),
        is_whole=not root.has_error,
        has_heredoc=any(node.type == "heredoc_redirect" for node in redirections),
    )


def _walk(root: Node) -> Iterator[Node]:
    """Yield every node, without recursion: a text may nest thousands of them."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _spot(commands: list[Node], redirections: list[Node], text: str) -> tuple[Spotted, ...]:
    """Return the commands in the order of their ends, each with what its redirections hold of it.

    The grammar takes words that stand behind the target of a redirection for further targets; to
    the shell they are arguments of the command before.
    """
    commands = sorted(commands, key=lambda node: node.end_byte)
    ends = [node.end_byte for node in commands]
    numbers = {node.id: number for number, node in enumerate(commands)}
    more: dict[int, list[Node]] = {}
    fed: dict[int, list[str]] = {}
    for redirection in redirections:
        before = bisect.bisect_right(ends, redirection.start_byte) - 1
        owner = numbers.get(redirection.parent.id, before) if redirection.parent else before
        words = [child for child in redirection.named_children if child.type not in _NO_WORDS]
        bodies = [child for child in redirection.named_children if child.type == "heredoc_body"]
        # What a here-string holds counts as an argument: it may be what a shell is to run.
        is_target_named = redirection.type == "file_redirect"
        more.setdefault(owner, []).extend(words[1:] if is_target_named else words)
        fed.setdefault(owner, []).extend(text[body.start_byte : body.end_byte] for body in bodies)
    spotted: list[Spotted] = []
    for number, node in enumerate(commands):
        own = [child for child in node.children if child.type not in _NO_ARGUMENTS]
        own += [
            child for child in more.get(number, ()) if own and child.start_byte > own[0].start_byte
        ]
        spans = _joined(sorted((child.start_byte, child.end_byte) for child in own))
        is_test = node.type == "test_command" and not text.startswith("[[", node.start_byte)
        spotted.append(
            Spotted(
                words=tuple(text[start:end] for start, end in spans),
                spans=((node.start_byte, node.end_byte),) if is_test else tuple(spans),
                fed=tuple(fed.get(number, ())),
                is_simple=is_test or node.type == "command",
            )
        )
    return tuple(spotted)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch: they are one word to the shell."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and joined[-1][1] >= start:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
