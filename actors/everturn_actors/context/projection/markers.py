"""What the default policy puts in the place of what it hides: short, and it says how to ask. Pure.

A number in a marker is that of what was said, whatever was done to it before, so hiding it once
more does not change the number.
"""

from __future__ import annotations

import re

from msgspec import Struct

from everturn_actors.context.projection.turns import Block
from everturn_actors.model import UserMessage

RECALL_TOOL = "recall_context"
"The tool that gives back what is hidden."

_NUMBER = r"[\d,]+"
_CLEARED = re.compile(
    rf"\[result cleared: ~{_NUMBER} tokens(?:; recall_context\([^)]*\) \w+ it)?\]"
)
_PART = re.compile(rf"\[(?:truncated|shortened): ~{_NUMBER} of ~({_NUMBER}) tokens shown")
_GAP = re.compile(rf"\[({_NUMBER}) earlier messages? of this turn ")
# How the gateway's own words begin, in all policies; what a summary says must not pass for one.
_NOTICE = re.compile(
    # What is written in bold, or with blanks that nobody sees before it, reads the same.
    r"\[(?=[\s*_`\u200b-\u200f\u2060\ufeff]*"
    r"(?:[\d,~]+ earlier messages?\b|result (?:cleared|masked)|truncated:|shortened:"
    r"|emergency compression|this summary does not tell|the summary was longer|cleared\]"
    r"|conversation truncated|old tool result|no model summarised|note: some oversized"
    r"|turns? 1 to \d|older messages of this conversation|[\d,]+ more pinned messages"
    r"|note of the gateway|this conversation rests"
    r"|\.\.\. (?:the beginning of|middle of|[\d,]+ (?:messages|lines))|your last reply could not)"
    r")([^\[\]\n]*)\]?",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"^\s*(?:#+\s*(?:directives|earlier conversation|instructions|system|pinned messages"
    r"|your memory|what you know of whom you talk with)\b|context_summary:)",
    re.IGNORECASE | re.MULTILINE,
)
_ARGUMENT = re.compile(rf"\[shortened: {_NUMBER} characters left out")


class Markers(Struct, frozen=True, kw_only=True):
    """Makes them, for a model that can ask for what is hidden or for one that cannot."""

    recall: bool
    is_brief: bool = False
    "Whether they say no more than that something is missing: for when every token counts."

    @property
    def asks(self) -> bool:
        """Whether they tell how to ask for what is hidden."""
        return self.recall and not self.is_brief

    def cleared(self, tokens: int, seq: int) -> str:
        """Return what stands for a whole result, which is message `seq`."""
        return f"[result cleared: ~{tokens:,} tokens{self._ask('returns it', message=seq)}]"

    def shortened(self, shown_tokens: int, tokens: int, seq: int) -> str:
        """Return what stands where a part of message `seq` was."""
        more = self._ask("returns it whole", message=seq)
        return f"[shortened: ~{shown_tokens:,} of ~{tokens:,} tokens shown{more}]"

    def truncated(self, shown_tokens: int, tokens: int, path: str) -> str:
        """Return what stands where a part of a new result was; the whole is in a file."""
        more = self._ask("returns it whole", file=path)
        return f"[truncated: ~{shown_tokens:,} of ~{tokens:,} tokens shown{more}]"

    def argument(self, characters: int, seq: int) -> str:
        """Return what stands for the rest of an argument of a call in message `seq`."""
        more = self._ask("returns them", message=seq)
        return f"[shortened: {characters:,} characters left out{more}]"

    def gap(self, messages: int) -> str:
        """Return what stands where messages of the same turn were."""
        verb = "is" if messages == 1 else "are"
        more = self._ask("lists what is hidden")
        return f"[{_count(messages)} of this turn {verb} left out here{more}]"

    def notice(self, messages: int) -> str:
        """Return how much of the conversation is not shown."""
        verb = "is" if messages == 1 else "are"
        more = self._ask('lists what is hidden, recall_context(search="...") finds words in it')
        return f"[{_count(messages)} of this conversation {verb} not shown{more}]"

    def _ask(self, gives: str, **argument: int | str) -> str:
        """Return how to ask for it; nothing where there is nothing to ask for."""
        if not self.asks or not all(argument.values()):
            return ""
        given = ", ".join(
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
            for name, value in argument.items()
        )
        return f"; recall_context({given}) {gives}"


def without_notices(text: str) -> str:
    """Return a text in which nothing reads like a notice or a heading of the gateway's own.

    A summary is written by a model that obeys whoever it reads: what it says is no more than said.
    """
    text = _NOTICE.sub(lambda found: f"({found[1]})", text)
    return _HEADING.sub(lambda found: f"said: {found[0].strip().lstrip('# ')}", text)


def is_cleared(text: str) -> bool:
    """Say whether a text is the marker of a whole result."""
    return text.startswith("[result cleared") and _CLEARED.fullmatch(text) is not None


def whole_tokens(text: str) -> int:
    """Return what a text cost before it was shortened, as its marker tells; 0 if it was not."""
    return max((_parsed(match[1]) for match in _PART.finditer(text)), default=0)


def gap_messages(text: str) -> int:
    """Return how many messages a marker of a gap tells of; 0 for another text."""
    match = _GAP.match(text)
    return _parsed(match[1]) if match else 0


def gap_of(block: Block) -> int:
    """Return how many messages a block tells to be missing; 0 for a message of somebody's."""
    # What a person wrote has a number, and is no marker whatever it says.
    return gap_messages(block.text) if isinstance(block, UserMessage) and not block.seq else 0


def is_shortened_argument(text: str) -> bool:
    """Say whether an argument was shortened before."""
    return _ARGUMENT.search(text) is not None


def _count(messages: int) -> str:
    return f"{messages:,} earlier message{'' if messages == 1 else 's'}"


def _parsed(number: str) -> int:
    return int(number.replace(",", "") or 0)
