"""A server that hears and speaks as OpenAI's API does; it refuses what the documents do not know.

Source: https://platform.openai.com/docs/api-reference/audio, read 2026-11-26.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from aiohttp import BodyPartReader, web
from support.patience import WAIT_S

KEY = "sk-voice-of-the-tests"
HEARD = {"task": "transcribe", "language": "english", "duration": 2.5, "text": " what is it? "}
_FIELDS = {"file", "model", "language", "prompt", "response_format", "temperature"}
_ENDINGS = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm")
SPOKEN = b"OggS" + bytes(100)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one request gets."""

    status: int = 200
    body: object = field(default_factory=lambda: HEARD)
    "Written as JSON; bytes as they are."
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(kw_only=True)
class VoiceApi:
    """What it was asked, and what it says next."""

    url: str = ""
    heard: list[dict[str, str | bytes]] = field(default_factory=list[dict[str, str | bytes]])
    "The fields of each request to transcribe; `file` has the bytes, `name` what they are called."
    spoken: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    "The fields of each request to speak."
    script: deque[Said] = field(default_factory=deque[Said])
    "The answers to the next requests; then each is heard, and spoken."
    holds: anyio.Event | None = None
    "Set: requests are answered when it is."
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def until_asked(self, times: int) -> None:
        """Wait until it has been asked so often."""
        with anyio.fail_after(WAIT_S):
            while len(self.heard) + len(self.spoken) < times:
                await self._news.wait()

    async def transcribe(self, request: web.Request) -> web.Response:
        """Answer a request to transcribe."""
        if (refused := _refused(request)) is not None:
            return refused
        fields: dict[str, str | bytes] = {}
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if part.name == "file":
                fields |= {"name": part.filename or "", "file": bytes(await part.read())}
            else:
                fields[str(part.name)] = await part.text()
        self.heard.append(fields)
        kind, name = fields.get("response_format"), str(fields.get("name"))
        is_whisper = fields.get("model") == "whisper-1"
        if fields.keys() - _FIELDS - {"name"} or not fields.get("file"):
            return _error(400, f"unknown or missing fields: {sorted(fields)}")
        if not name.endswith(_ENDINGS) or kind not in {"json", "verbose_json"}:
            return _error(400, f"no such format: {name}, {kind!r}")
        if kind == "verbose_json" and not is_whisper:
            return _error(400, "response_format 'verbose_json' is not compatible with the model")
        return await self._answer(web.json_response(HEARD))

    async def speak(self, request: web.Request) -> web.Response:
        """Answer a request to speak."""
        if (refused := _refused(request)) is not None:
            return refused
        fields: dict[str, str] = await request.json()
        self.spoken.append(fields)
        if fields.keys() - {"model", "voice", "input", "response_format", "instructions", "speed"}:
            return _error(400, f"unknown fields: {sorted(fields)}")
        if not 0 < len(fields["input"]) <= 4096 or not fields["model"] or not fields["voice"]:
            return _error(400, "model, voice and an input of at most 4096 characters are needed")
        return await self._answer(web.Response(body=SPOKEN, content_type="audio/ogg"))

    async def _answer(self, usual: web.Response) -> web.Response:
        self._news.set()
        self._news = anyio.Event()
        if self.holds is not None:
            await self.holds.wait()
        if not self.script:
            return usual
        said = self.script.popleft()
        body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        return web.Response(status=said.status, body=body, headers=said.headers)


def _refused(request: web.Request) -> web.Response | None:
    if request.headers.get("authorization") == f"Bearer {KEY}":
        return None
    return _error(401, "Incorrect API key provided")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


@asynccontextmanager
async def open_voice_api() -> AsyncGenerator[VoiceApi]:
    """Serve it on loopback."""
    api, app = VoiceApi(), web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/audio/transcriptions", api.transcribe)
    app.router.add_post("/v1/audio/speech", api.speak)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield api
    finally:
        if api.holds is not None:
            api.holds.set()
        await runner.cleanup()
