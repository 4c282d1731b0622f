"""Which text from outside stands behind a message, and what it is called. Pure.

*Text from outside* is what nobody vouches for: a page, another's message, a program's output.
Assume that a model obeys it. So it matters for whatever the model writes while it is shown, and
what the model wrote then may hold it as well. A source is named in words, for the people who are
asked about a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from everturn_actors.model import (
    SCHEDULE,
    AnyMessage,
    Disposition,
    Notice,
    OpenTurn,
    Reply,
    Summary,
    ToolResult,
    Turn,
    UserMessage,
)

SOURCES_MOST: Final = 3  # that are named; a question has to be short enough to be read
SOURCE_CHARACTERS: Final = 200  # of one; what is longer keeps its two ends
AND_MORE: Final = "and more"
"The last of the sources where there are others besides."
GONE: Final[frozenset[Disposition]] = frozenset(("masked", "cleared", "dropped"))
"Dispositions that leave nothing of what a message said, but its size."
_HEAD_SHARE = 3  # two thirds of a long source are its beginning, which names the host


class Outside(Struct, frozen=True):
    """The text from outside that a request shows, or that a part of it does."""

    direct: tuple[str, ...] = ()
    "Sources whose text stands there, or a summary of it; newest first, see `together`."
    retold: tuple[str, ...] = ()
    "Sources of which only what the agent wrote while it saw them stands there; newest first."

    @property
    def sources(self) -> tuple[str, ...]:
        """All of them, those whose text is there first; empty = nothing from outside is shown."""
        return together(self.direct, self.retold)

    @property
    def is_retold(self) -> bool:
        """Whether the agent's own words of then are all that is left."""
        return bool(self.retold) and not self.direct

    def __add__(self, older: Outside) -> Outside:
        """Return both, `older` being what stands before."""
        if not older.direct and not older.retold:
            return self
        return Outside(together(self.direct, older.direct), together(self.retold, older.retold))


NOTHING: Final = Outside()


def together(*sources: Iterable[str]) -> tuple[str, ...]:
    """Return sources as they are kept: each once, the first `SOURCES_MOST`, and `AND_MORE`.

    >>> together(["the page a"], ["the page b", "the page a"])
    ('the page a', 'the page b')
    """
    every = dict.fromkeys(each for some in sources for each in some)
    named = [each for each in every if each != AND_MORE]
    if len(named) <= SOURCES_MOST and AND_MORE not in every:
        return tuple(named)
    return (*named[:SOURCES_MOST], AND_MORE)


def plain_line(text: str, most: int = 0) -> str:
    r"""Return a text of others as one line that hides nothing: what is not printed is a blank.

    Args:
        text: The text.
        most: Characters, beyond which it is cut; 0 = any number.

    >>> plain_line("one\x1b[2J\n two"), plain_line("too long", 3)
    ('one [2J two', 'too…')
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if not most or len(line) <= most else f"{line[:most]}…"


def one_source(words: str) -> str:
    """Return the words for a source as one line of bounded length, whatever stands in them."""
    line = plain_line(words)
    if len(line) <= SOURCE_CHARACTERS:
        return line
    tail = SOURCE_CHARACTERS // _HEAD_SHARE
    return f"{line[: SOURCE_CHARACTERS - tail - 1]}…{line[-tail:]}"


def is_from_outside(message: AnyMessage) -> bool:
    """Whether something of the outside may stand in a message, whatever became of it."""
    if isinstance(message, Reply):
        return bool(message.outside)
    return not isinstance(message, Notice) and message.untrusted


def outside_of(message: AnyMessage, disposition: Disposition = "kept") -> Outside:
    """Return what of the outside stands in one message.

    Args:
        message: As it is held or shown.
        disposition: What became of it on its way into the request.
    """
    match message:
        case ToolResult(untrusted=True) | UserMessage(untrusted=True):
            return NOTHING if disposition in GONE else Outside(direct=(source_of(message),))
        case Reply(outside=sources, retells=False) if sources:
            return Outside(retold=sources)
        case _:
            return NOTHING


def outside_of_all(messages: Iterable[AnyMessage]) -> Outside:
    """Return what of the outside stands in messages that are whole; given oldest first."""
    found = NOTHING
    for message in messages:
        own = outside_of(message)
        if own is not NOTHING:
            found = own + found
    return found


def source_of(message: ToolResult | UserMessage) -> str:
    """Return what the text from outside in a message is, in words."""
    if isinstance(message, ToolResult):
        return message.source or one_source(f"what {message.name} gave")
    if message.sender == SCHEDULE:
        return "a scheduled task that was made while text from outside was shown"
    if message.sender == "background_process":
        return "the output of a background process"
    if message.sender.startswith("session:"):
        return "a message of another conversation"
    return "what others said here, for which nobody vouches"


def summarised(turns: Iterable[Turn], previous: Summary | None) -> tuple[str, ...]:
    """Return the sources behind a summary of `turns` that carries on the `previous` one."""
    found = outside_of_all(message for turn in turns for message in turn.messages)
    return together(found.sources, previous.outside if previous else ())


def behind_calls(turn: OpenTurn | None) -> tuple[str, ...]:
    """Return the text from outside that may be behind the calls of the open step, by source.

    It is what was shown to the model when it wrote them, as its reply tells. What the running turn
    itself has read counts to its end, shown or not: so it does for logs whose replies do not tell.
    Results of the open step came later, and are behind none of its calls.
    """
    if turn is None:
        return ()
    step = turn.step
    told = step.reply.outside if step is not None and step.reply is not None else ()
    heard = outside_of_all(turn.heard)
    read = outside_of_all(result for each in turn.steps for result in each.results)
    return together(told, read.sources, heard.sources)
