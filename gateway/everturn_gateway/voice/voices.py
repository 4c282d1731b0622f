"""Makes what an agent hears and speaks with, of what `everturn.yaml` says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.errors import NotSpokenError, NotTranscribedError
from everturn_actors.model import Usage
from everturn_actors.ports import Speaker, Transcriber, Transcript
from everturn_gateway.config.settings import Config
from everturn_gateway.config.voice import EndpointSettings, WhisperSettings
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.usage import NANODOLLARS, DailyLimit, Meter, UsageLimitError
from everturn_gateway.voice.endpoint import EndpointEngine
from everturn_gateway.voice.server import PROVIDER
from everturn_gateway.voice.speech import EndpointSpeaker
from everturn_gateway.voice.transcription import AT_ONCE, Bounded, Engine
from everturn_gateway.voice.whisper.engine import WhisperEngine
from everturn_gateway.workspace_files import MODELS_FOLDER

_MINUTE_S: Final = 60
_MILLION: Final = 1_000_000


class Voices:
    """What the agents of a gateway hear and speak with; all share what stands behind it."""

    def __init__(
        self,
        config: Config,
        *,
        passing_on: PassingOn,
        meter: Meter,
        environ: Mapping[str, str],
    ) -> None:
        """Prepare; nothing is connected or started yet.

        Args:
            config: Says who hears, and where weights are.
            passing_on: Asks servers, with the keys of providers.
            meter: Counts what is heard.
            environ: The gateway's environment.
        """
        self._config, self._meter = config.voice, meter
        self._engine: Engine | None = None
        self._whisper: WhisperEngine | None = None
        match config.voice.transcription:
            case WhisperSettings() as settings:
                model = model_folder(config, settings)
                self._engine = self._whisper = WhisperEngine(settings, model, environ)
            case EndpointSettings() as settings:
                self._engine = EndpointEngine(settings, passing_on)
            case None:
                pass
        self._passing_on = passing_on
        # Here one after the other is heard: each has its time from when it is its turn.
        self._slots = anyio.CapacityLimiter(1 if self._whisper is not None else AT_ONCE)
        self._speaking = anyio.CapacityLimiter(AT_ONCE)

    def speaker(self, agent: str, limit: DailyLimit) -> Speaker | None:
        """Return what speaks for an agent; None = nothing does."""
        settings = self._config.speech
        if settings is None:
            return None
        account = _SpeechAccount(
            meter=self._meter,
            agent=agent,
            limit=limit,
            label=f"{PROVIDER}/{settings.model} (speech)",
            rate=settings.usd_per_million_characters,
        )
        return EndpointSpeaker(
            settings=settings,
            passing_on=self._passing_on,
            account=account,
            slots=self._speaking,
        )

    async def aclose(self) -> None:
        """End the process that hears, where there is one."""
        if self._whisper is not None:
            await self._whisper.aclose()

    def transcriber(self, agent: str, limit: DailyLimit) -> Transcriber | None:
        """Return what hears voice notes for an agent; None = nothing does."""
        settings = self._config.transcription
        if settings is None or self._engine is None:
            return None
        is_here = isinstance(settings, WhisperSettings)
        account = _Account(
            meter=self._meter,
            agent=agent,
            limit=limit,
            label=f"{'local' if is_here else PROVIDER}/{settings.model} (transcription)",
            usd_per_minute=0 if isinstance(settings, WhisperSettings) else settings.usd_per_minute,
        )
        return Bounded(engine=self._engine, settings=settings, account=account, slots=self._slots)


def model_folder(config: Config, settings: WhisperSettings) -> Path:
    """Return where the weights are: a path from the configuration on, or what was pulled."""
    if "/" in settings.model and config.path is not None:
        return config.path.parent / settings.model
    return (config.common or config.workspace) / MODELS_FOLDER / settings.model


class _Account(Struct, frozen=True, kw_only=True):
    """What an agent has heard, in the account of what it uses. Implements `Account`."""

    meter: Meter
    agent: str
    limit: DailyLimit
    label: str
    usd_per_minute: float | None
    "None = it is not known."

    def check(self) -> None:
        try:
            self.meter.refuse_beyond(self.limit, self.agent)
        except UsageLimitError as error:
            raise NotTranscribedError(str(error)) from error

    def add(self, heard: Transcript, duration_s: float) -> None:
        del heard
        rate = self.usd_per_minute
        cost = round((rate or 0) * NANODOLLARS * duration_s / _MINUTE_S)
        is_priced = rate is not None and (not rate or duration_s > 0)
        self.meter.add(self.agent, self.label, Usage(cost_nanodollars=cost), priced=is_priced)


class _SpeechAccount(Struct, frozen=True, kw_only=True):
    """What was spoken for an agent, in the account of what it uses. Implements `SpeechAccount`."""

    meter: Meter
    agent: str
    limit: DailyLimit
    label: str
    rate: float | None
    "US dollars for a million characters; None = it is not known."

    def check(self) -> None:
        try:
            self.meter.refuse_beyond(self.limit, self.agent)
        except UsageLimitError as error:
            raise NotSpokenError(str(error)) from error

    def add(self, characters: int) -> None:
        cost = round((self.rate or 0) * NANODOLLARS * characters / _MILLION)
        is_priced = self.rate is not None
        self.meter.add(self.agent, self.label, Usage(cost_nanodollars=cost), priced=is_priced)
