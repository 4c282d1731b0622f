"""The bounds around whoever transcribes, and what is no transcript."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import NotTranscribedError
from everturn_actors.events.voice import clock_text
from everturn_actors.model import Attachment
from everturn_actors.outside import plain_line
from everturn_actors.ports import Transcript
from everturn_gateway.config.voice import TranscriptionSettings
from everturn_gateway.voice.sound import ogg_duration_s

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4  # files in memory, and requests; the others wait for their turn
QUEUE_S: Final = 900.0  # so long; half of what a turn may take by default
_MEGABYTE: Final = 1024 * 1024
# Nobody says more in a second; what claims so repeats itself, or was made up.
_CHARACTERS_A_SECOND: Final = 60
_CHARACTERS_MORE: Final = 500
_CHARACTERS: Final = 200_000  # where nobody says how long it sounds
_NO_TRANSCRIPT: Final = "what came back is no transcript"


class Engine(Protocol):
    """Hears one file."""

    async def hear(self, file: Attachment, data: bytes, duration_s: float) -> Transcript:
        """Return what is said in it, as it was heard: whatever is wrong with it is found later.

        Args:
            file: What is known of it.
            data: Its bytes.
            duration_s: How long it sounds; 0 = nobody knows.

        Raises:
            NotTranscribedError: It could not be done.
        """
        ...


class Account(Protocol):
    """Counts what is heard for one agent."""

    def check(self) -> None:
        """Let pass what may still be used today.

        Raises:
            NotTranscribedError: It is used up.
        """
        ...

    def add(self, heard: Transcript, duration_s: float) -> None:
        """Count it."""
        ...


class Bounded(Struct, frozen=True, kw_only=True):
    """A `Transcriber` over an engine: the limits of its owner, a deadline, and a look at the words.

    One value for each agent; all share the engine, and `slots`.
    """

    engine: Engine
    settings: TranscriptionSettings
    account: Account
    slots: anyio.CapacityLimiter

    async def transcribe(
        self, file: Attachment, read: Callable[[], Awaitable[bytes]]
    ) -> Transcript:
        """Return the words of a file. See `Transcriber.transcribe`."""
        self._check(file.duration_s, file.size_bytes)
        self.account.check()
        limit_s = self.settings.timeout_seconds
        try:
            with anyio.fail_after(QUEUE_S):
                await self.slots.acquire()
        except TimeoutError as error:
            msg = "too many others waited to be heard"
            raise NotTranscribedError(msg) from error
        try:
            with anyio.fail_after(limit_s):
                data = await read()
                # Who sends it may say less than it is: the limits hold for what it is.
                duration_s = max(file.duration_s, ogg_duration_s(data))
                self._check(duration_s, len(data))
                heard = await self.engine.hear(file, data, duration_s)
        except TimeoutError as error:
            msg = f"it took longer than {limit_s} s"
            raise NotTranscribedError(msg) from error
        finally:
            self.slots.release()
        duration_s = max(duration_s, heard.duration_s)
        self.account.add(heard, duration_s)
        return checked(replace(heard, duration_s=duration_s, is_shown=self.settings.show_heard))

    def _check(self, duration_s: float, size_bytes: int) -> None:
        limits = self.settings
        if duration_s > limits.max_seconds:
            raise too_long(duration_s, limits.max_seconds)
        if size_bytes > limits.max_megabytes * _MEGABYTE:
            msg = f"it is larger than {limits.max_megabytes:g} MB"
            raise NotTranscribedError(msg)


def too_long(duration_s: float, limit_s: float) -> NotTranscribedError:
    """Return why a file is not heard that sounds for too long."""
    return NotTranscribedError(
        f"it is too long, {clock_text(duration_s)}, and {clock_text(limit_s)} is heard at most"
    )


def checked(heard: Transcript) -> Transcript:
    """Return a transcript in the form in which it is kept; its words are those of a stranger.

    Raises:
        NotTranscribedError: It is none: there is far more of it than anybody can say in that time.
    """
    text = plain_line(heard.text)
    most = _CHARACTERS
    if heard.duration_s:
        most = min(most, round(heard.duration_s * _CHARACTERS_A_SECOND) + _CHARACTERS_MORE)
    if len(text) > most:
        logger.warning(
            "a transcript was refused", extra={"characters": len(text), "source": heard.source}
        )
        raise NotTranscribedError(_NO_TRANSCRIPT)
    return replace(heard, text=text, language=plain_line(heard.language, 40))


def no_transcript(why: str, source: str) -> NotTranscribedError:
    """Return the error of an answer that is no transcript; why it is none goes to the log alone."""
    logger.warning("an answer is no transcript", extra={"reason": why, "source": source})
    return NotTranscribedError(_NO_TRANSCRIPT)
