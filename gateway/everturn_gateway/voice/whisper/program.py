"""Hears files with Whisper. A program of its own: `engine` starts it, and tells it its own number.

It reads one line of JSON (see `Setup`), loads the model, and writes one line (see `Heard`). Then,
for each line (see `Order`) and the bytes behind it, it writes one line. It ends with its input, and
when nothing was asked of it for long.
"""

# The libraries are of an extra, which a check of types does without.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import io
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from faster_whisper import WhisperModel

MEMORY_BYTES: Final = 6 * 1024**3  # addresses: the libraries reserve far more than they use
HZ: Final = 16_000  # what the model hears
# What sounds, and holds its sound itself. Playlists and descriptions of streams have the library
# open other files, and connections.
# Source: https://ffmpeg.org/ffmpeg-formats.html, `format_whitelist` and `protocol_whitelist`.
FORMATS: Final = (
    "aac,ac3,aiff,amr,asf,au,avi,caf,flac,flv,matroska,webm,mov,mp3,mp4,mpeg,mpegts,ogg,w64,wav,wv"
)
OPTIONS: Final = {"format_whitelist": FORMATS, "protocol_whitelist": "pipe"}
LOOK_S: Final = 1.0  # whether whoever started this is there
TOO_LONG: Final = "too long"
UNREADABLE: Final = "unreadable"


class Setup(TypedDict):
    """What it hears with."""

    model: str
    "A folder."
    threads: int
    idle_s: float
    "It ends when nothing was asked for so long."


class Order(TypedDict):
    """What is said of the bytes behind it."""

    size: int
    language: str
    "Empty = it is heard."
    max_seconds: int


class Heard(TypedDict):
    """What came of it."""

    text: str
    language: str
    duration: float
    error: str
    "Empty = nothing is wrong; `too long`, `unreadable`, or what a library says."


def heard(text: str = "", *, language: str = "", duration: float = 0, error: str = "") -> Heard:
    """Return what came of it."""
    return Heard(text=text, language=language, duration=duration, error=error)


def work(model: WhisperModel, order: Order, data: bytes) -> Heard:
    """Hear one file."""
    from av.error import FFmpegError  # of an extra

    try:
        sound = samples(data, order["max_seconds"])
    except (FFmpegError, IndexError, ValueError):  # no container, or nothing in it that sounds
        return heard(error=UNREADABLE)
    if sound is None:
        return heard(error=TOO_LONG)
    parts, info = model.transcribe(
        sound,
        language=order["language"] or None,
        beam_size=1,
        vad_filter=True,  # where nobody speaks, Whisper makes words up
        condition_on_previous_text=False,
        without_timestamps=True,
    )
    text = " ".join(part.text.strip() for part in parts)
    return heard(text, language=info.language, duration=info.duration)


def samples(data: bytes, limit_s: int) -> np.ndarray | None:
    """Return the sound of a file as the model takes it; None where it is longer.

    Decoded piece by piece: a small file may claim days of silence.
    """
    import av  # of an extra
    import numpy as np

    found, count = [], 0
    resampler = av.AudioResampler(format="s16", layout="mono", rate=HZ)
    source = io.BytesIO(data)
    with av.open(source, "r", metadata_errors="ignore", options=OPTIONS) as container:
        stream = container.streams.audio[0]
        for frame in container.decode(stream):
            for piece in resampler.resample(frame):
                found.append(piece.to_ndarray().reshape(-1))
                count += found[-1].size
                if count > limit_s * HZ:
                    return None
    found += [piece.to_ndarray().reshape(-1) for piece in resampler.resample(None)]
    return np.concatenate(found).astype(np.float32) / 32_768 if found else np.zeros(0, np.float32)


def exactly(source: BinaryIO, size: int) -> bytes:
    """Return so many bytes, which come in pieces; fewer where the input ends."""
    data = bytearray()
    while len(data) < size and (piece := source.read(size - len(data))):
        data += piece
    return bytes(data)


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Load the model and hear what comes."""

    def say(line: Heard) -> None:
        sink.write(json.dumps(line).encode() + b"\n")
        sink.flush()

    setup: Setup = json.loads(source.readline())
    try:
        from faster_whisper import WhisperModel  # of an extra

        model = WhisperModel(
            setup["model"],
            device="cpu",
            compute_type="int8",
            cpu_threads=setup["threads"],
            local_files_only=True,
        )
    except Exception as error:  # noqa: BLE001 - the boundary around the libraries; told
        say(heard(error=f"{type(error).__name__}: {error}"))
        return
    say(heard())
    while select.select([source], [], [], setup["idle_s"] or None)[0]:
        line = source.readline()
        if not line:
            return
        order: Order = json.loads(line)
        data = exactly(source, order["size"])
        try:
            answer = work(model, order, data)
        except Exception as error:  # noqa: BLE001 - one file costs the others nothing; told
            answer = heard(error=f"{type(error).__name__}: {error}")
        say(answer)


def limit_itself() -> None:
    """Bound the memory of this process, as far as the system can."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def end_with(parent: int) -> None:
    """End when the process that started this does, in the middle of a file as well, and not before.

    A terminal and a service manager tell all processes to end; the other one may want its answer.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    limit_itself()
    end_with(int(sys.argv[1]))
    # Unbuffered: what `select` looks at must not stand in a buffer already.
    main(io.FileIO(sys.stdin.fileno(), closefd=False), sys.stdout.buffer)
