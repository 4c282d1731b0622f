"""How long a voice note takes beyond the time of the model that hears it, on this machine.

    python benchmarks/voice.py MODEL NOTE

MODEL is the folder that `everturn local pull whisper-base` printed, NOTE an audio file of about 10
seconds. The whole way is real but for the model that answers, which does so at once: accepted and
kept, heard by Whisper in its process, recorded, answered. The first note waits for Whisper to load.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import anyio
from msgspec.structs import replace

from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import Attachment, IncomingMessage, Upload
from everturn_actors.ports import Agent, Transcript
from everturn_actors.testing import ScriptedProvider, open_test_service
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.voice import WhisperSettings
from everturn_gateway.voice.transcription import Bounded
from everturn_gateway.voice.whisper.engine import WhisperEngine

NOTES = 5


class Timed:
    """An engine, and how long it took for the newest file."""

    def __init__(self, engine: WhisperEngine) -> None:
        self._engine = engine
        self.took_s = 0.0

    async def hear(self, file: Attachment, data: bytes, duration_s: float) -> Transcript:
        """Hear a file."""
        began = time.perf_counter()
        try:
            return await self._engine.hear(file, data, duration_s)
        finally:
            self.took_s = time.perf_counter() - began


class Free:
    """Counts nothing."""

    def check(self) -> None:
        """Let all pass."""

    def add(self, heard: Transcript, duration_s: float) -> None:
        """Count nothing."""


async def main(model: Path, note: Path) -> None:
    """Send the note a few times, and print what each took."""
    settings = WhisperSettings.model_validate({"kind": "whisper"})
    engine = WhisperEngine(settings, model, os.environ)
    timed, slots = Timed(engine), anyio.CapacityLimiter(1)
    ears = Bounded(engine=timed, settings=settings, account=Free(), slots=slots)
    data = await anyio.Path(note).read_bytes()
    upload = Upload(data=data, media_type="audio/ogg", is_voice=True)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_file_store(Path(folder)) as store,
            open_test_service(
                store=store, clock=SystemClock(), provider=ScriptedProvider()
            ) as test,
        ):
            agent: Agent = test.agents.agents["test"]
            test.agents.agents["test"] = replace(agent, transcriber=ears)
            for number in range(1, NOTES + 1):
                began = time.perf_counter()
                message = IncomingMessage(text="", key=test.key(), attachments=(upload,))
                submission = await test.service.submit(message)
                await submission.result()
                whole_s = time.perf_counter() - began
                print(
                    f"note {number}: {whole_s:.2f} s, of which heard in {timed.took_s:.2f} s:"
                    f" {(whole_s - timed.took_s) * 1000:.0f} ms beyond"
                )
    await engine.aclose()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
