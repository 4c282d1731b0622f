"""Who hears what people say and speaks to them, and whether that can work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from everturn_gateway.config.settings import Config
from everturn_gateway.config.voice import EndpointSettings, SpeechSettings, WhisperSettings
from everturn_gateway.doctor.findings import Finding
from everturn_gateway.plugins.providers import key_variable
from everturn_gateway.private_environ import process_environ
from everturn_gateway.specs import AgentFile
from everturn_gateway.voice.voices import model_folder
from everturn_gateway.voice.whisper.engine import why_not_here

_OPENAI = "https://api.openai.com/v1"


def voice_findings(config: Config, agents: Sequence[AgentFile]) -> Iterator[Finding]:
    """Yield what is to be said of `voice`; nothing where nobody hears or speaks. Asks no server.

    Looks for files: not for the event loop.
    """
    hears, speaks = config.voice.transcription, config.voice.speech
    if isinstance(hears, WhisperSettings):
        why = why_not_here(model_folder(config, hears))
        text = why or f"voice notes are transcribed by {hears.model} on this machine"
        yield Finding(verdict="problem" if why else "ok", subject="voice", text=text)
    elif hears is not None:
        yield from _server(config, hears, "voice notes are transcribed", "voice.transcription")
    if speaks is not None:
        yield from _server(config, speaks, "answers are spoken", "voice.speech")
    for agent in agents:
        if agent.spec.spoken_replies != "never" and speaks is None:
            text = f"{agent.spec.name}: spec.voice.reply has no effect without voice.speech"
            yield Finding(verdict="problem", subject="voice", text=text)


def _server(
    config: Config, settings: EndpointSettings | SpeechSettings, what: str, field: str
) -> Iterator[Finding]:
    base_url = settings.base_url or _OPENAI
    host = urlsplit(base_url).netloc.rpartition("@")[2]  # a password may stand before it
    text = f"{what} by {settings.model} at {host}"
    yield Finding(verdict="ok", subject="voice", text=text)
    provider = config.providers.get("openai")
    has_file = provider is not None and provider.api_key_file is not None
    variable = key_variable("openai")
    if not (settings.api_key or has_file or process_environ().get(variable)) and (
        base_url == _OPENAI
    ):
        text = f"they need a key: set {variable}, or {field}.api_key"
        yield Finding(verdict="problem", subject="voice", text=text)
