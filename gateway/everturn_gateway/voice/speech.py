"""Has an answer spoken by a server that speaks OpenAI's API.

Source: https://platform.openai.com/docs/api-reference/audio/createSpeech, read 2026-11-26: JSON of
`model`, `voice`, `input` (4,096 characters), `instructions` and `response_format`; `opus` gives Ogg
Opus, which is what voice notes are.
"""

from __future__ import annotations

from typing import Final, Protocol

import anyio
import orjson
from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import NotSpokenError
from everturn_actors.ports import Speech
from everturn_gateway.config.voice import SpeechSettings
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.voice.aloud import aloud
from everturn_gateway.voice.server import RETRY_S, Server
from everturn_gateway.voice.sound import ogg_duration_s

AUDIO_BYTES: Final = 10 * 1024 * 1024  # an hour of Opus; what is more is no answer


class SpeechAccount(Protocol):
    """Counts what is spoken for one agent."""

    def check(self) -> None:
        """Let pass what may still be used today.

        Raises:
            NotSpokenError: It is used up.
        """
        ...

    def add(self, characters: int) -> None:
        """Count it."""
        ...


class EndpointSpeaker(Struct, frozen=True, kw_only=True):
    """A `Speaker` behind an address, for one agent."""

    settings: SpeechSettings
    passing_on: PassingOn
    account: SpeechAccount
    slots: anyio.CapacityLimiter
    "So many at a time; all agents share them."
    retry_s: float = RETRY_S

    async def speak(self, markdown: str) -> Speech | None:
        """Return an answer as sound. See `Speaker.speak`."""
        settings = self.settings
        text = await to_thread.run_sync(aloud, markdown)  # an answer may be long
        if not text or len(text) > settings.max_characters:
            return None
        self.account.check()
        server = Server(
            passing_on=self.passing_on,
            base_url=settings.base_url or "",
            key=settings.api_key,
            route="audio/speech",
            who="whoever speaks",
            limit_bytes=AUDIO_BYTES,
            failed=NotSpokenError,
            retry_s=self.retry_s,
        )
        asked = {
            "model": settings.model,
            "voice": settings.voice,
            "input": text,
            "response_format": "opus",
            **({"instructions": settings.instructions} if settings.instructions else {}),
        }
        try:
            with anyio.fail_after(settings.timeout_seconds):
                async with self.slots:
                    headers = {"content-type": "application/json", "accept": "*/*"}
                    data = await server.ask(headers, orjson.dumps(asked))
        except TimeoutError as error:
            msg = f"it took longer than {settings.timeout_seconds} s"
            raise NotSpokenError(msg) from error
        if not data.startswith(b"OggS"):
            msg = "what came back is no sound"
            raise NotSpokenError(msg)
        self.account.add(len(text))
        return Speech(
            data=data,
            model=settings.model,
            source=server.host,
            duration_s=ogg_duration_s(data),
        )
