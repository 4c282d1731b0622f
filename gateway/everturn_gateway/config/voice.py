"""`voice` of `everturn.yaml`: who writes down what people say, and who speaks to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from everturn_gateway.plugins import secret_fields
from everturn_gateway.yaml_files import SettingsModel
from everturn_gateway.yaml_files.fields import Address, Text

_Dollars = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
_Megabytes = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class TranscriptionSettings(SettingsModel):
    """What all who transcribe have in common."""

    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] | None = None
    "In which language people speak, as `de`; by default that is heard."
    max_seconds: Annotated[int, Field(ge=1, le=14_400)] = 600
    "What sounds longer is not transcribed, and its sender is told."
    max_megabytes: _Megabytes = 25
    "Nor is what is larger."
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 120
    "Deadline of one file from when it is its turn, tries included."
    show_heard: bool = False
    "Whether people are shown what was heard of them."


class EndpointSettings(TranscriptionSettings):
    """`voice.transcription` with `kind: openai`: a server that speaks OpenAI's API."""

    kind: Literal["openai"]
    model: Text = "whisper-1"
    base_url: Address | None = None
    "Of the API, as `http://127.0.0.1:8000/v1`; by default OpenAI's own."
    api_key: str = Field(default="", repr=False)
    "By default that of the provider openai."
    prompt: str = ""
    "Names and words that it is to know, as a sentence."
    usd_per_minute: _Dollars | None = None
    "What it costs, for the account of what is used."


class WhisperSettings(TranscriptionSettings):
    """`voice.transcription` with `kind: whisper`: a process on this machine, extra `voice`."""

    kind: Literal["whisper"]
    model: Text = "whisper-base"
    "What `everturn local pull` fetched; or a folder with a model of CTranslate2: `./small`."
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    keep_loaded_seconds: Annotated[int, Field(ge=0, le=86_400)] = 600
    "The process ends, and gives its memory back, when nobody spoke for so long."


AnyTranscription: TypeAlias = Annotated[
    EndpointSettings | WhisperSettings, Field(discriminator="kind")
]


class SpeechSettings(SettingsModel):
    """`voice.speech`: a server that speaks OpenAI's API; for agents with `spec.voice.reply`."""

    kind: Literal["openai"]
    model: Text = "gpt-4o-mini-tts"
    voice: Text = "alloy"
    base_url: Address | None = None
    "Of the API, as `http://127.0.0.1:8000/v1`; by default OpenAI's own."
    api_key: str = Field(default="", repr=False)
    "By default that of the provider openai."
    instructions: str = ""
    "How it is to speak, for models that listen to that."
    max_characters: Annotated[int, Field(ge=1, le=4096)] = 2000
    "A longer answer is text alone."
    timeout_seconds: Annotated[int, Field(ge=1, le=600)] = 60
    "Deadline of one answer, tries and waiting included."
    usd_per_million_characters: Annotated[float, Field(ge=0, le=10_000)] | None = None
    "What it costs, for the account of what is used."


class VoiceSettings(SettingsModel):
    """`voice`."""

    transcription: AnyTranscription | None = None
    speech: SpeechSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceConfig:
    """Who hears what people say, and speaks to them."""

    transcription: EndpointSettings | WhisperSettings | None = None
    "None = voice notes stay files."
    speech: SpeechSettings | None = None
    "None = answers are text alone."

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nothing that people read may show."""
        sections = [each for each in (self.transcription, self.speech) if each is not None]
        return tuple(secret for each in sections for secret in secret_fields(each))
