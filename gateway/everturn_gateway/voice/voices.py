"""Makes what an agent hears with, of what `everturn.yaml` says."""

from __future__ import annotations

from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.errors import NotTranscribedError
from everturn_actors.model import Usage
from everturn_actors.ports import Transcriber, Transcript
from everturn_gateway.config.voice import VoiceConfig
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.usage import NANODOLLARS, DailyLimit, Meter, UsageLimitError
from everturn_gateway.voice.endpoint import PROVIDER, EndpointEngine
from everturn_gateway.voice.transcription import AT_ONCE, Bounded, Engine

_MINUTE_S: Final = 60


class Voices:
    """What the agents of a gateway hear with; all share what stands behind it."""

    def __init__(self, config: VoiceConfig, passing_on: PassingOn, meter: Meter) -> None:
        """Prepare; nothing is connected yet."""
        self._config, self._meter = config, meter
        self._engine: Engine | None = None
        if config.transcription is not None:
            self._engine = EndpointEngine(config.transcription, passing_on)
        self._slots = anyio.CapacityLimiter(AT_ONCE)

    def transcriber(self, agent: str, limit: DailyLimit) -> Transcriber | None:
        """Return what hears voice notes for an agent; None = nothing does."""
        settings = self._config.transcription
        if settings is None or self._engine is None:
            return None
        account = _Account(
            meter=self._meter,
            agent=agent,
            limit=limit,
            label=f"{PROVIDER}/{settings.model} (transcription)",
            usd_per_minute=settings.usd_per_minute,
        )
        return Bounded(engine=self._engine, settings=settings, account=account, slots=self._slots)


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
