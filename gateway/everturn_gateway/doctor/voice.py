"""Who hears what people say, and whether that can work."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from everturn_gateway.config.settings import Config
from everturn_gateway.config.voice import WhisperSettings
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.plugins.providers import key_variable
from everturn_gateway.private_environ import process_environ
from everturn_gateway.voice.voices import model_folder
from everturn_gateway.voice.whisper.engine import why_not_here

_OPENAI = "https://api.openai.com/v1"


def voice_findings(config: Config) -> Iterator[Finding]:
    """Yield what is to be said of `voice`; nothing where nobody hears. Asks no server.

    Looks for files: not for the event loop.
    """
    hears = config.voice.transcription
    if hears is None:
        return
    if isinstance(hears, WhisperSettings):
        why = why_not_here(model_folder(config, hears))
        text = why or f"voice notes are transcribed by {hears.model} on this machine"
        yield Finding(verdict="problem" if why else "ok", subject="voice", text=text)
        return
    base_url = hears.base_url or _OPENAI
    text = f"voice notes are transcribed by {hears.model} at {urlsplit(base_url).netloc}"
    yield Finding(verdict="ok", subject="voice", text=text)
    provider = config.providers.get("openai")
    has_file = provider is not None and provider.api_key_file is not None
    has_key = bool(hears.api_key or has_file or process_environ().get(key_variable("openai")))
    if not has_key and base_url == _OPENAI:
        text = f"they need a key: set {key_variable('openai')}, or voice.transcription.api_key"
        yield Finding(verdict="problem", subject="voice", text=text)
