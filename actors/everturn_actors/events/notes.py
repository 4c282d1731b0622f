"""What is put before the model besides what is said: notes, quotes, pinned messages. Pure."""

from __future__ import annotations

from everturn_actors.events.body import EventBody


class NotesShown(EventBody, frozen=True, kw_only=True):
    """From here on the prompt ends with these notes, in the place of those before."""

    text: str
    "As the model reads it; empty = there are none."
    outside: tuple[str, ...] = ()
    "The text from outside that was shown when a part of them was written, by source."


class OlderQuoted(EventBody, frozen=True, kw_only=True):
    """The open turn's question is followed by older messages that seem to answer it."""

    turn: int
    text: str
    "As the model reads it."
    quoted: tuple[int, ...]
    "The seqs of the events that it quotes, the best match first."


class Pinned(EventBody, frozen=True, kw_only=True):
    """A message stays with the model from here on, whatever is hidden."""

    message: int
    "The seq of its event."
    text: str
    who: str = ""
    "Who said it, for the model."
    outside: tuple[str, ...] = ()
    "The text from outside that stands in it, by source."
    by: str = ""
    "Who pinned it."


class Unpinned(EventBody, frozen=True, kw_only=True):
    """A message is one among others again."""

    message: int
    by: str = ""
    "Who took the pin off."
