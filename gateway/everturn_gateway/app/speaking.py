"""What agents hear and speak with, opened where somebody does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from everturn_gateway.config.settings import Config
from everturn_gateway.config.voice import VoiceConfig
from everturn_gateway.late_loading import late
from everturn_gateway.usage import Meter

if TYPE_CHECKING:
    from everturn_gateway.providers.passing_on import PassingOn
    from everturn_gateway.voice import voices
    from everturn_gateway.voice.voices import Voices
else:
    voices = late("everturn_gateway.voice.voices")


def voices_of(
    config: Config, passing_on: PassingOn, meter: Meter, environ: Mapping[str, str]
) -> Voices | None:
    """Return what agents hear and speak with; None, and nothing loaded, where nobody does."""
    if config.voice == VoiceConfig():
        return None
    return voices.Voices(config, passing_on=passing_on, meter=meter, environ=environ)


@asynccontextmanager
async def ending(heard_by: Voices | None) -> AsyncGenerator[None]:
    """End what hears when the block ends."""
    try:
        yield
    finally:
        if heard_by is not None:
            await heard_by.aclose()
