"""Has a file transcribed by a server that speaks OpenAI's API.

Source: https://platform.openai.com/docs/api-reference/audio/createTranscription, read 2026-11-26:
a form with `file`, `model`, `language`, `prompt` and `response_format`; `verbose_json` gives text,
language and duration, and is known to Whisper alone; 25 MB.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

import orjson

from everturn_actors.errors import NotTranscribedError
from everturn_actors.json_values import is_object
from everturn_actors.model import Attachment
from everturn_actors.ports import Transcript
from everturn_actors.state.validation import sound_seconds
from everturn_gateway.config.voice import EndpointSettings
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.voice.server import RETRY_S, Server
from everturn_gateway.voice.transcription import no_transcript

_ANSWER_BYTES: Final = 8 * 1024 * 1024  # with segments and words: an hour takes 1 MB
_ENDINGS: Final[Mapping[str, str]] = {
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/webm": "webm",
    "audio/x-m4a": "m4a",
    "audio/x-wav": "wav",
}
"By which the server tells what a file is; voice notes are Ogg."


class EndpointEngine:
    """An `Engine` behind an address."""

    def __init__(
        self, settings: EndpointSettings, passing_on: PassingOn, *, retry_s: float = RETRY_S
    ) -> None:
        """Ask as `settings` says, over the connections and keys that `passing_on` has."""
        self._settings = settings
        self._server = Server(
            passing_on=passing_on,
            base_url=settings.base_url or "",
            key=settings.api_key,
            route="audio/transcriptions",
            who="whoever transcribes",
            limit_bytes=_ANSWER_BYTES,
            failed=NotTranscribedError,
            retry_s=retry_s,
        )

    async def hear(self, file: Attachment, data: bytes, duration_s: float) -> Transcript:
        """Return what is said in a file. See `Engine.hear`."""
        del duration_s
        settings = self._settings
        is_verbose = "whisper" in settings.model.lower()
        fields = {
            "model": settings.model,
            "response_format": "verbose_json" if is_verbose else "json",
            **({"language": settings.language} if settings.language else {}),
            **({"prompt": settings.prompt} if settings.prompt else {}),
        }
        # Its own name may be anything: what it is called here is for the server alone.
        name = f"audio.{_ENDINGS.get(file.media_type, 'ogg')}"
        kind, body = form(fields, name, file.media_type, data)
        headers = {"content-type": kind, "accept": "application/json"}
        return self._read(await self._server.ask(headers, body))

    def _read(self, data: bytes) -> Transcript:
        try:
            answer: object = orjson.loads(data)
        except ValueError as error:
            why = "it is no JSON"
            raise no_transcript(why, self._server.host) from error
        text = answer.get("text") if is_object(answer) else None
        if not is_object(answer) or not isinstance(text, str):
            why = "it has no text"
            raise no_transcript(why, self._server.host)
        language = answer.get("language")
        return Transcript(
            text=text,
            model=self._settings.model,
            source=self._server.host,
            language=language if isinstance(language, str) else "",
            duration_s=sound_seconds(answer.get("duration")),
        )


def form(fields: Mapping[str, str], name: str, kind: str, data: bytes) -> tuple[str, bytes]:
    """Return a form with a file as `file`: its content type, and its bytes. Source: RFC 7578."""
    mark = secrets.token_hex(16)
    head = "".join(
        f'--{mark}\r\ncontent-disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    )
    head += (
        f'--{mark}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
        f"content-type: {kind}\r\n\r\n"
    )
    body = b"".join((head.encode(), data, f"\r\n--{mark}--\r\n".encode()))
    return f"multipart/form-data; boundary={mark}", body
