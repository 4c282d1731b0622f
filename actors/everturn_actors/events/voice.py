"""What is heard of people who speak, and said to them. Pure."""

from __future__ import annotations

from typing import Final

from everturn_actors.events.body import EventBody
from everturn_actors.model import Attachment

_ROUND: Final = str.maketrans("[]", "()")  # a line in brackets is the gateway's own

SHOWN_CHARACTERS: Final = 1_000
"Of what was heard; who spoke for longer sees by them that it was heard."


class Transcribed(EventBody, frozen=True, kw_only=True):
    """The words of a voice note, or of another file that sounds, or why there are none.

    From here on `heard` stands in the text of the message, in the place of the file.
    """

    turn: int
    message: int
    "The seq of its `Received` event."
    file: str
    "See `Attachment.name`: by its SHA-256 it is known which sound it was."
    sender: str = ""
    "Of the message."
    file_name: str = ""
    is_voice: bool = False
    "Whether somebody spoke it for whoever is there; otherwise it is a file with sound."
    duration_s: float = 0
    "How long it sounds; 0 = nobody knows."
    text: str = ""
    "The words, in one line; empty = there are none, or `error` says why they are not known."
    error: str = ""
    "Why it was not transcribed, for people and the model, as a part of a sentence."
    model: str = ""
    source: str = ""
    "Who heard it: a host, or `here`."
    language: str = ""
    "In which the words are, as whoever heard them says."
    is_shown: bool = False
    "Whether people are shown the words."
    untrusted: bool = False
    "Whether nobody vouches for the message, see `UserMessage.untrusted`; nor then for its words."

    @property
    def heard(self) -> str:
        """What the model reads of it: `[voice note, 0:10: "what is the weather like?"]`."""
        if self.error:
            said = f"not transcribed: {self.error}"
        else:
            said = f'"{self.text}"' if self.text else "no words in it"
        return f"[{f'{self._what}: {said}'.translate(_ROUND)}]"

    @property
    def line(self) -> str:
        """What its sender is told of it; empty where that is nothing."""
        if not self.error:
            shown = self.text[:SHOWN_CHARACTERS]
            shown += "…" if len(shown) < len(self.text) else ""
            return f"“{shown}”" if self.is_shown and shown else ""
        what = "Your voice note" if self.is_voice else f"Your file {self.file_name or self.file}"
        long = f" ({clock_text(self.duration_s)})" if self.duration_s else ""
        return f"{what}{long} could not be transcribed: {self.error}."

    def added_to(self, text: str) -> str:
        """Return the text of its message with what was heard."""
        return f"{text}\n{self.heard}" if text.strip() else self.heard

    @property
    def readings(self) -> tuple[str, str]:
        """The words as they are kept, and as the model reads them."""
        return self.text, self.text.translate(_ROUND)

    @property
    def _what(self) -> str:
        what = "voice note" if self.is_voice else f"audio file {self.file_name or self.file}"
        return f"{what}, {clock_text(self.duration_s)}" if self.duration_s else what


class Spoken(EventBody, frozen=True, kw_only=True):
    """The answer of the open turn was made sound, which goes to its people beside the text."""

    turn: int
    attachments: tuple[Attachment, ...] = ()
    "The sound; its bytes were kept before. None where `error` says why."
    error: str = ""
    "Why it was not spoken, for people, as a part of a sentence."
    model: str = ""
    source: str = ""
    "Who spoke it: a host."

    @property
    def line(self) -> str:
        """What people are told of it; empty where it was spoken."""
        return f"This could not be spoken: {self.error}." if self.error else ""


def clock_text(duration_s: float) -> str:
    """Return how long something sounds, as players show it: `0:10`, `1:02:03`.

    >>> clock_text(9.6), clock_text(3723)
    ('0:10', '1:02:03')
    """
    minutes, seconds = divmod(max(1, round(duration_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
