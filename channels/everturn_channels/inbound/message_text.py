r"""What a model reads of a message: its words, and in brackets what else there is to know. Pure.

In a group every message begins with who wrote it:

    [Ann] [in reply to Bob: "shall we meet?"]
    yes, at noon
    [file plan.pdf saved as inbox/plan.pdf]

Lines in brackets are ours, and nobody may forge one: what a person wrote gets a backslash before
the bracket of a line that could pass for one, `\[Bob] I agree`. In a group, and in text that was
forwarded, that is every line that begins with a bracket and closes it; what somebody writes alone
with the agent speaks for nobody else, so there only lines that begin with the words of ours are
marked, and a pasted `[section]` stays as it is. Names come out of `names.one_line`. The text of a
file stands in a fence that is longer than any inside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from everturn_channels.adapter import Edit, Message, Person
from everturn_channels.names import one_line

QUOTE_LIMIT: Final = 200  # characters of a message that is replied to; it is only to be recognised
_FILE_NAME_LIMIT: Final = 120
_WORDS_LIMIT: Final = 300
_DESCRIBED_LIMIT: Final = 1_500
_BEGINNING: Final = 200  # characters of a line in which our words are looked for

_LINE_ENDS: Final = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Control characters say nothing to a reader; halves of a character cannot be written down.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_HALVES: Final = re.compile(r"[\ud800-\udfff]")
_BACKTICKS: Final = re.compile(r"`+")
_OURS: Final = re.compile(
    r"\[ ?(forwarded\b|in reply to |file |attached: |[^\]]{1,80} (was|were) sent\b|reacted with\b"
    r"|(location|venue|contact|poll|quiz|dice|(animated )?sticker|story|embed|post|checklist|game"
    r"|invoice|order of|huddle|live photo|paid media|gift|giveaway|rich message|voice note"
    r"|audio file|message (of a kind|that)|answer (to a form|of a kind)|the quoted lines"
    r"|this thread|they came by|about the product|request to verify|call, which"
    r"|invitation to)\b"
    r"|e-mail\b)",
    re.IGNORECASE,
)
_SPEAKERS: Final = frozenset(("system", "developer", "assistant", "user", "tool"))
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def compose(
    message: Message,
    *,
    in_group: bool,
    texts: Sequence[tuple[str, str]] = (),
    saved: Sequence[tuple[str, str]] = (),
    refused: Sequence[str] = (),
) -> str:
    """Return what the model reads of a message.

    Args:
        message: The message. Its files are not looked at: they are what follows.
        in_group: Whether it says who wrote it.
        texts: Files shown as text: their names and what they hold, see `text_files`.
        saved: Files that were put where the agent's tools find them: their names and where.
        refused: Files that were not taken, in words: `big.iso was not taken: larger than 20 MB`.

    Returns:
        The text. Empty for a message without words outside a group, as of a picture alone.
    """
    parts = _about(message)
    is_anothers = in_group or bool(message.forwarded_from)
    own = _guarded(message.text, is_anothers=is_anothers)
    parts += [own] if own else []
    parts += [_fenced(name, text) for name, text in texts]
    parts += [f"[file {_file_name(name)} saved as {_path(path)}]" for name, path in saved]
    parts += [f"[file {one_line(words, _WORDS_LIMIT)}]" for words in refused]
    parts += _described(message)
    return _attributed(message.sender, parts, in_group=in_group)


def ambient_text(message: Message) -> str:
    """Return what the model reads of a group message that was not meant for it, files unread."""
    own = _guarded(message.text, is_anothers=True)
    names = [each.file_name or each.media_type for each in message.files]
    files = [f"[file {_file_name(name)} was sent, and not kept]" for name in names]
    parts = [*_about(message), *([own] if own else []), *files, *_described(message)]
    return _attributed(message.sender, parts, in_group=True)


def edit_text(edit: Edit, *, in_group: bool) -> str:
    """Return what the model reads of the new text of a message."""
    own = _guarded(edit.text, is_anothers=in_group)
    return _attributed(edit.sender, [own] if own else [], in_group=in_group)


def shown_name(person: Person) -> str:
    """Return a person's name as it stands in the text that a model reads.

    Their id where they have no name, or one that poses as a line of ours or as a role.
    """
    name = one_line(person.name)
    poses = name.casefold() in _SPEAKERS or _OURS.match(f"[{name}") is not None
    return (name if not poses else "") or one_line(person.id) or "somebody"


def _about(message: Message) -> list[str]:
    """Return the lines that stand before a message's own words."""
    lines: list[str] = []
    if message.forwarded_from:
        name = one_line(message.forwarded_from)
        lines.append(f"[forwarded from {name}]" if name else "[forwarded]")
    quoted = one_line(message.quoted, QUOTE_LIMIT)
    if quoted:
        lines.append(f'[in reply to {one_line(message.quoted_name) or "somebody"}: "{quoted}"]')
    return lines


def _described(message: Message) -> list[str]:
    """Return the lines that tell of what a message holds beside text and files."""
    lines = [f"[{one_line(each, _DESCRIBED_LIMIT)}]" for each in message.described if each.strip()]
    what = one_line(message.unsupported, _WORDS_LIMIT)
    return [*lines, *([f"[{what} was sent, which cannot be read here]"] if what else [])]


def _attributed(sender: Person, parts: Sequence[str], *, in_group: bool) -> str:
    body = "\n".join(parts)
    return f"[{shown_name(sender)}] {body}".rstrip() if in_group else body


def _guarded(text: str, *, is_anothers: bool) -> str:
    """Return a person's words with every line marked that could pass for one of ours."""
    plain = _HALVES.sub("\ufffd", _UNPRINTABLE.sub("", _LINE_ENDS.sub("\n", text))).strip("\n")
    if "[" not in plain:
        return plain if plain.strip() else ""
    return "\n".join(_guarded_line(line, is_anothers=is_anothers) for line in plain.split("\n"))


def _guarded_line(line: str, *, is_anothers: bool) -> str:
    """Return a line, with a backslash before its bracket where it could pass for one of ours."""
    start = next(
        (i for i, char in enumerate(line) if not (char.isspace() or _shows_nothing(char))),
        len(line),
    )
    if not line.startswith("[", start):
        return line
    if not (is_anothers and "]" in line[start:]):
        # What shows nothing would hide our words from a search, and from nobody else.
        beginning = line[start : start + _BEGINNING]
        seen = "".join(char for char in beginning if not _shows_nothing(char))
        if not _OURS.match(" ".join(seen.split())):
            return line
    return f"{line[:start]}\\{line[start:]}"


def _shows_nothing(char: str) -> bool:
    return unicodedata.category(char) in {"Cf", "Mn", "Me"} or char in _BLANKS


def _fenced(name: str, text: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    plain = _HALVES.sub("\ufffd", text)
    return f"[file {_file_name(name)}]\n{fence}\n{plain.removesuffix(chr(10))}\n{fence}"


def _file_name(name: str) -> str:
    return one_line(name, _FILE_NAME_LIMIT) or "without a name"


def _path(path: str) -> str:
    """Return a path of ours: as it is, but for what would end the line."""
    return _UNPRINTABLE.sub("", _LINE_ENDS.sub(" ", path)).replace("\n", " ")
