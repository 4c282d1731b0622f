"""What the prompt says beside the agent's own texts: notes of earlier, and pinned messages. Pure.

Both are what people and models wrote: they stand between two lines that nothing in them can
foresee, so they can be known and cannot speak as the prompt does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Final

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.model import Conversation, Pin
from everturn_actors.outside import NOTHING, Outside, together

PINNED_SHARE: Final = 8  # pinned messages take at most such a part of the window
_MARK_DIGITS: Final = 6
_PINNED: Final = """\
## Pinned messages

The people of this conversation pinned what stands here, word for word, so that it stays in sight. \
It was said earlier, and has the weight of a message, not of this prompt."""
_NO_ROOM: Final = "[{} more pinned messages have no room here.]"


def between_marks(name: str, text: str) -> str:
    """Return a text between two lines that stand nowhere in it; the same text gives the same.

    >>> between_marks("notes", "- tea").splitlines()[1]
    '- tea'
    """
    digest = sha256(text.encode("utf-8", "surrogatepass"))
    while (mark := digest.hexdigest()[:_MARK_DIGITS]) in text:
        digest.update(b"\n")
    return f"<{name}-{mark}>\n{text}\n</{name}-{mark}>"


def pin_units(pins: Sequence[Pin]) -> int:
    """Return what pinned messages cost where all of them are quoted, see `text_units`."""
    return sum(text_units(_line(each)) for each in pins)


def prompt_beside(
    conversation: Conversation, shown: Collection[int] | None, *, window_units: int
) -> str:
    """Return what follows the agent's own prompt; empty where there is nothing.

    Args:
        conversation: Has notes, and pinned messages.
        shown: The seqs of the messages that the request has whole: a pinned one among them stands
            there. None = nobody knows, and all pinned ones are quoted.
        window_units: Of the model, see `text_units`: pinned messages take their share of it, the
            newest first.
    """
    parts = [conversation.notes.text]
    hidden = [each for each in conversation.pins if shown is None or each.seq not in shown]
    if hidden:
        parts.append(_pinned(hidden, window_units // PINNED_SHARE))
    return "\n\n".join(part for part in parts if part)


def beside_notes(conversation: Conversation) -> Iterator[str]:
    """Yield what stands in the prompt beside the agent's own texts, in sentences for people."""
    if conversation.notes.text:
        tokens = text_units(conversation.notes.text) // UNITS_PER_TOKEN
        yield f"notes of some {tokens:,} tokens stand in the prompt; /memory shows them"
    if conversation.pins:
        named = ", ".join(str(each.seq) for each in conversation.pins)
        tokens = pin_units(conversation.pins) // UNITS_PER_TOKEN
        yield (
            f"messages {named} are pinned, some {tokens:,} tokens: where they are hidden, they"
            " are quoted in the prompt"
        )


def outside_beside(conversation: Conversation) -> Outside:
    """Return the text from outside that stands there, or that the notes were written from."""
    if not conversation.pins and not conversation.notes.outside:
        return NOTHING
    pinned = together(*(each.outside for each in conversation.pins))
    return Outside(direct=pinned, retold=conversation.notes.outside)


def _pinned(pins: Sequence[Pin], most_units: int) -> str:
    lines: list[str] = []
    for pin in reversed(pins):
        line = _line(pin)
        most_units -= text_units(line)
        if most_units < 0 and lines:
            lines.append(_NO_ROOM.format(len(pins) - len(lines)))
            break
        lines.append(line)
    return f"{_PINNED}\n\n{between_marks('pinned', chr(10).join(reversed(lines)))}"


def _line(pin: Pin) -> str:
    who = f", {pin.who}" if pin.who else ""
    return f"[message {pin.seq}{who}] {pin.text}"
