"""Has a file transcribed by a server that speaks OpenAI's API.

Source: https://platform.openai.com/docs/api-reference/audio/createTranscription, read 2026-11-26:
a form with `file`, `model`, `language`, `prompt` and `response_format`; `verbose_json` gives text,
language and duration, and is known to Whisper alone; 25 MB.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from math import isfinite
from typing import Final
from urllib.parse import urlsplit

import anyio
import orjson

from everturn_actors.errors import NotTranscribedError
from everturn_actors.json_values import is_object
from everturn_actors.model import Attachment
from everturn_actors.outside import plain_line
from everturn_actors.ports import Transcript
from everturn_gateway.config.voice import EndpointSettings
from everturn_gateway.providers.passing_on import PassingOn, PassingOnError
from everturn_gateway.providers.transport.http_port import Answer
from everturn_gateway.providers.transport.model_errors import retry_after_s
from everturn_gateway.voice.transcription import no_transcript

logger = logging.getLogger(__name__)

PROVIDER: Final = "openai"
TRIES: Final = 3
RETRY_S: Final = 1.0  # before the second try, and twice that before the third
_ANSWER_BYTES: Final = 8 * 1024 * 1024  # with segments and words: an hour takes 1 MB
_TIMES: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_KEYS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
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
        self._settings, self._passing_on, self._retry_s = settings, passing_on, retry_s
        self._host = urlsplit(settings.base_url or "https://api.openai.com").hostname or ""

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
        return self._read(await self._ask(kind, body))

    async def _ask(self, content_type: str, body: bytes) -> bytes:
        """Return the server's answer; what may pass is tried again, a few times."""
        headers = {"content-type": content_type, "accept": "application/json"}
        problem = ""
        for tried in range(1, TRIES + 1):
            wait_s = self._retry_s * 2 ** (tried - 1)
            try:
                async with self._passing_on.answer(
                    PROVIDER,
                    self._settings.base_url or "",
                    "audio/transcriptions",
                    headers=headers,
                    body=body,
                    key=self._settings.api_key,
                ) as answer:
                    data = await _whole(answer)
                    if answer.status == HTTPStatus.OK and data is not None:
                        return data
                    problem = self._problem(answer, data)
                    wait_s = max(wait_s, retry_after_s(answer.headers) or 0)
            except PassingOnError as error:
                logger.warning("a server did not transcribe", extra={"error": str(error)})
                problem = "nobody who transcribes can be reached"
            if tried < TRIES:
                await anyio.sleep(wait_s)  # the deadline of the whole stands around it
        raise NotTranscribedError(problem)

    def _problem(self, answer: Answer, data: bytes | None) -> str:
        """Return what is wrong with an answer that may be another one next time.

        Raises:
            NotTranscribedError: It would be the same again.
        """
        status = answer.status
        if status == HTTPStatus.OK:
            why = "it is too large"
            raise no_transcript(why, self._host)
        said = plain_line((data or b"")[:1000].decode("utf-8", "replace"), 300)
        fields = {"status": status, "source": self._host, "said": said}
        logger.warning("a server did not transcribe", extra=fields)
        if status in _TIMES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return "whoever transcribes has too much to do, or is out of order"
        if status in _KEYS:
            problem = "whoever transcribes refuses the key"
        elif status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            problem = "it is too large for whoever transcribes"
        else:
            problem = f"whoever transcribes refused it (status {status})"
        raise NotTranscribedError(problem)

    def _read(self, data: bytes) -> Transcript:
        try:
            answer: object = orjson.loads(data)
        except ValueError as error:
            why = "it is no JSON"
            raise no_transcript(why, self._host) from error
        text = answer.get("text") if is_object(answer) else None
        if not is_object(answer) or not isinstance(text, str):
            why = "it has no text"
            raise no_transcript(why, self._host)
        language = answer.get("language")
        return Transcript(
            text=text,
            model=self._settings.model,
            source=self._host,
            language=language if isinstance(language, str) else "",
            duration_s=duration_in(answer.get("duration")),
        )


def duration_in(value: object) -> float:
    """Return a duration that a server says, in seconds; 0 where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return 0
    return max(0.0, float(value))


async def _whole(answer: Answer) -> bytes | None:
    """Return the body of an answer; None where it is too large."""
    data = bytearray()
    while piece := await answer.read():
        data += piece
        if len(data) > _ANSWER_BYTES:
            return None
    return bytes(data)


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
