"""Who hears what people say, and speaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from everturn_actors.model import Attachment


class Transcript(Struct, frozen=True, kw_only=True):
    """The words in a sound."""

    text: str
    "In one line; empty = there are none in it."
    model: str
    source: str
    "Who heard it: a host, or `here`."
    language: str = ""
    duration_s: float = 0
    "How long it sounds, as whoever heard it says; 0 = nobody says."
    is_shown: bool = False
    "Whether people are shown what was heard."


class Transcriber(Protocol):
    """Writes down what is said in a file."""

    async def transcribe(
        self, file: Attachment, read: Callable[[], Awaitable[bytes]]
    ) -> Transcript:
        """Return the words. It has limits and a deadline of its own, and tries again by itself.

        Cancellation ends it. Anything but the error below is a fault of it, which costs this file.

        Args:
            file: What is known of it.
            read: Gives its bytes; called when it is heard, so that those that wait take no memory.

        Raises:
            NotTranscribedError: It is too long or too large, nobody could be asked, or what came
                back is no transcript. Its text is for people and the model, a part of a sentence,
                and holds no secret.
        """
        ...


class Speech(Struct, frozen=True, kw_only=True):
    """A text as sound."""

    data: bytes
    "Ogg Opus, as platforms have it in voice notes."
    model: str
    source: str
    "Who spoke it: a host."
    duration_s: float = 0
    "0 = nobody knows."


class Speaker(Protocol):
    """Makes sound of what an agent answers."""

    async def speak(self, markdown: str) -> Speech | None:
        """Return an answer as sound; None where nothing in it can be spoken, or too much.

        It has limits and a deadline of its own, and tries again by itself. Cancellation ends it.
        Anything but the error below is a fault of it, which costs this answer its sound.

        Raises:
            NotSpokenError: It could not be done; its text is for people, and holds no secret.
        """
        ...
