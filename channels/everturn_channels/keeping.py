"""What stays with the model: notes about whom it talks with, and pinned messages, as people ask.

/memory                     what is known
/memory language: German    keep it
/memory forget language     keep it no longer
/pin                        what is pinned
/pin 412                    pin a message by its number
/pin the deadline is        pin the newest message with these words
/unpin 412                  take the pin off
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from everturn_channels.languages import t
from everturn_channels.names import visible

_FORGET: Final = "forget "
_LINE_CHARACTERS: Final = 200


class KnownNote(Struct, frozen=True, kw_only=True):
    """One thing that an agent knows of whom it talks with."""

    topic: str
    text: str
    source: str
    "Where it was said, in words."


class PinnedMessage(Struct, frozen=True, kw_only=True):
    """A message that stays with the model."""

    seq: int
    who: str
    text: str


class ShowNotes(Struct, frozen=True):
    """Say what is known."""


class KeepNote(Struct, frozen=True):
    """Keep something."""

    topic: str
    text: str


class ForgetNote(Struct, frozen=True):
    """Keep it no longer."""

    topic: str


MemoryIntent: TypeAlias = ShowNotes | KeepNote | ForgetNote


def read_memory_intent(argument: str) -> MemoryIntent | None:
    """Return what stands after `/memory`; None where it is nothing of the kind.

    >>> read_memory_intent("language: German")
    KeepNote(topic='language', text='German')
    """
    typed = " ".join(argument.split())
    if not typed:
        return ShowNotes()
    if typed.casefold().startswith(_FORGET):
        return ForgetNote(typed[len(_FORGET) :].strip())
    topic, colon, text = typed.partition(":")
    topic, text = topic.strip(), text.strip()
    return KeepNote(topic, text) if colon and topic and text else None


def memory_text(notes: Sequence[KnownNote]) -> str:
    """Answer /memory."""
    if not notes:
        return t("I have no notes about this conversation.")
    lines = [
        f"- {visible(each.topic)}: {visible(each.text)} ({visible(each.source)})" for each in notes
    ]
    how = t("/memory forget TOPIC takes one away, /memory TOPIC: TEXT adds one.")
    return "\n".join((*lines, "", how))


def note_source(*, who: str, day: str, message: str, session: str, quote: str) -> str:
    """Return where a note comes from: a message, or where that is empty what somebody wrote."""
    if not message:
        by_hand = t("written by hand")
        return f"{by_hand}, {day}" if day else by_hand
    values = {"message": message, "session": session, "quote": quote}
    place = t("message {message} of {session}: “{quote}”", **values)
    return ", ".join(filter(None, (who, day, place)))


def note_proposed(topic: str, text: str) -> str:
    """Return what keeps a note that the agent proposed, and nobody has agreed to."""
    return t("only proposed: /memory {topic}: {text} keeps it", topic=topic, text=text)


def note_hidden() -> str:
    """Return that a note is not shown to the model."""
    return t("not in the prompt, as text from outside was shown")


def note_too_long(topic_characters: int, text_characters: int) -> str:
    """Answer /memory TOPIC: TEXT that is empty or too long."""
    return t(
        "A note has a topic of at most {topic} characters and a text of at most {text}.",
        topic=topic_characters,
        text=text_characters,
    )


def memory_how() -> str:
    """Answer /memory with something after it that cannot be read."""
    return t("Write /memory, /memory TOPIC: TEXT or /memory forget TOPIC.")


def note_kept(topic: str) -> str:
    """Answer /memory TOPIC: TEXT."""
    return t("Noted: {topic}.", topic=visible(topic))


def note_forgotten(topic: str, *, was_there: bool) -> str:
    """Answer /memory forget TOPIC."""
    if was_there:
        return t("Forgotten: {topic}.", topic=visible(topic))
    return t("There is no note about {topic}.", topic=visible(topic))


def pins_text(pins: Sequence[PinnedMessage]) -> str:
    """Answer /pin and /unpin: what is pinned now."""
    if not pins:
        return t("Nothing is pinned. /pin with some words pins the newest message that has them.")
    lines = [f"- {each.seq}, {visible(each.who)}: {_short(each.text)}" for each in pins]
    return "\n".join((t("Pinned, so that the model is always shown it:"), *lines))


def nothing_to_pin() -> str:
    """Answer /pin that names no message."""
    return t("There is no such message here.")


def nothing_pinned(words: str) -> str:
    """Answer /unpin that names no pinned message."""
    return t("No pinned message fits {words}; /pin lists them.", words=_short(words))


def newest_with(words: str, messages: Iterable[tuple[int, str]]) -> int:
    """Return the number of the first of `messages` that has these words; 0 = none has.

    Args:
        words: Or a number, which is its own answer.
        messages: Numbers and texts, the newest first.
    """
    typed = words.strip()
    if typed.isdecimal() and len(typed) <= _DIGITS:
        return int(typed)
    wanted = " ".join(typed.casefold().split())
    return next((seq for seq, text in messages if wanted in " ".join(text.casefold().split())), 0)


_DIGITS: Final = 12


def _short(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _LINE_CHARACTERS else f"{line[: _LINE_CHARACTERS - 1]}…"
