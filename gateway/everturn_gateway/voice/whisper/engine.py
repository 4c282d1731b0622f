"""Has a process hear, one file after the other."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from everturn_actors.errors import NotTranscribedError
from everturn_actors.json_values import as_object
from everturn_actors.model import Attachment
from everturn_actors.outside import plain_line
from everturn_actors.ports import Transcript
from everturn_actors.state.validation import sound_seconds
from everturn_gateway.config.voice import WhisperSettings
from everturn_gateway.voice.transcription import too_long
from everturn_gateway.voice.whisper.program import TOO_LONG, UNREADABLE

logger = logging.getLogger(__name__)

INSTALL: Final = "pip install 'everturn[voice]'"
LIBRARY: Final = "faster_whisper"
HERE: Final = "here"
_PROGRAM: Final = Path(__file__).with_name("program.py")
_ANSWER_BYTES: Final = 1024 * 1024
_END_S: Final = 2.0
# What a Python may need to find its own libraries, and how many threads a server wants of it.
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE")
# A folder without a tokenizer has the library ask Hugging Face for one.
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1"}
_ENDED: Final = "whoever transcribes ended on the way"


class WhisperEngine:
    """An `Engine` in a process of its own, which is started when somebody speaks.

    Whatever a file does to a decoder it does to that process; the next file has a new one.
    """

    def __init__(
        self,
        settings: WhisperSettings,
        model: Path,
        environ: Mapping[str, str],
        *,
        program: Path | None = None,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            settings: How it hears.
            model: The folder of the weights.
            environ: The gateway's environment, of which the process gets what a Python needs.
            program: What is run in the place of ours, and speaks as it does; then nothing is
                looked for that ours needs.
        """
        self._settings, self._model, self._program = settings, model, program
        passed = {name: environ[name] for name in _PASSED if name in environ}
        self._environ = {**passed, **_OFFLINE}
        self._one_at_a_time = anyio.Lock()
        self._process: anyio.abc.Process | None = None
        self._answers: BufferedByteReceiveStream | None = None

    async def hear(self, file: Attachment, data: bytes, duration_s: float) -> Transcript:
        """Return what is said in a file. See `Engine.hear`."""
        del file
        settings = self._settings
        order = {
            "size": len(data),
            "language": settings.language or "",
            "max_seconds": settings.max_seconds,
        }
        async with self._one_at_a_time:
            is_whole = False
            try:
                answer = await self._asked(json.dumps(order).encode() + b"\n" + data)
                is_whole = True
            finally:
                if not is_whole:  # cancelled, or broken: what it says next answers nobody
                    await self.aclose()
        error = str(answer.get("error") or "")
        if error == TOO_LONG:
            raise too_long(max(duration_s, settings.max_seconds + 1), settings.max_seconds)
        if error == UNREADABLE:
            msg = "it is no sound that can be read here"
            raise NotTranscribedError(msg)
        if error:
            logger.error("a file was not transcribed", extra={"error": plain_line(error, 500)})
            msg = "hearing it failed by a fault"
            raise NotTranscribedError(msg)
        return Transcript(
            text=str(answer.get("text") or ""),
            model=settings.model,
            source=HERE,
            language=str(answer.get("language") or ""),
            duration_s=sound_seconds(answer.get("duration")),
        )

    async def aclose(self) -> None:
        """End the process; the next file starts another one."""
        process, self._process, self._answers = self._process, None, None
        if process is not None:
            with anyio.move_on_after(_END_S, shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()

    async def _asked(self, request: bytes) -> Mapping[str, object]:
        """Return the answer; a process that ended because nobody spoke is started again."""
        if self._process is not None:
            try:
                return await self._exchanged(request)
            except _EndedError:
                await self.aclose()
        await self._start()
        try:
            return await self._exchanged(request)
        except _EndedError as error:
            logger.warning("the process that hears ended", extra={"model": str(self._model)})
            raise NotTranscribedError(_ENDED) from error

    async def _exchanged(self, request: bytes) -> Mapping[str, object]:
        process = self._process
        assert process is not None
        assert process.stdin is not None, "a pipe was asked for"
        try:
            await process.stdin.send(request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise _EndedError from error
        return await self._line()

    async def _line(self) -> Mapping[str, object]:
        assert self._answers is not None
        try:
            line = await self._answers.receive_until(b"\n", _ANSWER_BYTES)
        except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.EndOfStream) as error:
            raise _EndedError from error
        return as_object(json.loads(line))

    async def _start(self) -> None:
        """Start the process, and wait until it has loaded the model.

        Raises:
            NotTranscribedError: It cannot be used here.
        """
        own = self._program is None
        why = await anyio.to_thread.run_sync(why_not_here, self._model) if own else ""
        if why:
            logger.error("nobody can hear here", extra={"reason": why})
            msg = "whoever transcribes is not installed"
            raise NotTranscribedError(msg)
        setup = {
            "model": str(self._model),
            "threads": self._settings.threads,
            "idle_s": self._settings.keep_loaded_seconds or 1,
        }
        process = self._process = await anyio.open_process(
            [sys.executable, "-I", str(self._program or _PROGRAM), str(os.getpid())],
            env=self._environ,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        self._answers = BufferedByteReceiveStream(process.stdout)
        try:
            await process.stdin.send(json.dumps(setup).encode() + b"\n")
            error = str((await self._line()).get("error") or "")
        except (_EndedError, anyio.BrokenResourceError, OSError) as ended:
            logger.warning("the process that hears ended", extra={"model": str(self._model)})
            raise NotTranscribedError(_ENDED) from ended
        if error:
            logger.error("a model that hears was not loaded", extra={"error": error[:500]})
            msg = "whoever transcribes is out of order"
            raise NotTranscribedError(msg)


class _EndedError(Exception):
    """The process is gone."""


def missing_library() -> str:
    """Return why nothing here could run the weights, and what to do; empty = something can."""
    return "" if find_spec(LIBRARY) else f"Whisper needs the package {LIBRARY}: run `{INSTALL}`"


def why_not_here(model: Path) -> str:
    """Return why this machine cannot hear, and what to do; empty = it can. Looks for files."""
    if missing := missing_library():
        return missing
    if not (model / "model.bin").is_file():
        return f"there are no weights in {model}: run `everturn local pull {model.name}`"
    return ""
